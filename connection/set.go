// Package connection knows the outside systems by name: HTTP APIs, folders and buckets, databases, webhooks.
//
// They stand in connections.yaml, which only the worker reads. A pipeline file names a connection and
// never says how to reach it or who asks. Secrets stand in that file only as ${NAME} of the
// environment, and no error of this package holds one: see [Set.Mask].
//
//	connections:
//	  shop:
//	    http:
//	      base_url: https://api.example.com/v1   # paths of steps are appended
//	      headers: { X-Client: tranche }         # sent to this host only
//	      bearer: "${SHOP_TOKEN}"                # or basic: { username: reader, password: "${PW}" }
//	      api_key: { header: X-Key, value: "${KEY}" } # or { query: key, value: "${KEY}" }
//	      timeout: 30s              # to connect, and then for the answer's header; default 30s
//	      idle_timeout: 30s         # for each KiB of the answer's body; default 30s
//	      requests_per_second: 10   # of each worker process; default: no limit
//	      burst: 5                  # requests that may go at once after a pause; default 1
//	      max_in_flight: 4          # of each worker process; default: no limit
//	      allowed_hosts: [files.example.com, "other.example.com:8443"] # links and redirects may lead there; no credentials do
//	      retry_on_status: [500]    # transient here, beside 408, 425, 502, 503 and 504
//	      fail_on_status: [504]     # permanent here
//	      throttle_on_status: [509] # a wait here, beside 429
//	      maximum_retry_after: 1h   # caps what the API may ask for; default 1h
//	      circuit_breaker: { consecutive_failures: 5, cool_down: 60s } # the default; or off
//	      task_queue: { name: shop-api, steps_per_second: 2 } # of all workers together; default: none
//	  partner:
//	    http:
//	      base_url: https://partner.example.com
//	      oauth2: { token_url: "https://auth.example.com/token", client_id: tranche, client_secret: "${SECRET}", scopes: [read] }
//	  analytics: { postgres: { url: "postgres://reader@db.example.com/sales", password: "${DB_PASSWORD}" } }
//	  ops: { webhook: { url: "${OPS_WEBHOOK}", shape: slack, ui_url: "https://temporal.example.com" } } # or shape: json, the default
//	  local: { sqlite: { path: ./tranche.db } }  # relative to this file
//	  lake: { files: { url: "s3://bucket/prefix?region=eu-west-1" } } # or gs://bucket/prefix, or a local folder
//
// ${NAME} may stand in any text and must not be empty. A value is put in as it is: what is part of a URL
// must be percent-encoded in the variable, which is why a database's password has a key of its own.
package connection

import (
	"errors"
	"fmt"
	"log/slog"
	"maps"
	"slices"
	"strings"
	"sync/atomic"

	"github.com/trancheflow/tranche/retry"
)

// The stable type names of the errors of this package; retry.Classify reports them.
const (
	TypeUnknownConnection = "UnknownConnection" // no such name, or a name of another kind; permanent
	TypeHTTPStatus        = "HTTPStatus"        // a status other than 2xx; transient or permanent by the status
	TypeRateLimited       = "RateLimited"       // throttled: by the API, or by the connection's own limit
	TypeCircuitOpen       = "CircuitOpen"       // throttled: the API has not answered for some time
	TypeCredentials       = "Credentials"       // no access token for these credentials; permanent
	TypeHostNotAllowed    = "HostNotAllowed"    // a link or redirect to a host that is not the connection's; permanent
	TypeRedirect          = "Redirect"          // too many redirects, or one that would change the request; permanent
	TypeBadAnswer         = "BadAnswer"         // an answer that is not HTTP, or encoded in an unknown way; permanent
	TypeTLS               = "TLS"               // a certificate that cannot be trusted; permanent
	TypeBadRequest        = "BadRequest"        // a request that cannot be made from what the pipeline says; permanent
	TypeWrongTaskQueue    = "WrongTaskQueue"    // a step on another task queue than its connection's; permanent
	TypeFileMissing       = "FileMissing"       // no such file; permanent
	TypeBadPath           = "BadPath"           // a path that leaves the folder, or names one; permanent
	TypeStorage           = "Storage"           // the folder or bucket refused; permanent unless it said otherwise
	TypeSourceChanged     = "SourceChanged"     // the file is not the one that was looked at before; transient
)

// Set holds the connections of one connections.yaml. It is safe for concurrent use.
type Set struct {
	http      map[string]*HTTP
	files     map[string]*Files
	databases map[string]Database
	queues    map[string]float64 // steps per second by task queue
	webhooks  map[string]*Webhook
	masker    *masker
	log       *atomic.Pointer[slog.Logger]
}

// Database says how a database is reached.
type Database struct {
	// Driver is "postgres" or "sqlite".
	Driver string
	// DSN is a PostgreSQL URL or keyword text, with the password in it: never print it. For SQLite it
	// is the path of the file; one that was relative is taken from the folder of connections.yaml.
	DSN string
}

// The values of Database.Driver.
const (
	DriverPostgres = "postgres"
	DriverSQLite   = "sqlite"
)

// HTTP returns the API with this name.
func (s *Set) HTTP(name string) (*HTTP, error) {
	return find(s, s.http, "an http", name)
}

// Files returns the folder or bucket with this name.
func (s *Set) Files(name string) (*Files, error) {
	return find(s, s.files, "a files", name)
}

// Database returns the database with this name.
func (s *Set) Database(name string) (Database, error) {
	return find(s, s.databases, "a database (postgres or sqlite)", name)
}

// Webhook returns the webhook with this name.
func (s *Set) Webhook(name string) (*Webhook, error) {
	return find(s, s.webhooks, "a webhook", name)
}

// Names returns the names of all connections, sorted.
func (s *Set) Names() []string {
	names := slices.AppendSeq(slices.Collect(maps.Keys(s.http)), maps.Keys(s.files))
	names = slices.AppendSeq(names, maps.Keys(s.databases))
	names = slices.AppendSeq(names, maps.Keys(s.webhooks))
	slices.Sort(names)
	return names
}

// LogTo writes what the circuits of the connections do to a log: a warning when one opens, a line when it lets a
// request through and when it closes. Without it nothing is logged.
func (s *Set) LogTo(log *slog.Logger) { s.log.Store(log) }

// Close gives back what the connections hold open. Requests under way are not waited for.
func (s *Set) Close() error {
	var all []error
	for _, api := range s.http {
		api.transport.CloseIdleConnections()
	}
	for _, webhook := range s.webhooks {
		webhook.transport.CloseIdleConnections()
	}
	for _, files := range s.files {
		all = append(all, files.close())
	}
	return errors.Join(all...)
}

func find[T any](s *Set, among map[string]T, kind, name string) (T, error) {
	if found, ok := among[name]; ok {
		return found, nil
	}
	var zero T
	if slices.Contains(s.Names(), name) {
		return zero, retry.Permanentf(TypeUnknownConnection, "connection %q is not %s connection", name, kind)
	}
	known := "there are none"
	if names := s.Names(); len(names) > 0 {
		known = "known are " + strings.Join(names, ", ")
	}
	return zero, retry.Permanentf(TypeUnknownConnection, "no connection is called %q: %s", name, known)
}

// String names the kind and place of a database, without its DSN.
func (d Database) String() string { return fmt.Sprintf("%s database", d.Driver) }

// GoString keeps the DSN out of %#v, too.
func (d Database) GoString() string { return d.String() }
