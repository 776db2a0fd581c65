package connection

import (
	"encoding/base64"
	"net/http"
	"net/url"
	"regexp"
	"slices"
	"strings"

	"go.yaml.in/yaml/v3"
	"golang.org/x/net/http/httpguts"

	"github.com/trancheflow/tranche/pipeline"
)

// sensitiveHeaders are those headers, and query parameters, whose value is a credential, by name or by a part of it.
var sensitiveHeaders = regexp.MustCompile(`(?i)^(authorization|proxy-authorization|cookie)$|token|secret|password|credential|api[-_]?key|auth[-_]?key|access[-_]?key|subscription[-_]key`)

func (d *decoder) headers(node *yaml.Node, path string, into http.Header) {
	d.entries(node, path, func(key, value *yaml.Node, at string) {
		if !httpguts.ValidHeaderFieldName(key.Value) {
			d.problem(key, at, CodeBadValue, "this is no name of an HTTP header")
			return
		}
		if why := pipeline.ReservedHeader(key.Value); why != "" {
			d.problem(key, at, CodeConflict, "the header "+key.Value+" "+why+": take it out")
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
	case seen["header"] && (!httpguts.ValidHeaderFieldName(header) || pipeline.ReservedHeader(header) != ""):
		d.problem(headerNode, join(path, "header"), CodeBadValue, "this is no name of an HTTP header that can carry a key")
	case seen["header"]:
		s.header.Set(header, value)
	default:
		s.apiKeyQuery, s.apiKey = query, value
	}
}

// oauth2 reads the settings of the client credentials grant; nil after a problem.
func (d *decoder) oauth2(node *yaml.Node, path string) *oauth2Settings {
	before := len(d.problems)
	s := &oauth2Settings{parameters: url.Values{}}
	style := "header"
	seen := d.mapping(node, path, fields{
		"token_url":     func(n *yaml.Node, p string) { s.tokenURL = d.baseURL(n, p) },
		"client_id":     func(n *yaml.Node, p string) { s.clientID, _ = d.text(n, p) },
		"client_secret": func(n *yaml.Node, p string) { s.clientSecret = d.secret(n, p) },
		"scopes": d.list(func(n *yaml.Node, p string) {
			scope, _ := d.text(n, p)
			s.scopes = append(s.scopes, scope)
		}),
		"parameters":  func(n *yaml.Node, p string) { d.tokenParameters(n, p, s.parameters) },
		"send_secret": func(n *yaml.Node, p string) { style, _ = d.text(n, p) },
	})
	d.required(seen, node, path, "token_url", "https://auth.example.com/oauth/token")
	d.required(seen, node, path, "client_id", "client_id: tranche")
	d.required(seen, node, path, "client_secret", `client_secret: "${API_CLIENT_SECRET}"`)
	if style != "header" && style != "body" {
		d.problem(node, join(path, "send_secret"), CodeBadValue, "write header (the default) or body")
	}
	if len(d.problems) > before || seen == nil {
		return nil
	}
	s.inBody = style == "body"
	if len(s.clientSecret) >= minimumMasked { // as basic authentication sends them (RFC 6749, 2.3.1)
		d.secrets = append(d.secrets, url.QueryEscape(s.clientID)+":"+url.QueryEscape(s.clientSecret))
	}
	return s
}

// tokenParameters are sent to the token endpoint beside those of the grant itself.
func (d *decoder) tokenParameters(node *yaml.Node, path string, into url.Values) {
	d.entries(node, path, func(key, value *yaml.Node, at string) {
		raw, ok := d.scalar(value, at)
		switch {
		case !ok:
			return
		case slices.Contains([]string{"grant_type", "scope", "client_id", "client_secret"}, key.Value):
			d.problem(key, at, CodeConflict, "this parameter is set already: by the grant, scopes, client_id and client_secret")
			return
		case sensitiveHeaders.MatchString(key.Value) && !reference.MatchString(raw):
			d.problem(value, at, CodeSecretInFile, "the value of this parameter looks like a credential: name a variable of the worker's environment, such as ${API_TOKEN}")
			return
		}
		text, values, _ := d.expand(value, at, raw)
		d.secrets = append(d.secrets, values...)
		into.Set(key.Value, text)
	})
}
