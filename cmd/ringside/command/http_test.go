package command

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"net"
	"net/http"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
)

// asked is an answer of a page, at its URL with another path.
func asked(t *testing.T, page, path string) (body string, status int) {
	t.Helper()
	answer, err := http.Get(strings.Replace(page, "/?", "/"+path+"?", 1))
	if err != nil {
		t.Fatal(err)
	}
	defer answer.Body.Close()
	b, err := io.ReadAll(answer.Body)
	if err != nil {
		t.Fatal(err)
	}
	return string(b), answer.StatusCode
}

// pageData is what a page asks for.
type pageData struct {
	Title    string
	Error    string
	Report   *metrics.Report
	Runs     []metrics.Training
	Timeline bool
}

func dataOf(t *testing.T, page string) (d pageData) {
	t.Helper()
	body, status := asked(t, page, "data")
	if err := json.Unmarshal([]byte(body), &d); err != nil || status != http.StatusOK {
		t.Fatalf("status %d, %v in %.300s", status, err, body)
	}
	return d
}

// figures are the values of /metrics by their names with labels.
func figures(t *testing.T, page string) map[string]float64 {
	t.Helper()
	body, status := asked(t, page, "metrics")
	if status != http.StatusOK {
		t.Fatalf("status %d: %s", status, body)
	}
	all := map[string]float64{}
	for line := range strings.Lines(body) {
		var x float64
		name, value, _ := strings.Cut(strings.TrimSpace(line), " ")
		if i := strings.LastIndex(line, "} "); i >= 0 {
			name, value = line[:i+1], strings.TrimSpace(line[i+2:])
		}
		if _, err := fmt.Sscan(value, &x); err == nil {
			all[name] = x
		}
	}
	return all
}

// TestPageAgrees compares the figures with the Stats of a dispatcher and a worker in this
// process, when the session does nothing.
func TestPageAgrees(t *testing.T) {
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	addr := filepath.Join(dir, "d")
	d, err := dispatcher.New(nil)
	if err != nil {
		t.Fatal(err)
	}
	l, err := local.New().Listen(addr, d.ListenOptions())
	if err != nil {
		t.Fatal(err)
	}
	w, err := worker.New(&worker.Options{Name: "w0"})
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	ends := make(chan error, 2)
	go func() { ends <- d.Serve(ctx, l) }()
	go func() { ends <- w.Serve(ctx, addr) }()
	defer func() {
		stop()
		for range 2 {
			if err := <-ends; err != nil {
				t.Error(err)
			}
		}
	}()
	live, cmd := livePage{addr: "127.0.0.1:0"}, newUp()
	if err := live.listen(); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := live.begin(cmd, &said, "agrees", nil, addr, nil); err != nil {
		t.Fatal(err)
	}
	defer live.end()
	page := strings.TrimSpace(strings.TrimPrefix(said.String(), "page at "))

	e, err := client.Dial(t.Context(), addr, &client.Options{Name: "summer"})
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	sess := tensor.NewSession(e, nil)
	x := tensor.From(sess, make([]float32, 64*64), 64, 64)
	for range 37 {
		y := x.Tanh().Sum()
		if _, err := y.Item(); err != nil {
			t.Fatal(err)
		}
		y.Free()
	}
	st := w.Stats()
	if st.Runs < 37 {
		t.Fatalf("the worker did %d runs", st.Runs)
	}
	var f map[string]float64
	// the newest sample may be one of before
	for f = figures(t, page); f[`ringside_worker_runs_total{worker="w0"}`] != float64(st.Runs) && t.Context().Err() == nil; {
		f = figures(t, page)
	}
	ds := d.Stats()
	for name, want := range map[string]int{
		`ringside_worker_sessions{worker="w0"}`: st.Sessions, `ringside_worker_opened_total{worker="w0"}`: int(st.Opened), `ringside_worker_failed_total{worker="w0"}`: int(st.Failed),
		`ringside_worker_errors_total{worker="w0"}`: int(st.Errors), `ringside_worker_programs_total{worker="w0"}`: int(st.Programs),
		`ringside_worker_imports_total{worker="w0"}`: int(st.Imports), `ringside_worker_results_total{worker="w0"}`: int(st.Results),
		`ringside_dispatcher_clients`: ds.Clients, `ringside_dispatcher_workers`: ds.Workers, `ringside_dispatcher_sessions`: ds.Sessions, `ringside_dispatcher_waiting`: ds.Waiting,
		`ringside_dispatcher_opened_total`: int(ds.Opened), `ringside_dispatcher_failed_total`: int(ds.Failed), `ringside_dispatcher_messages_total`: int(ds.Messages),
		`ringside_dispatcher_bytes_total`: int(ds.Bytes), `ringside_dispatcher_tensor_bytes_total`: int(ds.TensorBytes), `ringside_dispatcher_descriptors_total`: int(ds.Descriptors),
		`ringside_dispatcher_blocked_total`: int(ds.Blocked), `ringside_dispatcher_queued_total`: int(ds.Queued), `ringside_dispatcher_paused_total`: int(ds.Paused),
		`ringside_dispatcher_refused_total`: int(ds.Refused), `ringside_dispatcher_turns_total`: int(ds.Turns),
		`ringside_worker_operations_total{worker="w0",operation="tanh"}`:     37,
		`ringside_session_runs_total{worker="w0",session="1",name="summer"}`: int(st.Runs), `ringside_dispatcher_answers`: 1,
	} {
		if got, ok := f[name]; !ok || got != float64(want) {
			t.Errorf("%s is %v, Stats say %d", name, got, want)
		}
	}
	// Reports of top and the page are made by the same function, of the same samples.
	got := dataOf(t, page).Report
	if got == nil || got.Dispatcher.Clients != uint64(ds.Clients) || got.Dispatcher.Sessions != uint64(ds.Sessions) || len(got.Workers) != 1 || got.Workers[0].Sessions != uint64(st.Sessions) {
		t.Errorf("the page has %+v, Stats say %+v and %+v", got, ds, st)
	}
}

// TestUpPage: the page of a cluster shows a run that another process trained, with the
// losses of its summary, and its workers' steps while it runs.
func TestUpPage(t *testing.T) {
	runtimeDir(t)
	up := start(t, "up", "-n", "1", "--http", "127.0.0.1:0", "--pprof")
	addr := up.wait(`^ready at ([^;]*);`)[1]
	page := up.wait(`^page at (http://127\.0\.0\.1:\d+/\?token=\w{20,})$`)[1]
	if body, status := asked(t, strings.Split(page, "=")[0]+"=x", ""); status != http.StatusForbidden {
		t.Errorf("with another token: status %d, %.100q", status, body)
	}
	if body, status := asked(t, page, ""); status != http.StatusOK || !strings.Contains(body, "<!doctype html>") {
		t.Errorf("the page: status %d, %.100q", status, body)
	}
	if body, status := asked(t, page, "debug/pprof/goroutine"); status != http.StatusOK || body == "" {
		t.Errorf("a profile: status %d", status)
	}
	long := start(t, "train", "--connect", addr, "--data", textFile(t), "--batch", "2", "--steps", "1000000", "--loss-every", "1", "--sample=-1")
	long.wait("step 1/")
	var step trace.Step
	body, status := asked(t, page, "step")
	if err := json.Unmarshal([]byte(body), &step); status != http.StatusOK || err != nil || !(step.Micros > 0) || len(step.Lanes) != 1 || len(step.Lanes[0].Events) < 10 {
		t.Errorf("a step: status %d, %v, %.300s", status, err, body)
	}
	for d := (pageData{}); len(d.Runs) == 0 || d.Runs[0].Over || len(d.Runs[0].Curve) == 0 || d.Runs[0].PID != uint64(long.Process.Pid); d = dataOf(t, page) {
		if t.Context().Err() != nil {
			t.Fatalf("the page never had the run: %+v", d)
		}
	}
	if err := long.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	_ = long.end()
	short := trained(t, "--connect", addr, "--data", textFile(t), "--batch", "2", "--steps", "30", "--loss-every", "2", "--sample", "9")
	var d pageData
	for len(d.Runs) != 2 || !d.Runs[0].Over || !d.Runs[1].Over {
		if d = dataOf(t, page); t.Context().Err() != nil {
			t.Fatalf("the page has %+v", d.Runs)
		}
	}
	r := d.Runs[1]
	if r.Name != "qwen3-tiny" || r.PID != uint64(os.Getpid()) || r.Step != 30 || r.Steps != 30 || r.Loss != short.Loss || r.Sample != printable(short.Sample) || len(r.Curve) != len(short.Losses) || !(r.LR > 0) {
		t.Errorf("the page has %+v, the summary %+v", r, short.Summary)
	}
	for i, p := range r.Curve {
		if l := short.Losses[i]; p.Step != uint64(l.Step) || p.Loss != l.Loss {
			t.Errorf("point %d of the page is %+v, of the summary %+v", i, p, l)
		}
	}
	if f := figures(t, page); f[fmt.Sprintf(`ringside_training_loss{run="2",model="qwen3-tiny",pid="%d"}`, os.Getpid())] != short.Loss {
		t.Errorf("figures: %v", f)
	}
	if err := up.Process.Signal(os.Interrupt); err != nil {
		t.Fatal(err)
	}
	if err := up.end(); err != nil {
		t.Error(err)
	}
}

// TestTrainPage: a run has a page of its own, in one process too.
func TestTrainPage(t *testing.T) {
	runtimeDir(t)
	for _, where := range []string{"--in-process", "--workers=1"} {
		ctx, stop := context.WithCancel(t.Context())
		r, w := io.Pipe()
		root := NewRootCommand()
		root.SetOut(io.Discard)
		root.SetErr(w)
		root.SetArgs([]string{"train", "--data", textFile(t), "--batch", "2", "--steps", "1000000", "--loss-every", "1", "--sample", "5", "--sample-every", "2", "--http", "127.0.0.1:0", where})
		ended := make(chan int, 1)
		go func() {
			ended <- Main(ctx, root)
			w.Close()
		}()
		page := make(chan string, 1)
		go func() {
			for lines := bufio.NewScanner(r); lines.Scan(); {
				if at, ok := strings.CutPrefix(lines.Text(), "page at "); ok {
					page <- at
				}
			}
		}()
		at := <-page
		for d := dataOf(t, at); len(d.Runs) != 1 || d.Runs[0].Step < 2 || len(d.Runs[0].Curve) < 2 || d.Runs[0].Sample == "" || d.Timeline != (where != "--in-process") || (d.Report != nil) != d.Timeline; d = dataOf(t, at) {
			if t.Context().Err() != nil {
				t.Fatalf("%s: the page has %+v", where, d)
			}
		}
		stop()
		if code := <-ended; code != 130 {
			t.Errorf("%s: exit status %d", where, code)
		}
		http.DefaultClient.CloseIdleConnections()
		fast := http.Client{Timeout: time.Second}
		if answer, err := fast.Get(at); err == nil {
			answer.Body.Close()
			t.Errorf("%s: the page is there after the run: %s", where, answer.Status)
		}
	}
}

// TestPageInUse: an address in use is told before a cluster, files or a run begin, and
// the address is given back when a command fails for something else.
func TestPageInUse(t *testing.T) {
	runtimeDir(t)
	addr := freeAddress(t) // no port that the kernel would give to another meanwhile
	l, err := net.Listen("tcp", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	logs, trace := filepath.Join(t.TempDir(), "logs"), filepath.Join(t.TempDir(), "trace.json")
	for _, args := range [][]string{
		{"up", "-n", "1", "--trace", trace},
		{"train", "--workers", "1", "--data", textFile(t), "--log-dir", logs, "--trace", trace},
		{"train", "--in-process", "--data", filepath.Join(logs, "nothing"), "--log-dir", logs},
	} {
		root := NewRootCommand()
		var out, said strings.Builder
		root.SetOut(&out)
		root.SetErr(&said)
		root.SetArgs(append(args, "--http", addr))
		code := Main(t.Context(), root)
		if want := "ringside: --http " + addr + ": another process listens there"; code != 1 || out.Len() > 0 || !strings.HasPrefix(said.String(), want) || strings.Count(said.String(), "\n") != 1 {
			t.Errorf("%v: exit status %d, %q, %q; expected %q alone", args, code, out.String(), said.String(), want)
		}
		for _, path := range []string{logs, trace} {
			if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%v: %s: %v", args, path, err)
			}
		}
	}
	if err := l.Close(); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, "train", "--in-process", "--data", filepath.Join(logs, "nothing"), "--http", addr); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("without data: %v", err)
	}
	if l, err = net.Listen("tcp", addr); err != nil {
		t.Fatalf("afterwards: %v", err)
	}
	l.Close()
}

// TestUntilStep: a timeline waits longer for a step that takes longer, and not for ever.
func TestUntilStep(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		after int // records
		ends  error
		want  error
		asked []time.Duration
	}{
		{0, nil, nil, []time.Duration{recorded}},
		{2, nil, nil, []time.Duration{recorded, 2 * recorded, 4 * recorded}},
		{1, broken, broken, []time.Duration{recorded, 2 * recorded}},
		{9, nil, trace.ErrNoStep, []time.Duration{recorded, 2 * recorded, 4 * recorded, maxRecorded}},
	} {
		var asked []time.Duration
		step, err := untilStep(func(long time.Duration) (*trace.Step, error) {
			if asked = append(asked, long); len(asked) <= c.after {
				return nil, trace.ErrNoStep
			}
			return &trace.Step{Micros: 5}, c.ends
		})
		if !errors.Is(err, c.want) || (step == nil) != (c.want == trace.ErrNoStep) || !slices.Equal(asked, c.asked) {
			t.Errorf("%+v: %+v, %v, asked for %v", c, step, err, asked)
		}
	}
}

func TestPageMistakes(t *testing.T) {
	runtimeDir(t)
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"up", "--pprof"}, "--pprof needs --http ADDR"},
		{[]string{"up", "-n", "1", "--http", "8080"}, "--http 8080: page: not an address to listen at: 8080: expected host:port"},
		{[]string{"up", "-n", "1", "--http", "127.0.0.1:ninety"}, `port "ninety", expected 0 to 65535`},
		{[]string{"train", "--in-process", "--data", textFile(t), "--http", "127.0.0.1:99999"}, `--http 127.0.0.1:99999: page: not an address to listen at: port "99999"`},
		{[]string{"train", "--in-process", "--data", textFile(t), "--pprof"}, "--pprof needs --http ADDR"},
		{[]string{"train", "--data", textFile(t), "--http", "127.0.0.1:0", "--hosts", "2"}, "--hosts and --http exclude each other"},
		{[]string{"train", "--data", textFile(t), "--http", "127.0.0.1:0", "--outer", "diloco", "--peers", "2", "--store", t.TempDir()}, "--outer and --http exclude each other"},
	} {
		out, _, err := execute(t, c.args...)
		if err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, expected %q", c.args, err, c.says)
		}
		if out != "" {
			t.Errorf("%v began before it was refused: %q", c.args, out)
		}
	}
}

// TestHTTPToken wants the token of --http-token to be that of the page, which the URL
// then lacks, and files that can be none to be refused before anything is started.
func TestHTTPToken(t *testing.T) {
	file := filepath.Join(t.TempDir(), "token")
	live := livePage{addr: "127.0.0.1:0", file: file}
	for _, c := range []struct{ token, text string }{
		{"short", "5 bytes"},
		{"a token with spaces in it", `the byte ' '`},
		{"a-token;of-a-cookie", `the byte ';'`},
		{"a-token&of-a-query", `the byte '&'`},
		{strings.Repeat("long", 300), "1200 bytes, expected at most 1024"},
	} {
		if err := os.WriteFile(file, []byte(c.token), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := live.check(); err == nil || !strings.Contains(err.Error(), c.text) || !strings.Contains(err.Error(), file) {
			t.Errorf("%q: %v, expected an error with %q and the file", c.token, err, c.text)
		}
	}
	const token = "k3y/With+signs=0123456789"
	if err := os.WriteFile(file, []byte(token+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := errors.Join(live.check(), live.listen()); err != nil {
		t.Fatal(err)
	}
	var said strings.Builder
	if err := live.begin(newUp(), &said, "by itself", nil, "", nil); err != nil {
		t.Fatal(err)
	}
	defer live.end()
	at, rest, _ := strings.Cut(strings.TrimPrefix(said.String(), "page at "), " ")
	if rest != "with the token of "+file+"\n" {
		t.Errorf("the page is announced as %q", said.String())
	}
	for _, c := range []struct {
		query, bearer string
		status        int
	}{{"", "", 403}, {"", token, 200}, {"?token=" + url.QueryEscape(token), "", 200}, {"?token=" + token, "", 200}, {"?token=k3y", "", 403}, {"", "another", 403}} {
		req, err := http.NewRequestWithContext(t.Context(), "GET", at+"metrics"+c.query, nil)
		if err != nil {
			t.Fatal(err)
		}
		if c.bearer != "" {
			req.Header.Set("Authorization", "Bearer "+c.bearer)
		}
		res, err := http.DefaultClient.Do(req)
		if err != nil {
			t.Fatal(err)
		}
		res.Body.Close()
		if res.StatusCode != c.status {
			t.Errorf("query %q, bearer %q: %d, expected %d", c.query, c.bearer, res.StatusCode, c.status)
		}
	}
	if err := (&livePage{file: file}).check(); err == nil || !strings.Contains(err.Error(), "--http") {
		t.Errorf("--http-token without --http: %v", err)
	}
}
