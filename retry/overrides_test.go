package retry

import (
	"slices"
	"testing"
	"time"
)

func TestOverrides(t *testing.T) {
	t.Parallel()
	transient := Verdict{Class: Transient, Type: "Network"}
	permanent := Verdict{Class: Permanent, Type: "BadValue"}
	wait := Verdict{Class: Throttled, Type: "RateLimited", After: 3 * time.Second}
	canceled := Verdict{Class: Canceled, Type: TypeCanceled}
	rules := func(rules ...Rule) Overrides { return Overrides{Rules: rules} }
	for name, test := range map[string]struct {
		overrides Overrides
		in, want  Verdict
	}{
		"nothing said, transient": {Overrides{}, transient, transient},
		"nothing said, permanent": {Overrides{}, permanent, permanent},
		"nothing said, wait":      {Overrides{}, wait, wait},
		"no error":                {Overrides{Only: []string{"A"}}, Verdict{}, Verdict{}},

		"non-retryable":                    {Overrides{NonRetryable: []string{"Network"}}, transient, Verdict{Class: Permanent, Type: "Network"}},
		"non-retryable, another":           {Overrides{NonRetryable: []string{"Timeout"}}, transient, transient},
		"non-retryable ends a wait":        {Overrides{NonRetryable: []string{"RateLimited"}}, wait, Verdict{Class: Permanent, Type: "RateLimited"}},
		"only, listed":                     {Overrides{Only: []string{"Network"}}, transient, transient},
		"only, not listed":                 {Overrides{Only: []string{"Timeout"}}, transient, Verdict{Class: Permanent, Type: "Network"}},
		"only makes a permanent one tried": {Overrides{Only: []string{"BadValue"}}, permanent, Verdict{Class: Transient, Type: "BadValue"}},
		"only leaves waits alone":          {Overrides{Only: []string{"Network"}}, wait, wait},
		"non-retryable beats only":         {Overrides{NonRetryable: []string{"Network"}, Only: []string{"Network"}}, transient, Verdict{Class: Permanent, Type: "Network"}},

		"rule retry":               {rules(Rule{Types: []string{"BadValue"}, Action: ActionRetry}), permanent, Verdict{Class: Transient, Type: "BadValue"}},
		"rule retry with a delay":  {rules(Rule{Types: []string{"BadValue"}, Action: ActionRetry, Delay: time.Minute}), permanent, Verdict{Transient, "BadValue", time.Minute}},
		"rule retry keeps a wait":  {rules(Rule{Types: []string{AnyType}, Action: ActionRetry, Delay: time.Second}), wait, wait},
		"rule retry, longer delay": {rules(Rule{Types: []string{AnyType}, Action: ActionRetry, Delay: time.Minute}), wait, Verdict{Throttled, "RateLimited", time.Minute}},
		"rule fail":                {rules(Rule{Types: []string{"Timeout", "Network"}, Action: ActionFail}), transient, Verdict{Class: Permanent, Type: "Network"}},
		"rule fail ends a wait":    {rules(Rule{Types: []string{"RateLimited"}, Action: ActionFail}), wait, Verdict{Class: Permanent, Type: "RateLimited"}},
		"first rule decides": {rules(Rule{Types: []string{"Network"}, Action: ActionRetry}, Rule{Types: []string{AnyType}, Action: ActionFail}),
			transient, transient},
		"any type": {rules(Rule{Types: []string{"Timeout"}, Action: ActionRetry}, Rule{Types: []string{AnyType}, Action: ActionFail}),
			transient, Verdict{Class: Permanent, Type: "Network"}},
		"default exempts from later rules": {rules(Rule{Types: []string{"Network"}, Action: ActionDefault}, Rule{Types: []string{AnyType}, Action: ActionFail}),
			transient, transient},
		"default leaves it to the lists": {Overrides{Rules: []Rule{{Types: []string{"Network"}, Action: ActionDefault}}, NonRetryable: []string{"Network"}},
			transient, Verdict{Class: Permanent, Type: "Network"}},
		"a rule beats the lists": {Overrides{Rules: []Rule{{Types: []string{"Network"}, Action: ActionRetry}}, NonRetryable: []string{"Network"}, Only: []string{"A"}},
			transient, transient},

		"a cancel is never tried again": {rules(Rule{Types: []string{AnyType}, Action: ActionRetry}), canceled, canceled},
		"a cancel does not fail":        {Overrides{NonRetryable: []string{TypeCanceled}}, canceled, canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.overrides.Apply(test.in); got != test.want {
				t.Errorf("%+v makes %+v of %+v, want %+v", test.overrides, got, test.in, test.want)
			}
		})
	}
}

// What the server is told must be what the worker would decide.
func TestNonRetryableErrorTypes(t *testing.T) {
	t.Parallel()
	const close, beat = temporalStartToClose, temporalHeartbeat
	for name, test := range map[string]struct {
		overrides Overrides
		want      []string
	}{
		"nothing":                      {Overrides{}, nil},
		"the list as it is":            {Overrides{NonRetryable: []string{"B", "A"}}, []string{"B", "A"}},
		"rules that fail, then list":   {Overrides{Rules: []Rule{{Types: []string{"C", "A"}, Action: ActionFail}}, NonRetryable: []string{"A", "B"}}, []string{"C", "A", "B"}},
		"rules that retry take away":   {Overrides{Rules: []Rule{{Types: []string{"A"}, Action: ActionRetry}}, NonRetryable: []string{"A", "B"}}, []string{"B"}},
		"default takes nothing away":   {Overrides{Rules: []Rule{{Types: []string{"A"}, Action: ActionDefault}}, NonRetryable: []string{"A"}}, []string{"A"}},
		"Timeout is both timeouts":     {Overrides{NonRetryable: []string{"Timeout"}}, []string{"Timeout", close}},
		"Temporal's own name":          {Overrides{NonRetryable: []string{close, beat}}, []string{close, beat}},
		"only without Timeout":         {Overrides{Only: []string{"Network"}}, []string{close}},
		"only with Timeout":            {Overrides{Only: []string{"Timeout"}}, nil},
		"only with Temporal's name":    {Overrides{Only: []string{close}}, nil},
		"any type fails":               {Overrides{Rules: []Rule{{Types: []string{AnyType}, Action: ActionFail}}}, []string{beat, close}},
		"any type but timeouts":        {Overrides{Rules: []Rule{{Types: []string{"Timeout"}, Action: ActionRetry}, {Types: []string{AnyType}, Action: ActionFail}}}, []string{beat}},
		"any type but Temporal's ones": {Overrides{Rules: []Rule{{Types: []string{close, beat}, Action: ActionRetry}, {Types: []string{AnyType}, Action: ActionFail}}}, nil},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := test.overrides.NonRetryableErrorTypes(); !slices.Equal(got, test.want) {
				t.Errorf("%q, want %q", got, test.want)
			}
		})
	}
}

// Whoever ends an attempt that takes too long, the same must follow.
func TestOverrunsAreOneThing(t *testing.T) {
	t.Parallel()
	const close = temporalStartToClose
	overrun := Verdict{Class: Transient, Type: TypeTimeout}
	rule := func(action Action, types ...string) Rule { return Rule{Types: types, Action: action} }
	for name, test := range map[string]struct {
		overrides Overrides
		final     bool
	}{
		"nothing said":          {Overrides{}, false},
		"Timeout":               {Overrides{NonRetryable: []string{TypeTimeout}}, true},
		"Temporal's own name":   {Overrides{NonRetryable: []string{close}}, true},
		"only others":           {Overrides{Only: []string{"Network"}}, true},
		"only Timeout":          {Overrides{Only: []string{TypeTimeout}}, false},
		"only Temporal's name":  {Overrides{Only: []string{close}}, false},
		"a rule for Timeout":    {Overrides{Rules: []Rule{rule(ActionFail, TypeTimeout)}}, true},
		"a rule for its name":   {Overrides{Rules: []Rule{rule(ActionFail, close)}}, true},
		"a rule for all":        {Overrides{Rules: []Rule{rule(ActionFail, AnyType)}}, true},
		"exempt by its name":    {Overrides{Rules: []Rule{rule(ActionRetry, close), rule(ActionFail, AnyType)}}, false},
		"exempt by our name":    {Overrides{Rules: []Rule{rule(ActionRetry, TypeTimeout), rule(ActionFail, AnyType)}}, false},
		"only its name is kept": {Overrides{Rules: []Rule{rule(ActionDefault, close)}, NonRetryable: []string{"Network"}}, false},
	} {
		byWorker := test.overrides.ApplyOverrun(overrun)
		byServer := slices.Contains(test.overrides.NonRetryableErrorTypes(), close)
		if (byWorker.Class == Permanent) != test.final || byServer != test.final || byWorker.Type != TypeTimeout {
			t.Errorf("%s: the worker makes %+v of it, the server ends the step: %v, want %v", name, byWorker, byServer, test.final)
		}
	}
}
