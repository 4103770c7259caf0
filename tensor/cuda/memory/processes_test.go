package memory_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/ipc"
	"github.com/ringside-go/ringside/ipc/local"
	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/cuda/memory"
)

// Messages between the two processes of a test.
const (
	kindExport uint32 = iota + 1 // an Export, and a descriptor beside it
	kindTensor                   // a Handle and the seed of its bytes
	kindDone                     // the Handle again: the importer needs it no longer
)

// peerOwner is the only peer's number in each process.
const peerOwner = 1

// helpers are what the test binary does as another process.
var helpers = map[string]func(ctx context.Context, args []string) error{
	"export-all":     exportAll,
	"export-forever": exportForever,
	"import-forever": importForever,
	"export-until":   exportUntil,
	"export-timed":   exportTimed,
	"latency":        latency,
	"tried":          tried,
	"add-again":      addAgain,
	"remove-again":   removeAgain,
}

// calls returns how many calls this process has made.
func (l library) calls(t *testing.T) int64 {
	t.Helper()
	n, err := fakecuda.ReadCalls(l.counters, os.Getpid())
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// side is one of two processes: a device, and a conn to the other.
type side struct {
	dev    *memory.Device
	stream *memory.Stream
	conn   ipc.Conn
}

func newSide(lib string, o *memory.Options) (*side, error) {
	d, err := library{path: lib}.open(0, o)
	if err != nil {
		return nil, err
	}
	s, err := d.NewStream()
	return &side{dev: d, stream: s}, err
}

func (s *side) close() error { return errors.Join(s.conn.Close(), s.stream.Close(), s.dev.Close()) }

// exporter is the side that owns the memory.
type exporter struct {
	*side
	pool     *memory.Pool
	exported map[uint64]bool
}

// newExporter dials the importer. args are the library, the address and the kind.
func newExporter(ctx context.Context, args []string, o *memory.Options) (*exporter, error) {
	s, err := newSide(args[0], o)
	if err != nil {
		return nil, err
	}
	kind, err := strconv.Atoi(args[2])
	if err != nil {
		return nil, err
	}
	pool, err := s.dev.NewPool(memory.Kind(kind))
	if err != nil {
		return nil, err
	}
	s.conn, err = local.New().Dial(ctx, args[1], &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleWorker, Name: "exporter"}})
	return &exporter{s, pool, map[uint64]bool{}}, err
}

// fill allocates a tensor and writes the bytes of a seed to it.
func (e *exporter) fill(n int, seed uint64) (*shm.Block, error) {
	b, err := e.pool.Alloc(n)
	if err != nil {
		return nil, err
	}
	return b, e.stream.Write(e.pool.Address(b), noise(b.Len(), seed))
}

// hand leases a tensor to the importer and sends its handle, after the export of its
// segment if that is new. The caller has synchronized.
func (e *exporter) hand(ctx context.Context, b *shm.Block, seed uint64) error {
	h := b.Handle()
	if !e.exported[h.Segment] {
		x, f, err := e.pool.Export(h.Segment)
		if err != nil {
			return err
		}
		var files []*os.File
		if f != nil {
			files = append(files, f)
		}
		if err := send(ctx, e.conn, kindExport, x.Append(nil), files...); err != nil {
			return err
		}
		e.exported[h.Segment] = true
	}
	if err := e.pool.Arena().Lease(b, peerOwner); err != nil {
		return err
	}
	return send(ctx, e.conn, kindTensor, binary.LittleEndian.AppendUint64(h.Append(nil), seed))
}

// done waits for the importer to give a tensor back.
func (e *exporter) done(ctx context.Context) error {
	m, err := e.conn.Recv(ctx)
	if err != nil {
		return err
	}
	h := shm.GetHandle(m.Body)
	e.conn.Release()
	return e.pool.Arena().Unlease(h, peerOwner)
}

// close ends everything, also where the importer has ended.
func (e *exporter) close() error {
	e.pool.Arena().ReleaseOwner(peerOwner)
	return errors.Join(e.pool.Close(), e.side.close())
}

func send(ctx context.Context, c ipc.Conn, kind uint32, body []byte, files ...*os.File) error {
	buf, err := c.Reserve(ctx, kind, len(body))
	if err != nil {
		return err
	}
	copy(buf, body)
	return c.Commit(files...)
}

// importer is the side that opens it.
type importer struct {
	*side
	imports *memory.Imports
	opened  int // exports that arrived
}

// listener returns an importer's listener in the folder dir.
func listener(dir string) (ipc.Listener, error) {
	return local.New().Listen(filepath.Join(dir, "importer"), &ipc.Options{Hello: ipc.Peer{Role: ipc.RoleClient, Name: "importer"}})
}

func newImporter(ctx context.Context, lib string, l ipc.Listener, o *memory.Options) (*importer, error) {
	s, err := newSide(lib, o)
	if err != nil {
		return nil, err
	}
	s.conn, err = l.Accept(ctx)
	return &importer{side: s, imports: s.dev.NewImports(nil)}, err
}

// next returns the next tensor's handle and seed. It opens segments on the way.
func (i *importer) next(ctx context.Context) (shm.Handle, uint64, error) {
	for {
		m, err := i.conn.Recv(ctx)
		if err != nil {
			return shm.Handle{}, 0, err
		}
		if m.Kind == kindTensor {
			h, seed := shm.GetHandle(m.Body), binary.LittleEndian.Uint64(m.Body[shm.HandleSize:])
			i.conn.Release()
			return h, seed, nil
		}
		x, err := memory.ParseExport(m.Body)
		if err == nil {
			var f *os.File
			if len(m.Files) == 1 {
				f = m.Files[0]
				defer f.Close()
			}
			err = i.imports.Add(peerOwner, x, f)
		}
		i.conn.Release()
		if i.opened++; err != nil {
			return shm.Handle{}, 0, err
		}
	}
}

// verify reads a tensor and compares it with its seed.
func (i *importer) verify(h shm.Handle, seed uint64) error {
	p, err := i.imports.Resolve(peerOwner, h)
	if err != nil {
		return err
	}
	got := make([]byte, h.Len)
	if err := i.stream.Read(got, p); err != nil {
		return err
	}
	if !bytes.Equal(got, noise(len(got), seed)) {
		return fmt.Errorf("tensor %v does not hold the bytes of seed %d", h, seed)
	}
	return nil
}

func (i *importer) done(ctx context.Context, h shm.Handle) error {
	return send(ctx, i.conn, kindDone, h.Append(nil))
}

// close ends everything, also where the exporter has ended.
func (i *importer) close() error {
	return errors.Join(i.imports.ReleaseOwner(peerOwner), i.side.close())
}

const tensors = 10000

// exportAll hands over many small tensors. It waits for the first to come back before the
// others.
func exportAll(ctx context.Context, args []string) error {
	e, err := newExporter(ctx, args, nil)
	if err != nil {
		return err
	}
	var blocks []*shm.Block
	for seed := range uint64(tensors) {
		b, err := e.fill(4096, seed)
		if err != nil {
			return err
		}
		blocks = append(blocks, b)
	}
	if err := e.stream.Sync(); err != nil {
		return err
	}
	for seed, b := range blocks {
		if err := e.hand(ctx, b, uint64(seed)); err != nil {
			return err
		}
		b.Release() // the lease keeps it
		if seed == 0 {
			if err := e.done(ctx); err != nil {
				return err
			}
		}
	}
	for range tensors - 1 {
		if err := e.done(ctx); err != nil {
			return err
		}
	}
	if n := e.pool.Arena().Stats().Blocks; n != 0 {
		return fmt.Errorf("%d blocks are in use after all tensors came back", n)
	}
	return e.close()
}

// TestHandOver exports a segment of 256 MiB once and hands 10,000 tensors in it to
// another process. After the first neither side calls the driver for a hand-over.
func TestHandOver(t *testing.T) {
	for _, kind := range []memory.Kind{memory.Handles, memory.Descriptors} {
		t.Run(kind.String(), func(t *testing.T) {
			t.Setenv("FAKECUDA_DELAY_US", "0") // 10,000 late copies take minutes
			handOver(t, either(t), kind)
		})
	}
}

func handOver(t *testing.T, lib library, kind memory.Kind) {
	ctx, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	l, err := listener(t.TempDir())
	check(t, err)
	defer l.Close()
	cmd, out := child(t, "export-all", lib.path, l.Addr(), strconv.Itoa(int(kind)))
	i, err := newImporter(ctx, lib.path, l, nil)
	check(t, err)
	first, seed, err := i.next(ctx)
	check(t, err, i.verify(first, seed), i.done(ctx, first))
	both := func() int64 {
		if lib.counters == "" {
			return 0 // the real driver doesn't count
		}
		return lib.calls(t) + must(fakecuda.ReadCalls(lib.counters, cmd.Process.Pid))
	}
	before := both()
	handles, seeds := make([]shm.Handle, tensors-1), make([]uint64, tensors-1)
	start := time.Now()
	for k := range handles {
		handles[k], seeds[k], err = i.next(ctx)
		check(t, err)
		_, err = i.imports.Resolve(peerOwner, handles[k])
		check(t, err)
	}
	t.Logf("%d tensors handed over, %v each", len(handles), time.Since(start)/time.Duration(len(handles)))
	if after := both(); after != before || i.opened != 1 {
		t.Errorf("%d calls of the driver and %d exports for %d tensors, want none and one", after-before, i.opened, len(handles))
	}
	for _, h := range []shm.Handle{
		{Segment: first.Segment, Off: 256 * mib, Len: 1},
		{Segment: first.Segment, Off: 1, Len: 256 * mib},
		{Segment: first.Segment, Off: 1 << 63, Len: 1 << 63},
	} {
		if _, err := i.imports.Resolve(peerOwner, h); !errors.Is(err, shm.ErrBounds) {
			t.Errorf("handle %v: %v, want %v", h, err, shm.ErrBounds)
		}
	}
	if _, err := i.imports.Resolve(peerOwner+1, first); !errors.Is(err, shm.ErrUnknownSegment) {
		t.Errorf("another owner's handle: %v", err)
	}
	for k, h := range handles {
		check(t, i.verify(h, seeds[k]), i.done(ctx, h))
	}
	if err := cmd.Wait(); err != nil {
		t.Errorf("the exporter: %v\n%s", err, out)
	}
	check(t, i.close())
	lib.nothingLeft(t)
}

// child starts this binary as a helper.
func child(t *testing.T, args ...string) (*exec.Cmd, *bytes.Buffer) {
	t.Helper()
	cmd, out := exec.Command(os.Args[0], args...), &bytes.Buffer{}
	cmd.Stdout, cmd.Stderr = out, out
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	check(t, cmd.Start())
	return cmd, out
}

// window is how many tensors are on their way at once.
const window = 8

// exportForever hands over tensors of all sizes until the importer is gone, and then says
// what is left.
func exportForever(ctx context.Context, args []string) error {
	e, err := newExporter(ctx, args, small)
	if err != nil {
		return err
	}
	for seed := uint64(0); err == nil; seed++ {
		var b *shm.Block
		if b, err = e.fill(rand.IntN(300<<10), seed); err != nil {
			break
		}
		if err = e.stream.Sync(); err == nil {
			err = e.hand(ctx, b, seed)
		}
		b.Release()
		if err == nil && seed >= window {
			err = e.done(ctx)
		}
	}
	return last(err, e.close(), args[3])
}

// importForever verifies tensors until the exporter is gone, and then says what is left.
func importForever(ctx context.Context, args []string) error {
	l, err := listener(filepath.Dir(args[1]))
	if err != nil {
		return err
	}
	defer l.Close()
	fmt.Println("listening")
	i, err := newImporter(ctx, args[0], l, small)
	if err != nil {
		return err
	}
	fmt.Println("connected")
	for err == nil {
		var h shm.Handle
		var seed uint64
		if h, seed, err = i.next(ctx); err == nil {
			if err = i.verify(h, seed); err == nil {
				err = i.done(ctx, h)
			}
		}
	}
	if errors.Is(err, memory.ErrBadExport) {
		// of an exporter that was killed behind this message: the news of that comes next
		for ctx.Err() == nil && !errors.Is(err, ipc.ErrPeerGone) {
			_, _, err = i.next(ctx)
		}
	}
	return last(err, i.close(), args[3])
}

// last prints why a helper ended and, when its input ends, what is alive then.
func last(why, closed error, counters string) error {
	if closed != nil {
		return closed
	}
	if _, err := io.ReadAll(os.Stdin); err != nil {
		return err
	}
	c, err := fakecuda.ReadCounters(counters)
	fmt.Printf("%v; left %+v\n", why, c)
	return err
}

// TestKilled kills the exporter or the importer at random moments. The other names the
// process that ended and gives everything back.
func TestKilled(t *testing.T) {
	rounds := 50
	if testing.Short() {
		rounds = 4
	}
	seed := rand.Uint64()
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	lib := standIn(t)
	for k := range rounds {
		kind := memory.Handles
		if k%4 >= 2 {
			kind = memory.Descriptors
		}
		killed(t, lib, kind, k%2 == 0, rng.Int64N(600))
		if t.Failed() {
			return
		}
	}
}

// talker is a helper that prints lines and ends with its input.
type talker struct {
	cmd *exec.Cmd
	in  io.Closer
	out *bufio.Reader
}

func talk(t *testing.T, args ...string) *talker {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Stderr = os.Stderr
	cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
	in, out := must(cmd.StdinPipe()), must(cmd.StdoutPipe())
	check(t, cmd.Start())
	return &talker{cmd, in, bufio.NewReader(out)}
}

func (k *talker) line(t *testing.T) string {
	t.Helper()
	s, err := k.out.ReadString('\n')
	if err != nil {
		t.Fatalf("%q, %v", s, err)
	}
	return s
}

// killed kills one of two processes after it has made so many calls more than when they
// had connected.
func killed(t *testing.T, lib library, kind memory.Kind, exporterDies bool, calls int64) {
	args := []string{lib.path, filepath.Join(t.TempDir(), "importer"), strconv.Itoa(int(kind)), lib.counters}
	i := talk(t, append([]string{"import-forever"}, args...)...)
	i.line(t)
	e := talk(t, append([]string{"export-forever"}, args...)...)
	i.line(t)
	victim, survivor, name := i, e, "importer"
	if exporterDies {
		victim, survivor, name = e, i, "exporter"
	}
	pid := victim.cmd.Process.Pid
	for target := must(fakecuda.ReadCalls(lib.counters, pid)) + calls; must(fakecuda.ReadCalls(lib.counters, pid)) < target; {
		runtime.Gosched()
	}
	check(t, victim.cmd.Process.Kill())
	victim.cmd.Wait() // so that its number is no process's any more
	survivor.in.Close()
	said := survivor.line(t)
	who := fmt.Sprintf("%q (pid %d)", name, pid)
	if !strings.Contains(said, who) || !strings.Contains(said, ipc.ErrPeerGone.Error()) || !strings.HasSuffix(said, fmt.Sprintf("left %+v\n", fakecuda.Counters{})) {
		t.Errorf("%s by %v was killed after %d calls, and the other said %q, want that %s is gone and nothing is left", name, kind, calls, said, who)
	}
	if err := survivor.cmd.Wait(); err != nil {
		t.Errorf("the survivor of %s: %v", name, err)
	}
}
