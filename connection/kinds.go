package connection

import (
	"encoding/base64"
	"net"
	"net/http"
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/trancheflow/tranche/pipeline"
)

var connectionName = regexp.MustCompile(`^[a-z][a-z0-9_-]{0,99}$`)

func (d *decoder) connections(root *yaml.Node, set *Set) {
	seen := d.mapping(root, "", fields{"connections": func(node *yaml.Node, path string) {
		d.entries(node, path, func(key, value *yaml.Node, at string) {
			if !connectionName.MatchString(key.Value) {
				d.problem(key, at, CodeBadValue, "a name has lower-case letters, digits, - and _, begins with a letter, and has at most 100 characters")
				return
			}
			d.connection(value, at, key.Value, set)
		})
	}})
	if seen != nil && !seen["connections"] {
		d.problem(root, "", CodeMissingField, "the key connections is missing")
	}
}

func (d *decoder) connection(node *yaml.Node, path, name string, set *Set) {
	seen := d.mapping(node, path, fields{
		"http": func(node *yaml.Node, path string) {
			if settings, ok := d.http(node, path); ok {
				set.http[name] = newHTTP(name, settings)
			}
		},
		"files": func(node *yaml.Node, path string) {
			if files, ok := d.files(node, path); ok {
				files.name = name
				set.files[name] = files
			}
		},
		"postgres": func(node *yaml.Node, path string) {
			if dsn, ok := d.postgres(node, path); ok {
				set.databases[name] = Database{Driver: DriverPostgres, DSN: dsn}
			}
		},
		"sqlite": func(node *yaml.Node, path string) {
			if file, ok := d.sqlite(node, path); ok {
				set.databases[name] = Database{Driver: DriverSQLite, DSN: file}
			}
		},
	})
	if seen != nil && len(seen) != 1 {
		d.problem(node, path, CodeConflict, "a connection has exactly one of http, files, postgres and sqlite")
	}
}

func (d *decoder) required(seen map[string]bool, node *yaml.Node, path, key, example string) {
	if seen != nil && !seen[key] {
		d.problem(node, path, CodeMissingField, "the key "+key+" is missing, such as "+example)
	}
}

func (d *decoder) http(node *yaml.Node, path string) (httpSettings, bool) {
	before := len(d.problems)
	s := httpSettings{header: http.Header{}}
	timeout, idle := pipeline.Duration(defaultTimeout), pipeline.Duration(defaultIdleTimeout)
	seen := d.mapping(node, path, fields{
		"base_url":            func(n *yaml.Node, p string) { s.base = d.baseURL(n, p) },
		"headers":             func(n *yaml.Node, p string) { d.headers(n, p, s.header) },
		"bearer":              func(n *yaml.Node, p string) { s.header.Set("Authorization", "Bearer "+d.token(n, p)) },
		"basic":               func(n *yaml.Node, p string) { d.basic(n, p, s.header) },
		"api_key":             func(n *yaml.Node, p string) { d.apiKey(n, p, &s) },
		"timeout":             d.duration(&timeout),
		"idle_timeout":        d.duration(&idle),
		"requests_per_second": d.number(&s.requestsPerSecond),
		"burst":               d.integer(&s.burst, 1, 1_000_000),
		"max_in_flight":       d.integer(&s.maxInFlight, 1, 1_000_000),
		"allowed_hosts":       d.list(func(n *yaml.Node, p string) { s.allowedHosts = append(s.allowedHosts, d.host(n, p)) }),
		"retry_on_status": d.list(func(n *yaml.Node, p string) {
			var status int
			d.integer(&status, 400, 599)(n, p)
			s.retryOn = append(s.retryOn, status)
		}),
	})
	s.timeout, s.idleTimeout = timeout.Std(), idle.Std()
	d.required(seen, node, path, "base_url", "https://api.example.com/v1")
	if seen["bearer"] && seen["basic"] {
		d.problem(node, path, CodeConflict, "bearer and basic both set the Authorization header: keep one")
	}
	if seen["burst"] && !seen["requests_per_second"] {
		d.problem(node, path, CodeConflict, "burst means something only with requests_per_second")
	}
	return s, len(d.problems) == before
}

func (d *decoder) baseURL(node *yaml.Node, path string) *url.URL {
	raw, ok := d.scalar(node, path)
	if !ok {
		return nil
	}
	text, values, ok := d.expand(node, path, raw)
	if !ok {
		return nil
	}
	u, err := url.Parse(text)
	if err == nil {
		d.secretsOfURL(node, path, raw, u, values)
	}
	switch {
	case err != nil || (u.Scheme != "http" && u.Scheme != "https") || u.Hostname() == "" || u.Fragment != "":
		d.problem(node, path, CodeBadURL, "an http or https URL is wanted here, such as https://api.example.com/v1")
		return nil
	case u.User != nil:
		d.problem(node, path, CodeSecretInFile, "a user name or password in the URL shows up in logs: use basic")
		return nil
	}
	return u
}

// secretsOfURL takes what a variable puts behind the host for a secret, as webhooks have it there, and refuses
// a credential that is written into the query.
func (d *decoder) secretsOfURL(node *yaml.Node, path, raw string, u *url.URL, values []string) {
	behind := strings.TrimPrefix(u.String(), u.Scheme+"://"+u.Host)
	for _, value := range values {
		if decoded, err := url.PathUnescape(value); err == nil && (strings.Contains(behind, value) || strings.Contains(u.Path, decoded)) {
			d.secrets = append(d.secrets, value, decoded)
		}
	}
	_, query, _ := strings.Cut(raw, "?")
	for _, pair := range strings.Split(query, "&") {
		if name, value, _ := strings.Cut(pair, "="); sensitiveHeaders.MatchString(name) && value != "" && !reference.MatchString(value) {
			d.problem(node, path, CodeSecretInFile, "the query holds what looks like a credential: use api_key: { query: NAME, value: \"${NAME}\" }")
		}
	}
}

// sensitiveHeaders are those headers, and query parameters, whose value is a credential, by name or by a part of it.
var sensitiveHeaders = regexp.MustCompile(`(?i)^(authorization|proxy-authorization|cookie)$|token|secret|password|credential|api[-_]?key|auth[-_]?key|access[-_]?key|subscription[-_]key`)

func (d *decoder) headers(node *yaml.Node, path string, into http.Header) {
	d.entries(node, path, func(key, value *yaml.Node, at string) {
		if !httpguts.ValidHeaderFieldName(key.Value) {
			d.problem(key, at, CodeBadValue, "this is no name of an HTTP header")
			return
		}
		raw, ok := d.scalar(value, at)
		if !ok {
			return
		}
		if sensitiveHeaders.MatchString(key.Value) && !reference.MatchString(raw) {
			d.problem(value, at, CodeSecretInFile, "the value of this header looks like a credential: name a variable of the worker's environment, such as ${API_TOKEN}")
			return
		}
		text, values, _ := d.expand(value, at, raw)
		d.secrets = append(d.secrets, values...)
		if !httpguts.ValidHeaderFieldValue(text) {
			d.problem(value, at, CodeBadValue, "the value holds a character that a header may not have, such as a line end")
			return
		}
		into.Set(key.Value, text)
	})
}

// token reads a secret that stands in a header.
func (d *decoder) token(node *yaml.Node, path string) string {
	value := d.secret(node, path)
	if !httpguts.ValidHeaderFieldValue(value) {
		d.problem(node, path, CodeBadValue, "the variable's value holds a character that a header may not have, such as a line end")
	}
	return value
}

func (d *decoder) basic(node *yaml.Node, path string, into http.Header) {
	var username, password string
	seen := d.mapping(node, path, fields{
		"username": func(n *yaml.Node, p string) { username, _ = d.text(n, p) },
		"password": func(n *yaml.Node, p string) { password = d.secret(n, p) },
	})
	d.required(seen, node, path, "username", "username: reader")
	d.required(seen, node, path, "password", `password: "${API_PASSWORD}"`)
	if strings.Contains(username, ":") {
		d.problem(node, path, CodeBadValue, "a user name of basic authentication cannot hold a colon")
	}
	pair := base64.StdEncoding.EncodeToString([]byte(username + ":" + password))
	into.Set("Authorization", "Basic "+pair)
	if len(password) >= minimumMasked {
		d.secrets = append(d.secrets, username+":"+password)
	}
}

func (d *decoder) apiKey(node *yaml.Node, path string, s *httpSettings) {
	var header, query, value string
	var headerNode *yaml.Node
	seen := d.mapping(node, path, fields{
		"header": func(n *yaml.Node, p string) { header, _ = d.text(n, p); headerNode = n },
		"query":  func(n *yaml.Node, p string) { query, _ = d.text(n, p) },
		"value":  func(n *yaml.Node, p string) { value = d.token(n, p) },
	})
	d.required(seen, node, path, "value", `value: "${API_KEY}"`)
	if seen != nil && seen["header"] == seen["query"] {
		d.problem(node, path, CodeConflict, "an api_key is sent in exactly one of header and query: name it there")
	}
	switch {
	case seen["header"] && !httpguts.ValidHeaderFieldName(header):
		d.problem(headerNode, join(path, "header"), CodeBadValue, "this is no name of an HTTP header")
	case seen["header"]:
		s.header.Set(header, value)
	default:
		s.apiKeyQuery, s.apiKey = query, value
	}
}

func (d *decoder) host(node *yaml.Node, path string) string {
	text, ok := d.text(node, path)
	if !ok {
		return ""
	}
	u, err := url.Parse("https://" + text)
	if err != nil || u.Host != text || u.Hostname() == "" || strings.ContainsAny(text, "*/") {
		d.problem(node, path, CodeBadValue, "a host is wanted here, with a port where it is not the usual one: files.example.com or files.example.com:8443")
		return ""
	}
	if _, port, err := net.SplitHostPort(text); err == nil && port == "" {
		return strings.TrimSuffix(text, ":")
	}
	return text
}

func (d *decoder) files(node *yaml.Node, path string) (*Files, bool) {
	before := len(d.problems)
	files := &Files{}
	seen := d.mapping(node, path, fields{"url": func(n *yaml.Node, p string) {
		text, ok := d.text(n, p)
		if !ok {
			return
		}
		scheme, _, isURL := strings.Cut(text, "://")
		if !isURL {
			if text == "" {
				d.problem(n, p, CodeBadURL, "a folder, an s3:// or a gs:// URL is wanted here")
				return
			}
			files.folder = d.relative(text)
			return
		}
		u, err := url.Parse(text)
		if err != nil || (scheme != "s3" && scheme != "gs") || u.Host == "" || u.User != nil || u.Fragment != "" {
			d.problem(n, p, CodeBadURL, "s3://BUCKET/PREFIX?region=…, gs://BUCKET/PREFIX or the path of a local folder is wanted here; credentials come from the environment, as the vendor's own tools find them")
			return
		}
		files.bucketURL = u
	}})
	d.required(seen, node, path, "url", "s3://bucket/prefix?region=eu-west-1")
	return files, len(d.problems) == before
}

func (d *decoder) sqlite(node *yaml.Node, path string) (string, bool) {
	before := len(d.problems)
	file := ""
	seen := d.mapping(node, path, fields{"path": func(n *yaml.Node, p string) {
		text, ok := d.text(n, p)
		if ok && (text == "" || strings.HasPrefix(text, "file:") || strings.ContainsAny(text, "?\x00") || text == ":memory:") {
			d.problem(n, p, CodeBadValue, "the path of a database file is wanted here, such as ./tranche.db; the ledger must outlive the worker")
			return
		}
		file = d.relative(text)
	}})
	d.required(seen, node, path, "path", "./tranche.db")
	return file, len(d.problems) == before
}

// placeholder stands for a variable while the file's own text is looked at; it needs no escaping in a URL.
const placeholder = "zVARIABLEz"

var keywordPassword = regexp.MustCompile(`(?i)\bpassword\s*=\s*('(?:[^'\\]|\\.)*'|\S*)`)

func (d *decoder) postgres(node *yaml.Node, path string) (string, bool) {
	before := len(d.problems)
	var dsn, password string
	var at *yaml.Node
	seen := d.mapping(node, path, fields{
		"url": func(n *yaml.Node, p string) {
			at = n
			raw, ok := d.scalar(n, p)
			if !ok {
				return
			}
			if hasLiteralPassword(raw) {
				d.problem(n, p, CodeSecretInFile, "a password must not be written into the file: take it from the environment, with password: \"${DATABASE_PASSWORD}\" beside url")
				return
			}
			dsn, _, _ = d.expand(n, p, raw)
		},
		"password": func(n *yaml.Node, p string) { password = d.secret(n, p) },
	})
	d.required(seen, node, path, "url", `"${DATABASE_URL}" or postgres://user@host:5432/database`)
	if len(d.problems) > before || seen == nil {
		return "", false
	}
	config, err := pgconn.ParseConfig(dsn) // its error may quote the password
	if err != nil || isURL(dsn) && !isStrictURL(dsn, config) {
		d.problem(at, join(path, "url"), CodeBadURL, whyBadDSN(dsn))
		return "", false
	}
	if password != "" {
		dsn = withPassword(dsn, password)
	}
	d.secrets = append(d.secrets, config.Password)
	return dsn, true
}

// hasLiteralPassword looks at a DSN as it stands in the file.
func hasLiteralPassword(raw string) bool {
	text := reference.ReplaceAllString(raw, placeholder)
	literal := func(password string) bool {
		return strings.Trim(strings.ReplaceAll(password, placeholder, ""), "'") != ""
	}
	if !isURL(text) {
		match := keywordPassword.FindStringSubmatch(text)
		return match != nil && literal(match[1])
	}
	u, err := url.Parse(text)
	if err != nil {
		// What cannot be parsed may still hold one: between the second colon and the last @.
		_, rest, _ := strings.Cut(text, "://")
		authority := rest[:max(strings.LastIndex(rest, "@"), 0)]
		_, password, _ := strings.Cut(authority, ":")
		return literal(password)
	}
	password, _ := u.User.Password()
	return literal(password) || literal(u.Query().Get("password"))
}

func isURL(dsn string) bool {
	return strings.HasPrefix(dsn, "postgres://") || strings.HasPrefix(dsn, "postgresql://")
}

// isStrictURL refuses what the driver reads leniently, as libpq does: it ends the password at the first @
// and takes what follows, the rest of a password, for the host, which then stands in every error.
func isStrictURL(dsn string, config *pgconn.Config) bool {
	if _, err := url.Parse(dsn); err != nil {
		return false
	}
	hosts := config.Host
	for _, fallback := range config.Fallbacks {
		hosts += fallback.Host
	}
	return !strings.Contains(hosts, "@")
}

// whyBadDSN says what is wrong without a word of the DSN.
func whyBadDSN(dsn string) string {
	if isURL(dsn) {
		if _, err := url.Parse(dsn); err != nil {
			return "not a URL that can be parsed. Characters such as % # / ? and @ in a user name or password must be percent-encoded; or leave the password out and give it by password: \"${DATABASE_PASSWORD}\" beside url, where nothing needs escaping"
		}
		return "a setting of this PostgreSQL URL is not valid: look at host, port and the parameters after ?, and percent-encode % # / ? and @ in user name and password"
	}
	return "not a PostgreSQL connection text: write postgres://user@host:5432/database, or keywords such as host=… user=… dbname=…"
}

// withPassword adds a password to a valid DSN.
func withPassword(dsn, password string) string {
	if isURL(dsn) {
		if u, err := url.Parse(dsn); err == nil {
			u.User = url.UserPassword(u.User.Username(), password)
			return u.String()
		}
	}
	escaped := strings.NewReplacer(`\`, `\\`, `'`, `\'`).Replace(password)
	return dsn + " password='" + escaped + "'"
}
