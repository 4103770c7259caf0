package store

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strconv"
	"strings"
	"time"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/plain"
)

// HTTP is a folder of a web server. It lists nothing; Put needs a server that takes PUT.
type HTTP struct {
	base   *url.URL
	client *http.Client
}

// NewHTTP returns the store below a URL. client nil is one of its own.
func NewHTTP(base string, client *http.Client) (*HTTP, error) {
	u, err := parseURL(base)
	if err != nil {
		return nil, err
	}
	if client == nil {
		client = &http.Client{CheckRedirect: sameHost}
	}
	return &HTTP{u, client}, nil
}

// parseURL is url.Parse, whose errors quote the URL with the password that it may hold.
func parseURL(raw string) (*url.URL, error) {
	u, err := url.Parse(raw)
	if err != nil {
		var bad *url.Error
		if errors.As(err, &bad) {
			err = bad.Err
		}
		return nil, fmt.Errorf("store: the URL cannot be read: %w", err)
	}
	return u, nil
}

// sameHost follows a redirect within the host alone: a peer's server must not have ranks
// ask others, which may trust this host.
func sameHost(q *http.Request, via []*http.Request) error {
	if first := via[0].URL; q.URL.Scheme != first.Scheme || q.URL.Host != first.Host || len(via) > maxRedirects {
		return http.ErrUseLastResponse
	}
	return nil
}

const maxRedirects = 3

func (s *HTTP) request(ctx context.Context, method, key string, body io.Reader) (*http.Request, error) {
	return http.NewRequestWithContext(ctx, method, s.base.JoinPath(key).String(), body)
}

// netError gives an error of a request its outcome. A URL may hold a password: it is left
// out.
func netError(ctx context.Context, key string, err error) error {
	s := outcome.Network
	if ctx.Err() != nil {
		s = outcome.Of(context.Cause(ctx))
	}
	var u *url.Error
	if errors.As(err, &u) {
		err = u.Err
	}
	return outcome.Errorf(s, "%s: %v", plain.Name(key), err)
}

// Open implements Store.
func (s *HTTP) Open(ctx context.Context, key string, get Get) (*Object, error) {
	q, err := s.request(ctx, http.MethodGet, key, nil)
	if err != nil {
		return nil, outcome.Errorf(outcome.BadFormat, "%s: %v", plain.Name(key), err)
	}
	q.Header.Set("Accept-Encoding", "identity")
	ranged := get.Off > 0 || get.Len > 0
	if ranged {
		q.Header.Set("Range", rangeHeader(get))
	}
	if get.IfMatch != "" {
		q.Header.Set("If-Match", get.IfMatch)
	}
	a, err := s.client.Do(q)
	if err != nil {
		return nil, netError(ctx, key, err)
	}
	o := &Object{Body: a.Body, Size: a.ContentLength, ETag: a.Header.Get("ETag")}
	if t, err := http.ParseTime(a.Header.Get("Last-Modified")); err == nil {
		o.LastModified = t
	}
	switch {
	case a.StatusCode == http.StatusPartialContent && ranged && strings.HasPrefix(a.Header.Get("Content-Range"), fmt.Sprintf("bytes %d-", get.Off)):
		o.Size = totalOf(a.Header.Get("Content-Range"))
		return o, nil
	case a.StatusCode == http.StatusOK && get.Off == 0: // a server without ranges
		return o, nil
	}
	a.Body.Close()
	if a.StatusCode == http.StatusOK || a.StatusCode == http.StatusPartialContent {
		return nil, outcome.Errorf(outcome.Network, "%s: HTTP status %d, Content-Range %.80q: %v from %d on", plain.Name(key), a.StatusCode, a.Header.Get("Content-Range"), errNoRange, get.Off)
	}
	return nil, fromHTTP(a.StatusCode, key, a.Header.Get("Retry-After"))
}

// errNoRange is the cause of an error of a server that does not give the range asked for.
var errNoRange = errors.New("expected the range")

func rangeHeader(get Get) string {
	if get.Len > 0 {
		return fmt.Sprintf("bytes=%d-%d", get.Off, get.Off+get.Len-1)
	}
	return fmt.Sprintf("bytes=%d-", get.Off)
}

// totalOf returns the size of the object in a Content-Range, or -1.
func totalOf(header string) int64 {
	_, total, _ := strings.Cut(header, "/")
	n, err := strconv.ParseInt(total, 10, 64)
	if err != nil || n < 0 {
		return -1
	}
	return n
}

// Put implements Store.
func (s *HTTP) Put(ctx context.Context, key string, r io.Reader, size int64, o *PutOptions) error {
	q, err := s.request(ctx, http.MethodPut, key, r)
	if err != nil {
		return outcome.Errorf(outcome.BadFormat, "%s: %v", plain.Name(key), err)
	}
	q.ContentLength = size
	if o != nil && o.Exclusive {
		q.Header.Set("If-None-Match", "*")
	}
	return s.do(ctx, q, key)
}

// Delete implements Store.
func (s *HTTP) Delete(ctx context.Context, key string) error {
	q, err := s.request(ctx, http.MethodDelete, key, nil)
	if err != nil {
		return outcome.Errorf(outcome.BadFormat, "%s: %v", plain.Name(key), err)
	}
	if err := s.do(ctx, q, key); outcome.Of(err) != outcome.NotFound {
		return err
	}
	return nil
}

func (s *HTTP) do(ctx context.Context, q *http.Request, key string) error {
	a, err := s.client.Do(q)
	if err != nil {
		return netError(ctx, key, err)
	}
	a.Body.Close()
	switch {
	case a.StatusCode/100 == 2:
		return nil
	case a.StatusCode == http.StatusPreconditionFailed && q.Header.Get("If-None-Match") != "":
		return fmt.Errorf("%w: %s", ErrExists, plain.Name(key))
	}
	return fromHTTP(a.StatusCode, key, a.Header.Get("Retry-After"))
}

// List implements Store.
func (s *HTTP) List(context.Context, string) ([]Entry, error) {
	return nil, fmt.Errorf("%w: a web server does not list its objects; name the peers", ErrUnsupported)
}

// sameSecond truncates a time to what HTTP carries.
func sameSecond(t time.Time) time.Time { return t.Truncate(time.Second) }
