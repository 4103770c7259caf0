package wire

import (
	"bytes"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"testing"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// loop makes the runs of a training loop: parameters and moments that every step makes
// anew, constants, a batch, some scalars; two programs in turn.
type loop struct {
	base    uint64
	made    []uint64 // by the last step
	step    uint64
	results uint64 // of the program
}

func newLoop(params int) *loop {
	l := &loop{base: 1000, results: uint64(20 * params)}
	for i := range params {
		l.made = append(l.made, uint64(10+i))
	}
	return l
}

func (l *loop) next(m *Run) {
	l.step++
	m.Session, m.Seq, m.Hash, m.Base, m.Flags = 0, l.step, sampleHash(1), l.base, 0
	m.Scalars = append(m.Scalars[:0], 1e-3, 0.9, float64(l.step))
	m.Inputs = append(append(m.Inputs[:0], 5, 6), l.made...)
	m.Inputs = append(m.Inputs, l.base-1) // the batch
	m.Uploads = append(m.Uploads[:0], Upload{ID: l.base - 1, Value: Value{DType: 1, Dims: m.dims(64, 784), Handle: sampleHandle(l.step)}})
	m.Frees = append(append(m.Frees[:0], l.made...), l.base-1)
	m.Fetch = append(m.Fetch[:0], l.base+l.results-1)
	for i := range l.made {
		l.made[i] = l.base + uint64(7*i)
	}
	l.base += l.results + 1
}

// dims reuses the memory of the upload before.
func (m *Run) dims(d ...int) []int {
	if cap(m.Uploads) > 0 {
		return append(m.Uploads[:1][0].Dims[:0], d...)
	}
	return append([]int(nil), d...)
}

// TestRunSteadyState: from the third step on a run is some hundred bytes, however many
// parameters there are, and neither end allocates.
func TestRunSteadyState(t *testing.T) {
	for _, params := range []int{1, 100, 3000} {
		l := newLoop(params)
		var sent, got Run
		var from, to History
		var buf []byte
		step := func() {
			l.next(&sent)
			buf = AppendRun(buf[:0], &sent, &from)
			from.Record(&sent)
			if err := ParseRun(buf, &got, &to); err != nil {
				t.Fatalf("step %d: %v", l.step, err)
			}
			to.Record(&got)
		}
		for range 5 {
			step()
			if !reflect.DeepEqual(got, sent) && !bytes.Equal(AppendRun(nil, &got, nil), AppendRun(nil, &sent, nil)) {
				t.Fatalf("%d parameters, step %d:\nsent   %+v\nparsed %+v", params, l.step, sent, got)
			}
		}
		// The batch's upload is 32 bytes of it, the scalars 24.
		if limit := 100 + 8*len(sent.Scalars) + 32; len(buf) > limit {
			t.Errorf("%d parameters: a step takes %d bytes, at most %d expected", params, len(buf), limit)
		}
		t.Logf("%d parameters: %d bytes a step", params, len(buf))
		if n := testing.AllocsPerRun(20, step); n != 0 {
			t.Errorf("%d parameters: a step allocates %v times", params, n)
		}
	}
}

// TestRunHistory: random runs of many programs over two histories that see the same.
func TestRunHistory(t *testing.T) {
	const seed = 1
	r := rand.New(rand.NewPCG(seed, 0))
	var from, to History
	var got Run
	ids := func() (s []uint64) {
		for range r.IntN(1 << r.IntN(8)) {
			s = append(s, r.Uint64()>>r.IntN(64))
		}
		return s
	}
	lists := [][]uint64{ids(), ids(), ids(), nil}
	base := uint64(0)
	for i := range 20000 {
		base += r.Uint64() >> (8 + r.IntN(56))
		m := Run{
			Seq: uint64(i), Base: base, Hash: sampleHash(byte(r.IntN(2 * maxHistoryRuns))),
			Inputs: lists[r.IntN(len(lists))], Frees: lists[r.IntN(len(lists))], Fetch: lists[r.IntN(len(lists))],
		}
		if r.IntN(10) == 0 {
			lists[r.IntN(3)] = ids()
		}
		if r.IntN(10) == 0 {
			m.Forget = append(m.Forget, sampleHash(byte(r.IntN(2*maxHistoryRuns))))
		}
		b := AppendRun(nil, &m, &from)
		if err := ParseRun(b, &got, &to); err != nil {
			t.Fatalf("seed %d, run %d: %v", seed, i, err)
		}
		if !bytes.Equal(AppendRun(nil, &got, nil), AppendRun(nil, &m, nil)) {
			t.Fatalf("seed %d, run %d:\nsent   %+v\nparsed %+v", seed, i, m, got)
		}
		from.Record(&m)
		to.Record(&got)
	}
	if len(from.runs) > maxHistoryRuns || from.ids > maxHistoryIDs {
		t.Errorf("%d runs with %d ids are remembered", len(from.runs), from.ids)
	}
}

// TestHistoryIsBounded: in ids as well.
func TestHistoryIsBounded(t *testing.T) {
	var h History
	big := make([]uint64, MaxIDs)
	for i := range 20 {
		h.Record(&Run{Hash: sampleHash(byte(i)), Inputs: big, Frees: big})
		total := 0
		for _, r := range h.runs {
			total += r.ids()
		}
		if total != h.ids || total > maxHistoryIDs || len(h.runs) == 0 {
			t.Fatalf("after %d runs: %d ids in %d runs, %d counted", i, total, len(h.runs), h.ids)
		}
	}
	h.Record(&Run{Hash: sampleHash(50), Forget: []Hash{sampleHash(50), sampleHash(19)}})
	if h.find(sampleHash(50)) != nil || h.find(sampleHash(19)) != nil || h.find(sampleHash(18)) == nil {
		t.Error("Forget forgot the wrong programs")
	}
}

// TestRunLostHistory: a receiver that missed a run notices, and does not compute with
// wrong ids.
func TestRunLostHistory(t *testing.T) {
	var from, to History
	m := Run{Hash: sampleHash(1), Base: 100, Inputs: []uint64{1, 2, 3}}
	from.Record(&m)
	m.Base = 200
	if err := ParseRun(AppendRun(nil, &m, &from), new(Run), &to); !errors.Is(err, ErrHistory) {
		t.Errorf("unknown program: %v", err)
	}
	to.Record(&m)
	if err := ParseRun(AppendRun(nil, &m, &from), new(Run), &to); !errors.Is(err, ErrHistory) {
		t.Errorf("other base: %v", err)
	}
	if err := ParseRun(AppendRun(nil, &m, &from), new(Run), nil); !errors.Is(err, ErrHistory) {
		t.Errorf("no history: %v", err)
	}
}

// TestIDs: the coding against lists made to meet every token and its edges.
func TestIDs(t *testing.T) {
	last := []uint64{10, 11, 12, 13, 14, 15, 16, 17}
	for _, c := range []struct {
		what string
		ids  []uint64
		size int
	}{
		{"none", nil, 0},
		{"same", []uint64{10, 11, 12, 13, 14, 15, 16, 17}, 1},
		{"shifted", []uint64{110, 111, 112, 113, 114, 115, 116, 117}, 1},
		{"shorter", []uint64{110, 111}, 1},
		{"longer", []uint64{10, 11, 12, 13, 14, 15, 16, 17, 200, 201}, 1 + 1 + 2},
		{"turns", []uint64{10, 111, 12, 113}, 4},
		{"a new one within", []uint64{110, 111, 205, 113, 114}, 1 + 2 + 1},
		{"all new", []uint64{201, 202, 203}, 1 + 3},
		{"far away", []uint64{0, 1<<64 - 1, 1 << 63}, 1 + 2 + 2 + 10},
	} {
		b := appendIDs(nil, 100, last, 200, c.ids)
		if len(b) != c.size {
			t.Errorf("%s: %d bytes, want %d", c.what, len(b), c.size)
		}
		got := make([]uint64, len(c.ids))
		w := encoding.Parsing("test", append(b, "rest"...))
		walkIDs(&w, "IDs", 100, last, 200, got)
		if rest := w.Take("rest", 4); string(rest) != "rest" || w.End() != nil {
			t.Errorf("%s: parsed %v, then %q: %v", c.what, got, rest, w.End())
			continue
		}
		for i := range got {
			if got[i] != c.ids[i] {
				t.Errorf("%s: parsed %v, expected %v", c.what, got, c.ids)
				break
			}
		}
	}
	for _, c := range []struct {
		what string
		src  []byte
		n    int
	}{
		{"empty", nil, 1},
		{"token for none", []byte{0<<2 | modeSame}, 1},
		{"token for too many", []byte{3<<2 | modeSame}, 2},
		{"unknown mode", []byte{1<<2 | 3}, 1},
		{"predicted beyond the last list", []byte{9<<2 | modeShifted}, 9},
		{"explicit cut", []byte{2<<2 | modeExplicit, 1}, 2},
		{"endless varint", bytes.Repeat([]byte{0xFF}, 20), 1},
	} {
		ids := make([]uint64, c.n)
		w := encoding.Parsing("test", c.src)
		if walkIDs(&w, "IDs", 100, last, 200, ids); !errors.Is(w.Err(), ErrMalformed) {
			t.Errorf("%s: %v, %v", c.what, ids, w.Err())
		}
	}
}

func BenchmarkRun(b *testing.B) {
	for _, params := range []int{10, 100, 1000} {
		l := newLoop(params)
		var sent, got Run
		var from, to History
		var buf []byte
		b.Run(fmt.Sprintf("params=%d", params), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				l.next(&sent)
				buf = AppendRun(buf[:0], &sent, &from)
				from.Record(&sent)
				if err := ParseRun(buf, &got, &to); err != nil {
					b.Fatal(err)
				}
				to.Record(&got)
			}
			b.ReportMetric(float64(len(buf)), "bytes")
		})
	}
}

// TestSetTurn: the dispatcher says in a client's message whose turn is to be told, and
// changes nothing else.
func TestSetTurn(t *testing.T) {
	m := Run{Session: 3, Seq: 4, Base: 5, Flags: RunSync, Frees: []uint64{6}}
	body := AppendRun(nil, &m, nil)
	if !SetTurn(body) || SetTurn(body[:runFixed-1]) || SetTurn(nil) {
		t.Error("there is room for flags in a Run, and not in what is shorter than its fixed part")
	}
	var got Run
	if err := ParseRun(body, &got, &History{}); err != nil {
		t.Fatal(err)
	}
	if got.Flags != RunSync|RunTurn || got.Session != 3 || got.Seq != 4 || got.Base != 5 || len(got.Frees) != 1 || got.Frees[0] != 6 {
		t.Errorf("%+v", got)
	}
}
