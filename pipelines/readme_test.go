// Package pipelines_test holds the READMEs of the example pipelines to their data.
package pipelines_test

import (
	"cmp"
	"compress/gzip"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math/big"
	"os"
	"regexp"
	"slices"
	"strings"
	"testing"
	"time"
)

// tableRows returns the rows of a README whose first cell matches.
func tableRows(t *testing.T, file, firstCell string) []string {
	t.Helper()
	return regexp.MustCompile(`(?m)^\| `+firstCell+` \|.*$`).FindAllString(readText(t, file), -1)
}

// decimals adds up decimal numbers exactly.
type decimals struct{ sum big.Rat }

func (d *decimals) add(t *testing.T, text string) {
	t.Helper()
	number, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	d.sum.Add(&d.sum, number)
}

// extreme keeps the number that sign says: 1 for the greatest, -1 for the least.
func extreme(t *testing.T, kept, text string, sign int) string {
	t.Helper()
	if kept == "" {
		return text
	}
	before, _ := new(big.Rat).SetString(kept)
	number, ok := new(big.Rat).SetString(text)
	if !ok {
		t.Fatalf("%q is no number", text)
	}
	if number.Cmp(before)*sign > 0 {
		return text
	}
	return kept
}

// stretch is what the README of weather says of a month or a year.
type stretch struct {
	days, sunny      int
	rain             decimals
	warmest, coldest string
}

func (s *stretch) add(t *testing.T, record []string) {
	t.Helper()
	s.days++
	s.rain.add(t, record[1])
	s.warmest = extreme(t, s.warmest, record[2], 1)
	s.coldest = extreme(t, s.coldest, record[3], -1)
	if record[5] == "sun" {
		s.sunny++
	}
}

func TestWeather(t *testing.T) {
	t.Parallel()
	file, err := os.Open("weather/data/seattle-weather.csv")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	records, err := csv.NewReader(file).ReadAll()
	if err != nil {
		t.Fatal(err)
	}
	if header := strings.Join(records[0], ","); header != "date,precipitation,temp_max,temp_min,wind,weather" || len(records) != 1+1461 {
		t.Fatalf("%d lines, beginning with %s", len(records), header)
	}
	stretches := map[string]*stretch{}
	for _, record := range records[1:] {
		for _, name := range []string{record[0][:len("2012")], record[0][:len("2012-01")]} {
			if stretches[name] == nil {
				stretches[name] = &stretch{}
			}
			stretches[name].add(t, record)
		}
	}
	for name, want := range map[string]int{`\d{4}`: 4, `\d{4}-\d\d`: 5} {
		rows := tableRows(t, "weather/README.md", name)
		if len(rows) != want {
			t.Errorf("the README has %d rows of %s, want %d", len(rows), name, want)
		}
		for _, row := range rows {
			checkStretch(t, row, stretches)
		}
	}
}

func checkStretch(t *testing.T, row string, stretches map[string]*stretch) {
	t.Helper()
	name := strings.Fields(row)[1]
	s := stretches[name]
	if s == nil {
		t.Errorf("the data have no %s", name)
		return
	}
	want := fmt.Sprintf("| %s | %d | %s |", name, s.days, s.rain.sum.FloatString(1))
	if len(name) > len("2012") {
		want += fmt.Sprintf(" %s | %s | %d |", s.warmest, s.coldest, s.sunny)
	}
	if row != want {
		t.Errorf("the README says %s, the data %s", row, want)
	}
}

// feature is what the README of earthquakes says something about.
type feature struct {
	ID         string
	Properties struct {
		Time int64
		Mag  json.Number
		Felt *int
	}
}

func readFeatures(t *testing.T) []feature {
	t.Helper()
	file, err := os.Open("earthquakes/data/all_week.json.gz")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	unpacked, err := gzip.NewReader(file)
	if err != nil {
		t.Fatal(err)
	}
	var collection struct {
		Metadata struct{ Generated int64 }
		Features []feature
	}
	if err := json.NewDecoder(unpacked).Decode(&collection); err != nil {
		t.Fatal(err)
	}
	if at := time.UnixMilli(collection.Metadata.Generated).UTC().Format(time.RFC3339); !strings.Contains(readText(t, "earthquakes/README.md"), at) {
		t.Errorf("the README does not say that the data are of %s", at)
	}
	return collection.Features
}

func readText(t *testing.T, file string) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	return string(content)
}

func TestEarthquakes(t *testing.T) {
	t.Parallel()
	type total struct {
		events int
		mag    decimals
	}
	var all total
	days, ids := map[string]*total{}, map[string]bool{}
	felt, strongest := 0, ""
	for _, each := range readFeatures(t) {
		day := time.UnixMilli(each.Properties.Time).UTC().Format(time.DateOnly)
		if days[day] == nil {
			days[day] = &total{}
		}
		for _, sum := range []*total{&all, days[day]} {
			sum.events++
			sum.mag.add(t, each.Properties.Mag.String())
		}
		ids[each.ID] = true
		strongest = extreme(t, strongest, each.Properties.Mag.String(), 1)
		if each.Properties.Felt != nil {
			felt += *each.Properties.Felt
		}
	}
	want := []string{fmt.Sprintf("| %d | %d | %s | %s | %d |", all.events, len(ids), all.mag.sum.FloatString(2), strongest, felt)}
	for day, sum := range days {
		want = append(want, fmt.Sprintf("| %s | %d | %s |", day, sum.events, sum.mag.sum.FloatString(2)))
	}
	got := append(tableRows(t, "earthquakes/README.md", `\d+`), tableRows(t, "earthquakes/README.md", `\d{4}-\d\d-\d\d`)...)
	slices.SortFunc(got, cmp.Compare[string])
	slices.SortFunc(want, cmp.Compare[string])
	if !slices.Equal(got, want) {
		t.Errorf("the README says\n%s\nthe data\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}
