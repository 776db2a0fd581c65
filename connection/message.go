package connection

import (
	"strings"
	"unicode/utf8"
)

// Message is what a webhook is told.
type Message struct {
	// ID names the message; it must be the same for every try.
	ID string
	// Title, Lines and Quote are for people, each one line. Quote is what somebody else wrote, such as an error.
	Title string
	Quote string
	Lines []string
	// Link leads to more; empty: none.
	Link string
	// Fields is the whole message for the shape json, encoded as JSON, whose texts are as they are to be sent.
	Fields func(text string) any
}

// Bounds of the texts for people, in bytes.
const (
	titleLength = 300
	quoteLength = 1500
	lineLength  = 500
)

// Text is the message for people, as plain text of at most some KiB. What cannot be printed is left out.
func (m Message) Text() string {
	lines := []string{Line(m.Title, titleLength)}
	if quote := Line(m.Quote, quoteLength); quote != "" {
		lines = append(lines, quote)
	}
	for _, line := range m.Lines {
		if line = Line(line, lineLength); line != "" {
			lines = append(lines, line)
		}
	}
	if m.Link != "" {
		lines = append(lines, m.Link)
	}
	return strings.Join(lines, "\n")
}

// masked is the message without secrets.
func (m Message) masked(by *masker) Message {
	m.Title, m.Quote = by.mask(m.Title), by.mask(m.Quote)
	lines := make([]string, len(m.Lines))
	for i, line := range m.Lines {
		lines[i] = by.mask(line)
	}
	m.Lines = lines
	return m
}

// shaped is what is sent, before it is encoded.
func (m Message) shaped(shape string, by *masker) any {
	m = m.masked(by)
	if shape == ShapeSlack {
		return map[string]string{"text": m.slack()}
	}
	return m.Fields(m.Text())
}

// slackEscapes are the three characters with which links and mentions begin and end in a text for Slack.
// https://api.slack.com/reference/surfaces/formatting, "Escaping text".
var slackEscapes = strings.NewReplacer("&", "&amp;", "<", "&lt;", ">", "&gt;")

// slack is the text in Slack's own markup. What somebody else wrote stands in a code span, in which Slack makes
// nothing of addresses, names and signs.
func (m Message) slack() string {
	lines := []string{"*" + slackEscapes.Replace(strings.ReplaceAll(Line(m.Title, titleLength), "*", "")) + "*"}
	if quote := Line(m.Quote, quoteLength); quote != "" {
		lines = append(lines, "`"+slackEscapes.Replace(strings.ReplaceAll(quote, "`", "'"))+"`")
	}
	for _, line := range m.Lines {
		if line = Line(line, lineLength); line != "" {
			lines = append(lines, slackEscapes.Replace(line))
		}
	}
	if m.Link != "" {
		lines = append(lines, "<"+slackEscapes.Replace(strings.ReplaceAll(m.Link, "|", "%7C"))+"|Open in Temporal>")
	}
	return strings.Join(lines, "\n")
}

// Line makes a text of somebody else fit for one line of a message: at most so many bytes, printable characters
// only, blanks drawn together. It masks nothing.
func Line(text string, most int) string {
	var out strings.Builder
	blank := false
	for _, r := range text {
		if !isPrintable(r) {
			r = ' '
		}
		if r == ' ' {
			blank = out.Len() > 0
			continue
		}
		if out.Len()+utf8.RuneLen(r)+1 > most-len("…") {
			return out.String() + "…"
		}
		if blank {
			out.WriteByte(' ')
			blank = false
		}
		out.WriteRune(r)
	}
	return out.String()
}
