package main

import (
	"errors"
	"flag"
	"fmt"
	"io"
	"slices"
	"strings"
)

// usageError says that the command line is wrong, not that the work went wrong: exit code 2.
type usageError struct{ message string }

func (e *usageError) Error() string { return e.message }

// errHelp says that the help was asked for and has been printed.
var errHelp = errors.New("help printed")

// parseFlags parses args and refuses what is left over. On --help it prints help to out and returns
// errHelp; every other error is a *usageError that names the flag and says where to look.
func parseFlags(flags *flag.FlagSet, args []string, out io.Writer, help string) error {
	flags.SetOutput(io.Discard)
	flags.Usage = func() {}
	err := flags.Parse(args)
	switch {
	case errors.Is(err, flag.ErrHelp):
		if _, err := io.WriteString(out, help); err != nil {
			return err
		}
		return errHelp
	case err != nil:
		return flagError(flags, err)
	case flags.NArg() > 0:
		return &usageError{fmt.Sprintf("unexpected argument %q; %s takes flags only (see: devserver %s --help)",
			flags.Arg(0), flags.Name(), flags.Name())}
	}
	return nil
}

// flagError puts an error of package flag into words and names the flag that was probably meant.
func flagError(flags *flag.FlagSet, err error) error {
	const unknown = "flag provided but not defined: -"
	name, isUnknown := strings.CutPrefix(err.Error(), unknown)
	if !isUnknown {
		// Package flag writes names with one dash.
		message := strings.Replace(err.Error(), "for flag -", "for flag --", 1)
		message = strings.Replace(message, "needs an argument: -", "needs an argument: --", 1)
		return &usageError{fmt.Sprintf("%s (see: devserver %s --help)", message, flags.Name())}
	}
	hint := ""
	if near := nearest(strings.TrimLeft(name, "-"), flags); near != "" {
		hint = fmt.Sprintf("; did you mean --%s?", near)
	}
	return &usageError{fmt.Sprintf("unknown flag --%s%s (see: devserver %s --help)",
		strings.TrimLeft(name, "-"), hint, flags.Name())}
}

// nearest returns the flag that begins with name, or else the one whose name is at most two edits away.
func nearest(name string, flags *flag.FlagSet) string {
	best, bestDistance := "", 3
	flags.VisitAll(func(f *flag.Flag) {
		distance := editDistance(name, f.Name)
		if len(name) > 1 && strings.HasPrefix(f.Name, name) {
			distance = 0
		}
		if len(f.Name) > 1 && distance < bestDistance {
			best, bestDistance = f.Name, distance
		}
	})
	return best
}

// editDistance is Levenshtein's: insertions, deletions and replacements of one byte.
func editDistance(a, b string) int {
	row := make([]int, len(b)+1)
	for j := range row {
		row[j] = j
	}
	for i := range len(a) {
		diagonal := row[0]
		row[0] = i + 1
		for j := range len(b) {
			cost := 1
			if a[i] == b[j] {
				cost = 0
			}
			diagonal, row[j+1] = row[j+1], min(row[j+1]+1, row[j]+1, diagonal+cost)
		}
	}
	return row[len(b)]
}

// listFlag collects the values of a flag that may be given several times.
type listFlag []string

func (l *listFlag) String() string { return strings.Join(*l, ",") }

func (l *listFlag) Set(value string) error {
	*l = append(*l, value)
	return nil
}

// choiceFlag is a flag with a fixed set of values, compared without regard to case.
type choiceFlag struct {
	value   string
	choices []string
}

func (c *choiceFlag) String() string { return c.value }

func (c *choiceFlag) Set(value string) error {
	value = strings.ToLower(value)
	if !slices.Contains(c.choices, value) {
		return fmt.Errorf("choose one of %s", strings.Join(c.choices, ", "))
	}
	c.value = value
	return nil
}

// splitPair cuts KEY=VALUE at the first equals sign.
func splitPair(flagName, pair, form string) (key, value string, err error) {
	key, value, found := strings.Cut(pair, "=")
	key = strings.TrimSpace(key)
	if !found || key == "" {
		return "", "", &usageError{fmt.Sprintf("--%s %q: give it as %s", flagName, pair, form)}
	}
	return key, value, nil
}
