package store_test

import (
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/gather/store"
)

// serve returns a store whose n-th request, from 1, is answered by h.
func serve(t *testing.T, h func(w http.ResponseWriter, r *http.Request, n int)) *store.HTTP {
	t.Helper()
	n := 0
	s := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		n++
		h(w, r, n)
	}))
	t.Cleanup(s.Close)
	from, err := store.NewHTTP(s.URL, nil)
	if err != nil {
		t.Fatal(err)
	}
	return from
}

// TestLyingServers: whatever a server answers, the object is one object, of the size that
// was announced, within the limits; or it has an outcome.
func TestLyingServers(t *testing.T) {
	whole := strings.Repeat("0123456789", 100)
	const etag, weak = `"a"`, `W/"a"`
	modified := time.Now().UTC().Format(http.TimeFormat)
	part := func(w http.ResponseWriter, from, to int, total any, tag, body string) {
		w.Header().Set("ETag", tag)
		w.Header().Set("Last-Modified", modified)
		w.Header().Set("Content-Range", fmt.Sprintf("bytes %d-%d/%v", from, to-1, total))
		w.WriteHeader(http.StatusPartialContent)
		io.WriteString(w, body)
	}
	// 300 bytes of the whole, and the conn breaks
	cut := func(w http.ResponseWriter, tag string) {
		w.Header().Set("ETag", tag)
		w.Header().Set("Last-Modified", modified)
		w.Header().Set("Content-Length", "1000")
		io.WriteString(w, whole[:300])
		w.(http.Flusher).Flush()
		panic(http.ErrAbortHandler)
	}
	all := func(w http.ResponseWriter) {
		w.Header().Set("Last-Modified", modified)
		io.WriteString(w, whole)
	}
	bounded := fast
	bounded.MaxBytes, bounded.Part, bounded.Attempts = 2000, 600, 4
	window := bounded
	window.TMax = time.Now().Add(time.Hour)
	for name, c := range map[string]struct {
		o        store.FetchOptions
		h        func(w http.ResponseWriter, r *http.Request, n int)
		want     outcome.Outcome
		attempts int
	}{
		"another object from the second part on, twice": {bounded, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n%2 == 1 {
				part(w, 0, 600, 1000, etag, whole[:600])
			} else {
				part(w, 600, 1000, 1000, `"b"`, whole[600:])
			}
		}, outcome.Changed, 4},
		"another size from the second part on, twice": {bounded, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n%2 == 1 {
				part(w, 0, 600, 1000, etag, whole[:600])
			} else {
				part(w, 600, 900, 900, etag, whole[600:900])
			}
		}, outcome.Changed, 4},
		"another range than it was asked for": {bounded, func(w http.ResponseWriter, _ *http.Request, n int) {
			part(w, 5, 605, 1000, etag, whole[5:605])
		}, outcome.Network, 4},
		"more than it announced": {bounded, func(w http.ResponseWriter, _ *http.Request, n int) {
			part(w, 0, 1000, 1000, etag, whole+strings.Repeat("x", 1<<20))
		}, outcome.OK, 1},
		"no end": {bounded, func(w http.ResponseWriter, r *http.Request, n int) {
			for r.Context().Err() == nil {
				io.WriteString(w, whole)
			}
		}, outcome.TooLarge, 1},
		"a weak ETag and a conn that breaks": {bounded, func(w http.ResponseWriter, r *http.Request, n int) {
			if n == 1 {
				cut(w, weak)
			}
			if r.Header.Get("If-Match") != "" {
				w.WriteHeader(http.StatusPreconditionFailed)
				return
			}
			var from, to int
			fmt.Sscanf(r.Header.Get("Range"), "bytes=%d-%d", &from, &to)
			part(w, from, to+1, 1000, weak, whole[from:to+1])
		}, outcome.OK, 3},
		"no ranges and a conn that breaks": {bounded, func(w http.ResponseWriter, _ *http.Request, n int) {
			if n == 1 {
				cut(w, etag)
			}
			all(w)
		}, outcome.OK, 3},
		"no time of the last change": {window, func(w http.ResponseWriter, _ *http.Request, n int) { io.WriteString(w, whole) }, outcome.TooLate, 1},
		"a redirect to another host": {bounded, func(w http.ResponseWriter, r *http.Request, n int) {
			if r.URL.Path != "/k" {
				t.Error("another host was asked")
			}
			http.Redirect(w, r, "http://localhost"+r.Host[strings.LastIndex(r.Host, ":"):]+"/secrets", http.StatusFound)
		}, outcome.BadFormat, 1},
		"a redirect to itself": {bounded, func(w http.ResponseWriter, r *http.Request, n int) { http.Redirect(w, r, "/k", http.StatusFound) }, outcome.BadFormat, 1},
		"a redirect to another key": {bounded, func(w http.ResponseWriter, r *http.Request, n int) {
			if r.URL.Path == "/k" {
				http.Redirect(w, r, "/other", http.StatusFound)
			} else {
				all(w)
			}
		}, outcome.OK, 1},
		"a time to come again that is after the deadline": {bounded, func(w http.ResponseWriter, _ *http.Request, n int) {
			w.Header().Set("Retry-After", "4000000000")
			w.WriteHeader(http.StatusTooManyRequests)
		}, outcome.Network, 1},
	} {
		t.Run(name, func(t *testing.T) {
			b, got, err := fetchAll(t, c.o, serve(t, c.h), "k")
			if outcome.Of(err) != c.want || got.Attempts != c.attempts || err == nil && b != whole {
				t.Errorf("%d bytes in %d attempts, %v; expected %v in %d", len(b), got.Attempts, err, c.want, c.attempts)
			}
		})
	}
}

// TestSecretsInURLs: a password in a URL is in no error.
func TestSecretsInURLs(t *testing.T) {
	for _, raw := range []string{"http://user:verysecret@ho st/", "http://user:verysecret%zz@host/", "ftp://user:verysecret@host/", "http://user:verysecret@127.0.0.1:1/"} {
		s, err := store.New(raw, nil)
		if err == nil {
			_, err = s.Open(t.Context(), "k", store.Get{})
		}
		if err == nil || strings.Contains(err.Error(), "verysecret") {
			t.Errorf("%v", err)
		}
	}
}

// TestPutWithoutAnswer: an object whose connection the server closes without an answer is
// sent again, from where its reader began, until there is an answer, a bounded number of
// times, and only where it can be read again.
func TestPutWithoutAnswer(t *testing.T) {
	const sent = "the object"
	for name, c := range map[string]struct {
		silent   int // requests without an answer
		seeks    bool
		status   int
		requests int
		want     outcome.Outcome
	}{
		"refused":     {2, true, http.StatusForbidden, 3, outcome.Forbidden},
		"taken":       {1, true, http.StatusOK, 2, outcome.OK},
		"no answer":   {1000, true, 0, 6, outcome.Network},
		"cannot seek": {1, false, http.StatusOK, 1, outcome.Network},
		"at once":     {0, false, http.StatusOK, 1, outcome.OK},
	} {
		t.Run(name, func(t *testing.T) {
			var requests atomic.Int32
			var last atomic.Value
			server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
				if int(requests.Add(1)) <= c.silent {
					panic(http.ErrAbortHandler)
				}
				b, _ := io.ReadAll(r.Body)
				last.Store(string(b))
				w.WriteHeader(c.status)
			}))
			defer server.Close()
			s, err := store.NewS3("bucket", "", &store.S3Options{Endpoint: server.Listener.Addr().String(), Plain: true})
			if err != nil {
				t.Fatal(err)
			}
			whole := strings.NewReader("skipped " + sent)
			whole.Seek(int64(len("skipped ")), io.SeekStart)
			var r io.Reader = whole
			if !c.seeks {
				r = io.MultiReader(whole)
			}
			err = s.Put(t.Context(), "k", r, int64(len(sent)), nil)
			if got := outcome.Of(err); got != c.want || int(requests.Load()) != c.requests {
				t.Errorf("%v after %d requests, want %v after %d", err, requests.Load(), c.want, c.requests)
			}
			if c.want == outcome.OK && last.Load() != sent {
				t.Errorf("the server got %q, want %q", last.Load(), sent)
			}
		})
	}
}

// TestServersWords: the name that a server gives an error is quoted, and no longer than a
// part of a line.
func TestServersWords(t *testing.T) {
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) {
		w.WriteHeader(http.StatusForbidden)
		fmt.Fprintf(w, "<?xml version='1.0'?><Error><Code>No\n2\tOK\u009b31m%s</Code></Error>", strings.Repeat("x", 1000))
	}))
	defer server.Close()
	s, err := store.NewS3("bucket", "", &store.S3Options{Endpoint: server.Listener.Addr().String(), Plain: true})
	if err != nil {
		t.Fatal(err)
	}
	_, err = s.Open(t.Context(), "k", store.Get{})
	if said := err.Error(); outcome.Of(err) != outcome.Forbidden || !strings.Contains(said, `"No\n2\tOK\u009b31m`) || len(said) > 200 {
		t.Errorf("%q: expected FORBIDDEN, and the name of the error quoted", said)
	}
}
