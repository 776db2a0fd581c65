package main

import (
	"slices"
	"strings"

	"github.com/urfave/cli/v2"
)

// interspersed moves a command's flags before its names: people write flags on either side, the
// library reads them on the left only. What stands after `--` is a name, whatever it looks like.
func interspersed(app *cli.App, args []string) []string {
	if len(args) == 0 {
		return args
	}
	command := app.Command(args[0])
	if command == nil {
		return args
	}
	path, rest := args[:1:1], args[1:]
	for len(rest) > 0 && len(command.Subcommands) > 0 {
		at := firstName(command, rest)
		if at == len(rest) {
			break
		}
		below := subcommand(command, rest[at])
		if below == nil && len(command.Flags) > 0 {
			break // it is a command by itself, too
		}
		if below == nil {
			return args
		}
		command, path, rest = below, append(path, rest[at]), slices.Concat(rest[:at], rest[at+1:])
	}
	var flags, names []string
	for i := 0; i < len(rest); i++ {
		arg := rest[i]
		switch {
		case arg == "--":
			names = append(names, rest[i+1:]...)
			i = len(rest)
		case len(arg) < 2 || arg[0] != '-':
			names = append(names, arg)
		default:
			flags = append(flags, arg)
			if takesValue(command, arg) && i+1 < len(rest) {
				i++
				flags = append(flags, rest[i])
			}
		}
	}
	result := append(path, flags...)
	if len(names) > 0 {
		result = append(append(result, "--"), names...)
	}
	return result
}

// firstName returns where the first argument stands that is neither a flag nor the value of one. Of a command without
// flags it is the first of all.
func firstName(command *cli.Command, args []string) int {
	at := 0
	for at < len(args) && len(command.Flags) > 0 && len(args[at]) > 1 && args[at][0] == '-' && args[at] != "--" {
		if takesValue(command, args[at]) {
			at++
		}
		at++
	}
	return min(at, len(args))
}

// takesValue says whether the argument after a flag belongs to it.
func takesValue(command *cli.Command, arg string) bool {
	name := strings.TrimLeft(arg, "-")
	if strings.Contains(name, "=") {
		return false
	}
	for _, flag := range command.Flags {
		for _, known := range flag.Names() {
			if known == name {
				_, isBool := flag.(*cli.BoolFlag)
				return !isBool
			}
		}
	}
	return false
}

func subcommand(command *cli.Command, name string) *cli.Command {
	for _, below := range command.Subcommands {
		if below.HasName(name) {
			return below
		}
	}
	return nil
}
