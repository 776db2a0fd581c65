package warehouse

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"strings"
	"time"

	"github.com/trancheflow/tranche/interval"
	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

// StageRef names the staged rows of one step of one run, and the attempt that is to write them.
type StageRef struct {
	// Pipeline, RunID and Step name the stage. RunID is the Temporal run's, so that a rerun has its own.
	Pipeline, RunID, Step string
	// WorkflowID tells a janitor whose stage it is.
	WorkflowID string
	// Interval that the rows are of.
	Interval interval.Interval
	// Columns of the rows. Not needed to name a stage.
	Columns []pipeline.Column
	// Fence of the attempt, in microseconds; a lower one never writes after a higher one has come.
	Fence int64
}

// name is the name of the table: short, whatever the parts hold, and the same for every attempt.
func (r StageRef) name() string {
	sum := sha256.Sum256([]byte(r.Pipeline + "\x00" + r.RunID + "\x00" + r.Step))
	return "stage_" + hex.EncodeToString(sum[:16])
}

func (r StageRef) lock() lock { return lock{key: "stage|" + r.name(), fence: r.Fence} }

// String says whose stage it is.
func (r StageRef) String() string { return r.Pipeline + "/" + r.Step + " of run " + r.RunID }

// Progress is how far a stage has come.
type Progress struct {
	// Position after the last committed page, as the extract gave it; empty before the first page.
	Position string
	// Pages and Rows that are committed.
	Pages int
	Rows  int64
	// Done says that the last page is in.
	Done bool
	// Restarts is how often the listing has been begun again.
	Restarts int
	// Age is the time since the last page, or since the stage was made.
	Age time.Duration
	// Checksum of the committed rows.
	Checksum string
}

// Stage is one attempt's hold on staged rows. It is for one goroutine.
type Stage struct {
	w        *Warehouse
	ref      StageRef
	columns  []column
	progress Progress
	sum      checksum
}

// OpenStage makes the stage, or takes it over from an earlier attempt, which can then write no more.
// Rows of committed pages are kept; when they were lost (unlogged tables are empty after a crash of
// PostgreSQL) or are of other columns, the stage is empty again and Progress says so.
func (w *Warehouse) OpenStage(ctx context.Context, ref StageRef) (*Stage, error) {
	columns, err := compile(ref.Columns)
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", ref, err)
	}
	if err := checkCase(w.db, columns, nil); err != nil {
		return nil, fmt.Errorf("stage %s: %w", ref, err)
	}
	stage := &Stage{w: w, ref: ref, columns: columns}
	err = w.within(ctx, ref.lock(), func(s session) error { return stage.takeOver(ctx, s) })
	if err != nil {
		return nil, fmt.Errorf("stage %s: %w", ref, err)
	}
	return stage, nil
}

// Progress returns how far the stage has come.
func (st *Stage) Progress() Progress { return st.progress }

// within runs act in a writing transaction.
func (w *Warehouse) within(ctx context.Context, l lock, act func(s session) error) error {
	s, err := w.db.acquire(ctx)
	if err != nil {
		return err
	}
	defer s.release()
	if err := s.begin(ctx, l); err != nil {
		return err
	}
	if err := act(s); err != nil {
		return err
	}
	return s.commit(ctx)
}

// record is a row of the ledger's stages.
type record struct {
	found              bool
	shape              string
	fence              int64
	position           string
	pages, rows        int64
	checksum, restarts int64
	done               bool
	updated            time.Time
}

func (w *Warehouse) stageRecord(ctx context.Context, s session, name string) (record, error) {
	var r record
	err := s.query(ctx, "select shape, fence, position, pages, rows, checksum, restarts, done, updated_at from "+w.db.ledger("stages")+" where stage = $1",
		[]any{name}, func(scan func(dest ...any) error) error {
			r.found = true
			return scan(&r.shape, &r.fence, &r.position, &r.pages, &r.rows, &r.checksum, &r.restarts, &r.done, &r.updated)
		})
	return r, err
}

func (st *Stage) takeOver(ctx context.Context, s session) error {
	db, name, now := st.w.db, st.ref.name(), st.w.now().UTC()
	r, err := st.w.stageRecord(ctx, s, name)
	if err != nil {
		return err
	}
	if r.fence > st.ref.Fence {
		return permanent(TypeFenced, "a newer attempt has taken over the stage")
	}
	shape := shapeOf(st.columns)
	if r.found && r.shape == shape {
		if r.rows, err = st.kept(ctx, s, r); err != nil {
			return err
		}
	}
	if !r.found || r.shape != shape || r.rows < 0 {
		if err := st.create(ctx, s); err != nil {
			return err
		}
		r = record{shape: shape, updated: now, restarts: r.restarts}
	}
	_, err = s.exec(ctx, `insert into `+db.ledger("stages")+` (stage, pipeline, run_id, step, workflow_id, interval_start, interval_end, shape, fence,
		position, pages, rows, checksum, restarts, done, created_at, updated_at)
		values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10, $11, $12, $13, $14, $15, $16, $17)
		on conflict (stage) do update set shape = excluded.shape, fence = excluded.fence, position = excluded.position, pages = excluded.pages,
		rows = excluded.rows, checksum = excluded.checksum, done = excluded.done, updated_at = excluded.updated_at`,
		name, st.ref.Pipeline, st.ref.RunID, st.ref.Step, st.ref.WorkflowID, st.ref.Interval.Start.UTC(), st.ref.Interval.End.UTC(), shape, st.ref.Fence,
		r.position, r.pages, r.rows, r.checksum, r.restarts, r.done, now, r.updated.UTC())
	if err != nil {
		return err
	}
	st.sum = checksum{rows: r.rows, sum: uint64(r.checksum)}
	st.progress = Progress{
		Position: r.position, Pages: int(r.pages), Rows: r.rows, Done: r.done, Restarts: int(r.restarts),
		Age: max(0, now.Sub(r.updated)), Checksum: st.sum.String(),
	}
	return nil
}

// kept returns the record's number of rows when they are all still there, otherwise -1.
func (st *Stage) kept(ctx context.Context, s session, r record) (int64, error) {
	shape, err := s.describe(ctx, st.table())
	if err != nil || shape == nil {
		return -1, err
	}
	rows := int64(-1)
	err = s.query(ctx, "select count(*) from "+st.table().quoted(), nil, func(scan func(dest ...any) error) error { return scan(&rows) })
	if rows != r.rows {
		return -1, err
	}
	return rows, err
}

func (st *Stage) table() tableName { return st.w.stageTable(st.ref) }

func (w *Warehouse) stageTable(ref StageRef) tableName { return w.db.stageName(ref.name()) }

func (p *postgres) stageName(name string) tableName { return tableName{schema: "tranche", name: name} }
func (d *sqlite) stageName(name string) tableName   { return tableName{name: "tranche_" + name} }

func (st *Stage) create(ctx context.Context, s session) error {
	quoted := st.table().quoted()
	if _, err := s.exec(ctx, "drop table if exists "+quoted); err != nil {
		return err
	}
	_, err := s.exec(ctx, st.w.db.createStage()+quoted+" ("+numberedColumns(st.w.db, st.columns)+")"+st.w.db.tableOptions())
	return err
}

// numberedColumns declares the columns of rows on their way, with each row's number in the source.
func numberedColumns(db database, columns []column) string {
	parts := []string{quote(rowColumn) + " " + db.typeName(pipeline.Type{Kind: pipeline.Bigint})}
	for _, c := range columns {
		parts = append(parts, quote(c.name)+" "+db.typeName(c.declared))
	}
	return strings.Join(parts, ", ")
}

// shapeOf tells stages with other columns apart.
func shapeOf(columns []column) string {
	parts := make([]string, len(columns))
	for i, c := range columns {
		parts[i] = quote(c.name) + " " + c.declared.String()
	}
	return strings.Join(parts, ", ")
}

// AppendPage writes page number, which is Progress().Pages + 1, and in the same transaction the
// position after it. after is called when the rows have all been read; it returns that position and
// whether the page was the last one. An attempt that no longer owns the stage gets Fenced.
//
// When a column does not fit, no row of the page is kept and the value is in the ledger's rejects.
func (st *Stage) AppendPage(ctx context.Context, number int, rows Rows, after func() (position string, done bool, err error)) (int64, error) {
	if number != st.progress.Pages+1 {
		return 0, permanent(TypeBadRequest, "stage %s: page %d follows page %d", st.ref, number, st.progress.Pages)
	}
	if st.progress.Done {
		return 0, permanent(TypeBadRequest, "stage %s: page %d follows the last one", st.ref, number)
	}
	reader := newRowReader(st.columns, rows, st.progress.Rows+1)
	defer reader.close()
	position, done, err := st.append(ctx, number, reader, after)
	if err != nil {
		err = st.explain(ctx, err)
		st.w.reject(ctx, st.ref.Pipeline, st.ref.Step, st.ref.RunID, st.ref.Interval, err)
		return 0, fmt.Errorf("stage %s, page %d: %w", st.ref, number, err)
	}
	st.sum.rows += reader.sum.rows
	st.sum.sum += reader.sum.sum
	st.progress.Pages, st.progress.Position, st.progress.Done = number, position, done
	st.progress.Rows += reader.sum.rows
	st.progress.Age, st.progress.Checksum = 0, st.sum.String()
	return reader.sum.rows, nil
}

func (st *Stage) append(ctx context.Context, number int, reader *rowReader, after func() (string, bool, error)) (position string, done bool, err error) {
	s, err := st.w.db.acquire(ctx)
	if err != nil {
		return "", false, err
	}
	defer s.release()
	source, err := s.gather(ctx, reader)
	if err != nil {
		return "", false, stopped(ctx, err)
	}
	defer source.close()
	if err := s.begin(ctx, st.ref.lock()); err != nil {
		return "", false, err
	}
	// Before the rows, so that a table that is gone or another's is told from a broken one.
	if err := st.owned(ctx, s, number); err != nil {
		return "", false, err
	}
	sent, err := s.copyRows(ctx, st.table().quoted(), source, nil, true)
	if err != nil {
		return "", false, err
	}
	if position, done, err = after(); err != nil {
		return "", false, stopped(ctx, err)
	}
	sum := checksum{st.sum.rows + reader.sum.rows, st.sum.sum + reader.sum.sum}
	n, err := s.exec(ctx, "update "+st.w.db.ledger("stages")+` set position = $1, pages = $2, rows = $3, checksum = $4, done = $5, updated_at = $6
		where stage = $7 and fence = $8 and pages = $9`,
		position, int64(number), st.progress.Rows+sent, int64(sum.sum), done, st.w.now().UTC(), st.ref.name(), st.ref.Fence, int64(number-1))
	if err != nil {
		return "", false, err
	}
	if n != 1 {
		return "", false, permanent(TypeFenced, "a newer attempt has taken over the stage")
	}
	return position, done, s.commit(ctx)
}

// explain finds out whether a session was lost because a newer attempt ended it.
func (st *Stage) explain(ctx context.Context, err error) error {
	if ctx.Err() != nil || retry.Classify(err).Class != retry.Transient {
		return err
	}
	s, connectErr := st.w.db.acquire(ctx)
	if connectErr != nil {
		return err
	}
	defer s.release()
	if r, readErr := st.w.stageRecord(ctx, s, st.ref.name()); readErr == nil && r.fence > st.ref.Fence {
		return permanent(TypeFenced, "a newer attempt has taken over the stage")
	}
	return err
}

// owned checks that this attempt may still write the page.
func (st *Stage) owned(ctx context.Context, s session, number int) error {
	r, err := st.w.stageRecord(ctx, s, st.ref.name())
	switch {
	case err != nil:
		return err
	case !r.found:
		return transient(TypeStagingLost, "the stage was dropped")
	case r.fence != st.ref.Fence || r.pages != int64(number-1):
		return permanent(TypeFenced, "a newer attempt has taken over the stage")
	}
	return nil
}

// Restart drops all rows of the stage, so that the listing can be begun again, and counts it.
func (st *Stage) Restart(ctx context.Context) error {
	err := st.w.within(ctx, st.ref.lock(), func(s session) error {
		if err := st.owned(ctx, s, st.progress.Pages+1); err != nil {
			return err
		}
		if err := st.create(ctx, s); err != nil {
			return err
		}
		_, err := s.exec(ctx, "update "+st.w.db.ledger("stages")+` set position = '', pages = 0, rows = 0, checksum = 0, done = $1,
			restarts = restarts + 1, updated_at = $2 where stage = $3`, false, st.w.now().UTC(), st.ref.name())
		return err
	})
	if err != nil {
		return fmt.Errorf("restart stage %s: %w", st.ref, err)
	}
	st.sum = checksum{}
	st.progress = Progress{Restarts: st.progress.Restarts + 1, Checksum: st.sum.String()}
	return nil
}

// OpenStages lists the stages that exist, oldest first, for a janitor that knows which runs are closed.
func (w *Warehouse) OpenStages(ctx context.Context) ([]StageRef, error) {
	s, err := w.db.acquire(ctx)
	if err != nil {
		return nil, fmt.Errorf("list stages: %w", err)
	}
	defer s.release()
	var refs []StageRef
	err = s.query(ctx, "select pipeline, run_id, step, workflow_id, interval_start, interval_end, fence from "+w.db.ledger("stages")+" order by created_at, stage", nil,
		func(scan func(dest ...any) error) error {
			var r StageRef
			err := scan(&r.Pipeline, &r.RunID, &r.Step, &r.WorkflowID, &r.Interval.Start, &r.Interval.End, &r.Fence)
			utc(&r.Interval.Start, &r.Interval.End)
			refs = append(refs, r)
			return err
		})
	if err != nil {
		return nil, fmt.Errorf("list stages: %w", err)
	}
	return refs, nil
}

// DropStage drops a stage, whoever owns it; that it is not there is no error. Only pipeline, run id
// and step of ref are looked at. An attempt that is still writing loses its page.
func (w *Warehouse) DropStage(ctx context.Context, ref StageRef) error {
	ref.Fence = dropFence
	err := w.within(ctx, ref.lock(), func(s session) error {
		if _, err := s.exec(ctx, "drop table if exists "+w.stageTable(ref).quoted()); err != nil {
			return err
		}
		_, err := s.exec(ctx, "delete from "+w.db.ledger("stages")+" where stage = $1", ref.name())
		return err
	})
	if err != nil {
		return fmt.Errorf("drop stage %s: %w", ref, err)
	}
	return nil
}

// dropFence is above every fence: whoever holds a stage that is to go loses it.
const dropFence = 1<<63 - 1
