// Package storetest has a web server with faults, the suite that every store passes, and
// the S3 gateway as a process.
package storetest

import (
	"bytes"
	"errors"
	"io"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/gather/store"
)

// Fault is what happens to one request instead of an answer.
type Fault struct {
	Code       int    // answered with; 0: the object
	RetryAfter string // header
	Cut        int    // bytes after which the conn is closed; 0: none
	Stall      bool   // the answer ends after Cut bytes and the conn stays open
	Then       func() // called when the object was looked up, before its body is sent
}

// Server serves a store in memory over HTTP and counts requests.
type Server struct {
	Mem *store.Mem
	URL string
	// of the n-th request for a key, from 1; may be nil
	Fault func(key string, n int) Fault

	mu    sync.Mutex
	count map[string]int // "GET key"
	times map[string][]time.Time
}

// NewServer starts a server that ends with the test.
func NewServer(t testing.TB) *Server {
	s := &Server{Mem: &store.Mem{}, count: map[string]int{}, times: map[string][]time.Time{}}
	h := httptest.NewServer(s)
	t.Cleanup(h.Close)
	s.URL = h.URL
	return s
}

// Set changes Mem and Fault where other processes may send requests.
func (s *Server) Set(mem *store.Mem, fault func(key string, n int) Fault) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.Mem, s.Fault = mem, fault
}

// Count returns how often a key was requested by a method; of all keys where key is "".
func (s *Server) Count(method, key string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	n := 0
	for k, c := range s.count {
		if k == method+" "+key || key == "" && strings.HasPrefix(k, method+" ") {
			n += c
		}
	}
	return n
}

// Times returns when a key was requested.
func (s *Server) Times(key string) []time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return append([]time.Time(nil), s.times[key]...)
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	key := strings.TrimPrefix(r.URL.Path, "/")
	s.mu.Lock()
	s.count[r.Method+" "+key]++
	s.times[key] = append(s.times[key], time.Now())
	n, mem, fault := len(s.times[key]), s.Mem, s.Fault
	s.mu.Unlock()
	var f Fault
	if fault != nil {
		f = fault(key, n)
	}
	if f.Code != 0 {
		if f.RetryAfter != "" {
			w.Header().Set("Retry-After", f.RetryAfter)
		}
		w.WriteHeader(f.Code)
		return
	}
	switch r.Method {
	case http.MethodGet:
		get(w, r, mem, key, f)
	case http.MethodPut:
		err := mem.Put(r.Context(), key, r.Body, r.ContentLength, &store.PutOptions{Exclusive: r.Header.Get("If-None-Match") == "*"})
		if errors.Is(err, store.ErrExists) {
			w.WriteHeader(http.StatusPreconditionFailed)
		}
	case http.MethodDelete:
		mem.Delete(r.Context(), key)
	default:
		w.WriteHeader(http.StatusMethodNotAllowed)
	}
}

func get(w http.ResponseWriter, r *http.Request, mem *store.Mem, key string, f Fault) {
	o, err := mem.Open(r.Context(), key, store.Get{})
	if err != nil {
		w.WriteHeader(http.StatusNotFound)
		return
	}
	b, _ := io.ReadAll(o.Body)
	w.Header().Set("ETag", strconv.Quote(o.ETag))
	if f.Then != nil {
		f.Then()
	}
	if f.Cut > 0 || f.Stall {
		w = &cutting{ResponseWriter: w, r: r, f: f}
	}
	http.ServeContent(w, r, "", o.LastModified, bytes.NewReader(b))
}

// cutting breaks an answer.
type cutting struct {
	http.ResponseWriter
	r *http.Request
	f Fault
	n int
}

func (c *cutting) Write(b []byte) (int, error) {
	left := max(c.f.Cut-c.n, 0)
	if len(b) <= left {
		c.n += len(b)
		return c.ResponseWriter.Write(b)
	}
	c.ResponseWriter.Write(b[:left])
	c.ResponseWriter.(http.Flusher).Flush()
	if c.f.Stall {
		<-c.r.Context().Done()
	}
	panic(http.ErrAbortHandler)
}
