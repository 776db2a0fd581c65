package connection

import (
	"fmt"
	"net"
	"net/url"
	"strings"
)

// origins says where requests may go, and where credentials may.
type origins struct {
	scheme  string // of the base URL
	own     string // host:port of the base URL
	allowed map[string]bool
}

// newOrigins takes entries "host" (its default port) and "host:port".
func newOrigins(base *url.URL, allowed []string) origins {
	o := origins{scheme: base.Scheme, own: hostPort(base), allowed: map[string]bool{}}
	for _, entry := range allowed {
		entry = strings.ToLower(entry)
		if host, port, err := net.SplitHostPort(entry); err == nil {
			o.allowed[net.JoinHostPort(host, port)] = true
			continue
		}
		host := strings.Trim(entry, "[]")
		o.allowed[net.JoinHostPort(host, "443")] = true
		o.allowed[net.JoinHostPort(host, "80")] = true
	}
	return o
}

// isOwn says whether credentials may go to u. The way from http to https of one host is the only
// change of scheme and port that keeps them.
func (o origins) isOwn(u *url.URL) bool {
	if hostPort(u) == o.own && u.Scheme == o.scheme {
		return true
	}
	upgraded := o.scheme == "http" && u.Scheme == "https"
	return upgraded && strings.HasSuffix(o.own, ":80") && hostPort(u) == strings.TrimSuffix(o.own, ":80")+":443"
}

// check says why no request may go to u, or nil.
func (o origins) check(u *url.URL) error {
	switch {
	case u.Scheme != "http" && u.Scheme != "https":
		return fmt.Errorf("it leads to a %s: URL, and only http and https are followed", schemeName(u))
	case u.User != nil:
		return fmt.Errorf("it leads to %s with a user name or password in the URL, which is not followed", u.Host)
	case o.scheme == "https" && u.Scheme == "http":
		return fmt.Errorf("it leads from https to http://%s, where everybody could read along", u.Host)
	case o.isOwn(u) || o.allowed[hostPort(u)]:
		return nil
	default:
		return fmt.Errorf("it leads to the host %s, which is not the connection's: list it under allowed_hosts if it is meant to be asked", u.Host)
	}
}

func schemeName(u *url.URL) string {
	if len(u.Scheme) > 20 {
		return u.Scheme[:20] + "…"
	}
	return u.Scheme
}

func hostPort(u *url.URL) string {
	port := u.Port()
	if port == "" {
		port = "80"
		if u.Scheme == "https" {
			port = "443"
		}
	}
	return net.JoinHostPort(strings.ToLower(strings.TrimSuffix(u.Hostname(), ".")), port)
}
