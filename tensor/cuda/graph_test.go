package cuda_test

import (
	"errors"
	"fmt"
	"math"
	"reflect"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cluster/worker"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// train trains a language model so many steps, calls after behind each, and returns the
// losses.
func train(t *testing.T, s *tensor.Session, steps int, after func(step int)) (losses []float64) {
	t.Helper()
	m, err := model.NewQwen3(s, model.Qwen3Config{Vocab: 32, Hidden: 16, Layers: 2, Heads: 2, KVHeads: 1, HeadDim: 8, FFN: 24, Context: 8, Theta: 1e4, Eps: 1e-6, Tied: true})
	if err != nil {
		t.Fatal(err)
	}
	params := m.Params()
	opt := optim.NewAdamW(params, optim.AdamWOptions{LR: 1e-2, Decay: 0.01})
	x, y := make([]int32, 16), make([]int32, 16)
	for i := range steps {
		data.FillIndices(x, fmt.Sprint("x", i), 32)
		data.FillIndices(y, fmt.Sprint("y", i), 32)
		var loss *tensor.Tensor
		s.Scope(func(sc *tensor.Scope) {
			var in, out *tensor.Tensor
			s.Signal("batch", func() { in, out = tensor.From(s, x, 2, 8), tensor.From(s, y, 2, 8) })
			loss = sc.Keep(m.Loss(in, out))
			grads, err := autograd.Grad(loss, nn.Tensors(params)...)
			if err == nil {
				err = opt.Step(grads)
			}
			if err != nil {
				t.Fatal(err)
			}
		})
		l, err := loss.Item()
		if err != nil {
			t.Fatalf("step %d: %v", i+1, err)
		}
		loss.Free()
		losses = append(losses, l)
		after(i + 1)
	}
	return losses
}

// TestTrainingGraphs trains in this process, through one worker and through several. The
// program of all steps but the first is captured at the third. After that graphs alone
// are launched, and without other workers a step is four calls of the driver: the page,
// the graph, what comes back, the event that is waited for. The losses are those of the
// cores.
func TestTrainingGraphs(t *testing.T) {
	const steps = 7
	cores, err := cpu.New(&small.Host)
	if err != nil {
		t.Fatal(err)
	}
	host := tensor.NewSession(device.NewOwner(cores), nil)
	defer host.Close()
	want := train(t, host, steps, func(int) {})
	zero1, mesh := config.DataParallel(2), config.DataParallel(4)
	zero1.ZeRO1, mesh.AutoShard = true, true
	if mesh.Mesh, err = shard.ParseMesh("2x2"); err != nil {
		t.Fatal(err)
	}
	for _, way := range []struct {
		name   string
		config *config.Config
	}{{"in this process", nil}, {"1 worker", config.DataParallel(1)}, {"2 workers", config.DataParallel(2)}, {"ZeRO-1", zero1}, {"mesh 2x2", mesh}} {
		t.Run(way.name, func(t *testing.T) {
			if way.config == mesh && testing.Short() {
				t.Skip("four workers take 10 s")
			}
			workers := 0
			if way.config != nil {
				workers = way.config.Workers()
			}
			api := standIn(t, 1)
			var devices []*cuda.Device
			var s *tensor.Session
			if workers == 0 {
				devices = append(devices, open(t, api, small))
				s = tensor.NewSession(device.NewOwner(devices[0]), nil)
			} else {
				c, err := cluster.Start(t.Context(), &cluster.Options{
					Dir: t.TempDir(), InProcess: true, Workers: workers,
					Worker: func(name string) (*worker.Options, error) {
						devices = append(devices, open(t, api, small))
						return &worker.Options{Name: name, Device: devices[len(devices)-1]}, nil
					},
				})
				if err != nil {
					t.Fatal(err)
				}
				defer c.Close()
				e, err := client.Dial(t.Context(), c.Addr(), &client.Options{Config: way.config})
				if err != nil {
					t.Fatal(err)
				}
				s = tensor.NewSession(e, nil)
			}
			defer s.Close()
			before, calls := make([]device.Work, len(devices)), api.(driver.Counted).CallsByName()
			got := train(t, s, steps, func(step int) {
				if workers > 1 { // one worker's answer has the loss
					if err := s.Sync(); err != nil {
						t.Fatal(err)
					}
				}
				names := map[string]uint64{}
				for name, n := range api.(driver.Counted).CallsByName() {
					if n > calls[name] {
						names[name] = n - calls[name]
					}
					calls[name] = n
				}
				if step == steps {
					t.Logf("calls of step %d: %v", step, names)
				}
				for i, d := range devices {
					w := d.Stats().Work
					b := before[i]
					before[i] = w
					if step == steps {
						t.Logf("device %d in step %d: %d graphs, %d bytes up, %d down; %d calls for all devices",
							i, step, w.Replays-b.Replays, w.Up-b.Up, w.Down-b.Down, w.Calls-b.Calls)
					}
					if n := w.Calls - b.Calls; step > 3 && workers < 2 && n > 4 {
						t.Errorf("step %d made %d calls of the driver, expected 4 at most: %v", step, n, names)
					}
					// With other workers some programs are single launches.
					alone := w.Launches == b.Launches || workers > 1
					if step > 3 && (w.Captures > b.Captures || !alone || w.Replays == b.Replays || w.Opens > 0) {
						t.Errorf("step %d of device %d: from %+v to %+v, expected launches of graphs alone", step, i, b, w)
					}
				}
			})
			for i := range want {
				if !(math.Abs(got[i]-want[i]) <= 1e-3) {
					t.Errorf("loss %d is %g, on the cores %g", i+1, got[i], want[i])
				}
			}
		})
	}
}

// TestGraphs runs one program again and again with other numbers and scalars: it is
// captured at its second run, its addresses settle, the results have the bits of runs
// without graphs, and an index out of range is found in a graph too.
func TestGraphs(t *testing.T) {
	const rounds = 8
	run := func(fresh bool) (out [][]float32, d *cuda.Device) {
		var s *tensor.Session
		s, d = session(t, 1, small)
		for i := range rounds {
			if fresh {
				s, d = session(t, 1, small)
			}
			before := d.Counters()
			x, at := tensor.From(s, []float32{1, 2, float32(i)}), tensor.From(s, []int64{int64(i % 3), 2})
			var y *tensor.Tensor
			s.Scope(func(sc *tensor.Scope) {
				y = sc.Keep(x.MulS(1+float64(i)/8).Exp().IndexSelect(0, at).Softmax(0))
			})
			got, err := tensor.Data[float32](y)
			if err != nil {
				t.Fatal(err)
			}
			out = append(out, got)
			for _, x := range []*tensor.Tensor{x, at, y} {
				x.Free()
			}
			c := d.Counters()
			if launched := c.Launches > before.Launches; !fresh && launched != (i == 0) {
				t.Errorf("run %d launched kernels alone: %v", i, launched)
			}
			if captures := c.Captures - before.Captures; !fresh && (captures > 0 && i > 3 || captures == 0 && i == 1) {
				t.Errorf("%d captures in run %d", captures, i)
			}
		}
		return out, d
	}
	want, _ := run(true)
	got, d := run(false)
	if !reflect.DeepEqual(got, want) {
		t.Errorf("%v, without graphs %v", got, want)
	}
	if c := d.Counters(); c.Replays != rounds-1 {
		t.Errorf("counted %+v, expected %d launches of graphs", c, rounds-1)
	}
}

// TestSpareMemory checks that memory which a session frees and does not use goes back to
// the device, at once where another session needs it.
func TestSpareMemory(t *testing.T) {
	t.Setenv("FAKECUDA_MEMORY_MIB", "24")
	s, d := session(t, 0, small)
	fill := func(s *tensor.Session, n int) {
		t.Helper()
		x := tensor.Full(s, tensor.F32, 1, n)
		if err := s.Sync(); err != nil {
			t.Fatal(err)
		}
		x.Free()
	}
	fill(s, 3<<20)
	fill(s, 1)
	if used, spare := d.Stats().Values.InUse, d.Counters().Spare; spare < 12<<20 || used >= 1<<20 {
		t.Errorf("%d bytes are in use and %d to spare, expected 12 MiB to be spare and not in use", used, spare)
	}
	other := tensor.NewSession(device.NewEngine(d), nil)
	fill(other, 3<<20)
	if err := other.Close(); err != nil {
		t.Fatal(err)
	}
	fill(s, 1<<18)
	for range 300 {
		fill(s, 1)
	}
	if used, spare := d.Stats().Values.InUse, d.Counters().Spare; used+spare >= 1<<20 {
		t.Errorf("%d bytes are in use and %d to spare after 300 runs, expected none of what was freed before", used, spare)
	}
}

// fullDriver has no memory for graphs.
type fullDriver struct {
	driver.API
	asked int
}

func (d *fullDriver) GraphInstantiate(driver.Graph) (driver.GraphExec, error) {
	d.asked++
	return 0, &driver.Error{Call: "cuGraphInstantiate", Result: driver.OutOfMemory}
}

// TestNoGraphs has a driver that can't make graphs: programs are launched without them,
// and an index out of range is told.
func TestNoGraphs(t *testing.T) {
	api := &fullDriver{API: standIn(t, 1)}
	d := open(t, api, small)
	s := tensor.NewSession(device.NewOwner(d), nil)
	defer d.Close()
	defer s.Close()
	x := tensor.From(s, []float32{1, 2, 3}, 3)
	for i := range 4 {
		idx := tensor.From(s, []int32{int32(i), 0}, 2)
		got, err := x.IndexSelect(0, idx).MulS(2).Sum().Item()
		if want := 2*float64(i+1) + 2; i < 3 && (err != nil || got != want) {
			t.Fatalf("run %d: %v, %v; expected %v", i+1, got, err, want)
		} else if i == 3 && !errors.Is(err, tensor.ErrIndex) {
			t.Fatalf("an index out of range: %v", err)
		}
	}
	if api.asked == 0 {
		t.Error("no graph was tried")
	}
}

// recordDriver keeps the mapped memory of the host, in which records lie.
type recordDriver struct {
	driver.API
	records []byte
}

func (d *recordDriver) HostAlloc(n int, flags driver.HostFlags) ([]byte, error) {
	b, err := d.API.HostAlloc(n, flags)
	if flags == driver.HostDeviceMap {
		d.records = b
	}
	return b, err
}

// TestRecordOfNoStep has a record name a step that the program has not: that is an error.
func TestRecordOfNoStep(t *testing.T) {
	api := &recordDriver{API: standIn(t, 1)}
	d := open(t, api, small)
	s := tensor.NewSession(device.NewOwner(d), nil)
	defer d.Close()
	defer s.Close()
	y := tensor.From(s, []float32{1, 2, 3}, 3).IndexSelect(0, tensor.From(s, []int32{1}, 1))
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	copy(api.records, []byte{77, 0, 0, 0})
	if _, err := tensor.Data[float32](y); err == nil || !strings.Contains(err.Error(), "a failure of step 77, expected one of ") {
		t.Errorf("a record of step 77: %v", err)
	}
}
