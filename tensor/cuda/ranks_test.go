package cuda_test

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/comm"
	"github.com/ringside-go/ringside/tensor/cuda/comm/nccl"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// byLibrary before what a member does has a library run its collectives.
const byLibrary = "library-"

// tolerated is how far a fold by a library may be from the host's, relative to the larger
// of the result and 1, by dtype.
var tolerated = map[tensor.DType]float64{tensor.F64: 1e-14, tensor.F32: 1e-5, tensor.F16: 1e-2, tensor.BF16: 1e-1}

// numbers returns the elements of a value of floats.
func numbers(d tensor.DType, b []byte) (out []float64) {
	for part := range slices.Chunk(b, d.Size()) {
		switch d {
		case tensor.F64:
			out = append(out, math.Float64frombits(binary.LittleEndian.Uint64(part)))
		case tensor.F32:
			out = append(out, float64(math.Float32frombits(binary.LittleEndian.Uint32(part))))
		case tensor.F16:
			out = append(out, float64(element.Float16(binary.LittleEndian.Uint16(part)).Float32()))
		case tensor.BF16:
			out = append(out, float64(element.BFloat16(binary.LittleEndian.Uint16(part)).Float32()))
		}
	}
	return out
}

// same compares a result with the host's: bit by bit, but for folds of floats by a
// library, whose order is its own. An all-reduce has the same bits on all members.
func (m *member) same(ctx context.Context, x *device.Collective, got, want []byte) error {
	equal := bytes.Equal(got, want)
	if !equal {
		m.others++
	}
	if m.library && x.Kind == protocol.AllReduce {
		all, err := m.meet(ctx)(binary.LittleEndian.AppendUint32(nil, crc32.ChecksumIEEE(got)))
		if err != nil {
			return err
		}
		if slices.ContainsFunc(all, func(b []byte) bool { return !bytes.Equal(b, all[0]) }) {
			return errors.New("members have different bits")
		}
	}
	folds := x.Kind == protocol.AllReduce || x.Kind == protocol.ReduceScatter
	if equal {
		return nil
	}
	if !m.library || !folds || !x.DType.IsFloat() || x.Op != element.Sum && x.Op != element.Prod {
		return errors.New("other bits")
	}
	a, b := numbers(x.DType, got), numbers(x.DType, want)
	for i := range a {
		// NaN is near to nothing.
		same := a[i] == b[i] || math.IsNaN(a[i]) && math.IsNaN(b[i])
		if !same && !(math.Abs(a[i]-b[i]) <= tolerated[x.DType]*max(1, math.Abs(b[i]))) {
			return fmt.Errorf("element %d is %g, expected about %g", i, a[i], b[i])
		}
	}
	return nil
}

// own gives each rank a device of its own.
func own(rank int) int { return rank }

// TestRanks runs collectives by the library among 2 to 4 processes, each on a device of
// its own, whose streams are late. All kinds and dtypes are those of the host; sums of
// more than two floats have other bits, the same on all members.
func TestRanks(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "20")
	t.Setenv("FAKECUDA_DEVICES", "4")
	lib := cudatest.Library(t, os.Getenv)
	for size := 2; size <= 4; size++ {
		for r, p := range members(t, lib, size, byLibrary+"all", own) {
			var count, others, meets int
			said := p.rest()
			_, err := fmt.Sscanf(said, "%d collectives as on the host, %d of other bits, %d meetings", &count, &others, &meets)
			if err != nil || !strings.HasSuffix(said, "nothing left\n") || size > 2 && others == 0 {
				t.Errorf("rank %d of %d said %q", r, size, said)
			} else if r == 0 {
				t.Log(said)
			}
		}
	}
}

// TestRanksTogether starts collectives together, has members fail, and frees values while
// collectives are pending.
func TestRanksTogether(t *testing.T) {
	t.Setenv("FAKECUDA_DEVICES", "3")
	lib := cudatest.Library(t, os.Getenv)
	for does, want := range map[string]string{"together": "collectives together as on the host", "late": "nothing left"} {
		for r, p := range members(t, lib, 3, byLibrary+does, own, "FAKECUDA_DELAY_US=200") {
			if said := p.rest(); !strings.Contains(said, want) || !strings.HasSuffix(said, "nothing left\n") {
				t.Errorf("%s: rank %d said %q", does, r, said)
			}
		}
	}
}

// TestRanksKilled kills one of three members at different calls of the driver. Work of
// the others that waits for it is aborted, and nothing is left.
func TestRanksKilled(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "300")
	t.Setenv("FAKECUDA_DEVICES", "3")
	kills := 12
	if testing.Short() {
		kills = 3
	}
	const seed = 7
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	lib := cudatest.Library(t, os.Getenv)
	for k := range kills {
		victim, calls := k%3, 1+rng.Int64N(300)
		all := members(t, lib, 3, byLibrary+"forever", own)
		v := all[victim]
		pid := v.cmd.Process.Pid
		for target := calls + readCalls(t, v.counters, pid); readCalls(t, v.counters, pid) < target; {
			runtime.Gosched()
		}
		if err := v.cmd.Process.Kill(); err != nil {
			t.Fatal(err)
		}
		_ = v.cmd.Wait()
		for r, p := range all {
			if r == victim {
				continue
			}
			said := p.rest()
			if !strings.Contains(said, fmt.Sprintf("rank %d", victim)) || !strings.HasSuffix(said, "nothing left\n") {
				t.Errorf("rank %d was killed after %d calls, and rank %d said %q", victim, calls, r, said)
			}
		}
	}
}

// TestRanksRefused has a library that can't be used, or that fails in the middle. All
// members say how it failed, and nothing is left on any.
func TestRanksRefused(t *testing.T) {
	t.Setenv("FAKECUDA_DEVICES", "3")
	lib := cudatest.Library(t, os.Getenv)
	for _, c := range []struct {
		env    string // of all but the first
		device func(rank int) int
		says   string // of the failure: the member that has it, and so all
	}{
		{"FAKENCCL_FAIL=ncclCommInitRankConfig:1=3", own, "ncclCommInitRankConfig: ncclInternalError (3)"},
		{"FAKENCCL_FAIL=ncclCommGetAsyncError:1=2", own, "ncclCommGetAsyncError: ncclSystemError (2)"},
		{"FAKECUDA_DELAY_US=0", func(rank int) int { return rank / 2 }, "ncclInvalidUsage (5): Duplicate GPU detected"},
	} {
		for r, p := range members(t, lib, 3, byLibrary+"all", c.device, c.env) {
			said := p.rest()
			if !strings.HasPrefix(said, "error ") || !strings.Contains(said, c.says) || strings.Contains(said, "left:") {
				t.Errorf("%s: rank %d said %q, expected %q", c.env, r, said, c.says)
			}
		}
	}
	for r, p := range members(t, lib, 3, byLibrary+"forever", own, "FAKENCCL_FAIL=ncclAllReduce:5=1") {
		want := "ncclAllReduce: ncclUnhandledCudaError (1)"
		if r == 0 {
			want = "failed" // at what it does next with the others
		}
		if said := p.rest(); !strings.Contains(said, want) || !strings.HasSuffix(said, "nothing left\n") {
			t.Errorf("rank %d said %q, expected %q", r, said, want)
		}
	}
}

// TestRanksCross has four members of one process, which peers can't be, on a mesh of 2 by
// 2: each is in two groups, whose collectives it starts in turn, some beside programs.
func TestRanksCross(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "100")
	t.Setenv("FAKECUDA_DEVICES", "4")
	path := cudatest.Library(t, os.Getenv)
	api, err := dlopen.Open(path)
	if err != nil {
		t.Fatal(err)
	}
	library, err := nccl.Open(filepath.Join(filepath.Dir(path), fakecuda.Collectives), nil)
	if err != nil {
		t.Fatal(err)
	}
	var met [2][2]*meeting // by dim and group
	for i := range met {
		met[i] = [2]*meeting{newMeeting(2), newMeeting(2)}
	}
	var all sync.WaitGroup
	for rank := range 4 {
		all.Go(func() {
			places := [2]int{rank / 2, rank % 2} // in the groups of each dim
			meets := [2]device.Meet{}
			for dim := range meets {
				meets[dim] = func(mine []byte) ([][]byte, error) { return met[dim][places[1-dim]].meet(places[dim], mine), nil }
			}
			if err := crossed(api, library, rank, places, meets); err != nil {
				t.Errorf("rank %d: %v", rank, err)
			}
		})
	}
	all.Wait()
}

// crossed is a member of TestRanksCross.
func crossed(api driver.API, library comm.Library, rank int, places [2]int, meets [2]device.Meet) error {
	o := small
	o.Collectives = library
	d, err := cuda.Open(api, rank, &o)
	if err != nil {
		return err
	}
	var groups [2]device.Peers
	for dim := range groups {
		var obstacle device.Obstacle
		if groups[dim], obstacle, err = d.Connect(places[dim], 2, meets[dim]); err != nil || obstacle != device.None {
			return fmt.Errorf("dim %d: obstacle %q, %w", dim, obstacle, err)
		}
	}
	s := d.Open()
	const n, rounds = 300, 20
	all := func(x uint32) []byte { return bytes.Repeat(binary.LittleEndian.AppendUint32(nil, x), n) }
	err = errors.Join(s.Make(1, tensor.I32, tensor.Shape{n}), s.Fill(1, all(uint32(1+rank))))
	for i := uint64(0); i < rounds && err == nil; i++ {
		x := device.Collective{Kind: protocol.AllReduce, Op: element.Sum, Scale: 1, DType: tensor.I32, Shape: tensor.Shape{n}, In: 1 + i, InPlace: i%3 == 0}
		var pending []device.Pending
		if pending, err = groups[i%2].Start(s, []device.Collective{x}, i%4 < 2, meets[i%2]); err == nil {
			err = pending[0].Finish(2 + i)
		}
	}
	if err == nil {
		var got []byte
		got, err = s.Read(1+rounds, 0, 4*n)
		// Two rounds add up all four, 10 in all. Each later one doubles it.
		const want = 10 << (rounds - 2)
		if err == nil && !bytes.Equal(got, all(want)) {
			err = fmt.Errorf("%v, expected %d everywhere", got[:4], want)
		}
	}
	for dim, g := range groups {
		err = errors.Join(err, g.Close(meets[dim]))
	}
	s.Close()
	return errors.Join(err, d.Close())
}
