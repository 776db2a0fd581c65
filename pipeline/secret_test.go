package pipeline

import (
	"strings"
	"testing"
)

// secretCase is a line with a credential. The credentials are put together here, so that no scanner
// takes this file for a leak; none of them opens anything.
type secretCase struct {
	name, secret string
	// where the line goes: "header", "query", "top", "sql", "body", "comment", "input"
	where, line string
	place       string // "line:column" that is expected
}

func (c secretCase) file(ok string) string {
	line := strings.ReplaceAll(c.line, "SECRET", c.secret)
	switch c.where {
	case "comment":
		return "# " + line + "\n" + ok
	case "top":
		return line + "\n" + ok
	case "body":
		return strings.Replace(ok, "      path: /orders\n", "      path: /orders\n      method: POST\n      body: |\n        {\n          "+line+"\n        }\n", 1)
	case "input":
		return ok + "  - name: call\n    activity: { type: Call, input: { " + line + " } }\n"
	case "sql":
		return ok + "  - name: after\n    sql: { statement: \"" + line + "\" }\n"
	}
	return strings.Replace(ok, "      path: /orders\n", "      path: /orders\n      "+c.where+": { "+line+" }\n", 1)
}

func secretCases() []secretCase {
	token := "q8Zt" + strings.Repeat("Ab3", 6)
	return []secretCase{
		{"authorization", "Bearer " + token, "headers", `Authorization: "SECRET"`, "11:33"},
		{"authorization from the environment", "${TOKEN}", "headers", `authorization: "Bearer SECRET"`, "11:33"},
		{"cookie", "session=" + token, "headers", `Cookie: SECRET`, "11:26"},
		{"api key header", token, "headers", `X-Api-Key: SECRET`, "11:29"},
		{"subscription key header", token, "headers", `Ocp-Apim-Subscription-Key: SECRET`, "11:45"},
		{"token header", token, "headers", `X-Auth-Token: SECRET`, "11:32"},
		{"unknown header with a bearer token", token, "headers", `X-Upstream: Bearer SECRET`, "11:30"},
		{"query token", token, "query", `token: SECRET`, "11:23"},
		{"query api_key", token, "query", `api_key: SECRET`, "11:25"},
		{"query number", "12345678", "query", `password: SECRET`, "11:26"},
		{"field that is not known", token, "top", `password: SECRET`, "1:11"},
		{"URL", "hunter2pw", "top", `description: postgres://loader:SECRET@db/analytics`, "1:14"},
		{"connection string", "hunter2pw", "top", `description: host=db user=loader password=SECRET`, "1:14"},
		{"connection string backwards", "hunter2pw", "top", `description: password=SECRET host=db`, "1:14"},
		{"query string", token, "top", `description: https://api.example/x?a=1&access_token=SECRET`, "1:14"},
		{"AWS key", "AKIA" + "IOSFODNN7EXAMPLE", "top", `description: SECRET`, "1:14"},
		{"AWS secret key", strings.Repeat("wJalr/XU+t", 4), "top", `description: aws_secret_access_key=SECRET`, "1:14"},
		{"private key", "-----BEGIN " + "RSA PRIVATE KEY-----", "top", `description: SECRET`, "1:14"},
		{"GitHub", "ghp_" + strings.Repeat("a1B2", 9), "top", `description: SECRET`, "1:14"},
		{"GitLab", "glpat-" + strings.Repeat("a1B2", 5), "top", `description: SECRET`, "1:14"},
		{"Slack", "xoxb-" + "123456789012-abcdef", "top", `description: SECRET`, "1:14"},
		{"Stripe", "sk_live_" + strings.Repeat("a1B2", 5), "top", `description: SECRET`, "1:14"},
		{"Google", "AIza" + strings.Repeat("a1B2c", 7), "top", `description: SECRET`, "1:14"},
		{"JSON web token", "eyJhbGciOiJI." + "eyJzdWIiOiIx.c2ln", "top", `description: SECRET`, "1:14"},
		{"Basic", "dXNlcjpwYXNzd29yZA==", "comment", `Basic SECRET`, "1:3"},
		{"comment", "hunter2pw", "comment", `was mysql://root:SECRET@db`, "1:7"},
		{"body", token, "body", `"client_secret": "SECRET"`, "14:1"},
		{"input", token, "input", `api_key: SECRET`, "17:47"},
		{"SQL", "hunter2pw", "sql", `select * from dblink('host=db password=SECRET', 'select 1')`, "17:23"},
	}
}

// A credential is found wherever it stands, and no message repeats it.
func TestSecrets(t *testing.T) {
	t.Parallel()
	for _, c := range secretCases() {
		t.Run(c.name, func(t *testing.T) {
			t.Parallel()
			p, problems := parseText(c.file(minimal(t)))
			if p != nil {
				t.Fatal("the credential was not found")
			}
			found := 0
			for _, problem := range problems {
				if problem.Code == codeSecretInFile {
					found++
					if at := strings.SplitN(problem.Error(), ": ", 2)[0]; at != "p.yaml:"+c.place {
						t.Errorf("found at %s, want %s", at, c.place)
					}
				}
			}
			if found != 1 {
				t.Errorf("found %d times: %s", found, problems)
			}
			if strings.Contains(problems.Error(), c.secret) {
				t.Errorf("a message repeats the credential: %s", problems)
			}
		})
	}
}

// A credential stays out of the messages about other things, too.
func TestSecretsAreNotRepeated(t *testing.T) {
	t.Parallel()
	const secret = "73501942"
	text := strings.Replace(minimal(t), "orders\n", secret+"\n", 1) + "password: " + secret + "\n"
	_, problems := parseText(text)
	if len(problems) < 2 || strings.Contains(problems.Error(), secret) {
		t.Error(problems)
	}
}

// Words about credentials are none, nor is what a column, a parameter or a page is called.
func TestNoSecrets(t *testing.T) {
	t.Parallel()
	for _, line := range []string{
		"description: Needs basic authentication and a bearer certificate; see https://wiki.example/a?page=tokens",
		"description: \"select * from users where password = 'x'\"",
		"description: mailto:team@example.com and https://example.com:8080/a@b",
		"owner: token-team",
	} {
		if _, problems := parseText(line + "\n" + minimal(t)); problems != nil {
			t.Errorf("%s: %s", line, problems)
		}
	}
	text := strings.Replace(minimal(t), "      path: /orders\n", `      path: /orders
      query: { token: "{{ unix .Interval.Start }}", key: orders, sort: password }
      records: data
      pagination: { kind: cursor, parameter: page_token, next: next_token }
`, 1)
	text = strings.Replace(text, "      columns:\n", "      columns:\n        - { name: password, type: text, path: token }\n", 1)
	if _, problems := parseText(text); problems != nil {
		t.Error(problems)
	}
}

// A credential in an SQL file is reported with that file's name and place.
func TestSecretInSQLFile(t *testing.T) {
	t.Parallel()
	text := minimal(t) + "  - name: after\n    sql: { file: sql/after.sql }\n"
	_, problems := Parse(Source{File: "team/orders.yaml", Data: []byte(text), ReadFile: func(string) ([]byte, error) {
		return []byte("select 1;\n  -- postgres://me:" + "hunter2pw@db\n"), nil
	}})
	if got := problems.Error(); !strings.Contains(got, "team/sql/after.sql:2:6: steps[2].sql.file: secret-in-file: ") || strings.Contains(got, "hunter2pw") {
		t.Error(got)
	}
}
