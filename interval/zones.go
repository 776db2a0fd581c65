package interval

import (
	"archive/zip"
	_ "embed"
	"io"
	"strings"
	"time"
)

//go:embed zoneinfo.zip
var zoneinfo string

// openZones reads the directory of the embedded archive. It is not kept, because it costs little and
// the package has no state.
func openZones() (*zip.Reader, error) {
	return zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
}

// LoadLocation returns the time zone with an IANA name, such as "Europe/Rome", from the pinned
// database and never from the host.
func LoadLocation(name string) (*time.Location, error) {
	if name == "" || name == "UTC" {
		return time.UTC, nil
	}
	archive, err := openZones()
	if err != nil {
		return nil, err
	}
	for _, file := range archive.File {
		if file.Name == name {
			return readZone(file)
		}
	}
	return nil, &Error{Code: CodeUnknownTimeZone, Field: FieldTimeZone, Message: name}
}

func readZone(file *zip.File) (*time.Location, error) {
	r, err := file.Open()
	if err != nil {
		return nil, err
	}
	defer r.Close()
	data, err := io.ReadAll(r)
	if err != nil {
		return nil, err
	}
	return time.LoadLocationFromTZData(file.Name, data)
}

// Zones returns the names in the pinned database, sorted.
func Zones() []string {
	archive, err := openZones()
	if err != nil {
		return nil
	}
	names := make([]string, len(archive.File))
	for i, file := range archive.File {
		names[i] = file.Name
	}
	return names
}

// ZoneDatabaseVersion returns the version of the pinned database.
func ZoneDatabaseVersion() string { return "2025c" }
