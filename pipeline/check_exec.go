package pipeline

import (
	"path"
	"regexp"
	"slices"
	"strings"
)

var (
	variableName = regexp.MustCompile(`^[A-Za-z_][A-Za-z0-9_]*$`)
	// secretVariable is the name of a variable, or of an option, that carries a credential.
	secretVariable = regexp.MustCompile(`(?i)^(?:.*[_-])?(?:` + secretWords + `|access_?key|private_?key|credentials?)$`)
)

var anyTemplate = regexp.MustCompile(`\{\{[^}]*\}\}`)

const reservedVariables = "TRANCHE_"

// exec checks what does not come from the shape of the document.
func (c *checker) exec(at string, e *Exec) {
	if len(e.Command) > 0 {
		c.program(index(join(at, "command"), 0), string(e.Command[0]))
	}
	for i, argument := range e.Command[min(1, len(e.Command)):] {
		before := string(e.Command[i])
		if option := strings.TrimLeft(before, "-"); option != before && secretVariable.MatchString(option) && isLiteral(string(argument)) {
			place := index(join(at, "command"), i+1)
			c.secret(place, c.positionOf(place), "a credential after "+clip(before), string(argument))
		}
	}
	for _, name := range sortedNames(e.Environment) {
		place := join(join(at, "environment"), name)
		switch {
		case !variableName.MatchString(name):
			c.fail(place, codeBadName, "%q is no name of a variable: write letters, digits and _, not beginning with a digit", clip(name))
		case strings.HasPrefix(name, reservedVariables):
			c.fail(place, codeReservedName, "variables that begin with %s tell the program about the run: choose another name", reservedVariables)
		}
	}
	if e.Folder != "" && (!path.IsAbs(e.Folder) || slices.Contains(strings.Split(e.Folder, "/"), "..")) {
		c.fail(join(at, "folder"), codeBadPath, "%q is not an absolute path without ..: a worker may run anywhere, so write where the folder is on its host", clip(e.Folder))
	}
}

// program refuses a line of shell where the program alone is meant.
func (c *checker) program(at, name string) {
	switch {
	case strings.TrimSpace(name) == "":
		c.fail(at, codeMissingValue, "the program is missing: the first entry names it, the others are its arguments")
	case strings.ContainsAny(anyTemplate.ReplaceAllString(name, ""), " \t\n") && !strings.Contains(name, "/"):
		c.fail(at, codeInvalidValue, "no shell reads the command: write the program and each argument as an entry of its own, such as [sh, -c, \"...\"] or [python3, report.py]")
	}
}

// isLiteral says whether a value stands in the file, instead of coming from the interval.
func isLiteral(value string) bool { return value != "" && !onlyTemplate.MatchString(value) }
