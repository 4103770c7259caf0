package onehost

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"runtime"
	"sync"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/internal/kernel"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/ipctest"
	"github.com/ringside-go/ringside/ipc/local"
)

// hang is how long something may take that should happen at once.
const hang = 2 * time.Minute

func TestMain(m *testing.M) {
	if encoded := os.Getenv(childEnv); encoded != "" {
		os.Exit(child(encoded))
	}
	// ranks are goroutines here, and each may be in a system call
	runtime.GOMAXPROCS(max(8, runtime.GOMAXPROCS(0)))
	os.Exit(m.Run())
}

// pipes connects n ranks of this process by conns on the heap.
func pipes(t testing.TB, n int) [][]ipc.Conn { return connect(t, n, &ipctest.Network{}, "pipe:") }

// sockets connects n ranks of this process as those of different ones are.
func sockets(t testing.TB, n int) [][]ipc.Conn {
	dir, err := os.MkdirTemp("", "host") // the path of a socket must be short
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	return connect(t, n, local.New(), dir)
}

func connect(t testing.TB, n int, transport ipc.Transport, addr string) [][]ipc.Conn {
	t.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), hang)
	defer cancel()
	conns := make([][]ipc.Conn, n)
	for i := range conns {
		conns[i] = make([]ipc.Conn, n)
	}
	for i := range n {
		at := addr
		if at != "pipe:" {
			at = filepath.Join(addr, fmt.Sprint(i))
		}
		l, err := transport.Listen(at, nil)
		if err != nil {
			t.Fatal(err)
		}
		for j := i + 1; j < n; j++ {
			var dialErr error
			var wg sync.WaitGroup
			wg.Go(func() { conns[j][i], dialErr = transport.Dial(ctx, l.Addr(), nil) })
			conns[i][j], err = l.Accept(ctx)
			wg.Wait()
			if err = errors.Join(err, dialErr); err != nil {
				t.Fatal(err)
			}
		}
		if err := l.Close(); err != nil {
			t.Fatal(err)
		}
	}
	return conns
}

// comms makes a comm for each of n ranks and closes them with the test.
func comms(t testing.TB, conns [][]ipc.Conn, o *Options) []*Comm {
	t.Helper()
	out, errs := make([]*Comm, len(conns)), make([]error, len(conns))
	var wg sync.WaitGroup
	for r := range conns {
		wg.Go(func() { out[r], errs[r] = New(context.Background(), r, conns[r], o) })
	}
	wg.Wait()
	t.Cleanup(func() {
		for _, c := range out {
			if c != nil {
				c.Close()
			}
		}
	})
	if err := errors.Join(errs...); err != nil {
		t.Fatal(err)
	}
	return out
}

// each runs f for every rank in a goroutine of its own and fails the test with the first
// error.
func each(t testing.TB, cs []*Comm, f func(c *Comm) error) {
	t.Helper()
	for r, err := range tryEach(cs, f) {
		if err != nil {
			t.Fatalf("rank %d of %d: %v", r, len(cs), err)
		}
	}
}

func tryEach(cs []*Comm, f func(c *Comm) error) []error {
	errs := make([]error, len(cs))
	var wg sync.WaitGroup
	for r, c := range cs {
		wg.Go(func() { errs[r] = f(c) })
	}
	wg.Wait()
	return errs
}

// seeded is a generator whose seed the test prints.
func seeded(t testing.TB) *rand.Rand {
	seed := rand.Uint64()
	if s := os.Getenv("RINGSIDE_SEED"); s != "" {
		if _, err := fmt.Sscan(s, &seed); err != nil {
			t.Fatal(err)
		}
	}
	t.Logf("RINGSIDE_SEED=%d", seed)
	return rand.New(rand.NewPCG(seed, 1))
}

// fill writes n elements of dt of moderate size and all their bits.
func fill(rng *rand.Rand, dt element.DType, n int) []byte {
	le := binary.LittleEndian
	b := make([]byte, 0, n*dt.Size())
	for range n {
		x := rng.NormFloat64()
		switch dt {
		case element.F64:
			b = le.AppendUint64(b, math.Float64bits(x))
		case element.F32:
			b = le.AppendUint32(b, math.Float32bits(float32(x)))
		case element.BF16:
			b = le.AppendUint16(b, uint16(math.Float32bits(float32(x))>>16))
		case element.F16: // between 2^-7 and 2^7, of either sign
			b = le.AppendUint16(b, uint16(rng.Uint32()&0x83ff|(8+rng.Uint32N(14))<<10))
		case element.I64:
			b = le.AppendUint64(b, rng.Uint64())
		case element.I32:
			b = le.AppendUint32(b, rng.Uint32())
		default:
			b = append(b, byte(rng.Uint32()))
		}
	}
	return b
}

// reference folds in the canonical order with the portable kernels, partial results in
// the wide type.
func reference(op element.Reduction, dt element.DType, scale float64, fold protocol.Fold, srcs [][]byte) []byte {
	var set kernel.Set
	if fold == nil {
		fold = protocol.Fold{len(srcs)}
	}
	wide, n := dt.Wide(), len(srcs[0])/dt.Size()
	var parts [][]byte
	for _, g := range fold {
		part := make([]byte, n*wide.Size())
		if wide != dt {
			set.ReduceWiden(op, dt, 1, [][]byte{part}, srcs[:g])
		} else {
			set.Reduce(op, dt, 1, [][]byte{part}, srcs[:g])
		}
		parts, srcs = append(parts, part), srcs[g:]
	}
	out := make([]byte, n*dt.Size())
	if wide != dt {
		set.ReduceNarrow(op, dt, scale, [][]byte{out}, parts)
	} else {
		set.Reduce(op, dt, scale, [][]byte{out}, parts)
	}
	return out
}

// Err returns nil while the comm works, afterwards the error that killed it.
func (c *Comm) Err() error {
	if e := c.dead.Load(); e != nil {
		return e
	}
	return nil
}
