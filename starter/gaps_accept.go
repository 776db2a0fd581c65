package main

import (
	"github.com/urfave/cli/v2"

	"github.com/trancheflow/tranche/step"
)

// acceptance reads --accept with what belongs to it; nil: nothing is to be accepted.
func (p *program) acceptance(c *cli.Context) (*step.Acceptance, error) {
	if !c.Bool("accept") {
		if c.IsSet("reason") || c.IsSet("by") {
			return nil, usagef("--reason and --by say why and by whom gaps are accepted: they need --accept")
		}
		return nil, nil
	}
	a := &step.Acceptance{By: c.String("by"), Reason: c.String("reason")}
	if c.Bool("audit") || c.Bool("outdated") {
		return nil, usagef("--accept records intervals that will never be loaded; those that --audit and --outdated find are loaded")
	}
	if a.Reason == "" {
		return nil, usagef("--reason is missing: say why the gaps will never be filled")
	}
	for _, variable := range []string{"USER", "LOGNAME", "USERNAME"} {
		if a.By != "" {
			break
		}
		a.By, _ = p.environment.LookupEnv(variable)
	}
	if a.By == "" {
		return nil, usagef("--by is missing: say who accepts the gaps")
	}
	if unprintable(a.Reason) || unprintable(a.By) {
		return nil, usagef("--reason and --by may have no control characters or line ends in them: write one line of plain text")
	}
	return a, nil
}
