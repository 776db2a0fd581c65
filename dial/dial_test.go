package dial

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/urfave/cli/v2"
)

// settings reads the settings that these arguments and this environment give.
func settings(t *testing.T, environment Environment, args ...string) (Settings, error) {
	t.Helper()
	var got Settings
	var err error
	app := &cli.App{Name: "test", Flags: Flags(), Action: func(c *cli.Context) error {
		got, err = Read(c, environment)
		return nil
	}}
	if runErr := app.Run(append([]string{"test"}, args...)); runErr != nil {
		t.Fatal(runErr)
	}
	return got, err
}

const profiles = `[profile.default]
address = "file.example.com:7233"
namespace = "from-file"

[profile.staging]
address = "staging.example.com:7233"
namespace = "staging"
api_key = "key-from-file"
[profile.staging.tls]
server_name = "staging"
`

func TestPrecedence(t *testing.T) {
	t.Parallel()
	file := filepath.Join(t.TempDir(), "temporal.toml")
	if err := os.WriteFile(file, []byte(profiles), 0o600); err != nil {
		t.Fatal(err)
	}
	none := "TEMPORAL_CONFIG_FILE=" + os.DevNull
	for name, test := range map[string]struct {
		environment        Environment
		args               []string
		address, namespace string
	}{
		"nothing is said":            {Environment{none}, nil, "localhost:7233", "default"},
		"the file":                   {Environment{"TEMPORAL_CONFIG_FILE=" + file}, nil, "file.example.com:7233", "from-file"},
		"the file by flag":           {Environment{none}, []string{"--config-file", file}, "file.example.com:7233", "from-file"},
		"a profile":                  {Environment{none}, []string{"--config-file", file, "--profile", "staging"}, "staging.example.com:7233", "staging"},
		"a profile by environment":   {Environment{"TEMPORAL_CONFIG_FILE=" + file, "TEMPORAL_PROFILE=staging"}, nil, "staging.example.com:7233", "staging"},
		"environment over file":      {Environment{"TEMPORAL_CONFIG_FILE=" + file, "TEMPORAL_ADDRESS=env:1"}, nil, "env:1", "from-file"},
		"flag over environment":      {Environment{none, "TEMPORAL_ADDRESS=env:1", "TEMPORAL_NAMESPACE=e"}, []string{"--address", "flag:2", "-n", "f"}, "flag:2", "f"},
		"the last of repeated names": {Environment{none, "TEMPORAL_ADDRESS=a:1", "TEMPORAL_ADDRESS=b:2"}, nil, "b:2", "default"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got, err := settings(t, test.environment, test.args...)
			if err != nil || got.Address() != test.address || got.Namespace() != test.namespace {
				t.Errorf("got %s, %s, %v; want %s, %s", got.Address(), got.Namespace(), err, test.address, test.namespace)
			}
		})
	}
}

func TestTLSAndKeys(t *testing.T) {
	t.Parallel()
	none := "TEMPORAL_CONFIG_FILE=" + os.DevNull
	got, err := settings(t, Environment{none, "TEMPORAL_API_KEY=secret"}, "--tls=false", "--grpc-meta", "X-Team=data", "--codec-endpoint", "http://codec")
	if err != nil {
		t.Fatal(err)
	}
	if p := got.profile; p.APIKey != "secret" || p.TLS == nil || !p.TLS.Disabled || p.GRPCMeta["x-team"] != "data" || p.Codec.Endpoint != "http://codec" {
		t.Errorf("got %+v", p)
	}
	got, err = settings(t, Environment{none}, "--tls-cert-path", "c.pem", "--tls-key-path", "k.pem", "--tls-ca-path", "a.pem", "--tls-server-name", "s")
	if err != nil || got.profile.TLS.ClientCertPath != "c.pem" || got.profile.TLS.ServerCACertPath != "a.pem" || got.profile.TLS.ServerName != "s" {
		t.Errorf("got %+v, %v", got.profile.TLS, err)
	}
	if _, err := Dial(context.Background(), got, Options{}); err == nil || !strings.Contains(err.Error(), "c.pem") {
		t.Errorf("a certificate that is not there: %v", err)
	}
}

func TestMistakesAreNamed(t *testing.T) {
	t.Parallel()
	folder := t.TempDir()
	unknown := filepath.Join(folder, "unknown.toml")
	if err := os.WriteFile(unknown, []byte("[profile.default]\nadress = \"x\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	none := Environment{"TEMPORAL_CONFIG_FILE=" + os.DevNull}
	for part, args := range map[string][]string{
		"no file":   {"--config-file", filepath.Join(folder, "missing.toml")},
		"adress":    {"--config-file", unknown},
		"nowhere":   {"--profile", "nowhere"},
		"KEY=VALUE": {"--grpc-meta", "novalue"},
	} {
		if _, err := settings(t, none, args...); err == nil || !strings.Contains(err.Error(), part) {
			t.Errorf("%v: %v, want %q in it", args, err, part)
		}
	}
}

func TestUnreachable(t *testing.T) {
	t.Parallel()
	got, err := settings(t, Environment{"TEMPORAL_CONFIG_FILE=" + os.DevNull}, "--address", "127.0.0.1:1")
	if err != nil {
		t.Fatal(err)
	}
	_, err = Dial(context.Background(), got, Options{})
	var unreachable *UnreachableError
	if !errors.As(err, &unreachable) || !strings.Contains(err.Error(), "127.0.0.1:1") || !strings.Contains(err.Error(), "--address") {
		t.Errorf("got %v", err)
	}
}
