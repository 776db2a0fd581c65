package pipeline

import (
	"cmp"
	"slices"
	"strconv"
	"strings"
)

// Problem is one thing that is wrong with a pipeline file.
type Problem struct {
	// File is the name given to Parse, or that of the SQL file that is wrong.
	File string `json:"file"`
	// Line and Column are where it is wrong, both counted from 1, the column in characters.
	Line   int `json:"line"`
	Column int `json:"column"`
	// Path is the place in the document, such as `steps[2].load.table`, counted from 0; "" for the
	// document as a whole.
	Path string `json:"path,omitempty"`
	// Code is one of the stable codes of Codes, for scripts and for looking it up.
	Code string `json:"code"`
	// Message says in a sentence what is wrong and what would be right.
	Message string `json:"message"`
}

// Error returns "file:line:column: path: code: message"; without a path that part is left out.
func (p Problem) Error() string {
	parts := []string{p.File + ":" + strconv.Itoa(p.Line) + ":" + strconv.Itoa(p.Column)}
	if p.Path != "" {
		parts = append(parts, p.Path)
	}
	return strings.Join(append(parts, p.Code, p.Message), ": ")
}

// Problems is all that is wrong with a file, sorted by position. As an error it is non-nil even when
// it is empty; return Err where an error is wanted.
type Problems []Problem

// Error returns the problems, one to a line.
func (ps Problems) Error() string {
	lines := make([]string, len(ps))
	for i, p := range ps {
		lines[i] = p.Error()
	}
	return strings.Join(lines, "\n")
}

// Err returns ps as an error, and nil when there are no problems.
func (ps Problems) Err() error {
	if len(ps) == 0 {
		return nil
	}
	return ps
}

// sort orders the problems by file, position, path and code, and drops what was said twice.
func (ps Problems) sorted() Problems {
	slices.SortStableFunc(ps, func(a, b Problem) int {
		return cmp.Or(
			cmp.Compare(a.File, b.File), cmp.Compare(a.Line, b.Line), cmp.Compare(a.Column, b.Column),
			cmp.Compare(a.Path, b.Path), cmp.Compare(a.Code, b.Code), cmp.Compare(a.Message, b.Message),
		)
	})
	return slices.Compact(ps)
}
