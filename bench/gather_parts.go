package bench

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"os"
	"runtime"
	"runtime/debug"
	"slices"
	"sync"
	"time"

	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/apply"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/store"
)

// gatherUpdate is the role of an outer update of Clients peers under a budget of Size
// bytes. It gives the bytes by which the process grew, and values a second of a core's
// time.
func gatherUpdate(a *actor) {
	a.start()
	m := codectest.Mid()
	var grew, speed float32
	r := &run{Options: &Options{}, Report: &Report{}, ctx: context.Background()}
	dir := must(os.MkdirTemp("", "ringside-bench-"))
	defer os.RemoveAll(dir)
	call := gatherCall{manifest: m, ranks: 1, peers: a.Clients, dir: dir}
	call.then = func(g *gather.Gatherer, res *gather.Result) {
		runtime.GOMAXPROCS(1)
		debug.FreeOSMemory()
		before := must(resetPeak())
		begin := cpuTime() // others may use the cores too
		stats := must(apply.Update(r.ctx, g.Ranks, res, m, discard{}, &apply.Options{Budget: int64(a.Size)}))
		took := cpuTime() - begin
		grew, speed = float32(must(memory("VmHWM"))-before), float32(float64(stats.Values)/took.Seconds())
	}
	call.seconds(r)
	a.measured(grew, speed)
}

// discard is a model that is nowhere: an update's own memory is measured.
type discard struct{}

func (discard) Read(_ *codec.Param, _, _, _ int, dst []float32) error { clear(dst); return nil }
func (discard) Write(*codec.Param, int, int, int, []float32) error    { return nil }

// resetPeak sets the peak of this process's memory to what it has now, which it returns.
func resetPeak() (int64, error) {
	if err := os.WriteFile("/proc/self/clear_refs", []byte("5"), 0); err != nil {
		return 0, fmt.Errorf("bench: resetting the peak of memory: %w", err)
	}
	return memory("VmRSS")
}

// memory returns a line of this process's status, in bytes.
func memory(name string) (int64, error) {
	b, err := os.ReadFile("/proc/self/status")
	if err != nil {
		return 0, err
	}
	_, rest, _ := bytes.Cut(b, []byte(name+":"))
	var kb int64
	if _, err := fmt.Sscan(string(rest[:min(len(rest), 40)]), &kb); err != nil {
		return 0, fmt.Errorf("bench: no %s in /proc/self/status: %w", name, err)
	}
	return kb << 10, nil
}

// rate gives out bytes at a pace.
type rate struct {
	perSecond float64

	mu   sync.Mutex
	free time.Time // when all bytes that were given out are through
}

// wait waits until n bytes more are through.
func (r *rate) wait(n int) {
	r.mu.Lock()
	if now := time.Now(); r.free.Before(now) {
		r.free = now
	}
	r.free = r.free.Add(time.Duration(float64(n) / r.perSecond * 1e9))
	until := r.free
	r.mu.Unlock()
	time.Sleep(time.Until(until))
}

// delayed is a store behind a line with latency and bandwidth.
type delayed struct {
	store.Store
	latency time.Duration
	limits  []*rate
}

// Open implements store.Store.
func (s *delayed) Open(ctx context.Context, key string, get store.Get) (*store.Object, error) {
	time.Sleep(s.latency)
	o, err := s.Store.Open(ctx, key, get)
	if err == nil {
		o.Body = &paced{o.Body, s.limits}
	}
	return o, err
}

// paced is a body that comes at a pace.
type paced struct {
	io.ReadCloser
	limits []*rate
}

func (p *paced) Read(b []byte) (int, error) {
	n, err := p.ReadCloser.Read(b)
	for _, l := range p.limits {
		l.wait(n)
	}
	return n, err
}

// kept is Peers that were made beforehand.
type kept struct {
	codectest.Peers
	all [][]byte
}

func newKept(m *codec.Manifest, n int) *kept {
	k := &kept{Peers: codectest.Peers{M: m, Window: gatherWindow}}
	for uid := range uint64(n) {
		k.all = append(k.all, codectest.Random(m, gatherWindow, uid+1).Bytes())
	}
	return k
}

// Open implements store.Store.
func (k *kept) Open(_ context.Context, key string, _ store.Get) (*store.Object, error) {
	var uid int
	if _, err := fmt.Sscan(key, &uid); err != nil {
		return nil, err
	}
	b := k.all[uid-1]
	return &store.Object{Body: io.NopCloser(bytes.NewReader(b)), Size: int64(len(b)), ETag: key}, nil
}

// indexSets decodes the indices of all peers, row by row.
func indexSets(r *gather.Result, m *codec.Manifest) [][][]uint32 {
	out := make([][][]uint32, len(r.UIDs))
	var rows codec.Rows
	var row codec.Row
	for u, uid := range r.UIDs {
		p := r.Payloads[uid]
		check(p.Report.ReadRows(&rows, m, p.File, 0, 0, m.Params[0].Rows))
		check(rows.Each(&row, func(int) { out[u] = append(out[u], slices.Clone(row.Index)) }))
	}
	return out
}

// comparePairs counts equal indices of all pairs, each index with each.
func comparePairs(sets [][][]uint32) [][]int64 {
	out := make([][]int64, len(sets))
	for i := range sets {
		out[i] = make([]int64, len(sets))
		for j := range i {
			for row, a := range sets[i] {
				b := sets[j][row]
				for _, x := range a {
					for _, y := range b {
						if x == y {
							out[i][j]++
						}
					}
				}
			}
		}
	}
	return out
}
