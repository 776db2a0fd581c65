package connection

import (
	"errors"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/pipeline"
	"github.com/trancheflow/tranche/retry"
)

const whole = `connections:
  shop:
    http:
      base_url: "http://127.0.0.1:8089/v1"
      headers: { X-Client: tranche, X-Api-Token: "${SHOP_TOKEN}" }
      bearer: "${SHOP_TOKEN}"
      timeout: 30s
      idle_timeout: 1m30s
      requests_per_second: 2.5
      burst: 5
      max_in_flight: 4
      allowed_hosts: [files.example.com, "other.example.com:8443"]
      retry_on_status: [500, 520]
      fail_on_status: [504]
      throttle_on_status: [509]
      maximum_retry_after: 10m
      circuit_breaker: { consecutive_failures: 3, cool_down: 20s }
      task_queue: { name: shop-api, steps_per_second: 0.5 }
  granted:
    http:
      base_url: https://api.example
      circuit_breaker: off
      oauth2:
        token_url: https://auth.example/token
        client_id: tranche
        client_secret: "${SHOP_TOKEN}"
        scopes: [read, "orders:read"]
        parameters: { audience: "https://api.example" }
        send_secret: body
  keyed: { http: { base_url: "${BASE}", api_key: { query: key, value: "${SHOP_TOKEN}" } } }
  signed: { http: { base_url: "https://a.example", basic: { username: reader, password: "${SHOP_TOKEN}" } } }
  analytics: { postgres: { url: "${ANALYTICS_URL}" } }
  apart: { postgres: { url: "postgres://reader@db.example/sales?sslmode=disable", password: "${PASSWORD}" } }
  keywords: { postgres: { url: "host=db.example user=reader sslmode=disable", password: "${PASSWORD}" } }
  local: { sqlite: { path: ./tranche.db } }
  lake: { files: { url: "s3://bucket/prefix?region=eu-west-1" } }
  folder: { files: { url: data } }
`

var wholeEnv = map[string]string{
	"SHOP_TOKEN": "token-value", "BASE": "https://api.example", "PASSWORD": `x#y@z'9\%`,
	"ANALYTICS_URL": "postgres://u:hunter22@h:5432/d?sslmode=disable",
}

func TestParseWholeFile(t *testing.T) {
	t.Parallel()
	set, err := Parse(filepath.Join("conf", "connections.yaml"), []byte(whole), lookup(wholeEnv))
	if err != nil {
		t.Fatal(err)
	}
	want := []string{"analytics", "apart", "folder", "granted", "keyed", "keywords", "lake", "local", "shop", "signed"}
	if got := set.Names(); !slices.Equal(got, want) {
		t.Errorf("names: %v", got)
	}
	for name, want := range map[string]Database{
		"analytics": {DriverPostgres, "postgres://u:hunter22@h:5432/d?sslmode=disable"},
		"apart":     {DriverPostgres, "postgres://reader:x%23y%40z%279%5C%25@db.example/sales?sslmode=disable"},
		"keywords":  {DriverPostgres, `host=db.example user=reader sslmode=disable password='x#y@z\'9\\%'`},
		"local":     {DriverSQLite, filepath.Join("conf", "tranche.db")},
	} {
		got, err := set.Database(name)
		if err != nil || got.Driver != want.Driver || got.DSN != want.DSN {
			t.Errorf("%s: %q, %v", name, got.DSN, err)
		}
	}
	folder, err := set.Files("folder")
	if err != nil || folder.folder != filepath.Join("conf", "data") || folder.Name() != "folder" {
		t.Errorf("folder: %+v, %v", folder, err)
	}
	api, err := set.HTTP("shop")
	wantAnswers := answers{retryOn: []int{500, 520}, failOn: []int{504}, throttleOn: []int{509}, longest: 10 * time.Minute}
	if err != nil || api.Name() != "shop" || !reflect.DeepEqual(api.answers, wantAnswers) || api.circuit.failures != 3 || api.circuit.coolDown != 20*time.Second {
		t.Errorf("shop: %+v, %v", api, err)
	}
	if got, want := set.TaskQueues(), []TaskQueue{{"shop-api", 0.5}}; !slices.Equal(got, want) {
		t.Errorf("task queues: %+v", got)
	}
	if granted, err := set.HTTP("granted"); err != nil || granted.circuit != nil || granted.Circuit() != CircuitClosed || granted.answers.longest != time.Hour {
		t.Errorf("granted: %v", err)
	}
	if keyed, err := set.HTTP("keyed"); err != nil || keyed.circuit.failures != 5 || keyed.circuit.coolDown != time.Minute {
		t.Errorf("keyed: %v", err)
	}
}

func TestUnknownNames(t *testing.T) {
	t.Parallel()
	set := mustParse(t, whole, wholeEnv)
	for name, test := range map[string]struct {
		ask  func() error
		want string
	}{
		"unknown": {func() error { _, err := set.HTTP("shpo"); return err },
			`no connection is called "shpo": known are analytics, apart, folder, granted, keyed, keywords, lake, local, shop, signed`},
		"other kind": {func() error { _, err := set.Database("shop"); return err },
			`connection "shop" is not a database (postgres or sqlite) connection`},
	} {
		err := test.ask()
		if err == nil || err.Error() != test.want {
			t.Errorf("%s: %v", name, err)
		}
		if v := retry.Classify(err); v.Class != retry.Permanent || v.Type != TypeUnknownConnection {
			t.Errorf("%s: %+v", name, v)
		}
	}
}

func TestDatabaseDoesNotPrintItsDSN(t *testing.T) {
	t.Parallel()
	d := Database{Driver: DriverPostgres, DSN: "postgres://u:hunter22@h/d"}
	if text := d.String() + d.GoString(); strings.Contains(text, "hunter22") {
		t.Error(text)
	}
}

// TestParseProblems also looks that no problem holds what may be a secret.
func TestParseProblems(t *testing.T) {
	t.Parallel()
	env := map[string]string{"EMPTY": "", "TOKEN": "tok-sesame", "BAD1": "postgres://u:pa%Sword9@h/d", "BAD2": "postgres://u:x#y@z9@h/d", "BAD3": "postgres://u:x@z9@h/d", "LINES": "sesame\nX: y"}
	for name, test := range map[string]struct {
		yaml string
		want []string // beginnings of the problems
	}{
		"empty":          {"", []string{"1:1: missing-field"}},
		"no mapping":     {"- a", []string{"1:1: wrong-type"}},
		"no connections": {"{}", []string{"1:1: missing-field"}},
		"not yaml":       {"connections:\n  a: b: c", []string{"2:1: bad-yaml"}},
		"two documents":  {"connections: {}\n---\na: 1", []string{"2:1: bad-yaml"}},
		"unknown key":    {"connections: {}\nother: 1", []string{"2:1: other: unknown-field"}},
		"repeated": {"connections:\n  a: {sqlite: {path: x}}\n  a: {sqlite: {path: y}}",
			[]string{"3:3: connections.a: repeated-field"}},
		"bad name":  {"connections:\n  Shop: {sqlite: {path: x}}", []string{"2:3: connections.Shop: bad-value"}},
		"two kinds": {"connections:\n  a: {sqlite: {path: x}, files: {url: y}}", []string{"2:6: connections.a: conflict"}},
		"no kind":   {"connections:\n  a: {}", []string{"2:6: connections.a: conflict"}},
		"null":      {"connections:\n  a:\n", []string{"2:5: connections.a: wrong-type"}},
		"missing variable": {`connections: {a: {http: {base_url: "https://h", bearer: "${NOT_SET}"}}}`,
			[]string{"1:57: connections.a.http.bearer: unset-variable: the variable NOT_SET is not set"}},
		"empty variable": {`connections: {a: {http: {base_url: "https://h", bearer: "${EMPTY}"}}}`,
			[]string{"1:57: connections.a.http.bearer: unset-variable: the variable EMPTY is empty"}},
		"odd variable": {`connections: {a: {http: {base_url: "https://${a-b}"}}}`,
			[]string{"1:36: connections.a.http.base_url: bad-value: a variable is written ${NAME}"}},
		"literal bearer": {"connections: {a: {http: {base_url: 'https://h', bearer: sesame}}}", []string{"1:57: connections.a.http.bearer: secret-in-file"}},
		"literal and variable": {`connections: {a: {http: {base_url: 'https://h', bearer: "sesame${TOKEN}"}}}`,
			[]string{"1:57: connections.a.http.bearer: secret-in-file"}},
		"literal header": {"connections: {a: {http: {base_url: 'https://h', headers: {Authorization: Bearer sesame, X-Api-Key: sesame, X-Client: fine}}}}",
			[]string{"1:74: connections.a.http.headers.Authorization: secret-in-file", "1:100: connections.a.http.headers.X-Api-Key: secret-in-file"}},
		"header with a line end": {`connections: {a: {http: {base_url: 'https://h', bearer: "${LINES}", headers: {X-A: "${LINES}"}}}}`,
			[]string{"1:57: connections.a.http.bearer: bad-value", "1:84: connections.a.http.headers.X-A: bad-value"}},
		"headers of the request itself": {`connections: {a: {http: {base_url: 'https://h', headers: {Host: x, X-A: b, accept-encoding: br}}}, b: {webhook: {url: 'https://h', headers: {transfer-encoding: chunked}}}}`,
			[]string{"1:59: connections.a.http.headers.Host: conflict: the header Host follows from the request itself", "1:76: connections.a.http.headers.accept-encoding: conflict: the header accept-encoding is set by the worker", "1:142: connections.b.webhook.headers.transfer-encoding: conflict"}},
		"literal basic": {"connections: {a: {http: {base_url: 'https://h', basic: {username: u, password: sesame}}}}",
			[]string{"1:80: connections.a.http.basic.password: secret-in-file"}},
		"literal password in a URL": {"connections: {a: {postgres: {url: 'postgres://u:sesame@h/d'}}}",
			[]string{"1:35: connections.a.postgres.url: secret-in-file"}},
		"literal password in a broken URL": {"connections: {a: {postgres: {url: 'postgres://u:ses%ame@h/d'}}}",
			[]string{"1:35: connections.a.postgres.url: secret-in-file"}},
		"literal password in a query": {"connections: {a: {postgres: {url: 'postgres://u@h/d?password=sesame'}}}",
			[]string{"1:35: connections.a.postgres.url: secret-in-file"}},
		"literal password in keywords": {"connections: {a: {postgres: {url: \"host=h password='sesame street'\"}}}",
			[]string{"1:35: connections.a.postgres.url: secret-in-file"}},
		"password that breaks the URL": {`connections: {a: {postgres: {url: "${BAD1}"}}, b: {postgres: {url: "${BAD2}"}}, c: {postgres: {url: "${BAD3}"}}}`,
			[]string{"1:35: connections.a.postgres.url: bad-url: not a URL that can be parsed", "1:68: connections.b.postgres.url: bad-url: not a URL",
				"1:101: connections.c.postgres.url: bad-url: a setting of this PostgreSQL URL is not valid"}},
		"not a DSN":        {"connections: {a: {postgres: {url: 'mysql://h/d'}}}", []string{"1:35: connections.a.postgres.url: bad-url"}},
		"user in base_url": {"connections: {a: {http: {base_url: 'https://u:sesame@h'}}}", []string{"1:36: connections.a.http.base_url: secret-in-file"}},
		"base_url scheme":  {"connections: {a: {http: {base_url: 'ftp://h'}}}", []string{"1:36: connections.a.http.base_url: bad-url"}},
		"no base_url":      {"connections: {a: {http: {}}}", []string{"1:25: connections.a.http: missing-field"}},
		"bare duration":    {"connections: {a: {http: {base_url: 'https://h', timeout: 30}}}", []string{"1:58: connections.a.http.timeout: bad-value"}},
		"zero duration":    {"connections: {a: {http: {base_url: 'https://h', timeout: 0s}}}", []string{"1:58: connections.a.http.timeout: bad-value"}},
		"numbers": {"connections: {a: {http: {base_url: 'https://h', requests_per_second: 0, max_in_flight: -1, retry_on_status: [200, x]}}}",
			[]string{"1:70: connections.a.http.requests_per_second: bad-value", "1:88: connections.a.http.max_in_flight: bad-value",
				"1:110: connections.a.http.retry_on_status[0]: bad-value", "1:115: connections.a.http.retry_on_status[1]: bad-value"}},
		"not a number":  {"connections: {a: {http: {base_url: 'https://h', requests_per_second: .nan}}}", []string{"1:70: connections.a.http.requests_per_second: bad-value"}},
		"burst alone":   {"connections: {a: {http: {base_url: 'https://h', burst: 2}}}", []string{"1:25: connections.a.http: conflict"}},
		"two schemes":   {`connections: {a: {http: {base_url: 'https://h', bearer: "${TOKEN}", basic: {username: u, password: "${TOKEN}"}}}}`, []string{"1:25: connections.a.http: conflict"}},
		"two grants":    {`connections: {a: {http: {base_url: 'https://h', bearer: "${TOKEN}", oauth2: {token_url: 'https://h/t', client_id: u, client_secret: "${TOKEN}"}}}}`, []string{"1:25: connections.a.http: conflict: bearer and oauth2 set"}},
		"oauth2, empty": {"connections: {a: {http: {base_url: 'https://h', oauth2: {}}}}", []string{"1:57: connections.a.http.oauth2: missing-field: the key token_url", "1:57: connections.a.http.oauth2: missing-field: the key client_id", "1:57: connections.a.http.oauth2: missing-field: the key client_secret"}},
		"oauth2, literal": {"connections: {a: {http: {base_url: 'https://h', oauth2: {token_url: 'https://h/t', client_id: u, client_secret: sesame, parameters: {api_key: sesame, scope: x}, send_secret: query}}}}",
			[]string{"1:57: connections.a.http.oauth2.send_secret: bad-value", "1:113: connections.a.http.oauth2.client_secret: secret-in-file", "1:143: connections.a.http.oauth2.parameters.api_key: secret-in-file", "1:151: connections.a.http.oauth2.parameters.scope: conflict"}},
		"oauth2 over http": {`connections: {a: {http: {base_url: 'https://h', oauth2: {token_url: 'http://h/t', client_id: u, client_secret: "${TOKEN}"}}}}`, []string{"1:25: connections.a.http.oauth2.token_url: bad-url: the client's secret would go over http"}},
		"a status twice": {"connections: {a: {http: {base_url: 'https://h', retry_on_status: [500], fail_on_status: [500, 501, 501]}}}",
			[]string{"1:90: connections.a.http.fail_on_status[0]: conflict: the status 500 stands in retry_on_status", "1:100: connections.a.http.fail_on_status[2]: conflict"}},
		"circuit breaker": {"connections: {a: {http: {base_url: 'https://h', circuit_breaker: {consecutive_failures: 0, cool_down: 0s, probes: 2}}}, b: {http: {base_url: 'https://h', circuit_breaker: on}}}",
			[]string{"1:89: connections.a.http.circuit_breaker.consecutive_failures: bad-value", "1:103: connections.a.http.circuit_breaker.cool_down: bad-value", "1:107: connections.a.http.circuit_breaker.probes: unknown-field", "1:172: connections.b.http.circuit_breaker: wrong-type: write off, or a mapping"}},
		"task queue": {"connections: {a: {http: {base_url: 'https://h', task_queue: {name: ' q', steps_per_second: 0}}}, b: {http: {base_url: 'https://h', task_queue: {}}}}",
			[]string{"1:68: connections.a.http.task_queue.name: bad-value", "1:92: connections.a.http.task_queue.steps_per_second: bad-value",
				"1:144: connections.b.http.task_queue: missing-field: the key name", "1:144: connections.b.http.task_queue: missing-field: the key steps_per_second"}},
		"a task queue with two rates": {"connections: {a: {http: {base_url: 'https://h', task_queue: {name: q, steps_per_second: 1}}}, b: {http: {base_url: 'https://h', task_queue: {name: q, steps_per_second: 2}}}}",
			[]string{"1:141: connections.b.http.task_queue: conflict: another connection has this task queue with another rate"}},
		"wait beyond sense": {"connections: {a: {http: {base_url: 'https://h', maximum_retry_after: 169h}}}", []string{"1:70: connections.a.http.maximum_retry_after: bad-value"}},
		"longest wait":      {"connections: {a: {http: {base_url: 'https://h', maximum_retry_after: 0s}}}", []string{"1:70: connections.a.http.maximum_retry_after: bad-value"}},
		"scheme and header": {`connections: {a: {http: {base_url: 'https://h', headers: {authorization: "Token ${TOKEN}"}, bearer: "${TOKEN}"}}}`, []string{"1:25: connections.a.http: conflict: headers and bearer set"}},
		"key as the host":   {`connections: {a: {http: {base_url: 'https://h', api_key: {header: host, value: "${TOKEN}"}}}}`, []string{"1:67: connections.a.http.api_key.header: bad-value: this is no name of an HTTP header that can carry a key"}},
		"key in both":       {`connections: {a: {http: {base_url: 'https://h', api_key: {header: X, query: y, value: "${TOKEN}"}}}}`, []string{"1:58: connections.a.http.api_key: conflict"}},
		"allowed hosts":     {"connections: {a: {http: {base_url: 'https://h', allowed_hosts: ['https://x', '*.y', 'u@z']}}}", []string{"1:65: ", "1:78: ", "1:85: "}},
		"file scheme":       {"connections: {a: {files: {url: 'file:///etc'}}}", []string{"1:32: connections.a.files.url: bad-url"}},
		"memory":            {"connections: {a: {sqlite: {path: ':memory:'}}}", []string{"1:34: connections.a.sqlite.path: bad-value"}},
		"all at once": {"connections:\n  a: {http: {base_url: 'https://h', bearer: sesame, colour: red}}\n  b: {sqlite: {}}\n  c: {files: {url: [x]}}",
			[]string{"2:45: connections.a.http.bearer: secret-in-file", "2:53: connections.a.http.colour: unknown-field", "3:15: connections.b.sqlite: missing-field", "4:20: connections.c.files.url: wrong-type"}},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			_, err := Parse("c.yaml", []byte(test.yaml), lookup(env))
			var problems pipeline.Problems
			if !errors.As(err, &problems) {
				t.Fatalf("got %v", err)
			}
			if len(problems) != len(test.want) {
				t.Fatalf("got\n%v", err)
			}
			for i, problem := range problems {
				if !strings.HasPrefix(problem.Error(), "c.yaml:"+test.want[i]) {
					t.Errorf("got  %v\nwant c.yaml:%s", problem, test.want[i])
				}
			}
			for _, secret := range []string{"sesame", "Sword9", "y@z9", "z9", "ses%ame"} {
				if strings.Contains(err.Error(), secret) {
					t.Errorf("%q in %v", secret, err)
				}
			}
		})
	}
}

func FuzzParse(f *testing.F) {
	f.Add(whole)
	f.Add("connections: &a {x: *a}")
	f.Add("connections: {a: {<<: {sqlite: {path: x}}}}")
	f.Add("connections:\n  ? [a]\n  : b")
	f.Add("%YAML 1.1\n---\n!!binary aGk=")
	f.Fuzz(func(t *testing.T, text string) {
		set, err := Parse("c.yaml", []byte(text), lookup(wholeEnv))
		if (set == nil) == (err == nil) {
			t.Fatalf("set %v and error %v", set, err)
		}
		var problems pipeline.Problems
		if err != nil && !errors.As(err, &problems) {
			t.Fatalf("not problems: %v", err)
		}
		for _, p := range problems {
			if p.Line < 1 || p.Column < 1 || p.Code == "" || p.Message == "" {
				t.Errorf("incomplete: %+v", p)
			}
		}
		if set != nil {
			_ = set.Close()
		}
	})
}

// TestDocumentedFile reads the example of the package comment.
func TestDocumentedFile(t *testing.T) {
	t.Parallel()
	source, err := os.ReadFile("set.go")
	if err != nil {
		t.Fatal(err)
	}
	var example []string
	for line := range strings.Lines(string(source)) {
		if text, ok := strings.CutPrefix(line, "//\t"); ok {
			example = append(example, text)
		}
	}
	set, err := Parse("connections.yaml", []byte(strings.Join(example, "")), anything)
	if err != nil {
		t.Fatal(err)
	}
	if len(set.Names()) != 6 || set.Close() != nil {
		t.Error(set.Names())
	}
}

// anything is an environment in which every variable is set.
func anything(name string) (string, bool) {
	if strings.HasSuffix(name, "WEBHOOK") {
		return "https://hooks.example.com/services/some-secret", true
	}
	return "some-secret", true
}

// The example of the documents is one that the worker takes, and shows every key.
func TestDocumentedExample(t *testing.T) {
	t.Parallel()
	document, err := os.ReadFile("../docs/connections.md")
	if err != nil {
		t.Fatal(err)
	}
	_, rest, _ := strings.Cut(string(document), "```yaml\n")
	example, _, found := strings.Cut(rest, "```\n")
	if !found {
		t.Fatal("there is no example")
	}
	if _, err := Parse("connections.yaml", []byte(example), anything); err != nil {
		t.Error(err)
	}
	for _, file := range []string{"parse_http.go", "parse_webhook.go"} {
		source, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, match := range regexp.MustCompile(`(?m)^\t\t"([a-z0-9_]+)": `).FindAllStringSubmatch(string(source), -1) {
			if !strings.Contains(example, match[1]+":") {
				t.Errorf("the example does not show %s", match[1])
			}
		}
	}
}
