package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// asShop makes the test binary the program itself.
const asShop = "SHOP_TEST_AS_PROGRAM"

func TestMain(m *testing.M) {
	if os.Getenv(asShop) != "" {
		main()
		return
	}
	os.Exit(m.Run())
}

func environment(pairs ...string) func(string) (string, bool) {
	return func(name string) (string, bool) {
		for i := 0; i < len(pairs); i += 2 {
			if pairs[i] == name {
				return pairs[i+1], true
			}
		}
		return "", false
	}
}

func TestUsage(t *testing.T) {
	t.Parallel()
	withToken := environment("SHOP_TOKEN", testToken)
	for _, test := range []struct {
		name string
		args []string
		env  func(string) (string, bool)
		code int
		out  string
		talk string
	}{
		{"help", []string{"--help"}, withToken, exitDone, "--refuse N", ""},
		{"no token", nil, environment(), exitUsage, "", "SHOP_TOKEN"},
		{"an empty token", nil, environment("SHOP_TOKEN", ""), exitUsage, "", "SHOP_TOKEN"},
		{"an argument", []string{"8089"}, withToken, exitUsage, "", `unexpected argument "8089"`},
		{"an unknown flag", []string{"--port", "1"}, withToken, exitUsage, "", "--port"},
		{"refuse some", []string{"--refuse", "some"}, withToken, exitUsage, "", "write a number from 0 to"},
		{"refuse -1", []string{"--refuse=-1"}, withToken, exitUsage, "", "write a number from 0 to"},
		{"closed on no day", []string{"--closed", "2026-01-32"}, withToken, exitUsage, "", `"2026-01-32" is not a day`},
		{"no such address", []string{"--listen", "127.0.0.1:99999"}, withToken, exitFailed, "", "--listen takes another address"},
		{"no such folder", []string{"--listen", "127.0.0.1:0", "--ready-file", "/nowhere/ready.json"}, withToken, exitFailed, "", "write --ready-file /nowhere/ready.json"},
	} {
		var out, talk bytes.Buffer
		code := run(t.Context(), test.args, streams{&out, &talk}, test.env)
		if code != test.code || !strings.Contains(out.String(), test.out) || !strings.Contains(talk.String(), test.talk) {
			t.Errorf("%s: exit %d, %q, %q", test.name, code, &out, &talk)
		}
		if code != exitDone && (talk.Len() == 0 || out.Len() > 0) {
			t.Errorf("%s: a failure belongs to stderr, got %q there and %q on stdout", test.name, &talk, &out)
		}
	}
}

func TestFlags(t *testing.T) {
	t.Parallel()
	o, err := parseFlags([]string{"--refuse=off", "--closed", "2026-01-18", "--closed=2026-01-25"})
	if err != nil || o.refuse != 0 || len(o.closed) != 2 || o.listen != "127.0.0.1:8089" {
		t.Errorf("got %+v, %v", o, err)
	}
	if o, err := parseFlags(nil); err != nil || o.refuse != 2 {
		t.Errorf("the default refuses %d, %v", o.refuse, err)
	}
}

func TestPortTaken(t *testing.T) {
	t.Parallel()
	taken, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer taken.Close()
	var out, talk bytes.Buffer
	code := run(t.Context(), []string{"--listen", taken.Addr().String()}, streams{&out, &talk}, environment("SHOP_TOKEN", testToken))
	if code != exitFailed || !strings.Contains(talk.String(), "in use") {
		t.Errorf("exit %d, %q", code, &talk)
	}
}

// The process says where it listens, answers, and ends in good order when it is told to.
func TestProcess(t *testing.T) {
	t.Parallel()
	readyFile := filepath.Join(t.TempDir(), "shop.json")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	command := exec.CommandContext(ctx, os.Args[0], "--listen", "127.0.0.1:0", "--refuse", "1", "--ready-file", readyFile)
	command.Env = append(os.Environ(), asShop+"=1", "SHOP_TOKEN="+testToken)
	var talk bytes.Buffer
	command.Stderr = &talk
	out, err := command.StdoutPipe()
	if err != nil {
		t.Fatal(err)
	}
	if err := command.Start(); err != nil {
		t.Fatal(err)
	}
	line, err := bufio.NewReader(out).ReadString('\n')
	if err != nil {
		t.Fatalf("no address: %v; %s", err, &talk)
	}
	address := readReady(t, readyFile, command.Process.Pid)
	if line != "shop listens on http://"+address+"\n" {
		t.Errorf("it prints %q, the ready file says %s", line, address)
	}
	for i, want := range []int{http.StatusTooManyRequests, http.StatusOK} {
		if got := get(t, "http://"+address+target("from", testFrom, "to", testTo)); got != want {
			t.Errorf("request %d: %d, want %d", i+1, got, want)
		}
	}
	if err := command.Process.Signal(syscall.SIGTERM); err != nil {
		t.Fatal(err)
	}
	if err := command.Wait(); err != nil || talk.Len() > 0 {
		t.Errorf("on SIGTERM: %v; %s", err, &talk)
	}
	if _, err := os.Stat(readyFile); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("the ready file is still there: %v", err)
	}
}

func readReady(t *testing.T, file string, pid int) string {
	t.Helper()
	content, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	var ready struct {
		Address string
		PID     int
	}
	if err := json.Unmarshal(content, &ready); err != nil || ready.PID != pid || ready.Address == "" {
		t.Fatalf("the ready file holds %s for the process %d: %v", content, pid, err)
	}
	return ready.Address
}

func get(t *testing.T, address string) int {
	t.Helper()
	request, err := http.NewRequestWithContext(t.Context(), http.MethodGet, address, nil)
	if err != nil {
		t.Fatal(err)
	}
	request.Header.Set("Authorization", "Bearer "+testToken)
	response, err := http.DefaultClient.Do(request)
	if err != nil {
		t.Fatal(err)
	}
	defer response.Body.Close()
	return response.StatusCode
}
