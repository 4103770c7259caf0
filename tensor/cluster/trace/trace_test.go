package trace_test

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/trace"
)

// record runs so many programs on workers in this process, and returns the recorder of
// them.
func record(t *testing.T, workers, runs int, o trace.Options) *trace.Recorder {
	t.Helper()
	return recordIn(t, start(t, workers), workers, runs, o)
}

// start starts workers in this process.
func start(t *testing.T, workers int) *cluster.Cluster {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs") // the path of a socket is short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	c, err := cluster.Start(context.Background(), &cluster.Options{InProcess: true, Workers: workers, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.Close() })
	return c
}

// recordIn is record with a cluster.
func recordIn(t *testing.T, c *cluster.Cluster, workers, runs int, o trace.Options) *trace.Recorder {
	t.Helper()
	ctx := context.Background()
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

// TestSecond: a trace that begins when the workers have done their work has nothing of
// it, though they have kept it for the trace before.
func TestSecond(t *testing.T) {
	var first bytes.Buffer
	c := start(t, 2)
	recordIn(t, c, 2, 20, trace.Options{Trace: &first})
	var file bytes.Buffer
	m, err := client.NewMonitor(t.Context(), nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	r, err := trace.Start(t.Context(), m, &trace.Options{Trace: &file})
	if err != nil {
		t.Fatal(err)
	}
	if err := r.Stop(); err != nil {
		t.Fatal(err)
	}
	_, workers, lost, _ := r.Events()
	if before, n := programs(t, &first), programs(t, &file); before < 20 || n != 0 || workers != 2 || lost != 0 {
		t.Errorf("%d programs, then %d, expected none; %d workers, %d events lost", before, n, workers, lost)
	}
}

// programs counts the programs that ran in the time of a file.
func programs(t *testing.T, file io.Reader) (n int) {
	t.Helper()
	f, err := trace.Parse(file)
	if err != nil {
		t.Fatal(err)
	}
	for _, e := range f.Events {
		if e.Cat == "program" {
			n++
		}
	}
	return n
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

// small is a file on a disk that has room for so many bytes.
type small struct {
	*os.File
	room int64
}

var errNoRoom = errors.New("no room is left")

func (f *small) Write(b []byte) (int, error) {
	at, err := f.Seek(0, io.SeekCurrent)
	if err != nil {
		return 0, err
	}
	n, err := f.File.Write(b[:max(0, min(f.room-at, int64(len(b))))])
	if n < len(b) && err == nil {
		err = errNoRoom
	}
	return n, err
}

func (f *small) WriteAt(b []byte, at int64) (int, error) {
	if at+int64(len(b)) > f.room {
		return 0, errNoRoom
	}
	return f.File.WriteAt(b, at)
}

// smallFile makes a file on such a disk.
func smallFile(t *testing.T, room int64) *small {
	t.Helper()
	f, err := os.Create(filepath.Join(t.TempDir(), "events"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { f.Close() })
	return &small{f, room}
}

// recordOn runs programs until the disk of a file of events is full, and then some, and
// returns what the files have.
func recordOn(t *testing.T, room int64) (file, log string, kept time.Duration) {
	t.Helper()
	c := start(t, 1)
	m, err := client.NewMonitor(t.Context(), nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	a, b := smallFile(t, room), smallFile(t, room)
	r, err := trace.Start(t.Context(), m, &trace.Options{Trace: a, Log: b})
	if err != nil {
		t.Fatal(err)
	}
	s, err := client.Open(t.Context(), &client.Options{Addr: c.Addr()})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for over := false; !over; {
		if n, err := tensor.Ones(s, tensor.F32, 10).Sum().Item(); n != 10 || err != nil {
			t.Fatal(n, err)
		}
		select {
		case <-r.Done():
			over = true
		default:
		}
	}
	if err := r.Stop(); !errors.Is(err, errNoRoom) {
		t.Fatal(err)
	}
	for _, f := range []struct {
		of  *small
		has *string
	}{{a, &file}, {b, &log}} {
		b, err := os.ReadFile(f.of.Name())
		if err != nil || int64(len(b)) > room {
			t.Fatalf("%v, %d bytes of %d", err, len(b), room)
		}
		*f.has = string(b)
	}
	return file, log, r.Kept()
}

// TestFullDisk: the files of a trace whose disk is full are whole, have the events until
// then, and say that the others are missing, and why.
func TestFullDisk(t *testing.T) {
	for _, room := range []int64{1 << 10, 1<<16 + 100, 1 << 17} {
		file, log, kept := recordOn(t, room)
		if !json.Valid([]byte(file)) {
			t.Errorf("%d bytes: the file is no JSON: %s", room, file[max(0, len(file)-300):])
		}
		f, err := trace.Parse(strings.NewReader(file))
		if err != nil || !f.Cut || f.CutBy != errNoRoom.Error() {
			t.Fatalf("%d bytes: %v, cut by %q", room, err, f.CutBy)
		}
		s := trace.Summarize(f)
		var said strings.Builder
		if err := s.Write(&said, 1); err != nil || !strings.Contains(said.String(), "the events after ") || !strings.Contains(said.String(), errNoRoom.Error()) {
			t.Errorf("%d bytes: %v, %s", room, err, &said)
		}
		if (kept > 0) != (room > 1<<16) || kept.Seconds() > s.Until+1 {
			t.Errorf("%d bytes: all events until %v, the last one at %v s", room, kept, s.Until)
		}
		if want := "# the events from here on are missing: " + errNoRoom.Error() + "\n"; !strings.HasSuffix(log, "\n"+want) {
			t.Errorf("%d bytes: the log ends %q, expected %q", room, log[max(0, len(log)-300):], want)
		}
	}
	file, log, _ := recordOn(t, 60)
	if len(file) != 60 || len(log) != 60 {
		t.Errorf("%d and %d bytes, expected that 60 stay as they are, which have no event", len(file), len(log))
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
