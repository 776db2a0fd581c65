package main

import (
	"bytes"
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/trancheflow/tranche/dial"
)

func TestMistakesEndTheWorkerAtOnce(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	write := func(name, text string) string {
		path := filepath.Join(folder, name)
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	good := write("good.yaml", "connections:\n  w: { sqlite: { path: w.db } }\n")
	secret := write("secret.yaml", "connections:\n  shop:\n    http: { base_url: \"http://127.0.0.1:1\", bearer: \"${SHOP_TOKEN}\" }\n")
	bad := write("bad.yaml", "connections:\n  shop:\n    htp: {}\n")
	for name, test := range map[string]struct {
		args []string
		code int
		part string
	}{
		"no connections":         {nil, exitUsage, "--connections"},
		"unknown flag":           {[]string{"--conections", good}, exitUsage, "conections"},
		"an argument":            {[]string{"--connections", good, "start"}, exitUsage, "start"},
		"no activities":          {[]string{"--connections", good, "--max-activities", "0"}, exitUsage, "--max-activities"},
		"log level":              {[]string{"--connections", good, "--log-level", "loud"}, exitUsage, "loud"},
		"log format":             {[]string{"--connections", good, "--log-format", "xml"}, exitUsage, "xml"},
		"invalid file":           {[]string{"--connections", bad}, exitInvalid, "bad.yaml:3:"},
		"missing secret":         {[]string{"--connections", secret}, exitInvalid, "SHOP_TOKEN"},
		"address in use or bad":  {[]string{"--connections", good, "--listen", "256.0.0.1:1"}, exitFailed, "--listen"},
		"Temporal not reachable": {[]string{"--connections", good, "--listen", "", "--address", "127.0.0.1:1"}, exitUnreachable, "127.0.0.1:1"},
		"unknown profile":        {[]string{"--connections", good, "--listen", "", "--profile", "nowhere"}, exitUsage, "nowhere"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			var talk bytes.Buffer
			environment := dial.Environment{"TEMPORAL_CONFIG_FILE=" + os.DevNull}
			code := run(context.Background(), test.args, &talk, environment, make(chan os.Signal))
			if code != test.code || !strings.Contains(talk.String(), test.part) {
				t.Errorf("the worker exits %d, want %d, and says %q, want %q in it", code, test.code, talk.String(), test.part)
			}
		})
	}
}
