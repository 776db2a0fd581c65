package main

import (
	"strings"
	"unicode"
)

// terminalWidth is how wide a line for people gets.
const terminalWidth = 80

// cut shortens a line that is wider than a terminal.
func cut(line string, width int) string {
	if columns(line) <= width {
		return line
	}
	var short strings.Builder
	room := width - 1 // of the ellipsis
	for _, r := range line {
		if room -= columnsOf(r); room < 0 {
			break
		}
		short.WriteRune(r)
	}
	return short.String() + "…"
}

// columns is how many columns of a terminal a text takes.
func columns(text string) int {
	count := 0
	for _, r := range text {
		count += columnsOf(r)
	}
	return count
}

// columnsOf is how many columns a character takes: marks stand over the one before, and those of the scripts of East
// Asia take two.
func columnsOf(r rune) int {
	switch {
	case unicode.In(r, unicode.Mn, unicode.Me, unicode.Cf):
		return 0
	case unicode.In(r, unicode.Han, unicode.Hangul, unicode.Hiragana, unicode.Katakana), r >= 0xFF01 && r <= 0xFF60, r >= 0x1F300 && r <= 0x1FAFF:
		return 2
	default:
		return 1
	}
}
