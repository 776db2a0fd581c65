package interval_test

import (
	"archive/zip"
	"crypto/sha256"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/trancheflow/tranche/interval"
)

func location(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := interval.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func TestLoadLocation(t *testing.T) {
	t.Parallel()
	for _, name := range interval.Zones() {
		if got := location(t, name).String(); got != name {
			t.Errorf("zone %q is called %q", name, got)
		}
	}
	if loc := location(t, ""); loc != time.UTC {
		t.Errorf(`zone "" is %s`, loc)
	}
}

func TestUnknownZones(t *testing.T) {
	t.Parallel()
	fallback := "write an IANA name, such as Europe/Rome (database " + interval.ZoneDatabaseVersion() + ")"
	const place = "abbreviations mean different zones in different places; write the name of a place, such as America/New_York"
	fixed := func(zone string) string {
		return "for a fixed offset write " + zone + " (the sign in these names is the other way round), for a place its name, such as Asia/Jakarta"
	}
	for name, advice := range map[string]string{
		"Europe/Rom":             "write Europe/Rome",
		"europe/rome":            "write Europe/Rome",
		"Rome":                   "write Europe/Rome",
		"New York":               "write America/New_York",
		"America/New York":       "write America/New_York",
		"Asia/Jakrata":           "write Asia/Jakarta",
		"est":                    "write EST",
		"PST":                    place,
		"CEST":                   place,
		"IST":                    place,
		"+7":                     fixed("Etc/GMT-7"),
		"+07:00":                 fixed("Etc/GMT-7"),
		"UTC+7":                  fixed("Etc/GMT-7"),
		"GMT-0500":               fixed("Etc/GMT+5"),
		"+05:30":                 fallback,
		"UTC+99":                 fallback,
		"Mars/Olympus_Mons":      fallback,
		"../../etc/passwd":       fallback,
		"Europe/Rome\x00":        "write Europe/Rome",
		"Local":                  "it means another zone on every host; write the zone's name, such as Europe/Rome",
		strings.Repeat("x", 999): fallback,
	} {
		loc, err := interval.LoadLocation(name)
		var e *interval.Error
		if loc != nil || !errors.As(err, &e) || e.Code != interval.CodeUnknownTimeZone {
			t.Errorf("LoadLocation(%q) = %v, %v", name, loc, err)
			continue
		}
		shown := strconv.Quote(name)
		if len(name) > 80 {
			shown = strconv.Quote(name[:80]) + "..."
		}
		if want := "time zone " + shown + " is unknown: " + advice; e.Message != want {
			t.Errorf("\n got %s\nwant %s", e.Message, want)
		}
	}
}

// The embedded database is the one that zonesversion.go says, and the one of the Go toolchain as long
// as that has the same release. When the toolchain has a newer one, the log says how to take it over.
func TestZoneDatabaseIsTheOneItClaimsToBe(t *testing.T) {
	t.Parallel()
	archive, err := os.ReadFile("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	source, err := os.ReadFile("zonesversion.go")
	if err != nil {
		t.Fatal(err)
	}
	if sum := fmt.Sprintf("%x", sha256.Sum256(archive)); !strings.Contains(string(source), sum) {
		t.Errorf("zoneinfo.zip has the checksum %s, zonesversion.go another: run go generate ./interval", sum)
	}
	root, err := exec.Command("go", "env", "GOROOT").Output()
	if err != nil {
		if os.Getenv("CI") == "true" {
			t.Fatal(err)
		}
		t.Skipf("no go command to compare with: %v", err)
	}
	folder := filepath.Join(strings.TrimSpace(string(root)), "lib", "time")
	script, err := os.ReadFile(filepath.Join(folder, "update.bash"))
	if err != nil {
		t.Skipf("no database of the toolchain to compare with: %v", err)
	}
	if !strings.Contains(string(script), "\nDATA="+interval.ZoneDatabaseVersion()+"\n") {
		t.Logf("the toolchain has another release than %s: run go generate ./interval to take it over", interval.ZoneDatabaseVersion())
		return
	}
	theirs, err := os.ReadFile(filepath.Join(folder, "zoneinfo.zip"))
	if err != nil {
		t.Fatal(err)
	}
	if !slices.Equal(archive, theirs) {
		t.Errorf("zoneinfo.zip is called %s and differs from the toolchain's of that release", interval.ZoneDatabaseVersion())
	}
}

// A child process with another host zone and no zone database at all must print the same.
func TestHostZoneHasNoInfluence(t *testing.T) {
	t.Parallel()
	const child = "INTERVAL_TEST_PRINT"
	if os.Getenv(child) != "" {
		printInstants(t)
		return
	}
	var outputs []string
	for _, zone := range []string{"UTC", "Australia/Sydney", "America/Sao_Paulo"} {
		cmd := exec.Command(os.Args[0], "-test.run=^TestHostZoneHasNoInfluence$")
		cmd.Env = append(os.Environ(), child+"=1", "TZ="+zone, "ZONEINFO=/nonexistent")
		out, err := cmd.Output()
		if err != nil {
			t.Fatalf("TZ=%s: %v\n%s", zone, err, out)
		}
		text, _, _ := strings.Cut(string(out), "PASS")
		outputs = append(outputs, text)
	}
	if len(outputs[0]) < 1000 || outputs[0] != outputs[1] || outputs[0] != outputs[2] {
		t.Errorf("the outputs differ, or are empty:\n%s", strings.Join(outputs, "\n---\n"))
	}
}

func printInstants(t *testing.T) {
	rome := location(t, "Europe/Rome")
	for _, text := range []string{"2026-01-15", "2026-03-29", "2026-03-29T02:30", "2026-10-25T02:30", "2026-02-30", "2026-07-01T00:30"} {
		at, err := interval.ParseInstant(text, rome)
		fmt.Println(text, at, err)
		at, err = interval.ParseInstant(text, nil)
		fmt.Println(text, at, err)
	}
	for _, zone := range []string{"", "Europe/Rome", "Australia/Lord_Howe"} {
		g := newGrid(t, interval.Spec{Cron: "30 */2 * * *", TimeZone: zone})
		for iv := range g.Between(utc(t, "2026-10-24"), utc(t, "2026-10-26")) {
			fmt.Println(zone, iv)
		}
		_, err := g.StartingAt(utc(t, "2026-10-24T00:00:01"))
		fmt.Println(err)
	}
}

// zoneData is what the raw TZif files say, read without the time package. It holds the assumptions of
// the clock against the database that is really embedded.
type zoneData struct {
	name    string
	data    string // equal for aliases
	changes []zoneChange
}

type zoneChange struct {
	at             int64
	before, offset int // seconds east of UTC
}

func readZones(t testing.TB) []zoneData {
	t.Helper()
	archive, err := zip.OpenReader("zoneinfo.zip")
	if err != nil {
		t.Fatal(err)
	}
	defer archive.Close()
	var zones []zoneData
	for _, file := range archive.File {
		data := readAll(t, file)
		changes, err := parseTZif(data)
		if err != nil {
			t.Fatalf("%s: %v", file.Name, err)
		}
		zones = append(zones, zoneData{file.Name, string(data), changes})
	}
	return zones
}

func TestClockAssumptions(t *testing.T) {
	t.Parallel()
	zones := readZones(t)
	if len(zones) < 500 {
		t.Fatalf("only %d zones", len(zones))
	}
	const closest, widest = 1 << 18, 16 * 3600
	for _, zone := range zones {
		last := int64(-1 << 62)
		for _, change := range zone.changes {
			if change.at-last < closest {
				t.Errorf("%s: two changes of the clock within %d s before %s", zone.name, change.at-last, time.Unix(change.at, 0).UTC())
			}
			if max(change.offset, -change.offset, change.before, -change.before) > widest {
				t.Errorf("%s: offset %d to %d", zone.name, change.before, change.offset)
			}
			if change.at > time.Date(2100, 1, 1, 0, 0, 0, 0, time.UTC).Unix() {
				t.Errorf("%s: a listed change in %s", zone.name, time.Unix(change.at, 0).UTC())
			}
			last = change.at
		}
	}
}

// ClockChanges finds exactly the changes that the files list, and goes on where a rule takes over.
func TestClockChanges(t *testing.T) {
	t.Parallel()
	for _, zone := range distinctZones(t) {
		if len(zone.changes) == 0 {
			continue
		}
		loc := location(t, zone.name)
		from := time.Unix(zone.changes[0].at, 0)
		to := time.Unix(zone.changes[len(zone.changes)-1].at+1, 0)
		var got []int64
		for at := range interval.ClockChanges(loc, from, to) {
			got = append(got, at.Unix())
		}
		var want []int64
		for _, change := range zone.changes {
			want = append(want, change.at)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: %d changes, the file lists %d", zone.name, len(got), len(want))
		}
	}
	// By rule, in every zone: as many as a probe every six hours sees.
	from, to := utc(t, "2105-01-01"), utc(t, "2107-01-01")
	for _, zone := range distinctZones(t) {
		loc := location(t, zone.name)
		got, want := 0, 0
		for range interval.ClockChanges(loc, from, to) {
			got++
		}
		const probe = 6 * time.Hour
		for at := from; at.Before(to); at = at.Add(probe) {
			_, before := at.Add(-probe).In(loc).Zone()
			if _, after := at.In(loc).Zone(); after != before {
				want++
			}
		}
		if got != want {
			t.Errorf("%s: %d changes by rule in two years, want %d", zone.name, got, want)
		}
	}
	var got []string
	for at := range interval.ClockChanges(location(t, "Europe/Rome"), utc(t, "2050-03-27T01:00"), utc(t, "2051-03-26T01:00")) {
		got = append(got, short(at))
	}
	equal(t, "changes by rule", got, []string{"2050-03-27T01:00Z", "2050-10-30T01:00Z"})
	for at := range interval.ClockChanges(time.UTC, utc(t, "2026-01-01"), utc(t, "2027-01-01")) {
		t.Errorf("UTC changes at %s", at)
	}
}

// distinctZones drops the aliases.
func distinctZones(t testing.TB) []zoneData {
	seen := map[string]bool{}
	return slices.DeleteFunc(readZones(t), func(zone zoneData) bool {
		if seen[zone.data] {
			return true
		}
		seen[zone.data] = true
		return false
	})
}
