package extract

import (
	"strings"
)

// nextLink finds the target of the link with the relation next in Link headers (RFC 8288). It returns ""
// when there is none. Links of another context (anchor) do not count, and neither does what cannot be read.
func nextLink(headers []string) string {
	for _, header := range headers {
		for rest := header; rest != ""; {
			target, parameters, after, ok := cutLink(rest)
			if !ok {
				break
			}
			if relatesToNext(parameters) {
				return target
			}
			rest = after
		}
	}
	return ""
}

// cutLink reads one link-value: <target> *( ";" name [ "=" value ] ) and the comma after it.
func cutLink(text string) (target, parameters, rest string, ok bool) {
	text = strings.TrimLeft(text, " \t,")
	if !strings.HasPrefix(text, "<") {
		return "", "", "", false
	}
	target, text, ok = strings.Cut(text[1:], ">")
	if !ok {
		return "", "", "", false
	}
	end := indexOutsideQuotes(text, ',')
	return strings.TrimSpace(target), text[:end], text[end:], true
}

// relatesToNext looks for next among the relations. Only the first rel counts (RFC 8288, 3.3).
func relatesToNext(parameters string) bool {
	relation, seen := "", false
	for parameters != "" {
		end := indexOutsideQuotes(parameters, ';')
		name, value, _ := strings.Cut(parameters[:end], "=")
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "anchor":
			return false
		case "rel":
			if !seen {
				relation, seen = unquoteParameter(strings.TrimSpace(value)), true
			}
		}
		parameters = strings.TrimPrefix(parameters[end:], ";")
	}
	for _, one := range strings.Fields(relation) {
		if strings.EqualFold(one, "next") {
			return true
		}
	}
	return false
}

// indexOutsideQuotes finds a separator that is not inside a quoted string; the length when there is none.
func indexOutsideQuotes(text string, separator byte) int {
	quoted := false
	for i := 0; i < len(text); i++ {
		switch {
		case quoted && text[i] == '\\':
			i++
		case text[i] == '"':
			quoted = !quoted
		case !quoted && text[i] == separator:
			return i
		}
	}
	return len(text)
}

func unquoteParameter(value string) string {
	if len(value) < 2 || value[0] != '"' || value[len(value)-1] != '"' {
		return value
	}
	var out strings.Builder
	for i := 1; i < len(value)-1; i++ {
		if value[i] == '\\' && i+1 < len(value)-1 {
			i++
		}
		out.WriteByte(value[i])
	}
	return out.String()
}
