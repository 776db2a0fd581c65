package pipeline

import (
	"slices"

	"github.com/trancheflow/tranche/retry"
)

// Overrides returns what the policy says about types of errors.
func (r Retry) Overrides() retry.Overrides {
	o := retry.Overrides{NonRetryable: r.NonRetryableErrorTypes, Only: r.RetryOnly}
	for _, rule := range r.Rules {
		o.Rules = append(o.Rules, retry.Rule{Types: rule.ErrorTypes, Action: retry.Action(rule.Action), Delay: rule.Delay.Std()})
	}
	return o
}

// forActivity leaves out what does not reach an activity: the error that it returns says whether it is
// final, and Temporal's own policy can only add types that are.
func (r Retry) forActivity() Retry {
	r.RetryOnly = nil
	r.Rules = slices.DeleteFunc(slices.Clone(r.Rules), func(rule RetryRule) bool { return rule.Action == string(retry.ActionRetry) })
	if len(r.Rules) == 0 {
		r.Rules = nil
	}
	return r
}

// retry checks a policy: as it is written, and with what it takes from elsewhere.
func (c *checker) retry(path string, written, full Retry) {
	if full.MaximumInterval < full.InitialInterval {
		c.fail(join(path, "maximum_interval"), codeRetryOrder, "maximum_interval (%s) is below initial_interval (%s)", full.MaximumInterval, full.InitialInterval)
	}
	c.errorTypes(join(path, "non_retryable_error_types"), written.NonRetryableErrorTypes)
	c.errorTypes(join(path, "retry_only"), written.RetryOnly)
	for i, kind := range written.RetryOnly {
		if kind != retry.AnyType && slices.Contains(full.NonRetryableErrorTypes, kind) {
			c.fail(index(join(path, "retry_only"), i), codeConflict, "%q is tried again by retry_only and never by non_retryable_error_types: keep one of them", clip(kind))
		}
	}
	c.rules(join(path, "rules"), written)
}

// errorTypes checks a list of names.
func (c *checker) errorTypes(path string, types []string) {
	seen := map[string]bool{}
	for i, kind := range types {
		switch {
		case kind == retry.AnyType:
			c.fail(index(path, i), codeInvalidValue, `"*" stands for all types in rules only: write rules: [{ error_types: ["*"], action: fail }]`)
		case seen[kind]:
			c.fail(index(path, i), codeDuplicateName, "%q stands twice in the list", clip(kind))
		}
		seen[kind] = true
	}
}

// rules refuses what would never be asked, or has no effect.
func (c *checker) rules(path string, r Retry) {
	decided := map[string]int{}
	for i, rule := range r.Rules {
		at := index(path, i)
		if rule.Delay != 0 && rule.Action != string(retry.ActionRetry) && !c.broken(join(at, "action")) {
			c.fail(join(at, "delay"), codeNoEffect, "a delay comes before another attempt, and the action %s makes none of its own: take the delay out, or write action: retry", rule.Action)
		}
		for j, kind := range rule.ErrorTypes {
			place := index(join(at, "error_types"), j)
			if before, any := decided[retry.AnyType]; any {
				c.fail(place, codeNoEffect, `the rule for "*" in line %d decides before: put it last`, c.positionOf(index(path, before)).line)
				continue
			}
			if before, twice := decided[kind]; twice {
				c.fail(place, codeNoEffect, "the rule in line %d decides about %q before: name each type once", c.positionOf(index(path, before)).line, clip(kind))
			}
			if rule.Action == string(retry.ActionRetry) && slices.Contains(r.NonRetryableErrorTypes, kind) {
				c.fail(place, codeConflict, "%q is tried again by this rule and never by non_retryable_error_types: keep one of them", clip(kind))
			}
		}
		for _, kind := range rule.ErrorTypes {
			if _, twice := decided[kind]; !twice {
				decided[kind] = i
			}
		}
	}
}

// hasActivities reports whether a step may fail with errors of somebody's own types.
func (c *checker) hasActivities() bool {
	return slices.ContainsFunc(c.p.Steps, func(s Step) bool { return s.Activity != nil })
}

// retryOfOwnSteps refuses types of errors that no step of Tranche's own kinds has: nothing would ever match them. It
// is not asked where there are activities, since what is meant for them may stand under defaults, and is then that
// of every step of a rendered file.
func (c *checker) retryOfOwnSteps(path string, r Retry) {
	check := func(path string, types []string) {
		for i, kind := range types {
			if kind == retry.TypeCanceled {
				c.fail(index(path, i), codeNoEffect, "a cancel is never tried again, whatever is said of %s: take it out", retry.TypeCanceled)
				continue
			}
			if kind == retry.AnyType || knownErrorType(kind) {
				continue
			}
			advice := "the types are listed in docs/operations.md under Errors"
			if meant := meantErrorType(kind); meant != "" {
				advice = "did you mean " + meant + "?"
			}
			c.fail(index(path, i), codeInvalidValue, "%q is the type of no error of a step: %s", clip(kind), advice)
		}
	}
	check(join(path, "non_retryable_error_types"), r.NonRetryableErrorTypes)
	check(join(path, "retry_only"), r.RetryOnly)
	for i, rule := range r.Rules {
		check(join(index(join(path, "rules"), i), "error_types"), rule.ErrorTypes)
	}
}

// retryOfActivity refuses what forActivity leaves out, where the step itself says it.
func (c *checker) retryOfActivity(path string, r Retry) {
	const advice = "the error that an activity returns says whether it is tried again; what can be written here are types that are not, under non_retryable_error_types"
	if len(r.RetryOnly) > 0 {
		c.fail(join(path, "retry_only"), codeNoEffect, advice)
	}
	for i, rule := range r.Rules {
		if rule.Action == string(retry.ActionRetry) {
			c.fail(join(index(join(path, "rules"), i), "action"), codeNoEffect, advice)
		}
	}
}
