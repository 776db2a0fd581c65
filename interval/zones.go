package interval

import (
	_ "embed"
	"fmt"
	"iter"
	"strconv"
	"strings"
	"time"
)

//go:generate go run updatezones.go

// zoneinfo is the IANA time zone database as a zip archive of TZif files, the one that the Go
// toolchain ships as lib/time/zoneinfo.zip. It is embedded here rather than by time/tzdata, because
// time.LoadLocation uses that one only when the host has none: two hosts could then disagree.
//
//go:embed zoneinfo.zip
var zoneinfo string

// ZoneDatabaseVersion returns the release of the pinned IANA time zone database, such as "2025c".
// Ticks in a local zone may differ between releases.
func ZoneDatabaseVersion() string { return zoneDatabaseVersion }

// Zones returns the names of the pinned database, sorted.
func Zones() []string {
	var names []string
	for name := range zoneFiles() {
		names = append(names, name)
	}
	return names
}

// zoneFiles yields the name and the content of each file in the archive. It walks the archive's
// directory (APPNOTE.TXT of PKWARE, 4.3), which is a hundred times faster than archive/zip for one
// file out of six hundred, and makes it affordable to keep nothing between calls. That the files are
// stored without compression and that the archive has no comment is checked by a test, not here.
func zoneFiles() iter.Seq2[string, string] {
	// Where the lengths and positions stand in the record at the archive's end, in an entry of the
	// directory, and in the header before a file's data.
	const (
		endSize, endDirectory = 22, 16

		entrySize, entryDataSize, entryNameSize, entryExtra, entryComment, entryHeader = 46, 24, 28, 30, 32, 42

		headerSize, headerNameSize, headerExtra = 30, 26, 28
	)
	short := func(at int) int { return int(zoneinfo[at]) | int(zoneinfo[at+1])<<8 }
	long := func(at int) int { return short(at) | short(at+2)<<16 }
	return func(yield func(name, data string) bool) {
		end := len(zoneinfo) - endSize
		for entry := long(end + endDirectory); entry < end; {
			next := entry + entrySize + short(entry+entryNameSize)
			header := long(entry + entryHeader)
			data := header + headerSize + short(header+headerNameSize) + short(header+headerExtra)
			if !yield(zoneinfo[entry+entrySize:next], zoneinfo[data:data+long(entry+entryDataSize)]) {
				return
			}
			entry = next + short(entry+entryExtra) + short(entry+entryComment)
		}
	}
}

// LoadLocation returns the time zone with an IANA name, such as "Europe/Rome". It takes it from the
// pinned database and never from the host. "" and "UTC" are UTC. "Local" is refused, because it means
// another zone on every host. Abbreviations are accepted as far as the database has them: EST is
// always five hours behind UTC, summer and winter. Names are case-sensitive.
//
// The error is an [*Error] with [CodeUnknownTimeZone]; it suggests what may have been meant.
func LoadLocation(name string) (*time.Location, error) {
	switch name {
	case "", "UTC":
		return time.UTC, nil
	case "Local":
		return nil, unknownZone(name, "it means another zone on every host; write the zone's name, such as Europe/Rome")
	}
	for file, data := range zoneFiles() {
		if file == name {
			return time.LoadLocationFromTZData(name, []byte(data))
		}
	}
	return nil, unknownZone(name, zoneAdvice(name))
}

func unknownZone(name, advice string) *Error {
	return &Error{Code: CodeUnknownTimeZone, Field: FieldTimeZone,
		Message: fmt.Sprintf("time zone %s is unknown: %s", excerpt(name), advice)}
}

// zoneAdvice guesses what an unknown zone name was meant to be.
func zoneAdvice(name string) string {
	if zone, ok := fixedZone(name); ok {
		return fmt.Sprintf("for a fixed offset write %s (the sign in these names is the other way round), for a place its name, such as Asia/Jakarta", zone)
	}
	if similar := similarZones(name); len(similar) > 0 {
		return "write " + strings.Join(similar, " or ")
	}
	if isAbbreviation(name) {
		return "abbreviations mean different zones in different places; write the name of a place, such as America/New_York"
	}
	return fmt.Sprintf("write an IANA name, such as Europe/Rome (database %s)", zoneDatabaseVersion)
}

// isAbbreviation reports whether a name looks like PST or AEDT.
func isAbbreviation(name string) bool {
	return len(name) < 4 || len(name) <= 5 && name == strings.ToUpper(name)
}

// fixedZone translates +7, +07:00, UTC+7 and GMT+07 to Etc/GMT-7. The database has such names from
// Etc/GMT+12 to Etc/GMT-14, for whole hours only.
func fixedZone(name string) (zone string, ok bool) {
	rest := strings.TrimPrefix(strings.TrimPrefix(strings.ToUpper(name), "UTC"), "GMT")
	if rest == "" || rest[0] != '+' && rest[0] != '-' {
		return "", false
	}
	if rest = strings.TrimSuffix(rest, ":00"); len(rest) == len("+0700") {
		rest = strings.TrimSuffix(rest, "00")
	}
	hours, err := strconv.Atoi(rest)
	if err != nil || hours < -12 || hours > 14 || hours == 0 {
		return "", false
	}
	return fmt.Sprintf("Etc/GMT%+d", -hours), true
}

// similarZones returns at most three names that are like an unknown one: the same but for case and
// blanks, of a place of that name, or else the closest with at most two typing errors.
func similarZones(name string) []string {
	const longest = 64 // no name is half as long
	if len(name) > longest {
		return nil
	}
	wanted := strings.ToLower(strings.ReplaceAll(name, " ", "_"))
	best := 2
	var similar []string
	for _, zone := range Zones() {
		lower := strings.ToLower(zone)
		distance := min(editDistance(wanted, lower), editDistance(wanted, lower[strings.LastIndex(lower, "/")+1:]))
		if isAbbreviation(name) && distance > 0 {
			continue // CEST is one letter away from EST, and means something else
		}
		if distance < best {
			best, similar = distance, nil
		}
		if distance == best && len(similar) < 3 {
			similar = append(similar, zone)
		}
	}
	return similar
}

// editDistance counts the characters to insert, remove, replace or swap with their neighbour to make
// b out of a.
func editDistance(a, b string) int {
	before, above, row := make([]int, len(b)+1), make([]int, len(b)+1), make([]int, len(b)+1)
	for j := range above {
		above[j] = j
	}
	for i := 1; i <= len(a); i++ {
		row[0] = i
		for j := 1; j <= len(b); j++ {
			replace := above[j-1]
			if a[i-1] != b[j-1] {
				replace++
			}
			row[j] = min(replace, above[j]+1, row[j-1]+1)
			if i > 1 && j > 1 && a[i-1] == b[j-2] && a[i-2] == b[j-1] {
				row[j] = min(row[j], before[j-2]+1)
			}
		}
		before, above, row = above, row, before
	}
	return above[len(b)]
}
