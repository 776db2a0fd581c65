package warehouse

import "context"

// NoticeDeadline is what [Warehouse.Notice] is told when a deadline was missed.
const NoticeDeadline = "deadline"

// What else the notices of an interval say of its trouble. They outlive the outcome that they are about, which the
// next run of the interval writes over.
const (
	// noticeFailed: it has failed, and was not loaded since.
	noticeFailed = "failed"
	// noticeDeadlineOver: it was loaded after it had missed its deadline.
	noticeDeadlineOver = "deadline over"
	// noticeRecovery and a run id: that run has loaded it after trouble.
	noticeRecovery = "recovery "
)

// trouble keeps the books on an interval's trouble, within the transaction that writes an outcome, and reports whether
// the run of that outcome is the one that has ended it.
func (w *Warehouse) trouble(ctx context.Context, s session, o Outcome) (ended bool, err error) {
	switch o.Status {
	case OutcomeFailed:
		return false, w.note(ctx, s, o, noticeFailed)
	case OutcomeLoaded:
	default:
		return false, nil
	}
	noticed := map[string]bool{}
	err = s.query(ctx, "select what from "+w.db.ledger("notices")+" where pipeline = $1 and interval_start = $2 and interval_end = $3",
		[]any{o.Pipeline, o.Interval.Start.UTC(), o.Interval.End.UTC()}, func(scan func(dest ...any) error) error {
			var what string
			err := scan(&what)
			noticed[what] = true
			return err
		})
	if err != nil {
		return false, err
	}
	late := noticed[NoticeDeadline] && !noticed[noticeDeadlineOver]
	if !noticed[noticeFailed] && !late {
		return noticed[noticeRecovery+o.RunID], nil
	}
	if late {
		if err := w.note(ctx, s, o, noticeDeadlineOver); err != nil {
			return false, err
		}
	}
	_, err = s.exec(ctx, "delete from "+w.db.ledger("notices")+" where pipeline = $1 and interval_start = $2 and interval_end = $3 and what = $4",
		o.Pipeline, o.Interval.Start.UTC(), o.Interval.End.UTC(), noticeFailed)
	if err != nil {
		return false, err
	}
	return true, w.note(ctx, s, o, noticeRecovery+o.RunID)
}

func (w *Warehouse) note(ctx context.Context, s session, o Outcome, what string) error {
	_, err := s.exec(ctx, "insert into "+w.db.ledger("notices")+
		" (pipeline, interval_start, interval_end, what, noticed_at) values ($1, $2, $3, $4, $5) on conflict do nothing",
		o.Pipeline, o.Interval.Start.UTC(), o.Interval.End.UTC(), what, o.RecordedAt.UTC())
	return err
}
