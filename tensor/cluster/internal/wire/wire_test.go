package wire

import (
	"bytes"
	"errors"
	"flag"
	"math"
	"reflect"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/ipc/encoding/encodingtest"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

var update = flag.Bool("update", false, "write the golden bytes anew")

func sampleHash(b byte) (h Hash) {
	for i := range h {
		h[i] = b + byte(i)
	}
	return h
}

func sampleHandle(n uint64) Handle { return Handle{Segment: 0xA0A0 + n, Off: 64 * n, Len: 4096 + n} }

func sampleRun() *Run {
	return &Run{
		Session: 7, Seq: 42, Hash: sampleHash(1), Base: 1 << 40, Flags: RunSync,
		Scalars: []float64{1e-3, 0.9, math.Inf(1), math.Copysign(0, -1)},
		Inputs:  []uint64{1, 2, 3, 1<<40 - 5, math.MaxUint64},
		Frees:   []uint64{9, 10},
		Fetch:   []uint64{1<<40 + 17},
		Uploads: []Upload{
			{ID: 1<<40 - 1, Stage: 300, Layout: 0x21, Own: true, Value: Value{DType: 1, Dims: []int{32, 784}, Handle: sampleHandle(1)}},
			{ID: 1<<40 - 2, Value: Value{DType: 4, Dims: []int{2}, Inline: []byte{1, 0, 0, 0, 0, 0, 0, 0, 2, 0, 0, 0, 0, 0, 0, 0}}},
			{ID: 3, Value: Value{DType: 1, Dims: []int{0, 5}, Inline: []byte{}}},
		},
		Returns: []Handle{sampleHandle(2), sampleHandle(3)},
		Forget:  []Hash{sampleHash(100)},
	}
}

// plainRun is Run without a history.
func plainRun(name string, m *Run) encodingtest.Message {
	return encodingtest.Of(name, m,
		func(dst []byte, m *Run) []byte { return AppendRun(dst, m, nil) },
		func(src []byte, m *Run) error { return ParseRun(src, m, nil) })
}

// of is any other message.
func of[T any, P interface {
	*T
	Message
}](name string, m P) encodingtest.Message {
	return encodingtest.Of(name, (*T)(m),
		func(dst []byte, m *T) []byte { return Append(dst, P(m)) },
		func(src []byte, m *T) error { return Parse(src, P(m)) })
}

func messages() []encodingtest.Message {
	return []encodingtest.Message{
		of("OpenSession", &OpenSession{Session: 5, Quota: 1 << 33, Apart: true, Direct: true, Kind: 2, Mixed: true, Flops: 5e12, Bandwidth: 3e11, Workers: 300, Rank: 7, Key: []byte{1, 2, 3}, Token: []byte{4, 5}, Config: []byte("mesh: 300"), Name: "train"}),
		of("Stop", &Stop{Session: 5, Seq: 1 << 40}),
		of("Device", &Device{Session: 5, Used: 1 << 33, Busy: true, Last: 1 << 40, Info: device.Info{Name: "cuda0", Kind: device.CUDA, ID: sampleHash(3), Bytes: 80 << 30,
			Flops: 6e13, Bandwidth: 3.3e12}}),
		of("Held", &Held{Session: 5, Over: true, Quota: 1 << 33, Token: []byte{4, 5}, Name: "train"}),
		of("Resume", &Resume{Session: 5, Token: []byte{4, 5}}),
		of("CloseSession", &CloseSession{Session: 5, Reason: CodeQuota}),
		of("SessionOpened", &SessionOpened{Session: 5, PID: 99, Apart: true, Rank: 7, Bytes: 1 << 40, Token: []byte{4, 5}, Worker: "w0"}),
		of("Meet", &Meet{Session: 5, Rank: 900, Group: 2, Round: 3, Data: []byte("10.0.0.1:4711")}),
		of("Segment", &Segment{Session: 5, ID: 0xFEDCBA9876543210, Bytes: 16 << 20, Memory: MemoryCUDA, Device: 3,
			Export: bytes.Repeat([]byte{0xAB}, 64)}),
		of("Body", &Body{Session: 5, Hash: sampleHash(9), Total: 300, Off: 100, Part: []byte("a piece of a program")}),
		plainRun("Run", sampleRun()),
		of("Done", &Done{Session: 5, Seq: 42, Code: CodeNoMemory, Rank: 3, Calls: 700, Moved: 1 << 40, Plans: 2, Took: 1 << 33, Hidden: 300, Text: "out of memory: 3 GiB",
			At: 17, Op: "matmul", Inputs: "f32[2 3], f32[3 4]", Base: 900, Rest: true,
			More: []Failure{{Base: 900, Code: CodeIndex, Rest: true, Text: "7 at place 1", At: 18, Op: "gather", Inputs: "f32[2]"}, {Base: 950, Code: CodeUnknownID, Text: "id 917"}},
			Results: []Result{
				{ID: 1000, Value: Value{DType: 1, Inline: []byte{0, 0, 128, 63}}},
				{ID: 998, Layout: 0x21, Value: Value{DType: 2, Dims: []int{128, 64, 3}, Handle: sampleHandle(4)}},
				{ID: 999, Layout: 1, Value: Value{DType: 2, Dims: []int{9}, Elsewhere: true}},
			},
			Returned: []Handle{sampleHandle(5)},
		}),
		of("Fail", &Fail{Session: 5, Code: CodeWorkerGone, Text: "w0 (pid 99) died"}),
		of("Bye", &Bye{Session: 5}),
		of("Status", &Status{Session: 5, Trainings: true}),
		of("Training", &Training{Session: 5, PID: 99, Step: 300, Steps: 1000, Loss: 1.5, LR: 1e-3, Rate: 1e5, Left: 1 << 35, Over: true, Name: "qwen3-tiny", Unit: "tokens", Sample: "to be",
			Points: []TrainingPoint{{1, 5.5, 1e-4}, {300, 1.5, 1e-3}}}),
		of("StatusReply", &StatusReply{Session: 5, Counters: []Counter{{"clients", 2}, {"worker.w0.bytes", 1 << 50}}}),
		of("Watch", &Watch{Session: 5, Ask: 3, Events: true, Since: 1 << 33, Worker: "w0"}),
		of("Watched", &Watched{Session: 5, Ask: 3, Worker: "w0", Now: 1 << 60, First: 1 << 33, More: true,
			Counters: []Counter{{"runs", 17}, {"op.matmul", 1 << 40}},
			Sessions: []WatchedSession{{ID: 9, Name: "train", Workers: 4, Runs: 100, Busy: 1 << 35, Waiting: 1 << 30, Backlog: 3, Bytes: 1 << 28}},
			Events: []Event{{EventProgram, 9, 1<<60 - 500, 300, math.MaxUint64, 57, 0}, {EventMessage, 9, 1<<60 - 700, 650, uint64(KindRun), 99, 0},
				{EventStep, 9, 1<<60 - 650, 9, PackOps([]tensor.Op{tensor.OpAdd}), 12, PackShape(tensor.F32, tensor.Shape{1, 3})}}}),
		of("Show", &Show{Session: 5, Ask: 3, Of: 9, Hash: sampleHash(9), Off: 1 << 15}),
		of("Shown", &Shown{Session: 5, Ask: 3, Of: 9, Hash: sampleHash(9), Total: 300, Off: 100, Part: []byte("a piece of a program"), Workers: 4, Programs: 2, Runs: 1 << 33,
			Name: "train", Worker: "w0"}),
		of("Flow", &Flow{Session: 5, Stop: true}),
		of("Turn", &Turn{Session: 5, What: TurnBack}),
		of("Link", &Link{Session: 5, Rank: 900, Round: 3, Token: []byte{9, 8, 7}, Data: []byte("10.0.0.1:4711")}),
		of("Transfer", &Transfer{Session: 5, Handle: sampleHandle(6)}),
		of("Save", &Save{Session: 5, Seq: 9, Bases: []uint64{1024, 1 << 40}, IDs: []uint64{17, 1 << 50, 16}}),
		of("Saved", &Saved{Session: 5, Seq: 9, End: 1 << 33, Rank: 3, Code: CodeEngine, Text: "disk full", Pieces: []Piece{
			{Index: 0, Sum: [Sum]byte{1, 2, 31: 3}},
			{Index: 7, Start: []int{64, 0}, Dims: []int{32, 1 << 40}, Sum: [Sum]byte{4}},
		}}),
	}
}

func TestMessages(t *testing.T) { encodingtest.Test(t, messages(), *update) }

func TestSession(t *testing.T) {
	for _, m := range messages() {
		b := m.Append(nil, m.Value)
		if !SetSession(b, 0x1122334455667788) {
			t.Fatal(m.Name)
		}
		if id, ok := Session(b); !ok || id != 0x1122334455667788 {
			t.Errorf("%s: session %#x", m.Name, id)
		}
		got := m.Fresh()
		if err := m.Parse(b, got); err != nil {
			t.Fatal(err)
		}
		if id := reflect.ValueOf(got).Elem().FieldByName("Session").Uint(); id != 0x1122334455667788 {
			t.Errorf("%s: parsed session %#x", m.Name, id)
		}
	}
	if _, ok := Session(make([]byte, 7)); ok || SetSession(make([]byte, 7), 1) {
		t.Error("a body of 7 bytes has a session")
	}
}

// TestNoAllocations tests that appending to a used buffer allocates nothing, nor does
// parsing into a used message without strings.
func TestNoAllocations(t *testing.T) {
	for _, m := range messages() {
		if d, ok := m.Value.(*Done); ok {
			d.Code, d.Text, d.At, d.Op, d.Inputs, d.Base, d.Rest, d.More = CodeOK, "", 0, "", "", 0, false, nil
		}
		b := m.Append(nil, m.Value)
		got := m.Fresh()
		buf := make([]byte, 0, len(b))
		if err := m.Parse(b, got); err != nil {
			t.Fatal(err)
		}
		if n := testing.AllocsPerRun(100, func() { m.Append(buf, m.Value) }); n != 0 {
			t.Errorf("Append%s allocates %v times", m.Name, n)
		}
		switch m.Name {
		case "Run", "Body", "Bye", "Done", "Flow", "Link", "Meet", "Save", "Segment", "Stop", "Transfer", "Turn":
		default:
			continue // strings are made of them
		}
		if n := testing.AllocsPerRun(100, func() {
			if m.Parse(b, got) != nil {
				t.Fatal("parse failed")
			}
		}); n != 0 {
			t.Errorf("Parse%s allocates %v times", m.Name, n)
		}
	}
}

// BenchmarkMessages appends and parses the sample of each message.
func BenchmarkMessages(b *testing.B) {
	for _, m := range messages() {
		src, got := m.Append(nil, m.Value), m.Fresh()
		buf := make([]byte, 0, len(src))
		b.Run("Append"+m.Name, func(b *testing.B) {
			for b.Loop() {
				m.Append(buf, m.Value)
			}
		})
		b.Run("Parse"+m.Name, func(b *testing.B) {
			for b.Loop() {
				if err := m.Parse(src, got); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
}

// TestLimits: what is over a limit is refused, before anything is allocated for it.
func TestLimits(t *testing.T) {
	long := func(n int) []byte { return bytes.Repeat([]byte{'x'}, n) }
	value := func(v Value) []byte {
		return Append(nil, &Done{Results: []Result{{Value: v}}})
	}
	for _, c := range []struct {
		what string
		src  []byte
		into Message
	}{
		{"export", Append(nil, &Segment{Export: long(MaxExport + 1)}), new(Segment)},
		{"memory", Append(nil, &Segment{Memory: 9}), new(Segment)},
		{"inline", value(Value{Inline: long(MaxInline + 1)}), new(Done)},
		{"rank", value(Value{Dims: make([]int, MaxRank+1)}), new(Done)},
		{"negative dimension", value(Value{Dims: []int{-1}}), new(Done)},
		{"elements", value(Value{Dims: []int{1 << 31, 1 << 31, 2}}), new(Done)},
		{"total", Append(nil, &Body{Total: MaxProgram + 1, Part: long(1)}), new(Body)},
		{"part beyond total", Append(nil, &Body{Total: 10, Off: 5, Part: long(6)}), new(Body)},
		{"empty part", Append(nil, &Body{Total: 10, Off: 5}), new(Body)},
		{"counters", Append(nil, &StatusReply{Counters: make([]Counter, MaxCounters+1)}), new(StatusReply)},
		{"points", Append(nil, &Training{Points: make([]TrainingPoint, MaxPoints+1)}), new(Training)},
		{"a loss that is no number", Append(nil, &Training{Loss: math.NaN()}), new(Training)},
		{"a rate without an end", Append(nil, &Training{Points: []TrainingPoint{{LR: math.Inf(1)}}}), new(Training)},
		{"a long sample", Append(nil, &Training{Sample: string(long(MaxText + 1))}), new(Training)},
		{"flow", append(Append(nil, &Flow{})[:8], 2), new(Flow)},
		{"turn", Append(nil, &Turn{What: TurnOver + 1}), new(Turn)},
		{"a number that no session has", Append(nil, &Device{Last: MaxSession + 1}), new(Device)},
		{"a speed that is no number", Append(nil, &Device{Info: device.Info{Flops: math.NaN()}}), new(Device)},
		{"workers", Append(nil, &OpenSession{Workers: MaxWorkers + 1}), new(OpenSession)},
		{"a negative speed", Append(nil, &OpenSession{Flops: -1}), new(OpenSession)},
		{"a bandwidth that is no number", Append(nil, &OpenSession{Bandwidth: math.NaN()}), new(OpenSession)},
		{"a rank of none", Append(nil, &OpenSession{Workers: 4, Rank: 4}), new(OpenSession)},
		{"a long config", Append(nil, &OpenSession{Config: long(MaxConfig + 1)}), new(OpenSession)},
		{"a long meeting", Append(nil, &Meet{Data: long(MaxMeet + 1)}), new(Meet)},
		{"apart", append(Append(nil, &OpenSession{})[:16], 2, 0), new(OpenSession)},
		{"a long link", Append(nil, &Link{Data: long(MaxLink + 1)}), new(Link)},
		{"a long token", Append(nil, &Link{Token: long(MaxKey + 1)}), new(Link)},
		{"a late link", Append(nil, &Link{Round: MaxLinkRounds}), new(Link)},
		{"a link to nobody", Append(nil, &Link{Rank: MaxWorkers}), new(Link)},
		{"failures", Append(nil, &Done{Code: CodeIndex, More: make([]Failure, MaxFailures+1)}), new(Done)},
		{"a long failure", Append(nil, &Done{Code: CodeIndex, More: []Failure{{Text: string(long(MaxMore + 1))}}}), new(Done)},
		{"results", Append(nil, &Done{Results: make([]Result, MaxResults+1)}), new(Done)},
		{"returned", Append(nil, &Done{Returned: make([]Handle, MaxReturns+1)}), new(Done)},
	} {
		if err := Parse(c.src, c.into); !errors.Is(err, ErrMalformed) {
			t.Errorf("%s: %v", c.what, err)
		}
	}
	for what, m := range map[string]*Run{
		"Scalars": {Scalars: make([]float64, MaxScalars+1)}, "Inputs": {Inputs: make([]uint64, MaxIDs+1)},
		"Frees": {Frees: make([]uint64, MaxIDs+1)}, "Fetch": {Fetch: make([]uint64, MaxIDs+1)},
		"Uploads": {Uploads: make([]Upload, MaxUploads+1)}, "Returns": {Returns: make([]Handle, MaxReturns+1)},
		"Forget": {Forget: make([]Hash, MaxForget+1)},
	} {
		if err := ParseRun(AppendRun(nil, m, nil), new(Run), nil); !errors.Is(err, ErrMalformed) || !strings.Contains(err.Error(), what) {
			t.Errorf("%s: ParseRun: %v", what, err)
		}
	}
	if err := ParseRun(AppendRun(nil, &Run{Flags: 1 << 7}, nil), new(Run), nil); !errors.Is(err, ErrMalformed) {
		t.Errorf("unknown flag: %v", err)
	}
}

func TestNames(t *testing.T) {
	seen := map[string]uint32{}
	for k := KindOpenSession; k <= KindShown; k++ {
		n := KindName(k)
		// not used any more, and not yet
		if n == "unknown kind" && (k == 5 || k == 14 || k == 15 || k == 22 || k == 23) {
			continue
		}
		if other, ok := seen[n]; ok {
			t.Errorf("kinds %d and %d are both %q", other, k, n)
		}
		seen[n] = k
	}
	if KindName(0) != "unknown kind" || CodeOK.String() != "ok" || CodeInternal.String() != "internal error" || Code(99).String() != "code 99" {
		t.Error("names are wrong")
	}
}

// TestEventOps: a step's operations travel as bytes, so there must not be more of them,
// and what does not fit is left out.
func TestEventOps(t *testing.T) {
	all := tensor.Ops()
	if last := all[len(all)-1]; last >= 255 {
		t.Fatalf("operation %v has number %d; an event has a byte for it", last, last)
	}
	for i := range all {
		want := all[i:min(i+packed, len(all))]
		e := Event{What: PackOps(all[i:])}
		if got := e.Ops(nil); !slices.Equal(got, want) {
			t.Errorf("%v becomes %v", want, got)
		}
	}
}

// TestNumbers: messages are counted by kind.
func TestNumbers(t *testing.T) {
	var n Numbers
	for _, c := range []struct{ kind, want uint32 }{{KindRun, 1}, {KindRun, 2}, {KindBody, 1}, {KindLink, 0}, {KindRun, 3}} {
		if got := n.Next(c.kind); got != c.want {
			t.Errorf("%s: %d, expected %d", KindName(c.kind), got, c.want)
		}
	}
	if e := (Event{What: Numbered(KindRun, 7)}); e.Message() != KindName(KindRun) || e.Number() != 7 {
		t.Errorf("%s %d", e.Message(), e.Number())
	}
}

// TestPackShape: events have all dims of a shape, or the last ones that have room.
func TestPackShape(t *testing.T) {
	for _, c := range []struct {
		d     tensor.DType
		shape tensor.Shape
		want  string
	}{
		{tensor.F32, nil, "f32[]"},
		{tensor.I64, tensor.Shape{0}, "i64[0]"},
		{tensor.BF16, tensor.Shape{1, 0, 1}, "bf16[1 0 1]"},
		{tensor.F32, tensor.Shape{8, 64, 256}, "f32[8 64 256]"},
		{tensor.Bool, tensor.Shape{32, 256, 56, 56}, "bool[32 256 56 56]"},
		{tensor.F64, tensor.Shape{1 << 40}, "f64[1099511627776]"},
		{tensor.F32, tensor.Shape{2, 3, 4, 5, 6, 7, 8, 9}, "f32[... 4 5 6 7 8 9]"},
		{tensor.F32, tensor.Shape{3, 1 << 20, 1 << 20}, "f32[... 1048576 1048576]"},
	} {
		e := Event{Shape: PackShape(c.d, c.shape)}
		if got := e.ShapeText(); got != c.want {
			t.Errorf("%v%v became %q, expected %q", c.d, c.shape, got, c.want)
		}
	}
	for _, packed := range []uint64{0, 1 << 5, 31, math.MaxUint64} {
		e := Event{Shape: packed}
		if got := e.ShapeText(); got != "" {
			t.Errorf("%#x is %q, expected no shape", packed, got)
		}
	}
}
