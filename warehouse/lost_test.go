package warehouse

import (
	"context"
	"crypto/x509"
	"errors"
	"fmt"
	"testing"

	"github.com/jackc/pgx/v5/pgconn"

	"github.com/trancheflow/tranche/retry"
)

// What a driver says of a lost session is worth another try; what the server says is judged by its state.
func TestLostSessionsAreTransient(t *testing.T) {
	t.Parallel()
	ended, cancel := context.WithCancel(t.Context())
	cancel()
	for name, test := range map[string]struct {
		ctx  context.Context
		err  error
		want retry.Class
	}{
		"found closed":    {t.Context(), pgconn.ErrConnClosed, retry.Transient},
		"inside a chain":  {t.Context(), fmt.Errorf("receive message: %w", pgconn.ErrConnClosed), retry.Transient},
		"a wrong session": {t.Context(), errors.New("unexpected message"), retry.Transient},
		"not null":        {t.Context(), &pgconn.PgError{Code: "23502"}, retry.Permanent},
		"shutdown":        {t.Context(), &pgconn.PgError{Code: "57P01"}, retry.Transient},
		"password":        {t.Context(), &pgconn.PgError{Code: "28P01"}, retry.Permanent},
		"certificate":     {t.Context(), connectError(t, x509.UnknownAuthorityError{}), retry.Permanent},
		"cancelled":       {ended, pgconn.ErrConnClosed, retry.Canceled},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			if got := retry.Classify(neutral(test.ctx, test.err)); got.Class != test.want {
				t.Errorf("%v is %v", test.err, got)
			}
		})
	}
}

// connectError is what the driver returns when it cannot connect for this reason.
func connectError(t *testing.T, reason error) error {
	t.Helper()
	config, err := pgconn.ParseConfig("postgres://u@127.0.0.1:1/d?sslmode=disable")
	if err != nil {
		t.Fatal(err)
	}
	config.LookupFunc = func(context.Context, string) ([]string, error) { return nil, reason }
	_, err = pgconn.ConnectConfig(t.Context(), config)
	return err
}
