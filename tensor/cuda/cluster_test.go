package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"os/signal"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/testsize"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/dispatcher"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/device/apart"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// TestWorkerLost has one of two workers lose its device by a kernel. Its client learns
// the worker and the reason, the other session goes on, and so does the next one.
func TestWorkerLost(t *testing.T) {
	devices := map[string]*cuda.Device{}
	for name, fault := range map[string]string{"w0": "cuLaunchKernel:2=700", "w1": ""} {
		t.Setenv("FAKECUDA_FAIL", fault)
		devices[name] = open(t, standIn(t, 0), small) // the first is compiled
	}
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	c, err := cluster.Start(ctx, &cluster.Options{
		Dir: t.TempDir(), InProcess: true, Workers: len(devices),
		Worker: func(name string) (*worker.Options, error) {
			return &worker.Options{Name: name, Device: devices[name]}, nil
		},
	})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	dial := func() *tensor.Session {
		e, err := client.Dial(ctx, c.Addr(), &client.Options{Kind: device.CUDA})
		if err != nil {
			t.Fatal(err)
		}
		return tensor.NewSession(e, nil)
	}
	negated := func(s *tensor.Session) error {
		got, err := tensor.Data[float32](tensor.From(s, []float32{1, 2}).Neg())
		if err == nil && (got[0] != -1 || got[1] != -2) {
			t.Errorf("the negatives of 1 and 2 are %v", got)
		}
		return err
	}
	both := []*tensor.Session{dial(), dial()} // one on each worker
	lost := 0
	for range 3 {
		for _, s := range both {
			err := negated(s)
			if err == nil {
				continue
			}
			lost++
			if !errors.Is(err, client.ErrLost) {
				t.Fatalf("%v, expected %v", err, client.ErrLost)
			}
			for _, says := range []string{`worker "w0"`, "CUDA_ERROR_ILLEGAL_ADDRESS (700)", "stand-in"} {
				if !strings.Contains(err.Error(), says) {
					t.Errorf("%v does not say %q", err, says)
				}
			}
		}
	}
	if lost != 2 { // the second and the third time of one session
		t.Errorf("%d of 6 calls failed, expected 2", lost)
	}
	if err := negated(dial()); err != nil {
		t.Errorf("a session after that: %v", err)
	}
}

// TestCollectives has 2 to 4 workers reduce, gather and exchange tensors of all dtypes
// that lie on GPUs, staged by host memory where the workers are one process and from GPU
// to GPU where they are several, and on a device that faults when other code reads it:
// the bits and the errors are those of workers on cores. The numbers are such that no
// device rounds.
func TestCollectives(t *testing.T) {
	host := cpu.Options{Arena: small.Host.Arena}
	for _, workers := range []int{2, 3, 4} {
		want := collectives(t, workers, inProcess(func() (device.Device, error) { return cpu.New(&host) }), metrics.Reach{Shared: true})
		if last := want[len(want)-1]; !strings.Contains(last.err, "99") || len(want[0].bytes) == 0 {
			t.Fatalf("on cores: %+v, ... %+v, expected bytes and the index of 99", want[0], last)
		}
		t.Run(fmt.Sprintf("%d apart", workers), func(t *testing.T) {
			apart := inProcess(func() (device.Device, error) { return apart.New(&apart.Options{Seed: 1, CPU: host}) })
			same(t, collectives(t, workers, apart, metrics.Reach{Shared: true}), want)
		})
		t.Run(fmt.Sprintf("%d on GPUs", workers), func(t *testing.T) {
			api, made := standIn(t, 1), 0
			same(t, collectives(t, workers, inProcess(func() (device.Device, error) {
				made++
				return cuda.Open(api, made%2, &small)
			}), metrics.Reach{Shared: true, Obstacle: device.OneProcess}), want)
		})
		t.Run(fmt.Sprintf("%d processes on GPUs", workers), func(t *testing.T) {
			same(t, collectives(t, workers, inProcesses(cudatest.Library(t, os.Getenv)), metrics.Reach{Shared: true, Near: true}), want)
		})
	}
}

// collected is a result of collectives: bytes, or an error's text.
type collected struct {
	name  string
	bytes []byte
	err   string
}

func same(t *testing.T, got, want []collected) {
	t.Helper()
	for i, w := range want {
		if g := got[i]; !bytes.Equal(g.bytes, w.bytes) || g.err != w.err {
			t.Errorf("%s: %v, %q; on cores %v, %q", w.name, g.bytes, g.err, w.bytes, w.err)
		}
	}
}

// inProcess returns the options of workers of this process with the devices that make
// makes.
func inProcess(make func() (device.Device, error)) *cluster.Options {
	return &cluster.Options{InProcess: true, Worker: func(name string) (*worker.Options, error) {
		d, err := make()
		return &worker.Options{Name: name, Device: d}, err
	}}
}

// childFlag makes the test's program a part of a cluster.
const childFlag = "-child"

// inProcesses returns the options of workers that are processes, with the stand-in lib.
func inProcesses(lib string) *cluster.Options {
	return &cluster.Options{Args: func(c cluster.Child) []string { return append([]string{childFlag, lib}, cluster.DefaultArgs(c)...) }}
}

// runChild is a part of a cluster: LIB dispatcher --listen ADDR, or LIB worker --connect
// ADDR --name NAME, on the first or the second GPU in turns.
func runChild(args []string) error {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	if args[1] == string(cluster.RoleDispatcher) {
		d, err := dispatcher.New(nil)
		if err != nil {
			return err
		}
		l, err := local.New().Listen(args[3], d.ListenOptions())
		if err != nil {
			return err
		}
		return d.Serve(ctx, l)
	}
	api, err := dlopen.Open(args[0])
	if err != nil {
		return err
	}
	name := args[5]
	d, err := cuda.Open(api, int(name[len(name)-1]-'0')%2, &small)
	if err != nil {
		return err
	}
	w, err := worker.New(&worker.Options{Name: name, Device: d})
	if err != nil {
		return err
	}
	return w.Serve(ctx, args[3])
}

// reports returns the counters of each of so many workers, w0 first.
func reports(ctx context.Context, t *testing.T, addr string, workers int) (out []client.Counters) {
	t.Helper()
	m, err := client.NewMonitor(ctx, nil, addr)
	if err != nil {
		t.Fatal(err)
	}
	defer m.Close()
	if err := m.Ask(ctx, client.Question{}); err != nil {
		t.Fatal(err)
	}
	answers := map[string]client.Counters{}
	for range workers {
		a, err := m.Next(ctx)
		if err != nil {
			t.Fatal(err)
		}
		r := a.(*client.WorkerReport)
		answers[r.Worker] = r.Counters
	}
	for _, name := range slices.Sorted(maps.Keys(answers)) {
		out = append(out, answers[name])
	}
	return out
}

// TestPeersSteady has workers that are processes do one step over and over, and train in
// each of the ways that several do it together: from a step on no graph is captured, and
// what a session opens of others' memory it opens in its first step.
func TestPeersSteady(t *testing.T) {
	zero1, mesh := config.DataParallel(2), config.DataParallel(4)
	zero1.ZeRO1, mesh.AutoShard = true, true
	var err error
	if mesh.Mesh, err = shard.ParseMesh("2x2"); err != nil {
		t.Fatal(err)
	}
	ways := []struct {
		name   string
		config *config.Config // nil: squares by 2 workers
		steady int            // the last step that may capture
	}{{"squares", nil, 5}, {"2 workers", config.DataParallel(2), 3}, {"ZeRO-1", zero1, 3}, {"mesh 2x2", mesh, 3}}
	if testsize.Sampled() {
		ways = ways[:2]
	}
	for _, way := range ways {
		t.Run(way.name, func(t *testing.T) { peersSteady(t, way.config, way.steady) })
	}
}

// peersSteady is the test of one way.
func peersSteady(t *testing.T, how *config.Config, steady int) {
	o := inProcesses(cudatest.Library(t, os.Getenv))
	ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
	defer cancel()
	workers := 2
	if how != nil {
		workers = how.Workers()
	}
	o.Dir, o.Workers = t.TempDir(), workers
	c, err := cluster.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	var seen [][]client.Counters // by step
	look := func() { seen = append(seen, reports(ctx, t, c.Addr(), workers)) }
	if how == nil {
		if err := squares(ctx, c.Addr(), workers, steady+3, look); err != nil {
			t.Fatal(err)
		}
	} else {
		e, err := client.Dial(ctx, c.Addr(), &client.Options{Config: how})
		if err != nil {
			t.Fatal(err)
		}
		s := tensor.NewSession(e, nil)
		defer s.Close()
		train(t, s, steady+3, func(int) {
			if err := s.Sync(); err != nil { // one worker's answer has the loss
				t.Fatal(err)
			}
			look()
		})
	}
	for w := range workers {
		after := func(step int, name string) uint64 { return seen[step-1][w].Get(name) }
		for name, from := range map[string]int{metrics.Captures: steady, metrics.IPCOpens: 1} {
			if then, now := after(from, name), after(steady+3, name); then != now || now == 0 {
				t.Errorf("worker %d: %s is %d after %d steps and %d after %d, expected the same and some", w, name, then, from, now, steady+3)
			}
		}
		t.Logf("worker %d: %d calls of the driver in a step", w, after(steady+3, metrics.DriverCalls)-after(steady+2, metrics.DriverCalls))
	}
}

// collectives returns what so many workers compute together: sums and largest elements of
// parts (reductions), parts put together (gathers), rows by index from a table that is
// cut, and an index that is out of range on one worker. They reach each other as reach.
func collectives(t *testing.T, workers int, o *cluster.Options, reach metrics.Reach) (out []collected) {
	t.Helper()
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	o.Dir, o.Workers = t.TempDir(), workers
	c, err := cluster.Start(ctx, o)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	e, err := client.Dial(ctx, c.Addr(), &client.Options{Config: config.DataParallel(workers)})
	if err != nil {
		t.Fatal(err)
	}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	batch := func(x []float32, shape ...int) (t *tensor.Tensor) {
		s.Signal("batch", func() { t = tensor.From(s, x, shape...) })
		return t
	}
	x := []float32{}
	for i := range 12 * 5 {
		x = append(x, float32(i%7))
	}
	read := func(name string, x *tensor.Tensor) {
		r := collected{name: name}
		if err := x.ViewBytes(func(b []byte) error { r.bytes = bytes.Clone(b); return nil }); err != nil {
			r.err = err.Error()
			_ = s.ClearErr()
		}
		out = append(out, r)
	}
	for _, d := range tensor.DTypes() {
		y := batch(x, 12, 5).Cast(d)
		read(fmt.Sprintf("%v itself", d), y)
		if d == tensor.Bool {
			read("any", y.Any(0))
			read("all", y.All(0))
			continue
		}
		read(fmt.Sprintf("sum of %v", d), y.Sum(0))
		read(fmt.Sprintf("sum of all %v", d), y.Sum())
		read(fmt.Sprintf("largest %v", d), y.Max(0))
	}
	if err := s.Sync(); err != nil { // answers to it have the counters
		t.Fatal(err)
	}
	if e.Stats().Calls == 0 {
		t.Error("no collective was called")
	}
	var found []metrics.Reach
	for _, counters := range reports(ctx, t, c.Addr(), workers) {
		for _, p := range metrics.PathsOf(counters) {
			found = append(found, p.Reach)
		}
	}
	if len(found) != workers*(workers-1) || slices.ContainsFunc(found, func(r metrics.Reach) bool { return r != reach }) {
		t.Errorf("the workers reach each other as %+v, expected %+v for each pair", found, reach)
	}
	idx := batch([]float32{0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 99}).Cast(tensor.I64)
	read("an index that one worker does not have", tensor.From(s, x, 12, 5).IndexSelect(0, idx).Sum(0))
	return out
}

// squares sums up rows that the workers of a session have, squares the sum, which all of
// them need for that, and reads its elements' sum, so many times or until an error.
func squares(ctx context.Context, addr string, workers, times int, each func()) error {
	e, err := client.Dial(ctx, addr, &client.Options{Config: config.DataParallel(workers)})
	if err != nil {
		return err
	}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	const columns = 3000
	x := make([]float32, 6*columns)
	for i := range x {
		x[i] = 1
	}
	var rows *tensor.Tensor
	s.Signal("batch", func() { rows = tensor.From(s, x, 6, columns) })
	for range times {
		var squares *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			sum := rows.Sum(0)
			squares = sc.Keep(sum.Mul(sum).Sum())
		})
		got, err := tensor.Data[float32](squares)
		squares.Free()
		if err != nil {
			return err
		}
		if got[0] != 36*columns {
			return fmt.Errorf("the sum of squares is %v, expected %d", got[0], 36*columns)
		}
		if err := s.Sync(); err != nil { // one worker's answer had the sum
			return err
		}
		each()
	}
	return nil
}

// TestPeerWorkerKilled kills one of three workers while they sum up tensors from GPU to
// GPU. The client is told which. The others go on with a session of their own, and then
// have nothing of each other's memory.
func TestPeerWorkerKilled(t *testing.T) {
	counters := filepath.Join(t.TempDir(), "counters")
	t.Setenv("FAKECUDA_COUNTERS", counters)
	t.Setenv("FAKECUDA_DELAY_US", "100")
	lib := cudatest.Library(t, os.Getenv)
	for victim := range 3 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		o := inProcesses(lib)
		o.Dir, o.Workers = t.TempDir(), 3
		c, err := cluster.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		name, pid := fmt.Sprintf("w%d", victim), 0
		for _, p := range c.Parts() {
			if p.Name == name {
				pid = p.PID
			}
		}
		if pid == 0 {
			t.Fatalf("no worker %s in %+v", name, c.Parts())
		}
		going, killed := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(killed)
			<-going
			for target := readCalls(t, counters, pid) + int64(40+17*victim); readCalls(t, counters, pid) < target; {
				runtime.Gosched()
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}()
		err = squares(ctx, c.Addr(), 3, math.MaxInt, func() {
			select {
			case going <- struct{}{}:
			default:
			}
		})
		<-killed
		if !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), fmt.Sprintf("worker %q", name)) {
			t.Errorf("%s was killed, and the client has %v, expected %v that names it", name, err, client.ErrLost)
		}
		if err := squares(ctx, c.Addr(), 2, 3, func() {}); err != nil {
			t.Errorf("the other two workers after that: %v", err)
		}
		for left := (fakecuda.Counters{Imports: 1}); left.Imports > 0; runtime.Gosched() {
			if left, err = fakecuda.ReadCounters(counters); err != nil || ctx.Err() != nil {
				t.Fatalf("%+v, %v, %v; expected no imports", left, err, ctx.Err())
			}
		}
		if err := c.Close(); err != nil {
			t.Error(err)
		}
	}
}
