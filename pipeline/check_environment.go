package pipeline

import (
	"regexp"
	"strings"
)

// variables refuses references to the environment, which nobody would resolve.
func (c *checker) variables(path, text string) {
	name := variable.FindString(outsideOfActions(text))
	if name == "" || inCommand.MatchString(path) {
		return
	}
	advice := "credentials, and what differs from worker to worker, belong in connections.yaml"
	if strings.Contains(path, ".exec.") {
		advice = "let the program read it from a file of its host"
	}
	c.fail(path, codeVariable, "%s would be passed on as it is, since a pipeline file does not read the environment: %s; a text that must hold it is written {{ \"$\" }}%s", clip(name), advice, clip(name[1:]))
}

var (
	// variable is what a shell and connections.yaml read as a variable of the environment.
	variable = regexp.MustCompile(`\$\{[A-Za-z_][A-Za-z0-9_]*\}`)
	// inCommand are the paths of a program's arguments, which may be a script for a shell.
	inCommand = regexp.MustCompile(`\.exec\.command\[\d+\]$`)
)
