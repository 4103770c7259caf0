package page

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strings"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"github.com/prometheus/common/expfmt"
	"github.com/prometheus/common/model"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// served is a page of a made-up cluster.
func served(t *testing.T, o *Options) *Server {
	t.Helper()
	at, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	s := at.Serve(o)
	t.Cleanup(func() {
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	})
	return s
}

// at is the page's URL with another path.
func (s *Server) at(t *testing.T, path string) string {
	t.Helper()
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.Path = path
	return u.String()
}

// get returns status and body of an answer.
func get(t *testing.T, r *http.Request) (status int, body string, h http.Header) {
	t.Helper()
	answer, err := http.DefaultTransport.RoundTrip(r)
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return answer.StatusCode, string(b), answer.Header
}

// sampleOf makes a sample in which the worker did so many runs.
func sampleOf(runs uint64) *metrics.Sample {
	return &metrics.Sample{At: time.Now(),
		Dispatcher: client.Counters{{Name: metrics.Messages, Value: 30}, {Name: metrics.Clients, Value: 1}, {Name: metrics.OfWorker("w\"0", metrics.PID), Value: 7}},
		Workers: map[string]metrics.Answer{"w\"0": {At: time.Now(), Watched: &client.WorkerReport{Worker: "w\"0", Now: 1e9 * (1 + runs),
			Counters: client.Counters{{Name: metrics.Runs, Value: runs}, {Name: metrics.BusyTime, Value: 1.5e9}, {Name: metrics.Launches, Value: 12}, {Name: metrics.HostSteps, Value: 3},
				{Name: metrics.ArenaInUse, Value: 5}, {Name: metrics.OfOp("tanh"), Value: 4}, {Name: "x 1\nforged", Value: 1}, {Name: metrics.OfPath(1, 0, 1), Value: 1}},
			Sessions: []client.WorkerSession{{ID: 9, Name: "a\n\\b\xff", Runs: runs}}}}},
		Trainings: []metrics.Training{{Run: 1, PID: 2, Name: "m", Step: 3, Loss: 1.25, LR: 1e-3, Curve: []metrics.Point{{Step: 3, Loss: 1.25, LR: 1e-3}}}}}
}

// cluster returns options of a made-up cluster, whose worker runs 3 batches between two
// samples.
func cluster() *Options {
	runs := uint64(0)
	return &Options{Title: "test", Sample: func(context.Context, *metrics.Sample, time.Duration) (*metrics.Sample, error) {
		runs += 3
		return sampleOf(runs), nil
	}}
}

// TestRefused: without the token, or for a host that is not this page's, nothing is told.
func TestRefused(t *testing.T) {
	s := served(t, cluster())
	port := fmt.Sprint(s.port)
	for _, path := range []string{"/", "/data", "/metrics", "/step", "/debug/pprof/", "/nothing"} {
		for _, c := range []struct {
			host, query, bearer, cookie string
			ok                          bool
		}{
			{"127.0.0.1:" + port, s.token, "", "", true},
			{"localhost:" + port, s.token, "", "", true},
			{"[::1]:" + port, "", s.token, "", true},
			{"127.0.0.1:" + port, "", "", s.token, true},
			{"127.0.0.1:" + port, "", "", "", false},
			{"127.0.0.1:" + port, s.token[1:], "", s.token, false},
			{"127.0.0.1:" + port, "", "x", s.token, false},
			{"127.0.0.1:" + port, "", "", s.token + "x", false},
			{"evil.example:" + port, s.token, "", "", false},
			{"127.0.0.1.evil.example:" + port, s.token, "", "", false},
			{"127.0.0.1:1", s.token, "", "", false},
			{"127.0.0.1", s.token, "", "", false},
		} {
			r, err := http.NewRequest("GET", "http://127.0.0.1:"+port+path, nil)
			if err != nil {
				t.Fatal(err)
			}
			r.Host = c.host
			if c.query != "" {
				r.URL.RawQuery = url.Values{"token": {c.query}}.Encode()
			}
			if c.bearer != "" {
				r.Header.Set("Authorization", "Bearer "+c.bearer)
			}
			if c.cookie != "" {
				r.AddCookie(&http.Cookie{Name: s.cookie(), Value: c.cookie})
			}
			status, body, h := get(t, r)
			want := http.StatusOK
			switch {
			case !c.ok:
				want = http.StatusForbidden
			case path == "/step" || path == "/debug/pprof/" || path == "/nothing":
				want = http.StatusNotFound // there is none
			}
			if status != want || !c.ok && (len(body) > 200 || strings.Contains(body, s.token) || h.Get("Set-Cookie") != "") {
				t.Errorf("%s of %+v: status %d, expected %d, %.300q", path, c, status, want, body)
			}
			if got := h.Get("Set-Cookie"); c.ok && (got != "") != (c.query != "") || got != "" && !strings.Contains(got, "HttpOnly; SameSite=Strict") {
				t.Errorf("%s of %+v: cookie %q", path, c, got)
			}
		}
	}
	r, err := http.NewRequest("POST", s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, _, _ := get(t, r); status != http.StatusMethodNotAllowed {
		t.Errorf("POST: status %d", status)
	}
}

// TestPageIsWhole: the page loads nothing, and its policy lets it run its own script.
func TestPageIsWhole(t *testing.T) {
	s := served(t, &Options{})
	r, err := http.NewRequest("GET", s.URL(), nil)
	if err != nil {
		t.Fatal(err)
	}
	status, body, h := get(t, r)
	if status != http.StatusOK || body != html {
		t.Fatalf("status %d, %d bytes", status, len(body))
	}
	for _, m := range regexp.MustCompile(`https?://[^"'\s]+|\b(?:src|href)="[^"]*"|@import|url\([^)]*\)| style="| on\w+="`).FindAllString(html, -1) {
		if m != "http://www.w3.org/2000/svg" && m != `href="data:,"` {
			t.Errorf("the page has %q", m)
		}
	}
	p := h.Get("Content-Security-Policy")
	if !strings.HasPrefix(p, "default-src 'none'; connect-src 'self';") || strings.Contains(p, "unsafe") || strings.Count(p, "'sha256-") != 2 ||
		strings.Count(html, "<script>") != 1 || strings.Count(html, "<style>") != 1 {
		t.Errorf("policy %q", p)
	}
}

// TestData: the page's figures are those of the samples and of this process.
func TestData(t *testing.T) {
	o := cluster()
	o.Trainings = func() []metrics.Training { return []metrics.Training{{Name: "own"}} }
	o.LastStep = func(context.Context) (*trace.Step, error) { return &trace.Step{Micros: 5}, nil }
	o.Pprof = true
	s := served(t, o)
	ask := func(path string) string {
		r, err := http.NewRequest("GET", s.at(t, path), nil)
		if err != nil {
			t.Fatal(err)
		}
		status, body, _ := get(t, r)
		if status != http.StatusOK {
			t.Fatalf("%s: status %d: %s", path, status, body)
		}
		return body
	}
	var a answer
	if err := json.Unmarshal([]byte(ask("/data")), &a); err != nil {
		t.Fatal(err)
	}
	if a.Title != "test" || a.Error != "" || !a.Timeline || len(a.Runs) != 2 || a.Runs[0].Loss != 1.25 || len(a.Runs[0].Curve) != 1 || a.Runs[1].Name != "own" ||
		a.Report == nil || len(a.Report.Workers) != 1 || a.Report.Workers[0].Runs != 1 || a.Report.Dispatcher.Clients != 1 || a.Report.Trainings != nil {
		t.Errorf("%+v, %+v", a, a.Report)
	}
	var step trace.Step
	if err := json.Unmarshal([]byte(ask("/step")), &step); err != nil || step.Micros != 5 {
		t.Errorf("%+v, %v", step, err)
	}
	if body := ask("/debug/pprof/"); !strings.Contains(body, "goroutine") {
		t.Errorf("profiles: %q", body)
	}
}

// TestNoStep: that no program ran is no error of a request, which browsers would log.
func TestNoStep(t *testing.T) {
	o := cluster()
	o.LastStep = func(context.Context) (*trace.Step, error) { return nil, fmt.Errorf("w0: %w", trace.ErrNoStep) }
	s := served(t, o)
	r, err := http.NewRequest("GET", s.at(t, "/step"), nil)
	if err != nil {
		t.Fatal(err)
	}
	if status, body, _ := get(t, r); status != http.StatusNoContent || body != "" {
		t.Errorf("status %d, %q", status, body)
	}
}

// TestPrometheus: the figures are in the format, with their types, and are those of the
// sample.
func TestPrometheus(t *testing.T) {
	s := served(t, cluster())
	r, err := http.NewRequest("GET", s.at(t, "/metrics"), nil)
	if err != nil {
		t.Fatal(err)
	}
	_, body, h := get(t, r)
	if h.Get("Content-Type") != "text/plain; version=0.0.4; charset=utf-8" {
		t.Errorf("type %q", h.Get("Content-Type"))
	}
	parser := expfmt.NewTextParser(model.LegacyValidation)
	families, err := parser.TextToMetricFamilies(strings.NewReader(body))
	if err != nil {
		t.Fatalf("%v in\n%s", err, body)
	}
	for name, want := range map[string]float64{
		"ringside_dispatcher_messages_total": 30, "ringside_dispatcher_clients": 1, "ringside_dispatcher_worker_info": 1, "ringside_worker_runs_total": 6,
		"ringside_worker_busy_seconds_total": 1.5, "ringside_worker_launches_total": 12, "ringside_worker_host_steps_total": 3, "ringside_worker_arena_in_use": 5,
		"ringside_worker_operations_total": 4, "ringside_session_runs_total": 6, "ringside_training_loss": 1.25, "ringside_training_learning_rate": 1e-3,
		"ringside_dispatcher_answers": 1,
	} {
		f := families[name]
		if f == nil || len(f.Metric) != 1 {
			t.Errorf("no %s in\n%s", name, body)
			continue
		}
		got := f.Metric[0].GetGauge().GetValue()
		if strings.HasSuffix(name, "_total") {
			got = f.Metric[0].GetCounter().GetValue()
		}
		if got != want {
			t.Errorf("%s is %v, expected %v", name, got, want)
		}
	}
	for _, l := range families["ringside_session_runs_total"].Metric[0].Label {
		if l.GetName() == "name" && l.GetValue() != "a\n\\b\uFFFD" || l.GetName() == "worker" && l.GetValue() != `w"0` {
			t.Errorf("label %s is %q", l.GetName(), l.GetValue())
		}
	}
}

// TestNoAnswer: a dispatcher that is gone is said to be, on the page and in figures, and
// is asked again.
func TestNoAnswer(t *testing.T) {
	ask := cluster().Sample
	gone := true
	s := served(t, &Options{Sample: func(ctx context.Context, last *metrics.Sample, wait time.Duration) (*metrics.Sample, error) {
		if gone {
			gone = false
			return nil, errors.New("it is gone")
		}
		if last == nil {
			return ask(ctx, last, wait)
		}
		return sampleOf(99), nil
	}})
	for _, want := range []struct{ data, metrics string }{{`"error":"it is gone"`, "ringside_dispatcher_answers 0\n"}, {`"report":{`, "ringside_dispatcher_answers 1\n"}} {
		for {
			r, err := http.NewRequest("GET", s.at(t, "/data"), nil)
			if err != nil {
				t.Fatal(err)
			}
			if _, body, _ := get(t, r); strings.Contains(body, want.data) {
				break
			}
			if t.Context().Err() != nil {
				t.Fatal("the answer never had ", want.data)
			}
		}
		r, err := http.NewRequest("GET", s.at(t, "/metrics"), nil)
		if err != nil {
			t.Fatal(err)
		}
		if _, body, _ := get(t, r); want.data[1] == 'r' && !strings.Contains(body, want.metrics) {
			t.Errorf("no %q in %s", want.metrics, body)
		}
	}
}

// TestAsksWhileSeen: questions are asked once a second, and end a minute after the last
// request.
func TestAsksWhileSeen(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		ctx, cancel := context.WithCancel(t.Context())
		defer cancel()
		var asked atomic.Int64
		c := newCollector(ctx, &Options{Sample: func(context.Context, *metrics.Sample, time.Duration) (*metrics.Sample, error) {
			return sampleOf(uint64(asked.Add(1))), nil
		}})
		for range 2 { // it begins again
			asked.Store(0)
			_, r, err := c.get(ctx)
			if err != nil || r == nil {
				t.Fatal(r, err)
			}
			if n := asked.Load(); n != 2 {
				t.Errorf("%d questions before the first report", n)
			}
			<-time.After(10 * watched)
			synctest.Wait()
			if n, most := asked.Load(), int64(watched/every)+2; n > most || n < most-3 {
				t.Errorf("%d questions, expected %d", n, most)
			}
		}
		cancel()
		c.wait()
	})
}

// TestAddr: without a host only this host reaches the page.
func TestAddr(t *testing.T) {
	for addr, loopback := range map[string]bool{":0": true, "localhost:0": true, "0.0.0.0:0": false, "[::1]:0": true} {
		at, err := Listen(addr)
		if err != nil {
			if addr == "[::1]:0" { // a host without IPv6
				continue
			}
			t.Fatal(err)
		}
		s := at.Serve(&Options{})
		if s.Loopback() != loopback {
			t.Errorf("%s: loopback %v", addr, s.Loopback())
		}
		if u := s.URL(); !strings.Contains(u, "/?token="+s.token) || strings.Contains(u, "0.0.0.0") {
			t.Errorf("%s: URL %s", addr, u)
		}
		if err := s.Close(); err != nil {
			t.Error(err)
		}
	}
	for _, addr := range []string{"8080", "nowhere.invalid:1", "127.0.0.1:99999"} {
		if _, err := Listen(addr); !errors.Is(err, ErrAddr) {
			t.Errorf("%s: %v", addr, err)
		}
	}
	first, err := Listen("127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	addr := first.l.Addr().String()
	if _, err := Listen(addr); !errors.Is(err, ErrInUse) || !strings.Contains(err.Error(), addr) {
		t.Errorf("%s, which is in use: %v", addr, err)
	}
	if err := first.Close(); err != nil {
		t.Error(err)
	}
}
