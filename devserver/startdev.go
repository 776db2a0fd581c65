package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"strings"

	enumspb "go.temporal.io/api/enums/v1"
	"go.temporal.io/server/common/dynamicconfig"

	"github.com/trancheflow/tranche/devserver/server"
)

const startDevHelp = `Start a Temporal server and its web UI, with Tranche's search attributes registered.

The flags have the names and meanings of those of "temporal server start-dev", unless marked *.
The server stops in good order on SIGTERM and on Ctrl-C; a second signal ends it at once.

Usage:
  devserver server start-dev [flags]

Examples:
  devserver server start-dev
  devserver server start-dev --db-filename tranche.db --headless
  devserver server start-dev --port 0 --ready-file ready.json

State:
  -f, --db-filename FILE          keep the state in this SQLite file; without it, it is lost at the end
  --sqlite-pragma NAME=VALUE      an SQLite setting, repeatable
                                  (* defaults with a file: journal_mode=wal, synchronous=normal)

Addresses:
  --ip IP                         where the frontend listens (default 127.0.0.1)
  -p, --port PORT                 its gRPC port (default 7233); * 0 chooses free ports and says which.
                                  * The inner services use PORT+2000, +3000 and +4000 on 127.0.0.1
  --ui-ip IP                      where the UI listens (default: that of --ip)
  --ui-port PORT                  the UI's port (default: PORT+1000)
  --headless                      no UI
  --ui-codec-endpoint URL         a codec server for the UI
  --http-port PORT                the frontend's HTTP API (* default: none)
  --metrics-port PORT             Prometheus metrics under /metrics (* default: none)

Namespaces:
  -n, --namespace NAME            create this namespace too, repeatable; "default" always exists
  --search-attribute NAME=TYPE    register this one too, repeatable. TYPE: Bool, Datetime, Double, Int,
                                  Keyword, KeywordList, Text
  --no-search-attributes          * do not register TranchePipeline (Keyword), TrancheRunKind (Keyword)
                                  and TrancheInterval (Datetime)

Behaviour:
  --dynamic-config-value KEY=JSON a setting of Temporal's dynamic configuration, repeatable
                                  (strings need quotes: 'KEY="text"')
  --log-level LEVEL               debug, info, warn, error or never (default warn); the log goes to stderr
  --log-format FORMAT             text or json (default text)
  --ready-file FILE               * once the server is usable, write {"address", "ui", "pid"} to this
                                  file, in one step; it is removed at the end

Exit codes: 0 stopped by a signal, 1 failed (a port or the file is taken, ...), 2 usage.
`

// trancheSearchAttributes are those that Tranche's runs carry.
func trancheSearchAttributes() map[string]enumspb.IndexedValueType {
	return map[string]enumspb.IndexedValueType{
		"TranchePipeline": enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"TrancheRunKind":  enumspb.INDEXED_VALUE_TYPE_KEYWORD,
		"TrancheInterval": enumspb.INDEXED_VALUE_TYPE_DATETIME,
	}
}

// startDevFlags are the flags as given.
type startDevFlags struct {
	options            server.Options
	attributes         listFlag
	noTrancheAttribute bool
	dynamicConfig      listFlag
	pragmas            listFlag
	logLevel           choiceFlag
	logFormat          choiceFlag
	readyFile          string
}

func startDev(ctx context.Context, args []string, std stdio) error {
	options, readyFile, logs, err := parseStartDev(args, std)
	if err != nil {
		return err
	}
	// Whatever ends the server in good order, a signal during the start too, ends it quietly.
	context.AfterFunc(ctx, logs.quiet)
	s, err := server.Start(ctx, options)
	if err != nil {
		if ctx.Err() != nil {
			return nil // told to stop before it was ready
		}
		return err
	}
	if err := announce(s, options, readyFile, std.out); err != nil {
		return errors.Join(err, s.Stop())
	}
	<-ctx.Done()
	if readyFile != "" {
		_ = os.Remove(readyFile)
	}
	return s.Stop()
}

func parseStartDev(args []string, std stdio) (server.Options, string, *serverLog, error) {
	var f startDevFlags
	err := parseFlags(f.flagSet(), args, std.out, startDevHelp)
	if err != nil {
		return server.Options{}, "", nil, err
	}
	if err := f.fillIn(std.err); err != nil {
		return server.Options{}, "", nil, err
	}
	logs := newServerLog(std.err, f.logLevel.value, f.logFormat.value)
	f.options.Logger = logs.logger
	return f.options, f.readyFile, logs, nil
}

func (f *startDevFlags) flagSet() *flag.FlagSet {
	o := &f.options
	f.logLevel = choiceFlag{"warn", []string{"debug", "info", "warn", "error", "never"}}
	f.logFormat = choiceFlag{"text", []string{"text", "json"}}
	flags := flag.NewFlagSet("server start-dev", flag.ContinueOnError)
	flags.StringVar(&o.IP, "ip", "127.0.0.1", "")
	flags.StringVar(&o.UIIP, "ui-ip", "", "")
	for _, name := range []string{"port", "p"} {
		flags.IntVar(&o.Port, name, 7233, "")
	}
	flags.IntVar(&o.UIPort, "ui-port", 0, "")
	flags.IntVar(&o.HTTPPort, "http-port", 0, "")
	flags.IntVar(&o.MetricsPort, "metrics-port", 0, "")
	flags.BoolVar(&o.Headless, "headless", false, "")
	flags.StringVar(&o.UICodecEndpoint, "ui-codec-endpoint", "", "")
	for _, name := range []string{"db-filename", "f"} {
		flags.StringVar(&o.DatabaseFile, name, "", "")
	}
	for _, name := range []string{"namespace", "n"} {
		flags.Var((*listFlag)(&o.Namespaces), name, "")
	}
	flags.Var(&f.pragmas, "sqlite-pragma", "")
	flags.Var(&f.attributes, "search-attribute", "")
	flags.BoolVar(&f.noTrancheAttribute, "no-search-attributes", false, "")
	flags.Var(&f.dynamicConfig, "dynamic-config-value", "")
	flags.Var(&f.logLevel, "log-level", "")
	flags.Var(&f.logFormat, "log-format", "")
	flags.StringVar(&f.readyFile, "ready-file", "", "")
	return flags
}

// fillIn turns the repeatable flags into options.
func (f *startDevFlags) fillIn(warnings io.Writer) error {
	o := &f.options
	o.SearchAttributes = trancheSearchAttributes()
	if f.noTrancheAttribute {
		clear(o.SearchAttributes)
	}
	for _, pair := range f.attributes {
		name, text, err := splitPair("search-attribute", pair, "NAME=TYPE, for example Customer=Keyword")
		if err != nil {
			return err
		}
		if o.SearchAttributes[name], err = attributeType(name, text); err != nil {
			return err
		}
	}
	o.Pragmas = map[string]string{}
	for _, pair := range f.pragmas {
		name, value, err := splitPair("sqlite-pragma", pair, "NAME=VALUE, for example synchronous=full")
		if err != nil {
			return err
		}
		o.Pragmas[strings.ToLower(name)] = value
	}
	o.DynamicConfig = map[string]any{}
	for _, pair := range f.dynamicConfig {
		key, text, err := splitPair("dynamic-config-value", pair, "KEY=JSON, for example frontend.rps=100")
		if err != nil {
			return err
		}
		if o.DynamicConfig[key], err = dynamicConfigValue(key, text, warnings); err != nil {
			return err
		}
	}
	return nil
}

func attributeType(name, text string) (enumspb.IndexedValueType, error) {
	var known []string
	for number := enumspb.INDEXED_VALUE_TYPE_TEXT; number <= enumspb.INDEXED_VALUE_TYPE_KEYWORD_LIST; number++ {
		if strings.EqualFold(number.String(), text) {
			return number, nil
		}
		known = append(known, number.String())
	}
	return 0, &usageError{fmt.Sprintf("--search-attribute %s: unknown type %q; choose one of %s", name, text, strings.Join(known, ", "))}
}

// dynamicConfigValue reads one value and lets Temporal check it. A key that Temporal does not know
// is a warning, as newer and older servers know others; a value that does not fit its key is an error.
func dynamicConfigValue(key, text string, warnings io.Writer) (any, error) {
	if !json.Valid([]byte(text)) {
		return nil, &usageError{fmt.Sprintf("--dynamic-config-value %s: %q is not JSON; strings need quotes: '%s=\"...\"'", key, text, key)}
	}
	var loader dynamicconfig.YamlLoader
	loader.LoadValue(dynamicconfig.MakeKey(key), []byte("- value: "+text))
	if err := loader.Err(); err != nil {
		return nil, &usageError{fmt.Sprintf("--dynamic-config-value %s: %v", key, err)}
	}
	for _, warning := range loader.Warnings {
		if !strings.HasPrefix(warning.Error(), "unregistered key") {
			return nil, &usageError{fmt.Sprintf("--dynamic-config-value %s: %v", key, warning)}
		}
		fmt.Fprintf(warnings, "devserver: --dynamic-config-value %s: this Temporal server knows no such setting\n", key)
	}
	return loader.Map[dynamicconfig.MakeKey(key)][0].Value, nil
}

// readiness is the content of the ready file.
type readiness struct {
	// Address is the frontend's host:port.
	Address string `json:"address"`
	// UI is the UI's URL, empty when headless.
	UI  string `json:"ui"`
	PID int    `json:"pid"`
}

// announce tells people on stdout, and programs in the ready file, that the server is usable.
func announce(s *server.Server, o server.Options, readyFile string, out io.Writer) error {
	ready := readiness{Address: s.Address(), UI: s.UI(), PID: os.Getpid()}
	if readyFile != "" {
		if err := writeAtomically(readyFile, ready); err != nil {
			return fmt.Errorf("write --ready-file %s: %w", readyFile, err)
		}
	}
	state := "in memory"
	if o.DatabaseFile != "" {
		state = "in " + o.DatabaseFile
	}
	ui := ready.UI
	if ui == "" {
		ui = "none"
	}
	_, err := fmt.Fprintf(out, "Temporal is ready at %s (UI: %s, state %s, pid %d)\n", ready.Address, ui, state, ready.PID)
	return err
}

// writeAtomically writes beside the file and renames, so that a reader sees all of it or none.
func writeAtomically(path string, ready readiness) (err error) {
	content, err := json.Marshal(ready)
	if err != nil {
		return err
	}
	file, err := os.CreateTemp(filepath.Dir(path), filepath.Base(path)+".*")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			_ = os.Remove(file.Name())
		}
	}()
	_, err = file.Write(append(content, '\n'))
	if err := errors.Join(err, file.Close()); err != nil {
		return err
	}
	return os.Rename(file.Name(), path)
}
