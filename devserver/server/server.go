package server

import (
	"context"
	"errors"
	"fmt"
	"os"
	"time"

	uiserver "github.com/temporalio/ui-server/v2/server"
	uiconfig "github.com/temporalio/ui-server/v2/server/config"
	uioptions "github.com/temporalio/ui-server/v2/server/server_options"
	"go.temporal.io/server/temporal"
)

// stopTimeout bounds Stop. Temporal needs one to three seconds: the frontend gives its open calls one.
const stopTimeout = 15 * time.Second

// Server is a running server.
type Server struct {
	options  Options
	ports    Ports
	temporal temporal.Server
	ui       *uiserver.Server
	lock     *os.File
}

// Start starts a server and returns when it is usable: the namespaces exist, the search attributes
// are registered and can be queried, the workers behind schedules and batch operations poll, and the
// UI answers. ctx bounds the start only. A port that is taken is an error that names it.
func Start(ctx context.Context, options Options) (*Server, error) {
	o, err := options.withDefaults()
	if err != nil {
		return nil, err
	}
	ports, release, err := choosePorts(o)
	if err != nil {
		return nil, err
	}
	defer release()
	s := &Server{options: o, ports: ports}
	if err := s.start(ctx); err != nil {
		return nil, errors.Join(err, s.Stop())
	}
	return s, nil
}

func (s *Server) start(ctx context.Context) error {
	if s.options.DatabaseFile != "" {
		if err := checkFolder(s.options.DatabaseFile); err != nil {
			return err
		}
		lock, err := lockDatabase(s.options.DatabaseFile)
		if err != nil {
			return err
		}
		s.lock = lock
	}
	sql, err := prepareDatabase(ctx, s.options)
	if err != nil {
		return err
	}
	s.temporal, err = newTemporal(s.options, s.ports, sql)
	if err != nil {
		return fmt.Errorf("configure Temporal: %w", err)
	}
	if err := s.temporal.Start(); err != nil {
		return fmt.Errorf("start Temporal: %w", err)
	}
	if s.ports.UI != 0 {
		s.ui = s.newUI()
		go func() { _ = s.ui.Start() }() // blocks until Stop
	}
	return s.awaitReady(ctx)
}

func (s *Server) newUI() *uiserver.Server {
	o := s.options
	host := o.UIIP
	return uiserver.NewServer(uioptions.WithConfigProvider(&uiconfig.Config{
		Host:                bracketed(host),
		Port:                s.ports.UI,
		TemporalGRPCAddress: s.Address(),
		EnableUI:            true,
		DefaultNamespace:    DefaultNamespace,
		Codec:               uiconfig.Codec{Endpoint: o.UICodecEndpoint},
		// A browser does not send a Secure cookie over plain http to anything but localhost.
		CORS:             uiconfig.CORS{CookieInsecure: true},
		DisableNewsFetch: true,
		HideLogs:         true,
	}))
}

// bracketed puts an IPv6 address into brackets, for callers that append ":port" to it.
func bracketed(ip string) string {
	for _, c := range ip {
		if c == ':' {
			return "[" + ip + "]"
		}
	}
	return ip
}

// Ports returns the ports in use.
func (s *Server) Ports() Ports { return s.ports }

// Address returns the frontend's host:port for clients on this host.
func (s *Server) Address() string { return hostPort(dialable(s.options.IP), s.ports.Frontend) }

// UI returns the UI's URL for browsers on this host, or "" without a UI.
func (s *Server) UI() string {
	if s.ports.UI == 0 {
		return ""
	}
	return "http://" + hostPort(dialable(s.options.UIIP), s.ports.UI)
}

// Stop ends the server in good order: open calls get a second, what was acknowledged is in the file.
// It returns an error when Temporal has not stopped after 15 s; the process should end then all the
// same, since nothing is lost by that.
func (s *Server) Stop() error {
	if s.ui != nil {
		s.ui.Stop()
	}
	if s.temporal == nil {
		return s.unlock()
	}
	stopped := make(chan error, 1)
	go func() { stopped <- s.temporal.Stop() }()
	select {
	case err := <-stopped:
		return errors.Join(err, s.checkpoint(), s.unlock())
	case <-time.After(stopTimeout):
		return fmt.Errorf("stop Temporal: still running after %s", stopTimeout)
	}
}

// checkpoint moves the write-ahead log into the database file, so that the file alone is the state.
func (s *Server) checkpoint() error {
	if s.options.DatabaseFile == "" {
		return nil
	}
	return checkpoint(s.options.DatabaseFile)
}

func (s *Server) unlock() error {
	if s.lock == nil {
		return nil
	}
	return s.lock.Close()
}
