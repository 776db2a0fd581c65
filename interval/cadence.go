package interval

// Fields is what the text of a cron says, as plain data. Each list is sorted, has no repetition and is
// never empty. Which instants follow from it on days on which the clocks change is in the package
// comment, and only a [Grid] knows.
type Fields struct {
	Minutes     []int // 0 to 59
	Hours       []int // 0 to 23
	DaysOfMonth []int // 1 to 31
	Months      []int // 1 to 12
	Weekdays    []int // 0 to 6; 0 is Sunday

	// EitherDay says that a date is due when its day of the month or its day of the week matches. When
	// it is false, both must.
	EitherDay bool
}

// Fields returns the fields of the grid's cron, for those who write it down in another notation; ok
// is false when the ticks come from Every. The lists are the caller's own.
func (g *Grid) Fields() (fields Fields, ok bool) {
	if g.cron == nil {
		return Fields{}, false
	}
	return Fields{
		Minutes:     g.cron.minute.values(),
		Hours:       g.cron.hour.values(),
		DaysOfMonth: g.cron.day.values(),
		Months:      g.cron.month.values(),
		Weekdays:    g.cron.weekday.values(),
		EitherDay:   !g.cron.bothDays,
	}, true
}

// values lists what the set holds, in order.
func (s set) values() []int {
	var list []int
	for v, ok := s.atLeast(0); ok; v, ok = s.atLeast(v + 1) {
		list = append(list, v)
	}
	return list
}
