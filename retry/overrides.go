package retry

import (
	"slices"
	"time"
)

// Action is what a rule does with the errors of its types.
type Action string

const (
	// ActionRetry tries again, also after what is permanent by the table.
	ActionRetry Action = "retry"
	// ActionFail ends the step at once, also after what is transient or a wait by the table.
	ActionFail Action = "fail"
	// ActionDefault leaves the decision to the lists and the table, as if there were no rule.
	ActionDefault Action = "default"
)

// AnyType among the types of a rule stands for every type.
const AnyType = "*"

// Rule says what errors of some types are worth.
type Rule struct {
	// Types are names of types of errors, or AnyType.
	Types []string
	// Action is one of the three.
	Action Action
	// Delay is the least pause before the next attempt. Zero: that of the policy. Only for ActionRetry.
	Delay time.Duration
}

// Overrides are what a step says about types of errors, over the [Table]. The zero value says nothing.
type Overrides struct {
	// Rules are asked in their order; the first one that names the type decides.
	Rules []Rule
	// NonRetryable ends the step at once. It is asked after the rules.
	NonRetryable []string
	// Only, when it has entries, is the whole list of types that are tried again. It is asked last, and
	// leaves waits alone, which use up no attempt.
	Only []string
}

// Names that Temporal gives to attempts which it ends itself. There is no error that a worker could classify
// then.
const (
	temporalStartToClose = "TemporalTimeout:StartToClose"
	temporalHeartbeat    = "TemporalTimeout:Heartbeat"
)

// Apply returns what the step makes of a verdict. Canceled stays as it is. A wait becomes Permanent where
// the step says that its type fails, and otherwise stays a wait.
func (o Overrides) Apply(v Verdict) Verdict { return o.apply(v, v.Type) }

// ApplyOverrun is Apply for an attempt that has taken longer than its start_to_close. Whether its worker has ended
// it, with an error of the type Timeout, or Temporal a moment later, the same must follow: what is said of
// TemporalTimeout:StartToClose counts, where that is named, and otherwise what is said of Timeout.
func (o Overrides) ApplyOverrun(v Verdict) Verdict { return o.apply(v, o.overrunType()) }

func (o Overrides) apply(v Verdict, kind string) Verdict {
	if v.Class == Canceled || v.Type == "" {
		return v
	}
	action, delay := o.decide(kind, v.Class == Throttled)
	switch action {
	case ActionFail:
		return Verdict{Class: Permanent, Type: v.Type}
	case ActionRetry:
		if v.Class != Throttled {
			v.Class = Transient
		}
		v.After = max(v.After, delay)
	}
	return v
}

func (o Overrides) decide(kind string, wait bool) (Action, time.Duration) {
	if rule, found := o.rule(kind); found && rule.Action != ActionDefault {
		return rule.Action, rule.Delay
	}
	switch {
	case slices.Contains(o.NonRetryable, kind):
		return ActionFail, 0
	case len(o.Only) == 0 || wait:
		return ActionDefault, 0
	case slices.Contains(o.Only, kind):
		return ActionRetry, 0
	default:
		return ActionFail, 0
	}
}

func (o Overrides) rule(kind string) (Rule, bool) {
	at := slices.IndexFunc(o.Rules, func(r Rule) bool {
		return slices.Contains(r.Types, kind) || slices.Contains(r.Types, AnyType)
	})
	if at < 0 {
		return Rule{}, false
	}
	return o.Rules[at], true
}

// NonRetryableErrorTypes returns the list for Temporal's own retry policy, which knows names only: the types
// that are named and fail, in the order in which they are named. It covers the attempts that Temporal ends
// itself. What holds for the type Timeout holds for those over start_to_close, too. An attempt that was lost
// with its worker (TemporalTimeout:Heartbeat) says nothing about the source: it is tried again unless a
// rule or NonRetryable names it.
func (o Overrides) NonRetryableErrorTypes() []string {
	var named []string
	for _, rule := range o.Rules {
		named = append(named, rule.Types...)
	}
	var fail []string
	for _, kind := range append(named, o.NonRetryable...) {
		if action, _ := o.decide(kind, true); action == ActionFail && kind != AnyType && !slices.Contains(fail, kind) {
			fail = append(fail, kind)
		}
	}
	if !slices.Contains(fail, temporalHeartbeat) {
		if action, _ := o.decide(temporalHeartbeat, true); action == ActionFail {
			fail = append(fail, temporalHeartbeat)
		}
	}
	if !slices.Contains(fail, temporalStartToClose) && o.failsStartToClose() {
		fail = append(fail, temporalStartToClose)
	}
	return fail
}

func (o Overrides) failsStartToClose() bool {
	action, _ := o.decide(o.overrunType(), false)
	return action == ActionFail
}

// overrunType is the name under which an attempt that takes too long is looked up: that of Temporal where the step
// names it, and our own otherwise.
func (o Overrides) overrunType() string {
	ruled := slices.ContainsFunc(o.Rules, func(r Rule) bool { return slices.Contains(r.Types, temporalStartToClose) })
	if ruled || slices.Contains(o.NonRetryable, temporalStartToClose) || slices.Contains(o.Only, temporalStartToClose) {
		return temporalStartToClose
	}
	return TypeTimeout
}
