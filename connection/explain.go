package connection

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"time"
	"unicode"
	"unicode/utf8"

	"github.com/trancheflow/tranche/retry"
)

const (
	// snippetSource is how much of a body is looked at for a snippet, in bytes.
	snippetSource = 4096
	// snippetLength is how much of it may stand in an error, in bytes.
	snippetLength = 200
)

// brokenConnections are texts of errors that net/http does not export, as of Go 1.26. All of them mean
// that the connection broke, not that the request was wrong.
var brokenConnections = []string{
	"server closed idle connection", // net/http: http: server closed idle connection
	"transport connection broken",   // net/http: net/http: HTTP/1.x transport connection broken: ...
	"connection lost",               // net/http: http2: client connection lost
	"stream error: stream ID",       // net/http: stream error: stream ID 1; INTERNAL_ERROR
	"server sent GOAWAY",            // net/http: http2: server sent GOAWAY and closed the connection
}

// explain gives an error of the transport its class. The text is masked and cut off from its causes,
// which may repeat URLs and headers.
func (c *HTTP) explain(err error) error {
	var known *retry.Error
	if errors.As(err, &known) {
		return known
	}
	return explain(err, c.masker)
}

// noAnswerWithin names the setting that a request was ended by; net/http does not.
func noAnswerWithin(timeout time.Duration, err error) error {
	var known *retry.Error
	if errors.As(err, &known) || retry.Classify(err).Type != retry.TypeTimeout {
		return err
	}
	return fmt.Errorf("no answer came within the connection's timeout of %s: %w", timeout, err)
}

func explain(err error, m *masker) error {
	verdict := retry.Classify(err)
	text := errors.New(m.mask(err.Error()))
	switch {
	case verdict.Class == retry.Transient:
		return retry.TransientError(verdict.Type, text)
	case isTLS(err):
		return retry.PermanentError(TypeTLS, text)
	case errors.Is(err, io.EOF):
		return retry.TransientError(retry.TypeNetwork, errors.New("the connection was closed before an answer came"))
	case verdict.Type == retry.TypeNetwork:
		return retry.PermanentError(retry.TypeNetwork, text)
	}
	if strings.Contains(err.Error(), "malformed HTTP") { // net/http: malformed HTTP response "SSH-2.0-…"
		return retry.PermanentError(TypeBadAnswer, text)
	}
	for _, broken := range brokenConnections {
		if strings.Contains(err.Error(), broken) {
			return retry.TransientError(retry.TypeNetwork, text)
		}
	}
	return retry.PermanentError(TypeBadAnswer, text)
}

func isTLS(err error) bool {
	var (
		certificate *tls.CertificateVerificationError
		record      tls.RecordHeaderError
		alert       tls.AlertError
		authority   x509.UnknownAuthorityError
		host        x509.HostnameError
		operation   *net.OpError
	)
	switch {
	case errors.As(err, &certificate), errors.As(err, &record), errors.As(err, &authority), errors.As(err, &host):
		return true
	case errors.As(err, &alert):
		return true
	default:
		return errors.As(err, &operation) && operation.Op == "remote error"
	}
}

// snippet makes the beginning of what somebody else wrote fit to stand in an error.
func (c *HTTP) snippet(text []byte) string { return Snippet(c.Mask(string(text))) }

// Snippet makes a text of somebody else fit to stand in an error: at most 200 bytes on one line,
// printable characters only. It masks nothing.
func Snippet(text string) string { return Line(text, snippetLength) }

func isPrintable(r rune) bool { return r != utf8.RuneError && unicode.IsPrint(r) }
