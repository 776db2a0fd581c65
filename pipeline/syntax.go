package pipeline

import (
	"regexp"
	"strconv"
	"strings"
)

var yamlErrorLine = regexp.MustCompile(`^yaml: (?:line (\d+): )?`)

// syntaxHints find, in the text, what usually stands behind an error of the YAML parser, which knows
// the line only roughly and the column not at all. The place is where the first group begins.
var syntaxHints = []struct {
	pattern *regexp.Regexp
	message string
}{
	{regexp.MustCompile(`(?m)^ *(\t)`), "a tab stands in the indentation: YAML wants blanks there"},
	{regexp.MustCompile(`(?m)^[^#"'\n]*(?:: |- )[ ]*(\*)[^#\n]* `), "a value that begins with * must be in quotes, such as \"*/15 * * * *\""},
	{regexp.MustCompile(`(?m)^[^#"'\n]*(?:: |- )[ ]*([@` + "`" + `%])`), "a value that begins with @, % or ` must be in quotes, such as \"@daily\""},
	{regexp.MustCompile(`(?m)^[^#"'\n]*(?:: |- )[ ]*(\{\{)`), "a value that begins with {{ must be in quotes, such as \"{{ .Interval.Start }}\""},
}

// syntaxProblem reports an error of the YAML parser.
func (r *report) syntaxProblem(data []byte, err error) {
	text := string(data)
	for _, hint := range syntaxHints {
		if found := hint.pattern.FindStringSubmatchIndex(text); found != nil {
			r.add("", positionAt(text, found[2]), codeSyntax, hint.message)
			return
		}
	}
	match := yamlErrorLine.FindStringSubmatch(err.Error())
	line := 1
	if match != nil && match[1] != "" {
		line, _ = strconv.Atoi(match[1])
	}
	message := yamlErrorLine.ReplaceAllString(err.Error(), "")
	r.add("", position{line, firstColumn(text, line)}, codeSyntax, "not valid YAML: "+message+"; look at the indentation, the colons and the quotes here and in the line before")
}

func positionAt(text string, offset int) position {
	before := text[:offset]
	start := strings.LastIndexByte(before, '\n') + 1
	return position{strings.Count(before, "\n") + 1, len([]rune(before[start:])) + 1}
}

// firstColumn is the column of the first character of a line that is not blank.
func firstColumn(text string, line int) int {
	lines := strings.Split(text, "\n")
	if line < 1 || line > len(lines) {
		return 1
	}
	return len(lines[line-1]) - len(strings.TrimLeft(lines[line-1], " \t")) + 1
}
