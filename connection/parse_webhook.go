package connection

import (
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"time"

	"go.yaml.in/yaml/v3"

	"github.com/trancheflow/tranche/pipeline"
)

// Bounds of a webhook connection.
const (
	defaultWebhookTimeout = 10 * time.Second
	// maximumWebhookTimeout leaves time to report an attempt before it counts as lost.
	maximumWebhookTimeout = 30 * time.Second
)

// capabilityHosts are those of services whose webhook URLs let everybody post who knows them.
var capabilityHosts = regexp.MustCompile(`(?i)^hooks\.slack(-gov)?\.com$|\.webhook\.office\.com$|^(\w+\.)?discord(app)?\.com$`)

// leastPart is the least length, in bytes, of a part of a webhook's URL that is masked by itself: a shorter one is a
// word such as "hooks" or "services".
const leastPart = 16

func (d *decoder) webhook(node *yaml.Node, path string) (webhookSettings, bool) {
	before := len(d.problems)
	s := webhookSettings{header: http.Header{}, shape: ShapeJSON}
	timeout, headers := pipeline.Duration(defaultWebhookTimeout), http.Header{}
	seen := d.mapping(node, path, fields{
		"url":     func(n *yaml.Node, p string) { s.url = d.webhookURL(n, p) },
		"shape":   func(n *yaml.Node, p string) { d.shape(n, p, &s.shape) },
		"headers": func(n *yaml.Node, p string) { d.webhookHeaders(n, p, headers) },
		"bearer":  func(n *yaml.Node, p string) { s.header.Set("Authorization", "Bearer "+d.token(n, p)) },
		"basic":   func(n *yaml.Node, p string) { d.basic(n, p, s.header) },
		"timeout": func(n *yaml.Node, p string) {
			if d.duration(&timeout)(n, p); timeout.Std() > maximumWebhookTimeout {
				d.problem(n, p, CodeBadValue, "at most "+pipeline.Duration(maximumWebhookTimeout).String()+" are possible here: a message that does not arrive is tried again")
			}
		},
		"ui_url": func(n *yaml.Node, p string) {
			if s.ui = d.baseURL(n, p); s.ui != nil && s.ui.RawQuery != "" {
				d.problem(n, p, CodeBadURL, "a URL without a query is wanted here: links to runs are made by appending their path")
			}
		},
	})
	s.timeout = timeout.Std()
	d.required(seen, node, path, "url", `"${OPS_WEBHOOK}"`)
	d.oneAuthorization(node, path, seen, headers)
	for name, values := range headers {
		s.header[name] = values
	}
	return s, len(d.problems) == before
}

func (d *decoder) shape(node *yaml.Node, path string, into *string) {
	if text, ok := d.text(node, path); ok && text != ShapeJSON && text != ShapeSlack {
		d.problem(node, path, CodeBadValue, "write "+ShapeJSON+" (the default) or "+ShapeSlack)
	} else if ok {
		*into = text
	}
}

func (d *decoder) webhookHeaders(node *yaml.Node, path string, into http.Header) {
	d.headers(node, path, into)
	for _, name := range []string{headerContentType, headerMessageID} {
		if into.Get(name) != "" {
			d.problem(node, path, CodeConflict, "the header "+name+" is set for each message")
		}
	}
}

// webhookURL reads a URL that may be a secret itself: whoever knows it can post.
func (d *decoder) webhookURL(node *yaml.Node, path string) *url.URL {
	u := d.baseURL(node, path)
	if u == nil {
		return nil
	}
	if raw, _ := d.scalar(node, path); !reference.MatchString(raw) {
		if capabilityHosts.MatchString(u.Hostname()) {
			d.problem(node, path, CodeSecretInFile, "whoever knows this URL can post to it: name a variable of the worker's environment, such as ${OPS_WEBHOOK}")
		}
		return u
	}
	d.secrets = append(d.secrets, u.String())
	parts := append(strings.Split(u.EscapedPath(), "/"), u.EscapedPath(), u.RequestURI())
	for name, values := range u.Query() {
		for _, value := range values {
			if parts = append(parts, value); sensitiveHeaders.MatchString(name) {
				d.secrets = append(d.secrets, value)
			}
		}
	}
	for _, part := range parts {
		if decoded, err := url.PathUnescape(part); err == nil && len(part) >= leastPart {
			d.secrets = append(d.secrets, decoded) // masked in each form in which it may be escaped
		}
	}
	return u
}
