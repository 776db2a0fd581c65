package interval

import (
	"archive/zip"
	"io"
	"slices"
	"strings"
	"testing"
)

// The archive has the form that zoneFiles relies on, and zoneFiles finds in it what archive/zip finds.
func TestZoneFilesAreThoseOfTheArchive(t *testing.T) {
	t.Parallel()
	archive, err := zip.NewReader(strings.NewReader(zoneinfo), int64(len(zoneinfo)))
	if err != nil {
		t.Fatal(err)
	}
	if archive.Comment != "" {
		t.Error("the archive has a comment")
	}
	want := map[string]string{}
	for _, file := range archive.File {
		if file.Method != zip.Store {
			t.Errorf("%s is compressed", file.Name)
		}
		r, err := file.Open()
		if err != nil {
			t.Fatal(err)
		}
		data, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		want[file.Name] = string(data)
	}
	for name, data := range zoneFiles() {
		if data != want[name] {
			t.Errorf("%s differs", name)
		}
	}
	if names := Zones(); len(names) != len(want) || !slices.IsSorted(names) {
		t.Errorf("%d names, want %d, sorted", len(names), len(want))
	}
}
