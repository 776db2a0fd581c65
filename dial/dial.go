// Package dial makes one Temporal client, configured the same way for the worker and the starter:
// as the `temporal` command line finds its server, from flags, TEMPORAL_* variables and
// temporal.toml, in this order of precedence.
package dial

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"strings"
	"time"

	"github.com/urfave/cli/v2"
	"go.temporal.io/sdk/client"
	"go.temporal.io/sdk/contrib/envconfig"
	"go.temporal.io/sdk/log"

	"github.com/trancheflow/tranche/launch"
)

// Environment is the process's environment, in the form of os.Environ. It implements
// envconfig.EnvLookup, so that tests need not change the real one.
type Environment []string

// Environ returns all variables as KEY=value.
func (e Environment) Environ() []string { return e }

// LookupEnv returns the value of a variable and whether it is set. Of repeated ones the last wins,
// as in a process's environment.
func (e Environment) LookupEnv(name string) (string, bool) {
	for i := len(e) - 1; i >= 0; i-- {
		if key, value, _ := strings.Cut(e[i], "="); key == name {
			return value, true
		}
	}
	return "", false
}

const category = "Temporal"

// Flags returns the flags that say where Temporal is, with the names that the `temporal` command
// line uses.
func Flags() []cli.Flag {
	return []cli.Flag{
		&cli.StringFlag{Name: "address", Category: category, Usage: "`HOST:PORT` of the Temporal frontend (default: TEMPORAL_ADDRESS, else localhost:7233)"},
		&cli.StringFlag{Name: "namespace", Aliases: []string{"n"}, Category: category, Usage: "Temporal namespace (default: TEMPORAL_NAMESPACE, else default)"},
		&cli.StringFlag{Name: "api-key", Category: category, Usage: "API key; better given as TEMPORAL_API_KEY, since flags show in process lists"},
		&cli.StringFlag{Name: "config-file", Category: category, Usage: "`FILE` with connection profiles (default: TEMPORAL_CONFIG_FILE, else temporalio/temporal.toml in the user's configuration folder)"},
		&cli.StringFlag{Name: "profile", Category: category, Usage: "profile in the configuration file (default: TEMPORAL_PROFILE, else default)"},
		&cli.BoolFlag{Name: "tls", Category: category, Usage: "connect with TLS; --tls=false without, whatever the profile says"},
		&cli.StringFlag{Name: "tls-cert-path", Category: category, Usage: "`FILE` with the client's certificate"},
		&cli.StringFlag{Name: "tls-key-path", Category: category, Usage: "`FILE` with the client's key"},
		&cli.StringFlag{Name: "tls-ca-path", Category: category, Usage: "`FILE` with the certificates of the server's authority"},
		&cli.StringFlag{Name: "tls-server-name", Category: category, Usage: "name to expect in the server's certificate"},
		&cli.BoolFlag{Name: "tls-disable-host-verification", Category: category, Usage: "accept any name in the server's certificate"},
		&cli.StringFlag{Name: "codec-endpoint", Category: category, Usage: "`URL` of a remote codec for payloads"},
		&cli.StringFlag{Name: "codec-auth", Category: category, Usage: "Authorization header for the codec; better given as TEMPORAL_CODEC_AUTH"},
		&cli.StringSliceFlag{Name: "grpc-meta", Category: category, Usage: "`KEY=VALUE` to send with each request; repeatable"},
	}
}

// Settings say where Temporal is, and as whom to speak to it.
type Settings struct {
	profile envconfig.ClientConfigProfile
}

// Address returns the address for messages.
func (s Settings) Address() string {
	if s.profile.Address == "" {
		return client.DefaultHostPort
	}
	return s.profile.Address
}

// Namespace returns the namespace for messages.
func (s Settings) Namespace() string {
	if s.profile.Namespace == "" {
		return client.DefaultNamespace
	}
	return s.profile.Namespace
}

// Read returns the settings from the flags of a command, the environment and the configuration
// file. An unknown key in the file, a profile or a file that is named and missing are errors.
func Read(c *cli.Context, environment Environment) (Settings, error) {
	file := c.String("config-file")
	if file != "" {
		if _, err := os.Stat(file); errors.Is(err, fs.ErrNotExist) {
			return Settings{}, fmt.Errorf("read Temporal's configuration: there is no file %s", file)
		}
	}
	profile, err := envconfig.LoadClientConfigProfile(envconfig.LoadClientConfigProfileOptions{
		ConfigFilePath: file, ConfigFileProfile: c.String("profile"), ConfigFileStrict: true, EnvLookup: environment,
	})
	if err != nil {
		return Settings{}, fmt.Errorf("read Temporal's configuration: %w", err)
	}
	override(c, &profile)
	if err := overrideMeta(c.StringSlice("grpc-meta"), &profile); err != nil {
		return Settings{}, err
	}
	return Settings{profile}, nil
}

func override(c *cli.Context, profile *envconfig.ClientConfigProfile) {
	set := func(flag string, value *string) {
		if c.IsSet(flag) {
			*value = c.String(flag)
		}
	}
	set("address", &profile.Address)
	set("namespace", &profile.Namespace)
	set("api-key", &profile.APIKey)
	if c.IsSet("codec-endpoint") || c.IsSet("codec-auth") {
		if profile.Codec == nil {
			profile.Codec = &envconfig.ClientConfigCodec{}
		}
		set("codec-endpoint", &profile.Codec.Endpoint)
		set("codec-auth", &profile.Codec.Auth)
	}
	overrideTLS(c, profile, set)
}

func overrideTLS(c *cli.Context, profile *envconfig.ClientConfigProfile, set func(string, *string)) {
	named := false
	for _, flag := range []string{"tls", "tls-cert-path", "tls-key-path", "tls-ca-path", "tls-server-name", "tls-disable-host-verification"} {
		named = named || c.IsSet(flag)
	}
	if !named {
		return
	}
	if profile.TLS == nil {
		profile.TLS = &envconfig.ClientConfigTLS{}
	}
	tls := profile.TLS
	if c.IsSet("tls") {
		tls.Disabled = !c.Bool("tls")
	}
	set("tls-cert-path", &tls.ClientCertPath)
	set("tls-key-path", &tls.ClientKeyPath)
	set("tls-ca-path", &tls.ServerCACertPath)
	set("tls-server-name", &tls.ServerName)
	if c.IsSet("tls-disable-host-verification") {
		tls.DisableHostVerification = c.Bool("tls-disable-host-verification")
	}
}

func overrideMeta(pairs []string, profile *envconfig.ClientConfigProfile) error {
	for _, pair := range pairs {
		key, value, found := strings.Cut(pair, "=")
		if !found || key == "" {
			return fmt.Errorf("--grpc-meta %q is not KEY=VALUE", pair)
		}
		if profile.GRPCMeta == nil {
			profile.GRPCMeta = map[string]string{}
		}
		profile.GRPCMeta[envconfig.NormalizeGRPCMetaKey(key)] = value
	}
	return nil
}

// Options is what a program adds to the settings.
type Options struct {
	// Identity names the process in Temporal's UI. Empty: the SDK's default, pid@host.
	Identity string
	// Logger receives the SDK's messages. Nil: they are dropped, since a command's output is data.
	Logger log.Logger
	// Metrics receives the SDK's metrics. Nil: none.
	Metrics client.MetricsHandler
}

// Timeout bounds how long Dial tries.
const Timeout = 10 * time.Second

// UnreachableError says that Temporal did not answer.
type UnreachableError struct {
	Address, Namespace string
	Err                error
}

// Error says where Temporal was looked for and how to say otherwise.
func (e *UnreachableError) Error() string {
	return fmt.Sprintf("connect to Temporal at %s, namespace %s: %v; set --address or TEMPORAL_ADDRESS, or start a server of your own with `make devserver && bin/devserver server start-dev`",
		e.Address, e.Namespace, e.Err)
}

// Unwrap returns what went wrong.
func (e *UnreachableError) Unwrap() error { return e.Err }

// Dial connects, and returns an *UnreachableError if Temporal does not answer within Timeout.
func Dial(ctx context.Context, settings Settings, options Options) (*launch.Temporal, error) {
	dialled, err := settings.profile.ToClientOptions(envconfig.ToClientOptionsRequest{IncludeRemoteCodec: true})
	if err != nil {
		return nil, fmt.Errorf("read Temporal's configuration: %w", err)
	}
	dialled.Identity = options.Identity
	dialled.MetricsHandler = options.Metrics
	dialled.Logger = options.Logger
	if dialled.Logger == nil {
		dialled.Logger = silent{}
	}
	ctx, cancel := context.WithTimeout(ctx, Timeout)
	defer cancel()
	connected, err := client.DialContext(ctx, dialled)
	if err != nil {
		return nil, &UnreachableError{settings.Address(), settings.Namespace(), err}
	}
	return launch.New(connected, settings.Namespace(), dialled.DataConverter), nil
}

// silent drops the SDK's messages.
type silent struct{}

func (silent) Debug(string, ...any) {}
func (silent) Info(string, ...any)  {}
func (silent) Warn(string, ...any)  {}
func (silent) Error(string, ...any) {}
