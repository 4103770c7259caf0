package cuda_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/metrics"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// links are the two directions between two members, by the rank that sends.
type links [2]device.Link

// linked makes the links of two members.
func (m *member) linked(ctx context.Context) (l links, err error) {
	for sender := range l {
		var o device.Obstacle
		rank := (m.rank + sender) % 2
		if l[sender], o, err = m.dev.Link(rank, m.meetAs(ctx, sender)); err != nil || o != device.None {
			return l, fmt.Errorf("link from rank %d: %v, %w", sender, o, err)
		}
	}
	return l, nil
}

// meetAs returns the meetings of a link, whose first member is the sender.
func (m *member) meetAs(ctx context.Context, sender int) device.Meet {
	meet := m.meet(ctx)
	return func(mine []byte) ([][]byte, error) {
		all, err := meet(mine)
		if err == nil && sender == 1 {
			slices.Reverse(all)
		}
		return all, err
	}
}

func (m *member) closeLinks(ctx context.Context, l links) error {
	return errors.Join(l[0].Close(m.meet(ctx)), l[1].Close(m.meet(ctx)))
}

// exchange has each member start two sends and two receives before any of them runs. Each
// gives its values' memory to other values at once. It returns what was received, by the
// number of the transfer. kind is the kind of the values that in gives by sender.
func (m *member) exchange(ctx context.Context, s device.Space, l links, kind device.Value, in func(sender, k int) []byte) (out [2][]byte, err error) {
	var all [2][2]device.Transfer // by sender
	var failed error
	for sender := range l {
		for k := range 2 {
			x := device.Collective{Kind: protocol.Recv, DType: kind.DType, Shape: kind.Shape}
			if sender == m.rank {
				x.Kind, x.In = protocol.Send, uint64(1+k)
				if err := errors.Join(s.Make(x.In, kind.DType, kind.Shape), s.Fill(x.In, in(sender, k))); err != nil {
					return out, err
				}
			}
			t, err := l[sender].Start(s, &x)
			all[sender][k], failed = t, errors.Join(failed, err)
			if sender == m.rank {
				s.Free(x.In)
				other := uint64(10 + k)
				failed = errors.Join(failed, s.Make(other, kind.DType, kind.Shape), s.Fill(other, make([]byte, kind.Bytes())))
			}
		}
	}
	for sender := range l { // the group has the meetings of both links
		for _, t := range all[sender] {
			failed = errors.Join(failed, t.Run(m.meetAs(ctx, sender)))
		}
	}
	if failed != nil {
		for _, t := range slices.Concat(all[0][:], all[1][:]) {
			t.Drop()
		}
		return out, failed
	}
	for k := range 2 {
		id := uint64(20 + k)
		all[m.rank][k].Drop()
		if err := all[1-m.rank][k].Finish(id); err != nil {
			return out, err
		}
	}
	for k := range 2 {
		id := uint64(20 + k)
		b, err := s.Read(id, 0, kind.Bytes())
		if err != nil {
			return out, err
		}
		out[k] = bytes.Clone(b)
		s.Free(id)
		s.Free(uint64(10 + k))
	}
	return out, nil
}

// transfers exchanges values of all dtypes, on the host and on the device, and compares
// them with what was sent.
func (m *member) transfers(ctx context.Context) error {
	l, err := m.linked(ctx)
	if err != nil {
		return err
	}
	s := m.dev.Open()
	count, opens := 0, uint64(0)
	for round := range 2 {
		for _, d := range tensor.DTypes() {
			for _, n := range []int{0, 1, 33, 20000} {
				noises := func(sender, k int) []byte { return noise(d, n, uint64(count+k), uint64(sender)) }
				got, err := m.exchange(ctx, s, l, device.Value{DType: d, Shape: tensor.Shape{n}}, noises)
				if err != nil {
					return err
				}
				for k, b := range got {
					if want := noises(1-m.rank, k); !bytes.Equal(b, want) {
						return fmt.Errorf("%d elements of %v: %x, sent %x", n, d, b, want)
					}
				}
				count += 2
			}
		}
		if now := m.dev.Stats().Work.Opens; round == 0 {
			opens = now
		} else if now != opens {
			return fmt.Errorf("%d segments were opened in the second round, expected none", now-opens)
		}
	}
	if err := m.lacking(ctx, s, l); err != nil {
		return err
	}
	s.Close()
	fmt.Printf("%d transfers\n", count)
	return m.closeLinks(ctx, l)
}

// lacking has the sender lack its value, take no part, and the receiver take no part, or
// have the id of the result. The receiver has zeros where it has anything, and neither
// keeps memory.
func (m *member) lacking(ctx context.Context, s device.Space, l links) error {
	const n = 5000
	want := noise(tensor.F32, n, 7, 0)
	if err := errors.Join(s.Make(1, tensor.F32, tensor.Shape{n}), s.Fill(1, want), s.Make(2, tensor.F32, tensor.Shape{n}), s.Sync()); err != nil {
		return err
	}
	before := m.dev.Stats().Values.Blocks
	for _, c := range []struct {
		name    string
		in      uint64
		failed  int // rank, 2: none
		zeros   bool
		id      uint64
		unknown int // rank with that error, 2: none
	}{
		{"no value", 99, 2, true, 3, 0},
		{"the sender failed", 1, 0, true, 3, 2},
		{"the receiver failed", 1, 1, false, 0, 2},
		{"an id that exists", 1, 2, false, 2, 1},
		{"after all of these", 1, 2, false, 3, 2},
	} {
		x := device.Collective{Kind: protocol.Recv, DType: tensor.F32, Shape: tensor.Shape{n}, Failed: m.rank == c.failed}
		if m.rank == 0 {
			x.Kind, x.In = protocol.Send, c.in
		}
		t, err := l[0].Start(s, &x)
		if broken := t.Run(m.meet(ctx)); broken != nil {
			return fmt.Errorf("%s: %w", c.name, broken)
		}
		if m.rank == 0 || x.Failed {
			t.Drop()
		} else {
			err = t.Finish(c.id)
		}
		if (m.rank == c.unknown) != errors.Is(err, tensor.ErrUnknown) || m.rank != c.unknown && err != nil {
			return fmt.Errorf("%s: rank %d has %w", c.name, m.rank, err)
		}
		if m.rank == 0 || x.Failed || err != nil {
			continue
		}
		got, err := s.Read(c.id, 0, 4*n)
		if c.zeros {
			want = make([]byte, 4*n)
		} else {
			want = noise(tensor.F32, n, 7, 0)
		}
		if err != nil || !bytes.Equal(got, want) {
			return fmt.Errorf("%s: other bytes were received, %w", c.name, err)
		}
		s.Free(c.id)
	}
	if err := s.Sync(); err != nil {
		return err
	}
	// The space keeps the block of a received value for its next values.
	if now := m.dev.Stats().Values.Blocks; now > before+m.rank {
		return fmt.Errorf("%d blocks after transfers, expected at most %d", now, before+m.rank)
	}
	return nil
}

// transfersForever exchanges values until that fails.
func (m *member) transfersForever(ctx context.Context) error {
	l, err := m.linked(ctx)
	if err != nil {
		return err
	}
	fmt.Println("linked")
	s := m.dev.Open()
	defer s.Close()
	for i := uint64(0); ; i++ {
		n := []int{100, 9000}[i%2]
		noises := func(sender, k int) []byte { return noise(tensor.F32, n, 2*i+uint64(k), uint64(sender)) }
		got, err := m.exchange(ctx, s, l, device.Value{DType: tensor.F32, Shape: tensor.Shape{n}}, noises)
		if err == nil {
			// A member that was killed may not have written its value: the meeting
			// says so.
			_, err = m.meet(ctx)([]byte{1})
		}
		if err != nil {
			return errors.Join(err, m.closeLinks(ctx, l))
		}
		for k, b := range got {
			if !bytes.Equal(b, noises(1-m.rank, k)) {
				return fmt.Errorf("transfer %d of round %d has other bytes than were sent", k, i)
			}
		}
	}
}

// TestLinks has two members send values of all dtypes to each other, several at once, on
// one GPU and on two, with streams that are late, and with a library of collectives.
func TestLinks(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "200")
	lib := cudatest.Library(t, os.Getenv)
	for name, number := range map[string]func(int) int{"one GPU": func(int) int { return 0 }, "two GPUs": alternate, byLibrary: alternate} {
		t.Run(name, func(t *testing.T) {
			does := "transfers"
			if name == byLibrary {
				does = byLibrary + does
			}
			for r, p := range members(t, lib, 2, does, number, "FAKECUDA_DELAY_US=1000") {
				want := fmt.Sprintf("%d transfers\nnothing left\n", 2*2*4*len(tensor.DTypes()))
				if said := p.rest(); said != want {
					t.Errorf("rank %d said %q, expected %q", r, said, want)
				}
			}
		})
	}
}

// TestLinkKilled kills the one or the other of two members, which send values to each
// other, at different calls of the driver. The one that is left is told which, and has
// nothing in the end.
func TestLinkKilled(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "300")
	kills := 10
	if testing.Short() {
		kills = 4
	}
	const seed = 8
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	lib := cudatest.Library(t, os.Getenv)
	for k := range kills {
		victim, calls := k%2, 1+rng.Int64N(400)
		all := members(t, lib, 2, "transfers-forever", alternate)
		for r, p := range all {
			if line, err := p.out.ReadString('\n'); line != "linked\n" {
				t.Fatalf("rank %d said %q, %v", r, line, err)
			}
		}
		v := all[victim]
		pid := v.cmd.Process.Pid
		for target := calls + readCalls(t, v.counters, pid); readCalls(t, v.counters, pid) < target; {
			runtime.Gosched()
		}
		if err := v.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = v.cmd.Wait()
		said := all[1-victim].rest()
		if !strings.Contains(said, fmt.Sprintf("rank %d", victim)) || !strings.HasSuffix(said, "nothing left\n") {
			t.Errorf("rank %d was killed after %d calls, and the other said %q", victim, calls, said)
		}
	}
}

// stages is a config of stages stage0, stage1, ... of so many workers.
func stages(of ...[]int) *config.Config {
	c := &config.Config{}
	for k, workers := range of {
		c.Signals = append(c.Signals, config.Signal{Name: fmt.Sprintf("stage%d", k), Workers: workers})
	}
	return c
}

// relay multiplies rows by the matrix of stage 0, of stage 1 and of stage 0 again, so
// many times or until an error. Half of the values that are sent are small.
func relay(ctx context.Context, addr string, how *config.Config, times int, each func()) error {
	e, err := client.Dial(ctx, addr, &client.Options{Config: how})
	if err != nil {
		return err
	}
	s := tensor.NewSession(e, nil)
	defer s.Close()
	const width = 16
	ones := slices.Repeat([]float32{1}, 400*width)
	var w [2]*tensor.Tensor
	for k := range w {
		s.Signal(fmt.Sprintf("stage%d", k), func() { w[k] = tensor.From(s, ones[:width*width], width, width) })
	}
	for i := range times {
		rows := []int{400, 8}[i%2]
		var sum *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			var x *tensor.Tensor
			s.Signal("stage0", func() { x = tensor.From(s, ones[:rows*width], rows, width) })
			sum = sc.Keep(x.Matmul(w[0]).Matmul(w[1]).Matmul(w[0]).Sum())
		})
		got, err := sum.Item()
		if err != nil {
			return err
		}
		if want := float64(rows * width * width * width * width); got != want {
			return fmt.Errorf("the sum is %v, expected %v", got, want)
		}
		sum.Free()
		if err := s.Sync(); err != nil { // one worker's answer had the sum
			return err
		}
		each()
	}
	return nil
}

// TestStages has workers of two stages multiply a value in turns. It goes from GPU to GPU
// where they are processes, and by host memory where they are one process or a driver
// refuses the memory of another; their reports say which and why.
func TestStages(t *testing.T) {
	near := metrics.Reach{Shared: true, Near: true}
	two, four := stages([]int{0}, []int{1}), stages([]int{0, 2}, []int{1, 3})
	for _, c := range []struct {
		name  string
		how   *config.Config
		fault string // of all drivers
		one   bool   // process
		want  metrics.Reach
	}{
		{"two processes", two, "", false, near},
		{"two processes a stage", four, "", false, near},
		{"one process", two, "", true, metrics.Reach{Shared: true, Obstacle: device.OneProcess}},
		{"refused", two, "cuIpcOpenMemHandle_v2:1=201,cuIpcOpenMemHandle_v2:2=201", false, metrics.Reach{Shared: true, Obstacle: device.Refused}},
	} {
		t.Run(c.name, func(t *testing.T) {
			t.Setenv("FAKECUDA_FAIL", c.fault)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			o := inProcesses(cudatest.Library(t, os.Getenv))
			if c.one {
				api, made := standIn(t, 1), 0
				o = inProcess(func() (device.Device, error) { made++; return cuda.Open(api, made%2, &small) })
			}
			workers := c.how.Workers()
			o.Dir, o.Workers = t.TempDir(), workers
			cl, err := cluster.Start(ctx, o)
			if err != nil {
				t.Fatal(err)
			}
			defer cl.Close()
			var seen [][]client.Counters
			if err := relay(ctx, cl.Addr(), c.how, 4, func() { seen = append(seen, reports(ctx, t, cl.Addr(), workers)) }); err != nil {
				t.Fatal(err)
			}
			sum := func(all []client.Counters, name string) (n uint64) {
				for _, c := range all {
					n += c.Get(name)
				}
				return n
			}
			// A value goes to each worker of stage 1 and back to each of stage 0, four
			// times.
			first, last, want := seen[0], seen[3], [2]uint64{uint64(4 * workers), 0}
			if !c.want.Near {
				want[0], want[1] = want[1], want[0]
			}
			if got := [2]uint64{sum(last, metrics.TransfersPeer), sum(last, metrics.TransfersHost)}; got != want {
				t.Errorf("%d transfers from GPU to GPU and by host memory, expected %d", got, want)
			}
			if then, now := sum(first, metrics.IPCOpens), sum(last, metrics.IPCOpens); then != now || (now > 0) != (c.want.Near) {
				t.Errorf("%d segments were opened in the first round and %d by the fourth", then, now)
			}
			for rank, counters := range last {
				for _, p := range metrics.PathsOf(counters) {
					want := c.want
					if (p.From+p.To)%2 == 0 { // of one stage
						continue
					}
					if workers == 4 && p.From/2 != p.To/2 { // nothing is sent
						want = metrics.Reach{Shared: true, Obstacle: device.Stages}
					}
					if p.Reach != want {
						t.Errorf("rank %d reaches %d as %+v, expected %+v", rank, p.To, p.Reach, want)
					}
				}
			}
		})
	}
}

// TestStageKilled kills the worker of one of two stages between which values go from GPU
// to GPU. The client is told which. The other one has a session of its own after that,
// and then nothing of the dead one's memory.
func TestStageKilled(t *testing.T) {
	counters := filepath.Join(t.TempDir(), "counters")
	t.Setenv("FAKECUDA_COUNTERS", counters)
	t.Setenv("FAKECUDA_DELAY_US", "100")
	lib := cudatest.Library(t, os.Getenv)
	for k := range 4 {
		ctx, cancel := context.WithTimeout(t.Context(), 3*time.Minute)
		defer cancel()
		o := inProcesses(lib)
		o.Dir, o.Workers = t.TempDir(), 2
		c, err := cluster.Start(ctx, o)
		if err != nil {
			t.Fatal(err)
		}
		name, pid := fmt.Sprintf("w%d", k%2), 0
		for _, p := range c.Parts() {
			if p.Name == name {
				pid = p.PID
			}
		}
		going, killed := make(chan struct{}, 1), make(chan struct{})
		go func() {
			defer close(killed)
			<-going
			for target := readCalls(t, counters, pid) + int64(40+17*k); readCalls(t, counters, pid) < target; {
				runtime.Gosched()
			}
			if err := syscall.Kill(pid, syscall.SIGKILL); err != nil {
				t.Error(err)
			}
		}()
		err = relay(ctx, c.Addr(), stages([]int{0}, []int{1}), math.MaxInt, func() {
			select {
			case going <- struct{}{}:
			default:
			}
		})
		<-killed
		if !errors.Is(err, client.ErrLost) || !strings.Contains(err.Error(), fmt.Sprintf("worker %q", name)) {
			t.Errorf("%s was killed, and the client has %v, expected %v that names it", name, err, client.ErrLost)
		}
		if err := squares(ctx, c.Addr(), 1, 3, func() {}); err != nil {
			t.Errorf("the other worker after that: %v", err)
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
