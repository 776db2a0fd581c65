package connection

import (
	"strings"
	"testing"
)

// An API that repeats the credentials it was sent may escape them: no escape shows them.
func TestMaskSeesThroughEscapes(t *testing.T) {
	t.Parallel()
	m := newMasker([]string{"AbC/dEf+gHi&jKl==", `q"uo<te`, "pâss word"})
	for _, text := range []string{
		`AbC/dEf+gHi&jKl==`, `AbC\/dEf+gHi&jKl==`, `AbC/dEf\u002bgHi\u0026jKl==`, `AbC/dEf\u002BgHi&jKl\u003D=`, `AbC/dEf+gHi&amp;jKl==`,
		`abc/def+ghi&jkl==`, `AbC%2FdEf%2bgHi%26jKl%3D%3D`, `AbC&#47;dEf&#x2B;gHi&#38;jKl==`,
		`q"uo<te`, `q\"uo<te`, `q&quot;uo&lt;te`, `q&#34;uo\u003cte`, `q%22uo%3Cte`,
		`pâss word`, `p\u00e2ss word`, `p%C3%A2ss+word`, `p%c3%a2ss%20word`,
	} {
		if got := m.mask("before " + text + " after"); got != "before *** after" {
			t.Errorf("%s is shown as %s", text, got)
		}
	}
	if text := "AbC is no secret, nor is a quote"; m.mask(text) != text {
		t.Errorf("%s became %s", text, m.mask(text))
	}
}

// What a variable puts behind the host of an address is masked; the address itself is not, so that errors
// still say where they happened.
func TestSecretsInAddresses(t *testing.T) {
	t.Parallel()
	environment := func(name string) (string, bool) {
		return map[string]string{"HOOK": "tok%2Fsec%7Eret", "SHOP": "http://127.0.0.1:8089/v1"}[name], true
	}
	set, err := Parse("connections.yaml", []byte(`connections:
  hook: { http: { base_url: "http://127.0.0.1:1/${HOOK}" } }
  shop: { http: { base_url: "${SHOP}" } }
`), environment)
	if err != nil {
		t.Fatal(err)
	}
	if got := set.Mask("GET http://127.0.0.1:1/tok%2Fsec%7Eret/x and http://127.0.0.1:8089/v1/orders"); got != "GET http://127.0.0.1:1/***/x and http://127.0.0.1:8089/v1/orders" {
		t.Errorf("masked to %s", got)
	}
	_, err = Parse("connections.yaml", []byte("connections:\n  a: { http: { base_url: \"http://x.example.com?api_key=plainpw99\" } }\n"), environment)
	if err == nil || !strings.Contains(err.Error(), CodeSecretInFile) || strings.Contains(err.Error(), "plainpw99") {
		t.Errorf("a credential in the query: %v", err)
	}
}
