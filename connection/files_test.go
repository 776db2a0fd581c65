package connection

import (
	"bytes"
	"context"
	"crypto/md5"
	"encoding/base64"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"google.golang.org/api/googleapi"

	"github.com/trancheflow/tranche/retry"
)

// bucketServer speaks as much of S3 and of Google's JSON API as reading an object takes.
type bucketServer struct {
	mu      sync.Mutex
	objects map[string][]byte // by bucket/key
	cut     int               // bytes after which the body of an object breaks off; 0: never
	status  int               // answered instead of everything; 0: none
	// retryAfter goes with status; empty: none.
	retryAfter string
}

func (s *bucketServer) put(name string, data []byte) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.objects == nil {
		s.objects = map[string][]byte{}
	}
	s.objects[name] = data
}

func (s *bucketServer) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.status != 0 {
		if s.retryAfter != "" {
			w.Header().Set("Retry-After", s.retryAfter)
		}
		w.WriteHeader(s.status)
		return
	}
	name := strings.TrimPrefix(r.URL.Path, "/")
	if bucket, key, ok := googleName(r.URL); ok {
		s.google(w, bucket+"/"+key)
		return
	}
	data, ok := s.objects[name]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		if r.Method == http.MethodGet {
			io.WriteString(w, `<?xml version="1.0"?><Error><Code>NoSuchKey</Code></Error>`)
		}
		return
	}
	etag := etagOf(data)
	if want := r.Header.Get("If-Match"); want != "" && want != etag {
		w.WriteHeader(http.StatusPreconditionFailed)
		io.WriteString(w, `<?xml version="1.0"?><Error><Code>PreconditionFailed</Code></Error>`)
		return
	}
	w.Header().Set("ETag", etag)
	w.Header().Set("Last-Modified", "Thu, 15 Jan 2026 10:00:00 GMT")
	w.Header().Set("Content-Length", strconv.Itoa(len(data)))
	if s.cut > 0 {
		data = data[:s.cut]
	}
	if r.Method == http.MethodGet {
		w.Write(data)
	}
}

func etagOf(data []byte) string {
	sum := md5.Sum(data)
	return `"` + hex.EncodeToString(sum[:]) + `"`
}

func googleName(u *url.URL) (bucket, key string, ok bool) {
	rest, ok := strings.CutPrefix(u.EscapedPath(), "/storage/v1/b/")
	if !ok {
		return "", "", false
	}
	bucket, key, ok = strings.Cut(rest, "/o/")
	key, err := url.PathUnescape(key)
	return bucket, key, ok && err == nil
}

func (s *bucketServer) google(w http.ResponseWriter, name string) {
	data, ok := s.objects[name]
	if !ok {
		w.WriteHeader(http.StatusNotFound)
		io.WriteString(w, `{"error":{"code":404,"message":"No such object"}}`)
		return
	}
	sum := md5.Sum(data)
	json.NewEncoder(w).Encode(map[string]string{
		"name": name, "size": strconv.Itoa(len(data)), "updated": "2026-01-15T10:00:00Z", "timeCreated": "2026-01-15T10:00:00Z",
		"etag": etagOf(data), "md5Hash": base64.StdEncoding.EncodeToString(sum[:]), "generation": "1",
	})
}

// s3Files is a prefix of a bucket on a server of ours.
func s3Files(t *testing.T, server *bucketServer) *Files {
	t.Helper()
	web := serve(t, server.ServeHTTP)
	address := "s3://bucket/in/2026?region=eu-west-1&anonymous=true&use_path_style=true&endpoint=" + url.QueryEscape(web.URL)
	files, err := mustParse(t, fmt.Sprintf("connections: { lake: { files: { url: %q } } }", address), nil).Files("lake")
	if err != nil {
		t.Fatal(err)
	}
	return files
}

func localFiles(t *testing.T) (*Files, string) {
	t.Helper()
	folder := t.TempDir()
	files, err := mustParse(t, fmt.Sprintf("connections: { local: { files: { url: %q } } }", folder), nil).Files("local")
	if err != nil {
		t.Fatal(err)
	}
	return files, folder
}

func readAll(ctx context.Context, files *Files, path string) ([]byte, error) {
	object, err := files.Stat(ctx, path)
	if err != nil {
		return nil, err
	}
	body, err := files.Open(ctx, object)
	if err != nil {
		return nil, err
	}
	defer body.Close()
	return io.ReadAll(body)
}

// TestStores holds every kind of store to the same behaviour.
func TestStores(t *testing.T) {
	server := &bucketServer{}
	local, folder := localFiles(t)
	web := serve(t, server.ServeHTTP)
	t.Setenv("STORAGE_EMULATOR_HOST", strings.TrimPrefix(web.URL, "http://"))
	google, err := mustParse(t, `connections: { g: { files: { url: "gs://bucket/in/2026" } } }`, nil).Files("g")
	if err != nil {
		t.Fatal(err)
	}
	inBucket := func(path string, data []byte) { server.put("bucket/in/2026/"+path, data) }
	for name, store := range map[string]struct {
		files *Files
		put   func(path string, data []byte)
	}{
		"local": {local, func(path string, data []byte) {
			full := filepath.Join(folder, filepath.FromSlash(path))
			if err := os.MkdirAll(filepath.Dir(full), 0o755); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(full, data, 0o644); err != nil {
				t.Fatal(err)
			}
		}},
		"s3":     {s3Files(t, server), inBucket},
		"google": {google, inBucket},
	} {
		t.Run(name, func(t *testing.T) {
			large := bytes.Repeat([]byte("0123456789"), 100_000)
			for path, data := range map[string][]byte{"a.csv": []byte("id\n1\n"), "day=15/Größe 1+2%.csv": large, "empty": {}} {
				store.put(path, data)
				got, err := readAll(t.Context(), store.files, path)
				if err != nil || !bytes.Equal(got, data) {
					t.Errorf("%s: %d bytes, %v", path, len(got), err)
				}
			}
			object, err := store.files.Stat(t.Context(), "a.csv")
			if err != nil || object.Size != 5 || object.ModTime.IsZero() || object.ETag == "" || !object.Same(object) {
				t.Errorf("%+v, %v", object, err)
			}
			_, err = store.files.Stat(t.Context(), "none.csv")
			wantVerdict(t, err, retry.Permanent, TypeFileMissing)
			if !strings.Contains(err.Error(), "none.csv in the connection ") {
				t.Error(err)
			}
			for _, path := range []string{"", ".", "../x", "a/../../x", "/etc/passwd", "a//b", "a/", `a\b`, "a\x00b", "a\nb"} {
				if _, err := store.files.Stat(t.Context(), path); retry.Classify(err).Type != TypeBadPath {
					t.Errorf("%q: %v", path, err)
				}
			}
			store.put("a.csv", []byte("id\n2\n3\n4\n"))
			now, err := store.files.Stat(t.Context(), "a.csv")
			if err != nil || now.Same(object) {
				t.Errorf("a changed file is the same: %v, %v", now, err)
			}
		})
	}
}

func TestLocalFolderIsNoFile(t *testing.T) {
	t.Parallel()
	files, folder := localFiles(t)
	if err := os.Mkdir(filepath.Join(folder, "sub"), 0o755); err != nil {
		t.Fatal(err)
	}
	_, err := files.Stat(t.Context(), "sub")
	wantVerdict(t, err, retry.Permanent, TypeBadPath)
	if !strings.Contains(err.Error(), "sub in the connection local is a folder") {
		t.Error(err)
	}
}

func TestMissingFolder(t *testing.T) {
	t.Parallel()
	text := fmt.Sprintf("connections: { gone: { files: { url: %q } } }", filepath.Join(t.TempDir(), "none"))
	files, _ := mustParse(t, text, nil).Files("gone")
	_, err := files.Stat(t.Context(), "a.csv")
	if err == nil || !strings.Contains(err.Error(), "a.csv in the connection gone") {
		t.Error(err)
	}
}

func TestBucketGivesNoOtherVersion(t *testing.T) {
	t.Parallel()
	server := &bucketServer{}
	server.put("bucket/in/2026/a.csv", []byte("id\n1\n"))
	files := s3Files(t, server)
	object, err := files.Stat(t.Context(), "a.csv")
	if err != nil {
		t.Fatal(err)
	}
	server.put("bucket/in/2026/a.csv", []byte("id\n2\n"))
	_, err = files.Open(t.Context(), object)
	wantVerdict(t, err, retry.Transient, TypeSourceChanged)
}

func TestLocalFileThatGrowsWhileItIsRead(t *testing.T) {
	t.Parallel()
	files, folder := localFiles(t)
	path := filepath.Join(folder, "a.csv")
	if err := os.WriteFile(path, []byte("id\n1\n"), 0o644); err != nil {
		t.Fatal(err)
	}
	object, err := files.Stat(t.Context(), "a.csv")
	if err != nil {
		t.Fatal(err)
	}
	for _, content := range []string{"id\n1\n2\n", "id\n"} {
		if err := os.WriteFile(path, []byte(content), 0o644); err != nil {
			t.Fatal(err)
		}
		body, err := files.Open(t.Context(), object)
		if err == nil {
			_, err = io.ReadAll(body)
			body.Close()
		}
		wantVerdict(t, err, retry.Transient, TypeSourceChanged)
	}
}

func TestBucketThatBreaksOff(t *testing.T) {
	t.Parallel()
	server := &bucketServer{cut: 3}
	server.put("bucket/in/2026/a.csv", []byte("id\n1\n"))
	_, err := readAll(t.Context(), s3Files(t, server), "a.csv")
	if retry.Classify(err).Class != retry.Transient {
		t.Error(err)
	}
}

func TestStoreStatus(t *testing.T) {
	t.Parallel()
	type verdict = retry.Verdict
	for status, want := range map[int]verdict{
		403: {Class: retry.Permanent, Type: TypeStorage}, 400: {Class: retry.Permanent, Type: TypeStorage},
		503: {Class: retry.Throttled, Type: TypeRateLimited, After: 7 * time.Second},
	} {
		files := s3Files(t, &bucketServer{status: status, retryAfter: "7"})
		_, err := files.Stat(t.Context(), "a.csv")
		if v := retry.Classify(err); v != want {
			t.Errorf("%d: %+v: %v", status, v, err)
		}
	}
	files := &Files{name: "lake"}
	for status, want := range map[int]retry.Class{500: retry.Transient, 502: retry.Transient, 503: retry.Throttled, 429: retry.Throttled, 409: retry.Permanent} {
		err := fmt.Errorf("look up: %w", &googleapi.Error{Code: status, Header: http.Header{"Retry-After": {"7"}}})
		if v := retry.Classify(files.classify(err)); v.Class != want || (v.After == 7*time.Second) != (want != retry.Permanent) {
			t.Errorf("%d: %+v", status, v)
		}
	}
}

func TestStoreCancel(t *testing.T) {
	t.Parallel()
	files := s3Files(t, &bucketServer{})
	ctx, cancel := context.WithTimeout(t.Context(), time.Hour)
	cancel()
	if _, err := files.Stat(ctx, "a.csv"); !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
