package connection

import (
	"strings"
	"testing"

	"github.com/trancheflow/tranche/retry"
)

// TestOnTaskQueue: a queue's rate is its connections' alone, and they take steps from nowhere else.
func TestOnTaskQueue(t *testing.T) {
	t.Parallel()
	set := mustParse(t, `connections:
  shop: { http: { base_url: "https://shop.example", task_queue: { name: shop-api, steps_per_second: 2 } } }
  twin: { http: { base_url: "https://shop.example", task_queue: { name: shop-api, steps_per_second: 2 } } }
  crm: { http: { base_url: "https://crm.example" } }
`, nil)
	for _, test := range []struct{ connection, queue, want string }{
		{"shop", "shop-api", ""},
		{"twin", "shop-api", ""},
		{"crm", "tranche", ""},
		{"shop", "tranche", "write task_queue: shop-api in the http step"},
		{"crm", "shop-api", "take it out of the http step"},
	} {
		api, err := set.HTTP(test.connection)
		if err != nil {
			t.Fatal(err)
		}
		switch err := set.OnTaskQueue(api, test.queue); {
		case test.want == "" && err != nil:
			t.Errorf("%s on %s: %v", test.connection, test.queue, err)
		case test.want != "":
			if v := retry.Classify(err); err == nil || !strings.Contains(err.Error(), test.want) || v.Class != retry.Permanent || v.Type != TypeWrongTaskQueue {
				t.Errorf("%s on %s: %v", test.connection, test.queue, err)
			}
		}
	}
}
