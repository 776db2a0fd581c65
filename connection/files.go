package connection

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"time"

	"github.com/aws/aws-sdk-go-v2/aws"
	awshttp "github.com/aws/aws-sdk-go-v2/aws/transport/http"
	"github.com/aws/aws-sdk-go-v2/service/s3"
	"gocloud.dev/blob"
	"gocloud.dev/blob/fileblob"
	"gocloud.dev/blob/gcsblob"
	"gocloud.dev/blob/s3blob"
	"gocloud.dev/gcerrors"
	"google.golang.org/api/googleapi"

	"github.com/trancheflow/tranche/retry"
)

// storageIdleTimeout is how long a bucket may bring less than 1 KiB of an object that is being read.
const storageIdleTimeout = time.Minute

// Files is a local folder or a bucket, or a prefix of one. It is safe for concurrent use.
//
// Credentials of buckets come from the environment, as the vendors' own tools find them. A symbolic
// link in a local folder is followed, wherever it leads: who may write there may read what the worker
// may.
type Files struct {
	name      string
	folder    string   // of a local folder, or ""
	bucketURL *url.URL // of a bucket, or nil
	masker    *masker

	mu     sync.Mutex
	bucket *blob.Bucket // opened at the first use
}

// Object is what is known of a file without reading it.
type Object struct {
	// Path below the connection's folder or prefix, with slashes.
	Path string `json:"path"`
	// Size in bytes, as stored.
	Size int64 `json:"size"`
	// ModTime is when it was last written.
	ModTime time.Time `json:"mod_time"`
	// ETag changes with the content. For a local file it is made of time and size.
	ETag string `json:"etag,omitempty"`
	// MD5 of the content as stored; empty where the store does not keep it.
	MD5 []byte `json:"md5,omitempty"`
}

// Same reports whether o and other are the same version of the same file.
func (o Object) Same(other Object) bool {
	return o.Path == other.Path && o.Size == other.Size && o.ETag == other.ETag &&
		string(o.MD5) == string(other.MD5) && o.ModTime.Equal(other.ModTime)
}

// Name is the connection's name in connections.yaml.
func (f *Files) Name() string { return f.name }

// Mask does what [Set.Mask] does.
func (f *Files) Mask(text string) string { return f.masker.mask(text) }

// Stat looks a file up. A missing file is a permanent error of the type FileMissing. A path that leaves
// the folder, is absolute or names a folder is one of the type BadPath.
func (f *Files) Stat(ctx context.Context, path string) (Object, error) {
	if err := f.checkPath(path); err != nil {
		return Object{}, err
	}
	bucket, err := f.open(ctx)
	if err != nil {
		return Object{}, f.explain(ctx, "opening", path, err)
	}
	attributes, err := bucket.Attributes(ctx, path)
	if err != nil {
		return Object{}, f.explain(ctx, "looking up", path, err)
	}
	return Object{Path: path, Size: attributes.Size, ModTime: attributes.ModTime.UTC(), ETag: attributes.ETag, MD5: attributes.MD5}, nil
}

// Open reads the version of a file that Stat described. A bucket that can tell refuses to give another
// one, with a transient error of the type SourceChanged; for the others the caller looks again when
// it has read all. A body that breaks off, stalls or has another length ends with a transient error.
func (f *Files) Open(ctx context.Context, object Object) (io.ReadCloser, error) {
	if err := f.checkPath(object.Path); err != nil {
		return nil, err
	}
	bucket, err := f.open(ctx)
	if err != nil {
		return nil, f.explain(ctx, "opening", object.Path, err)
	}
	inner, cancel := context.WithCancel(ctx)
	reader, err := bucket.NewReader(inner, object.Path, &blob.ReaderOptions{BeforeRead: ifMatch(object.ETag)})
	if err != nil {
		cancel()
		return nil, f.explain(ctx, "opening", object.Path, err)
	}
	sized := &sizedBody{ReadCloser: reader, left: object.Size}
	return watch(ctx, cancel, sized, storageIdleTimeout, "reading "+f.describe(object.Path), func(err error) error {
		return f.classify(err)
	}), nil
}

// ifMatch makes S3 refuse to give another version than the one with this etag.
func ifMatch(etag string) func(as func(any) bool) error {
	return func(as func(any) bool) error {
		var input *s3.GetObjectInput
		if etag != "" && as(&input) {
			input.IfMatch = aws.String(etag)
		}
		return nil
	}
}

// sizedBody makes a body that ends early an error, whatever the store's library thinks of it.
type sizedBody struct {
	io.ReadCloser
	left int64
}

func (b *sizedBody) Read(p []byte) (int, error) {
	n, err := b.ReadCloser.Read(p)
	b.left -= int64(n)
	switch {
	case b.left < 0, err == io.EOF && b.left > 0:
		return n, retry.TransientError(TypeSourceChanged, errors.New("the file has another length than it had when it was looked up"))
	default:
		return n, err
	}
}

func (f *Files) checkPath(path string) error {
	switch {
	case !fs.ValidPath(path) || path == ".":
		return retry.Permanentf(TypeBadPath, "path %q of a file in the connection %q: a path below its folder is wanted, without .., without a slash at its beginning or end", path, f.name)
	case strings.ContainsAny(path, "\x00\\") || strings.ContainsFunc(path, func(r rune) bool { return r < ' ' }):
		return retry.Permanentf(TypeBadPath, "path %q of a file in the connection %q holds a backslash or control character", path, f.name)
	case f.folder == "":
		return nil
	}
	info, err := os.Stat(filepath.Join(f.folder, filepath.FromSlash(path)))
	switch {
	case err == nil && info.IsDir():
		return retry.Permanentf(TypeBadPath, "%s is a folder: name a file in it", f.describe(path))
	case err == nil && !info.Mode().IsRegular():
		return retry.Permanentf(TypeBadPath, "%s is not a regular file", f.describe(path))
	}
	return nil // also when it is missing: what that means is not decided here
}

// open returns the bucket, which is opened at the first use. What went wrong is tried again.
func (f *Files) open(ctx context.Context) (*blob.Bucket, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bucket != nil {
		return f.bucket, nil
	}
	bucket, err := f.openBucket(context.WithoutCancel(ctx)) // it outlives the step that opens it
	if err != nil {
		return nil, err
	}
	f.bucket = bucket
	return bucket, nil
}

func (f *Files) openBucket(ctx context.Context) (*blob.Bucket, error) {
	if f.bucketURL == nil {
		return fileblob.OpenBucket(f.folder, &fileblob.Options{Metadata: fileblob.MetadataDontWrite})
	}
	mux := new(blob.URLMux)
	mux.RegisterBucket(s3blob.Scheme, new(s3blob.URLOpener))
	// The Google opener that finds its credentials by itself is only reached through the default mux.
	if f.bucketURL.Scheme == gcsblob.Scheme {
		mux = blob.DefaultURLMux()
	}
	root := *f.bucketURL
	root.Path, root.RawPath = "", ""
	bucket, err := mux.OpenBucketURL(ctx, &root)
	if err != nil {
		return nil, err
	}
	if prefix := strings.Trim(f.bucketURL.Path, "/"); prefix != "" {
		bucket = blob.PrefixedBucket(bucket, prefix+"/")
	}
	return bucket, nil
}

func (f *Files) close() error {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.bucket == nil {
		return nil
	}
	err := f.bucket.Close()
	f.bucket = nil
	return err
}

// describe names a file for errors: "orders.csv in the connection lake".
func (f *Files) describe(path string) string {
	return fmt.Sprintf("%s in the connection %s", path, f.name)
}

func (f *Files) explain(ctx context.Context, doing, path string, err error) error {
	what := doing + " " + f.describe(path)
	if ctx.Err() != nil {
		return fmt.Errorf("%s: %w", what, ctx.Err())
	}
	return fmt.Errorf("%s: %w", what, f.classify(err))
}

// classify gives an error of a store its class. Its text is masked and cut off from its causes.
func (f *Files) classify(err error) error {
	var known *retry.Error
	if errors.As(err, &known) {
		return known
	}
	text := errors.New(Snippet(f.Mask(err.Error())))
	switch gcerrors.Code(err) {
	case gcerrors.NotFound:
		return retry.PermanentError(TypeFileMissing, errors.New("there is no such file"))
	case gcerrors.FailedPrecondition:
		return retry.TransientError(TypeSourceChanged, errors.New("the file was changed since it was looked up"))
	case gcerrors.PermissionDenied:
		return retry.PermanentError(TypeStorage, text)
	}
	if status, header := storageStatus(err); status != 0 {
		class, after := storeAnswers.verdict(status, header, time.Now())
		kind := TypeStorage
		if class == retry.Throttled {
			kind = TypeRateLimited
		}
		return &retry.Error{Class: class, Type: kind, After: after, Err: text}
	}
	if gcerrors.Code(err) == gcerrors.ResourceExhausted {
		return retry.ThrottledError(TypeRateLimited, 0, text)
	}
	if known := retry.Classify(err); known.Class == retry.Transient {
		return retry.TransientError(known.Type, text)
	}
	return retry.PermanentError(TypeStorage, text)
}

// storeAnswers are what the answers of stores are worth: AWS and Google document 500 as worth another try
// (AWS: "InternalError", Google: "backendError"), and 503 as a request to ask less often (AWS: "SlowDown", which
// the answer to a HEAD cannot name, since it has no body).
var storeAnswers = answers{
	retryOn: []int{http.StatusInternalServerError}, throttleOn: []int{http.StatusServiceUnavailable}, longest: defaultLongestWait,
}

// storageStatus is the HTTP status in an error of AWS or Google, with the header of the answer; or 0.
func storageStatus(err error) (int, http.Header) {
	var amazon *awshttp.ResponseError
	if errors.As(err, &amazon) && amazon.Response != nil {
		return amazon.HTTPStatusCode(), amazon.Response.Header
	}
	var google *googleapi.Error
	if errors.As(err, &google) {
		return google.Code, google.Header
	}
	return 0, nil
}
