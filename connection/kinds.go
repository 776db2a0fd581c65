package connection

import (
	"net/url"
	"regexp"
	"strings"

	"github.com/jackc/pgx/v5/pgconn"
	"go.yaml.in/yaml/v3"
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
				set.http[name] = newHTTP(name, settings, set.masker, set.log)
			}
		},
		"files": func(node *yaml.Node, path string) {
			if files, ok := d.files(node, path); ok {
				files.name = name
				set.files[name] = files
			}
		},
		"webhook": func(node *yaml.Node, path string) {
			if settings, ok := d.webhook(node, path); ok {
				set.webhooks[name] = newWebhook(name, settings, set.masker)
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
		d.problem(node, path, CodeConflict, "a connection has exactly one of http, files, postgres, sqlite and webhook")
	}
}

func (d *decoder) required(seen map[string]bool, node *yaml.Node, path, key, example string) {
	if seen != nil && !seen[key] {
		d.problem(node, path, CodeMissingField, "the key "+key+" is missing, such as "+example)
	}
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
