package page

import (
	"cmp"
	"context"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	_ "embed"
	"encoding/base64"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"net/http"
	"net/http/pprof"
	"net/netip"
	"strings"
	"syscall"
	"time"

	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

var (
	// ErrAddr is the error of an address at which a page cannot be.
	ErrAddr = errors.New("page: not an address to listen at")
	// ErrInUse is the error of an address at which another process listens.
	ErrInUse = errors.New("another process listens there")
)

// Options of Place.Serve.
type Options struct {
	// Title is what the page is about.
	Title string
	// Sample asks a dispatcher and its workers, as `ringside top` does; last may be nil.
	// One goroutine at a time calls it. Nil: there is no cluster.
	Sample func(ctx context.Context, last *metrics.Sample, wait time.Duration) (*metrics.Sample, error)
	// Trainings returns runs that are not in samples. Nil: there are none.
	Trainings func() []metrics.Training
	// LastStep has workers keep their events for a moment, and returns their last step.
	// Nil: the page has no timeline.
	LastStep func(ctx context.Context) (*trace.Step, error)
	// Pprof serves profiles of this process.
	Pprof bool
	// Token is what requests must have, as CheckToken accepts it. Empty: one is made.
	Token string
}

// Place is an address that is taken for a page. One of Serve and Close is called once.
type Place struct {
	l    net.Listener
	host string // that was to listen
}

// Server serves the page until it is closed.
type Server struct {
	o     Options
	host  string // of its Place
	port  int
	token string
	http  http.Server
	done  chan struct{}
	stop  context.CancelFunc
	seen  *collector // nil without a cluster
	steps chan struct{}
}

//go:embed page.html
var html string

// Check returns the host of an address as Listen takes it, empty for loopback. An error
// is ErrAddr. Names are not looked up.
func Check(addr string) (host string, err error) {
	host, port, err := net.SplitHostPort(addr)
	if err != nil {
		return "", fmt.Errorf("%w: %s: expected host:port, such as 127.0.0.1:0", ErrAddr, addr)
	}
	if _, err := net.LookupPort("tcp", port); err != nil {
		return "", fmt.Errorf("%w: port %.40q, expected 0 to 65535", ErrAddr, port)
	}
	return host, nil
}

// maxToken is the length of a token that every browser keeps as a cookie.
const maxToken = 1024

// noToken are the signs that would end a token in a URL, or that a cookie cannot have.
const noToken = `",;\%&#`

// CheckToken refuses a token that cannot be part of a URL, a header and a cookie alike.
func CheckToken(token []byte) error {
	if len(token) > maxToken {
		return fmt.Errorf("page: the token has %d bytes, expected at most %d", len(token), maxToken)
	}
	for _, c := range token {
		if c <= ' ' || c >= 0x7f || strings.IndexByte(noToken, c) >= 0 {
			return fmt.Errorf("page: the token has the byte %q, expected letters, digits and signs other than %s", c, noToken)
		}
	}
	return nil
}

// Listen takes addr, host:port or :port, before there is anything to serve. Without a
// host that is loopback, which no other host reaches. Port 0 chooses one. An error is
// ErrAddr or ErrInUse.
func Listen(addr string) (*Place, error) {
	host, err := Check(addr)
	if err != nil {
		return nil, err
	}
	if host == "" {
		addr, host = "127.0.0.1"+addr, "127.0.0.1"
	}
	l, err := net.Listen("tcp", addr)
	if errors.Is(err, syscall.EADDRINUSE) {
		return nil, fmt.Errorf("%w (%w); port 0 takes a free one", ErrInUse, err)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %w", ErrAddr, err)
	}
	return &Place{l: l, host: host}, nil
}

// Close gives the address back.
func (p *Place) Close() error { return p.l.Close() }

// Serve begins to serve there; the Server's Close gives the address back.
func (p *Place) Serve(o *Options) *Server {
	s := &Server{o: *o, host: p.host, port: p.l.Addr().(*net.TCPAddr).Port, token: cmp.Or(o.Token, rand.Text()), done: make(chan struct{}), steps: make(chan struct{}, 1)}
	ctx, stop := context.WithCancel(context.Background())
	s.stop = stop
	if o.Sample != nil {
		s.seen = newCollector(ctx, o)
	}
	s.http = http.Server{Handler: s.handler(), ReadHeaderTimeout: 5 * time.Second, IdleTimeout: time.Minute, MaxHeaderBytes: 1 << 14,
		BaseContext: func(net.Listener) context.Context { return ctx }}
	go func() {
		defer close(s.done)
		_ = s.http.Serve(p.l) // ErrServerClosed
	}()
	return s
}

// URL returns where the page is, with the token if Serve made it.
func (s *Server) URL() string {
	host := s.host
	if a, err := netip.ParseAddr(host); err == nil && a.IsUnspecified() {
		host = "localhost" // one of many
	}
	at := fmt.Sprintf("http://%s/", net.JoinHostPort(host, fmt.Sprint(s.port)))
	if s.o.Token != "" {
		return at
	}
	return at + "?token=" + s.token
}

// Loopback reports whether only this host reaches the page.
func (s *Server) Loopback() bool {
	a, err := netip.ParseAddr(s.host)
	return s.host == "localhost" || err == nil && a.IsLoopback()
}

// Close ends all requests.
func (s *Server) Close() error {
	s.stop()
	err := s.http.Close()
	<-s.done
	if s.seen != nil {
		s.seen.wait()
	}
	return err
}

// handler lets requests in and serves them.
func (s *Server) handler() http.Handler {
	mux := http.NewServeMux()
	mux.HandleFunc("GET /{$}", s.page)
	mux.HandleFunc("GET /data", s.data)
	mux.HandleFunc("GET /metrics", s.metrics)
	mux.HandleFunc("GET /step", s.step)
	if s.o.Pprof {
		mux.HandleFunc("GET /debug/pprof/", pprof.Index)
		mux.HandleFunc("GET /debug/pprof/cmdline", pprof.Cmdline)
		mux.HandleFunc("GET /debug/pprof/profile", pprof.Profile)
		mux.HandleFunc("GET /debug/pprof/symbol", pprof.Symbol)
		mux.HandleFunc("GET /debug/pprof/trace", pprof.Trace)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		h := w.Header()
		h.Set("Cache-Control", "no-store")
		h.Set("Referrer-Policy", "no-referrer")
		h.Set("X-Content-Type-Options", "nosniff")
		h.Set("X-Frame-Options", "DENY")
		switch {
		case !s.ours(r.Host):
			http.Error(w, fmt.Sprintf("the host %q of this request is not this page's: open the URL that was printed", r.Host), http.StatusForbidden)
		case !s.known(r):
			what := "open the URL that was printed, with ?token="
			if s.o.Token != "" {
				what = "open the URL with ?token= and the token of this page's file behind it"
			}
			http.Error(w, "the token is missing or another one's: "+what, http.StatusForbidden)
		default:
			if r.URL.Query().Has("token") { // links without it are let in, too
				http.SetCookie(w, &http.Cookie{Name: s.cookie(), Value: s.token, Path: "/", HttpOnly: true, SameSite: http.SameSiteStrictMode})
			}
			mux.ServeHTTP(w, r)
		}
	})
}

// ours reports whether a Host header names this server: by an address, which no name
// server chose, or by the name that it was given.
func (s *Server) ours(header string) bool {
	host, port, err := net.SplitHostPort(header)
	if err != nil {
		host, port = strings.Trim(header, "[]"), "80"
	}
	_, err = netip.ParseAddr(host)
	return port == fmt.Sprint(s.port) && (err == nil || host == "localhost" || host == s.host)
}

// cookie is the name of a cookie: browsers don't tell ports apart.
func (s *Server) cookie() string { return fmt.Sprintf("ringside-%d", s.port) }

// known reports whether a request has the token.
func (s *Server) known(r *http.Request) bool {
	equal := func(x string) bool { return subtle.ConstantTimeCompare([]byte(x), []byte(s.token)) == 1 }
	if bearer, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok {
		return equal(bearer)
	}
	if r.URL.Query().Has("token") {
		// A token has no spaces: these are the plus signs of one that was not escaped.
		return equal(strings.ReplaceAll(r.URL.Query().Get("token"), " ", "+"))
	}
	c, err := r.Cookie(s.cookie())
	return err == nil && equal(c.Value)
}

// policy lets the page run its own script and ask this server, and nothing else.
func policy() string {
	part := func(tag string) string {
		_, rest, _ := strings.Cut(html, "<"+tag+">")
		text, _, _ := strings.Cut(rest, "</"+tag+">")
		sum := sha256.Sum256([]byte(text))
		return "'sha256-" + base64.StdEncoding.EncodeToString(sum[:]) + "'"
	}
	return "default-src 'none'; connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; script-src " + part("script") + "; style-src " + part("style")
}

func (s *Server) page(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("Content-Type", "text/html; charset=utf-8")
	w.Header().Set("Content-Security-Policy", policy())
	_, _ = w.Write([]byte(html)) // the browser may be gone
}

// answer is what the page asks for.
type answer struct {
	Title    string             `json:"title"`
	Error    string             `json:"error,omitempty"`
	Report   *metrics.Report    `json:"report,omitempty"` // nil without a cluster
	Runs     []metrics.Training `json:"runs"`
	Timeline bool               `json:"timeline"`
}

// newest returns the newest figures, with the runs of this process.
func (s *Server) newest(ctx context.Context) (sample *metrics.Sample, report *metrics.Report, runs []metrics.Training, err error) {
	runs = []metrics.Training{}
	if s.seen != nil {
		sample, report, err = s.seen.get(ctx)
	}
	if sample != nil {
		runs = append(runs, sample.Trainings...)
	}
	if s.o.Trainings != nil {
		runs = append(runs, s.o.Trainings()...)
	}
	return sample, report, runs, err
}

func (s *Server) data(w http.ResponseWriter, r *http.Request) {
	_, report, runs, err := s.newest(r.Context())
	a := answer{Title: s.o.Title, Report: report, Runs: runs, Timeline: s.o.LastStep != nil}
	if err != nil {
		a.Error = err.Error()
	}
	if report != nil {
		without := *report
		without.Trainings = nil // they are in Runs
		a.Report = &without
	}
	writeJSON(w, &a)
}

func (s *Server) metrics(w http.ResponseWriter, r *http.Request) {
	sample, _, runs, _ := s.newest(r.Context()) // the error is dispatcher_answers 0
	w.Header().Set("Content-Type", "text/plain; version=0.0.4; charset=utf-8")
	_ = writePrometheus(w, sample, runs)
}

// step answers with the last step, or with nothing if no program ran, one request after
// the other.
func (s *Server) step(w http.ResponseWriter, r *http.Request) {
	if s.o.LastStep == nil {
		http.NotFound(w, r)
		return
	}
	select {
	case s.steps <- struct{}{}:
		defer func() { <-s.steps }()
	case <-r.Context().Done():
		return
	}
	step, err := s.o.LastStep(r.Context())
	if errors.Is(err, trace.ErrNoStep) {
		w.WriteHeader(http.StatusNoContent)
		return
	}
	if err != nil {
		http.Error(w, err.Error(), http.StatusServiceUnavailable)
		return
	}
	writeJSON(w, step)
}

func writeJSON(w http.ResponseWriter, v any) {
	w.Header().Set("Content-Type", "application/json")
	_ = json.NewEncoder(w).Encode(v)
}
