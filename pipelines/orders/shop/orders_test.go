package main

import (
	"encoding/json"
	"fmt"
	"os"
	"regexp"
	"strings"
	"testing"
	"time"
)

func jakarta(t *testing.T, text string) time.Time {
	t.Helper()
	date, err := time.ParseInLocation(time.DateOnly, text, shopZone)
	if err != nil {
		t.Fatal(err)
	}
	return date
}

// The README of the pipeline says which rows one should see. Its figures were added up by another
// program from the API's answers: a change of the generator shows here.
func TestDaysAreAsTheReadmeSays(t *testing.T) {
	t.Parallel()
	readme, err := os.ReadFile("../README.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := regexp.MustCompile(`(?m)^\| (\d{4}-\d\d-\d\d) \|.*$`).FindAllStringSubmatch(string(readme), -1)
	if len(rows) < 4 {
		t.Fatalf("the README has %d days", len(rows))
	}
	for _, row := range rows {
		orders := catalogue{}.on(jakarta(t, row[1]))
		var total amount
		large := 0
		for _, each := range orders {
			total += each.Total
			if each.ID > 1<<53 {
				large++
			}
		}
		text, err := total.MarshalJSON()
		if err != nil {
			t.Fatal(err)
		}
		if want := fmt.Sprintf("| %s | %d | %s | %d |", row[1], len(orders), text, large); row[0] != want {
			t.Errorf("the README says %s, the shop %s", row[0], want)
		}
	}
}

func TestOrdersOfManyDays(t *testing.T) {
	t.Parallel()
	seen := map[int64]bool{}
	large := 0
	for date := jakarta(t, "2024-01-01"); date.Year() < 2028; date = date.Add(day) {
		orders := catalogue{}.on(date)
		if len(orders) < leastOrders || len(orders) > mostOrders {
			t.Fatalf("%s has %d orders", date, len(orders))
		}
		if first, last := orders[0].CreatedAt, orders[len(orders)-1].CreatedAt; !first.Equal(date) || !last.Equal(date.Add(day-time.Millisecond)) {
			t.Fatalf("%s begins at %s and ends at %s", date, first, last)
		}
		for i, each := range orders {
			switch {
			case seen[each.ID]:
				t.Fatalf("%s: id %d is used twice", date, each.ID)
			case i > 0 && each.CreatedAt.Before(orders[i-1].CreatedAt.Time):
				t.Fatalf("%s: order %d is out of order", date, i)
			case each.Total < 1 || each.Total > maximumCents:
				t.Fatalf("%s: total %d", date, each.Total)
			}
			seen[each.ID] = true
			if each.ID > 1<<53 {
				large++
				if int64(float64(each.ID)) == each.ID {
					t.Fatalf("%s: id %d survives floating point", date, each.ID)
				}
			}
		}
	}
	if large == 0 {
		t.Error("no id is beyond 2^53")
	}
}

// Whatever the bounds, two adjacent ranges have together what the whole has, each order once.
func TestRangesTile(t *testing.T) {
	t.Parallel()
	start := jakarta(t, "2026-03-01")
	whole := catalogue{}.between(start, start.Add(7*day))
	for _, width := range []time.Duration{time.Hour, 7 * time.Hour, day, 25 * time.Hour, 3 * day} {
		var parts []order
		for from := start; from.Before(start.Add(7 * day)); from = from.Add(width) {
			to := from.Add(width)
			if end := start.Add(7 * day); to.After(end) {
				to = end
			}
			parts = append(parts, catalogue{}.between(from.UTC(), to.UTC())...)
		}
		if len(parts) != len(whole) {
			t.Fatalf("in parts of %s there are %d orders, in one %d", width, len(parts), len(whole))
		}
		for i := range parts {
			if parts[i] != whole[i] {
				t.Fatalf("in parts of %s order %d is %+v, want %+v", width, i, parts[i], whole[i])
			}
		}
	}
}

func TestClosedDays(t *testing.T) {
	t.Parallel()
	open, closed := catalogue{}, catalogue{closed: map[string]bool{"2026-01-18": true}}
	sunday := jakarta(t, "2026-01-18")
	if found := closed.between(sunday, sunday.Add(day)); len(found) != 0 {
		t.Errorf("a closed day has %d orders", len(found))
	}
	around := closed.between(sunday.Add(-day), sunday.Add(2*day))
	want := len(open.on(sunday.Add(-day))) + len(open.on(sunday.Add(day)))
	if len(around) != want {
		t.Errorf("the days around a closed one have %d orders, want %d", len(around), want)
	}
}

func TestOrderAsJSON(t *testing.T) {
	t.Parallel()
	body, err := json.Marshal(order{
		ID:        9007199254740995,
		CreatedAt: timestamp{time.Date(2026, time.January, 14, 17, 0, 0, 0, time.UTC)},
		Customer:  "000042",
		Total:     5,
	})
	if err != nil {
		t.Fatal(err)
	}
	want := `{"id":9007199254740995,"created_at":"2026-01-15T00:00:00.000+07:00","customer":"000042","total":0.05}`
	if string(body) != want {
		t.Errorf("got  %s\nwant %s", body, want)
	}
	for cents, want := range map[amount]string{1: "0.01", 100: "1.00", 1250: "12.50", maximumCents: "99999.99"} {
		if text, _ := json.Marshal(cents); string(text) != want {
			t.Errorf("%d hundredths are written %s, want %s", int64(cents), text, want)
		}
	}
}

func TestParseDay(t *testing.T) {
	t.Parallel()
	if date, err := parseDay("2026-02-28"); date != "2026-02-28" || err != nil {
		t.Errorf("got %q, %v", date, err)
	}
	for _, text := range []string{"", "2026-02-30", "2026-2-3", "18.01.2026", "2026-01-18T00:00:00Z"} {
		if _, err := parseDay(text); err == nil || !strings.Contains(err.Error(), "is not a day") {
			t.Errorf("parseDay(%q): %v", text, err)
		}
	}
}
