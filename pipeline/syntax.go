package pipeline

import (
	"bytes"
	"fmt"
	"io"

	"regexp"
	"strconv"
	"strings"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// yamlErrorLine is what the YAML parser puts before its messages. The line is that of the construct
// in which it was, and for some errors one too low.
var yamlErrorLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxHints find, in a line, what usually stands behind an error of the YAML parser. The place is
// where the first group begins.
var syntaxHints = []struct {
	when    string // a part of the parser's message
	pattern *regexp.Regexp
	message string
}{
	{"", regexp.MustCompile(`^ *(\t)`), "a tab stands in the indentation: YAML wants blanks there"},
	{"", regexp.MustCompile(`^[^#"']*?(?:[:,] |- ) *(\*)[^#]* `), "a value that begins with * must be in quotes, such as \"*/15 * * * *\""},
	{"", regexp.MustCompile("^[^#\"']*?(?:[:,] |- ) *([@`%])"), "a value that begins with @, % or ` must be in quotes, such as \"@daily\""},
	{"", regexp.MustCompile(`^[^#"']*?(?:[:,] |- ) *(\{\{)`), "a value that begins with {{ must be in quotes, such as \"{{ .Interval.Start }}\""},
	{"mapping values", regexp.MustCompile(`^[ -]*[a-z_]+: +[^ "'\[{|>#&*!][^:]*(: )`), "a text that holds a colon and a blank must be in quotes"},
}

// syntaxProblem reports an error of the YAML parser, at the line where it gave up.
func (r *report) syntaxProblem(data []byte, err error) {
	lines := strings.Split(string(data), "\n")
	at := whereYAMLFails(data)
	for line := at; line >= max(1, at-1); line-- {
		for _, hint := range syntaxHints {
			found := hint.pattern.FindStringSubmatchIndex(lines[line-1])
			if found != nil && strings.Contains(err.Error(), hint.when) {
				column := utf8.RuneCountInString(lines[line-1][:found[2]]) + 1
				r.add("", position{line: line, column: column}, codeSyntax, hint.message)
				return
			}
		}
	}
	match := yamlErrorLine.FindStringSubmatch(err.Error())
	reported := 0
	if match != nil {
		reported, _ = strconv.Atoi(match[1])
	}
	message := yamlErrorLine.ReplaceAllString(err.Error(), "")
	switch {
	case strings.Contains(message, "',' or"):
		message = fmt.Sprintf("a comma or the closing bracket is missing before this place; the bracket opens in line %d", reported+1)
	case strings.Contains(message, "end of stream") && reported > 0:
		at = min(reported, len(lines)) // U+2028 is a line break for YAML alone
		message = "a quote or bracket that opens here is never closed"
	default:
		message += "; look at the indentation, the colons and the quotes here and in the line before"
	}
	r.add("", position{line: at, column: firstColumn(lines[at-1])}, codeSyntax, "not valid YAML: "+message)
}

// yamlLookahead is how many bytes the YAML scanner reads beyond the character it looks at.
const yamlLookahead = 3

// whereYAMLFails returns the line, from 1, in which the parser gives up. It does not say so itself;
// but when it gets the text byte by byte, it has read just a little more than that.
func whereYAMLFails(data []byte) int {
	source := bytes.NewReader(data)
	stream := yaml.NewDecoder(oneByteReader{source})
	for {
		var document yaml.Node
		if err := stream.Decode(&document); err != nil {
			break
		}
	}
	read := len(data) - source.Len()
	seen := bytes.TrimRight(data[:max(0, read-yamlLookahead)], " \r\n")
	return bytes.Count(seen, []byte("\n")) + 1
}

// oneByteReader hands out one byte at a time.
type oneByteReader struct{ io.Reader }

func (r oneByteReader) Read(p []byte) (int, error) { return r.Reader.Read(p[:min(1, len(p))]) }

// positionAt is the line and column of a byte of a text.
func positionAt(text string, offset int) position {
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return position{line: strings.Count(before, "\n") + 1, column: utf8.RuneCountInString(before[start:]) + 1}
}

// firstColumn is the column of the first character of a line that is not blank.
func firstColumn(line string) int {
	return len(line) - len(strings.TrimLeft(line, " \t")) + 1
}
