package warehouse_test

import (
	"context"
	"testing"
	"time"

	"github.com/jackc/pgx/v5"

	"github.com/trancheflow/tranche/warehouse"
)

// A session of ours that is out of time and holds rows or tables which another load needs, as that of a stopped
// worker does, is ended; one that is in time, and one of somebody else, is waited for.
func TestOverdueSessionsAreEnded(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		application string
		ended       bool
	}{
		"overdue":       {"tranche:00000000000000ff:000000ff:1:1000", true},
		"in time":       {"tranche:00000000000000ff:000000ff:1:99999999999", false},
		"somebody else": {"reporting", false},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			b := newBench(t, warehouse.DriverPostgres)
			b.load(orders(15, 1, "1|"+noon+"|old|1"))
			holder, err := pgx.Connect(t.Context(), b.config.DSN)
			if err != nil {
				t.Fatal(err)
			}
			defer holder.Close(context.Background())
			for _, sql := range []string{"set application_name = '" + test.application + "'", "begin", "lock table orders in access exclusive mode"} {
				if _, err := holder.Exec(t.Context(), sql); err != nil {
					t.Fatal(err)
				}
			}
			patience := 5 * time.Second // a look every two seconds
			if test.ended {
				patience = time.Minute
			}
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			defer cancel()
			_, err = b.Load(ctx, orders(15, 2, "1|"+noon+"|new|1"))
			_, alive := holder.Exec(t.Context(), "select 1")
			if test.ended != (err == nil) || test.ended != (alive != nil) {
				t.Errorf("the load ends with %v, the holder's session answers %v", err, alive)
			}
		})
	}
}
