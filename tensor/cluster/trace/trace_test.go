package trace_test

import (
	"bytes"
	"context"
	"errors"
	"io"
	"math"
	"os"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// record runs so many programs on workers in this process, and returns the recorder and
// what it wrote.
func record(t *testing.T, workers, runs int, o trace.Options) *trace.Recorder {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	ctx := context.Background()
	c, err := cluster.Start(ctx, &cluster.Options{InProcess: true, Workers: workers, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	m, err := client.NewMonitor(ctx, nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := trace.Start(ctx, m, &o)
	if err != nil {
		t.Fatal(err)
	}
	of := client.Options{Name: "traced", Workers: workers, Trace: client.NewEvents(trace.Events)}
	e, err := client.Dial(ctx, c.Addr(), &of)
	if err != nil {
		t.Fatal(err)
	}
	defer e.Close()
	r.Follow(e, &of)
	s := tensor.NewSession(e, nil)
	x := tensor.From(s, make([]float32, 64*64), 64, 64)
	for i := range runs {
		y := x.Tanh().Sum()
		if _, err := y.Item(); err != nil {
			t.Fatal(err)
		}
		y.Free()
		r.Mark(i)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRecord: each message of the client is found at its receiver, for one worker and for
// two, and nothing is lost.
func TestRecord(t *testing.T) {
	for workers := 1; workers <= 2; workers++ {
		var file, log bytes.Buffer
		const runs = 20
		r := record(t, workers, runs, trace.Options{Trace: &file, Log: &log})
		f, err := trace.Parse(&file)
		if err != nil {
			t.Fatal(err)
		}
		s := trace.Summarize(f)
		if written, n, lost, dropped := r.Events(); written != len(f.Events) || n != workers || lost+dropped != 0 {
			t.Errorf("%d events written, %d found, of %d workers; %d lost, %d dropped", written, len(f.Events), n, lost, dropped)
		}
		if s.Matched < runs || s.Alone != 0 || s.Matched != s.Sent.Count || s.Steps != runs-1 || s.RoundTrips < runs ||
			s.PerStep.RoundTrips < 1 || s.Uploads.Bytes != 4*64*64 || s.Reads.Count != runs || len(s.Lanes) != workers+1 {
			t.Errorf("%d workers: %+v", workers, s)
		}
		if lines := strings.Count(log.String(), "\n"); lines < runs || !strings.Contains(log.String(), `"step" "worker w0 (`) {
			t.Errorf("%d lines of the log: %.300s", lines, log.String())
		}
	}
}

// TestFull: a file does not grow beyond its bound, is complete, and says what it lacks.
func TestFull(t *testing.T) {
	var file bytes.Buffer
	const most = 8 << 10
	r := record(t, 1, 50, trace.Options{Trace: &file, MaxBytes: most})
	if file.Len() > most {
		t.Errorf("%d bytes, at most %d", file.Len(), most)
	}
	_, _, _, dropped := r.Events()
	f, err := trace.Parse(&file)
	if err != nil || dropped == 0 || f.Dropped != dropped {
		t.Errorf("%v; %d events dropped, %+v", err, dropped, f)
	}
	const least, longest = 50, 500 // bytes of an event
	if full, bytes := r.Room(); full <= 0 || bytes < most+int64(dropped)*least || bytes > most+int64(dropped)*longest {
		t.Errorf("full after %v, and %d bytes needed for %d events more than %d bytes hold", full, bytes, dropped, most)
	}
}

func TestStartMistakes(t *testing.T) {
	for _, o := range []*trace.Options{nil, {}, {Trace: io.Discard, MaxBytes: -1}} {
		if _, err := trace.Start(t.Context(), nil, o); !errors.Is(err, ipc.ErrBadOption) {
			t.Errorf("%+v: %v", o, err)
		}
	}
}

const head = `{"traceEvents":[{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"p"}}`

// damaged are files that are refused, and a part of the error.
var damaged = [][2]string{
	{"", "after 0 events"},
	{"[]", "expected {"},
	{"{}", "no traceEvents"},
	{"nonsense", "invalid character"},
	{`{"traceEvents":7}`, "expected ["},
	{head[:len(head)-1], "after 0 events"},
	{head + `,{"name":7}]}`, "cannot unmarshal"},
	{head + "]}]", "invalid character"},
	{head + "]}{}", "expected the end of the file"},
	{head + `,{"name":"x","ph":"X","ts":0,"dur":1,"pid":2}]}`, "pid 2 has no process_name"},
	{head + `,{"name":"x","ph":"X","ts":0,"pid":1}]}`, "no dur"},
	{head + `,{"name":"x","ph":"X","ts":0,"dur":-1,"pid":1}]}`, "no dur"},
	{head + `,{"name":"x","ph":"i","ts":1e300,"pid":1}]}`, "within a year"},
	{head + `,{"name":"","ph":"i","ts":1,"pid":1}]}`, "no name"},
	{head + `,{"name":"x","ph":"Q","ts":1,"pid":1}]}`, `ph "Q"`},
	{head + `,{"name":"x","ph":"e","ts":1,"pid":1,"id":"1"}]}`, "did not begin"},
	{head + `,{"name":"x","ph":"b","ts":1,"pid":1,"id":"1"}]}`, "does not end"},
	{head + `,{"name":"x","ph":"f","ts":1,"pid":1}]}`, "without an id"},
	{head + `,{"name":"x","ph":"X","ts":0,"dur":2,"pid":1},{"name":"y","ph":"X","ts":1,"dur":2,"pid":1}]}`, "in which it began"},
}

func TestDamaged(t *testing.T) {
	for _, c := range damaged {
		if _, err := trace.Parse(strings.NewReader(c[0])); !errors.Is(err, trace.ErrFile) || !strings.Contains(err.Error(), c[1]) {
			t.Errorf("%s: %v, expected %q", c[0], err, c[1])
		}
	}
}

// TestCut: a file that ends anywhere behind its first event has the events before, and
// its summary says that the end is missing.
func TestCut(t *testing.T) {
	var file bytes.Buffer
	record(t, 2, 20, trace.Options{Trace: &file, MaxBytes: 1 << 20})
	whole, all := strings.TrimSpace(file.String()), 0
	for n := 0; n < len(whole); n++ {
		if n > 300 && n < len(whole)-300 {
			n += 210 // of the middle some
		}
		f, err := trace.Parse(strings.NewReader(whole[:n]))
		if err != nil && (all > 0 || !errors.Is(err, trace.ErrFile)) {
			t.Fatalf("cut after %d of %d bytes: %v", n, len(whole), err)
		}
		if err != nil {
			continue
		}
		var said strings.Builder
		if err := trace.Summarize(f).Write(&said, 1); err != nil || !f.Cut || !strings.Contains(said.String(), "the end of the file") || len(f.Events) < all {
			t.Fatalf("cut after %d of %d bytes: %v, %v, %d events after %d, %s", n, len(whole), err, f.Cut, len(f.Events), all, &said)
		}
		all = len(f.Events)
	}
	if f, err := trace.Parse(strings.NewReader(whole)); err != nil || f.Cut || len(f.Events) != all {
		t.Errorf("the whole file: %v, %+v, %d events", err, f, all)
	}
}

// FuzzParse: any file is refused, or can be summed up and drawn.
func FuzzParse(f *testing.F) {
	for _, c := range damaged {
		f.Add([]byte(c[0]))
	}
	f.Add([]byte(head + `,{"name":"\u0007","cat":"step","ph":"X","ts":0,"dur":2,"pid":1,"args":{"bytes":1e308}},{"name":"x","cat":"training step","ph":"i","ts":1,"pid":1,"args":{"step":1e300}}]}`))
	f.Add([]byte(head + `,{"name":"x","cat":"program","ph":"X","ts":-5,"dur":0,"pid":1},{"name":"step","cat":"training step","ph":"i","ts":1,"pid":1,"args":{"step":-1}},{"name":"step","cat":"training step","ph":"i","ts":1,"pid":1}]}`))
	f.Fuzz(func(t *testing.T, b []byte) {
		file, err := trace.Parse(bytes.NewReader(b))
		if err != nil {
			return
		}
		if err := trace.Summarize(file).Write(io.Discard, 3); err != nil {
			t.Error(err)
		}
		if err := trace.SVG(io.Discard, file); err != nil {
			t.Error(err)
		}
		if len(file.Processes) > 20 { // a picture of many lanes takes long
			return
		}
		if err := trace.PNG(io.Discard, file); err != nil {
			t.Error(err)
		}
	})
}

// TestOverlap: time in which several collectives run beside programs counts once, also
// where the program's event comes behind theirs.
func TestOverlap(t *testing.T) {
	const file = `{"traceEvents":[{"name":"process_name","ph":"M","ts":0,"pid":1,"tid":0,"args":{"name":"worker w0"}},
{"name":"all-reduce","cat":"collective","ph":"b","ts":10,"pid":1,"tid":1,"id":"1"},{"name":"all-reduce","cat":"collective","ph":"e","ts":30,"pid":1,"tid":1,"id":"1"},
{"name":"all-reduce","cat":"collective","ph":"b","ts":12,"pid":1,"tid":1,"id":"2"},{"name":"all-reduce","cat":"collective","ph":"e","ts":40,"pid":1,"tid":1,"id":"2"},
{"name":"all-reduce","cat":"collective","ph":"b","ts":60,"pid":1,"tid":1,"id":"3"},{"name":"all-reduce","cat":"collective","ph":"e","ts":70,"pid":1,"tid":1,"id":"3"},
{"name":"program 01","cat":"program","ph":"X","ts":5,"dur":20,"pid":1,"tid":1},{"name":"program 01","cat":"program","ph":"X","ts":35,"dur":30,"pid":1,"tid":1}]}`
	f, err := trace.Parse(strings.NewReader(file))
	if err != nil {
		t.Fatal(err)
	}
	near := func(got, want float64) bool { return math.Abs(got-want) < 1e-12 }
	if s := trace.Summarize(f); !near(s.Overlapped, 40e-6) || !near(s.Hidden, 25e-6) {
		t.Errorf("%g s of %g, expected 25 µs of 40", s.Hidden, s.Overlapped)
	}
}
