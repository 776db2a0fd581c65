package pipeline

import (
	"regexp"
	"strings"
	"unicode"
	"unicode/utf8"

	"go.yaml.in/yaml/v3"
)

// A pipeline file is read by many, kept in version control, and travels with every run. The worker
// has its credentials from the environment, through connections. So a credential in a file is always
// a mistake, also in a comment. The patterns prefer to miss an unusual one to refusing what is none.

// secretAdvice ends every message about a credential.
const secretAdvice = "credentials belong in the worker's connections, as ${NAME} of its environment; change this one, because whoever has read the file knows it"

// secretPattern finds a credential by its form. The first group is what must not be repeated.
type secretPattern struct {
	what    string
	pattern *regexp.Regexp
	// random says that only a value that no word could be is meant.
	random bool
}

const secretWords = `(?:access_?token|auth_?token|refresh_?token|token|api_?key|app_?key|apikey|client_?secret|secret|password|passwd|pwd|signature|sig)`

var secretPatterns = []secretPattern{
	{what: "a user name and password in a URL", pattern: regexp.MustCompile(`(?i)\b[a-z][a-z0-9+.-]*://[^\s/:@"'{}]*:([^\s/@"'{}]+)@`)},
	{what: "a credential in a query string", pattern: regexp.MustCompile(`(?i)(?:[?&]|^)` + secretWords + `=([^&\s"'{}$]+)`)},
	{what: "a credential in an argument", pattern: regexp.MustCompile(`(?i)^--?(?:[a-z0-9]+[_-])*` + strings.ReplaceAll(secretWords, "_?", "[_-]?") + `=([^\s"'{}$]+)$`)},
	{what: "a credential in a JSON text", pattern: regexp.MustCompile(`(?i)"` + secretWords + `"\s*:\s*"([^"{}$]+)"`)},
	{what: "a password in a connection string", pattern: regexp.MustCompile(`(?i)\b(?:host|user|user id|uid|dbname|database|server|data source)\s*=[^\n]*?\b(?:password|pwd)\s*=\s*([^\s;'"]+)`)},
	{what: "a password in a connection string", pattern: regexp.MustCompile(`(?i)\b(?:password|pwd)\s*=\s*([^\s;'"]+)[\s;][^\n]*?\b(?:host|user|user id|uid|dbname|database|server|data source)\s*=`)},
	{what: "an access key of AWS", pattern: regexp.MustCompile(`\b((?:AKIA|ASIA)[0-9A-Z]{16})\b`)},
	{what: "a secret key of AWS", pattern: regexp.MustCompile(`(?i)\b(?:aws_)?secret_access_key\s*[=:]\s*["']?([A-Za-z0-9/+]{40})\b`)},
	{what: "a private key", pattern: regexp.MustCompile(`(-----BEGIN [A-Z ]*PRIVATE KEY-----)`)},
	{what: "a bearer token", pattern: regexp.MustCompile(`(?i)\bBearer\s+([A-Za-z0-9._~+/-]{16,}=*)`), random: true},
	{what: "a user name and password for Basic authentication", pattern: regexp.MustCompile(`(?i)\bBasic\s+([A-Za-z0-9+/]{12,}=*)`), random: true},
	{what: "a token of GitHub", pattern: regexp.MustCompile(`\b(gh[pousr]_[A-Za-z0-9]{30,}|github_pat_[A-Za-z0-9_]{22,})`)},
	{what: "a token of GitLab", pattern: regexp.MustCompile(`\b(glpat-[A-Za-z0-9_-]{20,})`)},
	{what: "a token of Slack", pattern: regexp.MustCompile(`\b(xox[abeprs]-[A-Za-z0-9-]{10,})`)},
	{what: "a key of Stripe", pattern: regexp.MustCompile(`\b([rs]k_(?:live|test)_[A-Za-z0-9]{16,})`)},
	{what: "a key of Google", pattern: regexp.MustCompile(`\b(AIza[A-Za-z0-9_-]{35})`)},
	{what: "a JSON web token", pattern: regexp.MustCompile(`\b(eyJ[A-Za-z0-9_-]{8,}\.eyJ[A-Za-z0-9_-]{8,}\.[A-Za-z0-9_-]*)`)},
}

var (
	// secretHeaders carry credentials whatever their value is.
	secretHeaders = regexp.MustCompile(`(?i)^(?:(?:proxy-)?authorization|cookie|.*(?:api|auth|access|subscription)-?key|.*(?:auth|access|security|private|session|csrf)-?token|token|.*-secret|.*password)$`)
	// secretParameters are keys under query, and anywhere that free text stands, with a value.
	secretParameters = regexp.MustCompile(`(?i)^(?:` + secretWords + `|access_?key|secret_access_key|private_?key|credentials?|bearer|auth)$`)
	// onlyTemplate is a value that comes from the interval alone.
	onlyTemplate = regexp.MustCompile(`^\s*\{\{[^}]*\}\}\s*$`)
)

// findSecrets looks at every key and value of the document, known or not, and then at the comments.
func (r *report) findSecrets(root *yaml.Node, text string) {
	lines := map[int]bool{}
	r.secretsBelow(root, "", "", lines)
	for _, found := range findSecretPatterns(text) {
		at := positionAt(text, found.offset)
		if !lines[at.line] {
			r.secret("", at, found.what, found.value)
		}
	}
}

// secretsBelow walks the tree; under is the key that holds the mapping.
func (r *report) secretsBelow(node *yaml.Node, path, under string, lines map[int]bool) {
	switch node.Kind {
	case yaml.MappingNode:
		for i := 0; i+1 < len(node.Content); i += 2 {
			key, value := node.Content[i], node.Content[i+1]
			inner := join(path, key.Value)
			if value.Kind == yaml.ScalarNode && isSecretKey(under, key.Value, value) {
				r.secret(inner, positionOfNode(value), "a credential under "+clip(key.Value), value.Value)
				lines[value.Line] = true
				continue
			}
			r.secretsBelow(value, inner, key.Value, lines)
		}
	case yaml.SequenceNode:
		for i, item := range node.Content {
			r.secretsBelow(item, index(path, i), under, lines)
		}
	case yaml.ScalarNode:
		r.secretsInScalar(node, path, lines)
	}
}

func isSecretKey(under, key string, value *yaml.Node) bool {
	if under == "headers" && secretHeaders.MatchString(key) {
		return true
	}
	if under == "environment" && secretVariable.MatchString(key) && isLiteral(value.Value) {
		return true
	}
	isText := value.Tag == "!!str" || value.Tag == "!!int"
	return isText && value.Value != "" && !onlyTemplate.MatchString(value.Value) && secretParameters.MatchString(key)
}

func (r *report) secretsInScalar(node *yaml.Node, path string, lines map[int]bool) {
	for _, found := range findSecretPatterns(node.Value) {
		at := positionOfNode(node)
		if node.Style&(yaml.LiteralStyle|yaml.FoldedStyle) != 0 {
			at.line += 1 + strings.Count(node.Value[:found.offset], "\n")
			at.column = 1
		}
		r.secret(path, at, found.what, found.value)
		lines[at.line] = true
	}
}

func (r *report) secretsInSQL(path, file, text string) {
	for _, found := range findSecretPatterns(text) {
		r.secret(path, positionAt(text, found.offset), found.what, found.value)
		r.problems[len(r.problems)-1].File = file
	}
}

func (r *report) secret(path string, at position, what, value string) {
	const shortest = 4 // to blank out less would make messages unreadable and hide nothing
	if len(value) >= shortest {
		r.secrets = append(r.secrets, value)
	}
	r.add(path, at, codeSecretInFile, what+": "+secretAdvice)
}

type foundSecret struct {
	what, value string
	offset      int
}

func findSecretPatterns(text string) []foundSecret {
	var found []foundSecret
	seen := map[int]bool{} // by where the credential begins: two patterns may know it
	for _, p := range secretPatterns {
		for _, match := range p.pattern.FindAllStringSubmatchIndex(text, -1) {
			value := text[match[2]:match[3]]
			if !seen[match[2]] && (!p.random || looksRandom(value)) {
				seen[match[2]] = true
				found = append(found, foundSecret{p.what, value, match[0]})
			}
		}
	}
	return found
}

// looksRandom tells a token from a word such as "authentication".
func looksRandom(text string) bool {
	hasDigit := strings.ContainsFunc(text, unicode.IsDigit)
	hasUpper := strings.ContainsFunc(text[min(1, len(text)):], unicode.IsUpper)
	hasLower := strings.ContainsFunc(text, unicode.IsLower)
	return hasDigit && (hasUpper || hasLower) || hasUpper && hasLower || utf8.RuneCountInString(text) >= 32
}
