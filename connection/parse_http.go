package connection

import (
	"net"
	"net/http"
	"net/url"
	"strconv"
	"strings"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/pipeline"
)

func (d *decoder) http(node *yaml.Node, path string) (httpSettings, bool) {
	before := len(d.problems)
	s := httpSettings{header: http.Header{}, failures: defaultFailures, coolDown: defaultCoolDown}
	timeout, idle := pipeline.Duration(defaultTimeout), pipeline.Duration(defaultIdleTimeout)
	longest := pipeline.Duration(defaultLongestWait)
	statuses, headers := map[int]string{}, http.Header{}
	seen := d.mapping(node, path, fields{
		"base_url":            func(n *yaml.Node, p string) { s.base = d.baseURL(n, p) },
		"headers":             func(n *yaml.Node, p string) { d.headers(n, p, headers) },
		"bearer":              func(n *yaml.Node, p string) { s.header.Set("Authorization", "Bearer "+d.token(n, p)) },
		"basic":               func(n *yaml.Node, p string) { d.basic(n, p, s.header) },
		"api_key":             func(n *yaml.Node, p string) { d.apiKey(n, p, &s) },
		"oauth2":              func(n *yaml.Node, p string) { s.oauth2 = d.oauth2(n, p) },
		"timeout":             d.duration(&timeout),
		"idle_timeout":        d.duration(&idle),
		"requests_per_second": d.number(&s.requestsPerSecond),
		"burst":               d.integer(&s.burst, 1, 1_000_000),
		"max_in_flight":       d.integer(&s.maxInFlight, 1, 1_000_000),
		"allowed_hosts":       d.list(func(n *yaml.Node, p string) { s.allowedHosts = append(s.allowedHosts, d.host(n, p)) }),
		"retry_on_status":     d.statuses(&s.answers.retryOn, "retry_on_status", statuses),
		"fail_on_status":      d.statuses(&s.answers.failOn, "fail_on_status", statuses),
		"throttle_on_status":  d.statuses(&s.answers.throttleOn, "throttle_on_status", statuses),
		"maximum_retry_after": func(n *yaml.Node, p string) { d.longestWait(n, p, &longest) },
		"circuit_breaker":     func(n *yaml.Node, p string) { d.circuitBreaker(n, p, &s) },
		"task_queue":          func(n *yaml.Node, p string) { s.taskQueue = d.taskQueue(n, p) },
	})
	s.timeout, s.idleTimeout, s.answers.longest = timeout.Std(), idle.Std(), longest.Std()
	d.required(seen, node, path, "base_url", "https://api.example.com/v1")
	d.oneAuthorization(node, path, seen, headers)
	for name, values := range headers {
		s.header[name] = values
	}
	if seen["burst"] && !seen["requests_per_second"] {
		d.problem(node, path, CodeConflict, "burst means something only with requests_per_second")
	}
	if s.oauth2 != nil && s.base != nil && s.base.Scheme == "https" && s.oauth2.tokenURL.Scheme == "http" {
		d.problem(node, join(path, "oauth2.token_url"), CodeBadURL, "the client's secret would go over http, where everybody could read along: write an https URL")
	}
	return s, len(d.problems) == before
}

func (d *decoder) longestWait(node *yaml.Node, path string, into *pipeline.Duration) {
	if d.duration(into)(node, path); into.Std() > mostAsked {
		d.problem(node, path, CodeBadValue, "at most 168h is possible: what an API asks for beyond that counts as a mistake of its own, and is not heeded")
	}
}

// oneAuthorization refuses two credentials of which the last one read would win.
func (d *decoder) oneAuthorization(node *yaml.Node, path string, seen map[string]bool, headers http.Header) {
	var set []string
	if headers.Get("Authorization") != "" {
		set = append(set, "headers")
	}
	for _, key := range []string{"bearer", "basic", "oauth2"} {
		if seen[key] {
			set = append(set, key)
		}
	}
	if len(set) > 1 {
		d.problem(node, path, CodeConflict, strings.Join(set, " and ")+" set the Authorization header: keep one")
	}
}

// statuses reads a list of HTTP statuses, each of which may stand in one list only.
func (d *decoder) statuses(into *[]int, list string, taken map[int]string) func(*yaml.Node, string) {
	return d.list(func(node *yaml.Node, path string) {
		var status int
		d.integer(&status, 400, 599)(node, path)
		if other := taken[status]; other != "" {
			d.problem(node, path, CodeConflict, "the status "+strconv.Itoa(status)+" stands in "+other+", too: keep it in one list")
		}
		if status != 0 {
			taken[status] = list
		}
		*into = append(*into, status)
	})
}

// circuitBreaker reads off, or the settings.
func (d *decoder) circuitBreaker(node *yaml.Node, path string, s *httpSettings) {
	if scalar := resolve(node); scalar.Kind == yaml.ScalarNode {
		if s.failures = 0; scalar.Value != "off" {
			d.problem(node, path, CodeWrongType, "write off, or a mapping such as { consecutive_failures: 5, cool_down: 60s }")
		}
		return
	}
	coolDown := pipeline.Duration(s.coolDown)
	d.mapping(node, path, fields{
		"consecutive_failures": d.integer(&s.failures, 1, 1_000_000),
		"cool_down":            d.duration(&coolDown),
	})
	s.coolDown = coolDown.Std()
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
