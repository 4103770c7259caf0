package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/plain"
)

// ErrUnsupported is returned by a store that cannot do what it was asked for.
var ErrUnsupported = errors.New("store: not supported")

// ErrExists is returned when an object that was to be created is there.
var ErrExists = errors.New("store: the object exists")

// Store is a place with objects. Methods may be called concurrently. Their errors are
// *outcome.Error: NOT_FOUND, FORBIDDEN, CHANGED, NETWORK, TIMEOUT, CANCELLED, BAD_FORMAT
// for a name that cannot be; or wrap ErrUnsupported or ErrExists.
type Store interface {
	// Open asks for an object or a part of it by one request.
	Open(ctx context.Context, key string, get Get) (*Object, error)

	// Put writes an object of size bytes, which appears whole or not at all.
	Put(ctx context.Context, key string, r io.Reader, size int64, o *PutOptions) error

	// List returns the objects whose key begins with prefix, by key.
	List(ctx context.Context, prefix string) ([]Entry, error)

	// Delete removes an object. One that is not there is no error.
	Delete(ctx context.Context, key string) error
}

// Uploader is a Store that takes an object in parts, from several processes. The object
// appears when CompleteUpload succeeds. Parts are numbered from 1.
type Uploader interface {
	Store
	// CreateUpload begins an upload of the object at key and returns its id.
	CreateUpload(ctx context.Context, key string, o *PutOptions) (id string, err error)
	// UploadPart stores part n, of size bytes, and returns its ETag.
	UploadPart(ctx context.Context, key, id string, n int, r io.Reader, size int64) (etag string, err error)
	// CompleteUpload makes the object of the parts with these ETags, in order.
	CompleteUpload(ctx context.Context, key, id string, etags []string, o *PutOptions) error
	// AbortUpload drops the upload and its parts.
	AbortUpload(ctx context.Context, key, id string) error

	// Uploads lists the ids of uploads that were created and neither completed nor
	// aborted.
	Uploads(ctx context.Context, prefix string) ([]string, error)
}

// Get says what of an object is wanted. The zero value is all of it.
type Get struct {
	Off     int64
	Len     int64  // 0: to the end
	IfMatch string // ETag that the object must have; empty for any
}

// Object is an answer to Open. The caller closes Body.
type Object struct {
	Body         io.ReadCloser
	Size         int64     // of the whole object; -1 where the store does not say
	LastModified time.Time // zero where the store does not say
	ETag         string
}

// PutOptions changes Put. Nil is fine.
type PutOptions struct {
	Exclusive bool              // ErrExists if the object is there
	Metadata  map[string]string // kept by stores that keep any: s3
}

// Entry is an object of a List.
type Entry struct {
	Key          string
	Size         int64
	LastModified time.Time
}

// retryAfter is an error that says when to come again.
type retryAfter struct {
	cause *outcome.Error
	after time.Duration
}

func (e *retryAfter) Error() string { return e.cause.Error() }
func (e *retryAfter) Unwrap() error { return e.cause }

// fromHTTP makes an error of an HTTP status.
func fromHTTP(code int, key, header string) error {
	e := outcome.Errorf(outcome.Network, "%s: HTTP status %d %s", plain.Name(key), code, http.StatusText(code))
	switch code {
	case http.StatusNotFound, http.StatusGone:
		e.Outcome = outcome.NotFound
	case http.StatusUnauthorized, http.StatusForbidden:
		e.Outcome = outcome.Forbidden
	case http.StatusPreconditionFailed:
		e.Outcome = outcome.Changed
	case http.StatusTooManyRequests, http.StatusServiceUnavailable:
		if after, ok := parseRetryAfter(header); ok {
			return &retryAfter{e, after}
		}
	default:
		if code < 500 && code != http.StatusRequestTimeout {
			e.Outcome = outcome.BadFormat // a request that the server will never take
		}
	}
	return e
}

// parseRetryAfter reads a Retry-After: seconds, or a time.
func parseRetryAfter(header string) (time.Duration, bool) {
	if at, err := http.ParseTime(header); err == nil {
		return max(time.Until(at), 0), true
	}
	seconds, err := strconv.ParseUint(header, 10, 32)
	return time.Duration(seconds) * time.Second, err == nil
}

// Options is what New needs beside a URL. Nil is fine.
type Options struct {
	S3 S3Options
	// nil: http.DefaultClient's transport without a cookie jar, and redirects are
	// followed within a host only; a client that is given has its own rule
	HTTP *http.Client
}

// New returns the store of a URL and the prefix of keys in it:
//
//	/a/folder  file:///a/folder  http://host/path  s3://bucket/prefix
func New(raw string, o *Options) (Store, error) {
	if o == nil {
		o = &Options{}
	}
	u, err := parseURL(raw)
	if err != nil {
		return nil, err
	}
	switch u.Scheme {
	case "", "file":
		return NewFile(u.Path)
	case "http", "https":
		return NewHTTP(raw, o.HTTP)
	case "s3":
		return NewS3(u.Host, strings.TrimPrefix(u.Path, "/"), &o.S3)
	}
	return nil, fmt.Errorf("store %s: scheme %q, expected a folder, file, http, https or s3", u.Redacted(), u.Scheme)
}
