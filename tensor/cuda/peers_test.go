package cuda_test

import (
	"bufio"
	"bytes"
	"context"
	"encoding/binary"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"math"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/ringside-go/ringside/collective"
	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/collective/protocol"
	"github.com/ringside-go/ringside/net/route"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/comm/nccl"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
	"github.com/ringside-go/ringside/tensor/cuda/driver"
	"github.com/ringside-go/ringside/tensor/cuda/driver/dlopen"
	"github.com/ringside-go/ringside/tensor/cuda/fakecuda"
	"github.com/ringside-go/ringside/tensor/device"
)

// member is what a process of these tests is: its rank, of how many, its device's number,
// and what it does.
type member struct {
	rank, size, device int
	does, lib          string

	api   driver.API
	dev   *cuda.Device
	group *collective.Group
	peers device.Peers
	meets int

	started int
	library bool // of collectives
	others  int  // results of other bits than the host's

	undestroyed fakecuda.Counters // what a fault kept from being given back
}

// memberVariable says that a process is a member.
const memberVariable = "RINGSIDE_TEST_MEMBER"

func TestMain(m *testing.M) {
	if spec := os.Getenv(memberVariable); spec != "" {
		if err := runMember(spec); err != nil {
			fmt.Println("error", strings.ReplaceAll(err.Error(), "\n", "; "))
			os.Exit(1)
		}
		os.Exit(0)
	}
	if len(os.Args) > 2 && os.Args[1] == childFlag {
		if err := runChild(os.Args[2:]); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	os.Exit(m.Run())
}

// runMember is a member's process. It connects to the others by way of the test.
func runMember(spec string) error {
	var m member
	if _, err := fmt.Sscan(spec, &m.rank, &m.size, &m.device, &m.does, &m.lib); err != nil {
		return err
	}
	// Each call of the group has a timeout of its own; TestLinkFaults makes thousands.
	ctx, cancel := context.WithTimeout(context.Background(), 10*time.Minute)
	defer cancel()
	api, err := dlopen.Open(m.lib)
	if err != nil {
		return err
	}
	o := small
	o.TwoShot = 4 << 10
	if m.does == "large" {
		o.TwoShot = 0
	}
	if m.does, m.library = strings.CutPrefix(m.does, byLibrary); m.library {
		if o.Collectives, err = nccl.Open(filepath.Join(filepath.Dir(m.lib), fakecuda.Collectives), nil); err != nil {
			return err
		}
	}
	m.api = api
	if m.dev, err = cuda.Open(api, m.device, &o); err != nil {
		return err
	}
	in := bufio.NewReader(os.Stdin)
	members, err := route.Mesh(ctx, route.MeshOptions{Rank: m.rank, Size: m.size, Name: fmt.Sprint("member ", m.rank), Secret: []byte("of a test"),
		Bind: "127.0.0.1", Exchange: func(_ context.Context, mine []byte) ([][]byte, error) { return exchangeLines(in, mine) }})
	if err != nil {
		return err
	}
	if m.group, err = collective.New(ctx, m.rank, members, &collective.Options{Timeout: time.Minute}); err != nil {
		return err
	}
	peers, obstacle, err := m.dev.Connect(m.rank, m.size, m.meet(ctx))
	if err != nil || peers == nil {
		fmt.Printf("obstacle %v\n", obstacle)
		return errors.Join(err, m.group.Close(), m.dev.Close(), m.left())
	}
	m.peers = peers
	fmt.Println("connected")
	err = map[string]func(context.Context) error{"all": m.all, "together": m.together, "large": m.large, "forever": m.forever, "late": m.late, "hostile": m.hostile,
		"transfers": m.transfers, "transfers-forever": m.transfersForever, "transfers-fail": m.transfersFail}[m.does](ctx)
	if err != nil {
		fmt.Println("failed", strings.ReplaceAll(err.Error(), "\n", "; "))
	}
	if e := errors.Join(m.peers.Close(m.meet(ctx)), m.group.Close(), m.dev.Close(), m.left()); e != nil {
		return e
	}
	if err == nil || strings.HasSuffix(m.does, "forever") {
		fmt.Println("nothing left")
		return nil
	}
	return err
}

// exchangeLines gives the test a line and reads one with those of all members.
func exchangeLines(in *bufio.Reader, mine []byte) (out [][]byte, err error) {
	fmt.Printf("exchange %x\n", mine)
	line, err := in.ReadString('\n')
	if err != nil {
		return nil, err
	}
	for _, h := range strings.Fields(line) {
		b, err := hex.DecodeString(h)
		if err != nil {
			return nil, err
		}
		out = append(out, b)
	}
	return out, nil
}

// meet returns the group's meetings.
func (m *member) meet(ctx context.Context) device.Meet {
	return func(mine []byte) ([][]byte, error) {
		m.meets++
		all := make([]byte, m.size*len(mine))
		r := collective.Raw{Kind: protocol.AllGather, DType: element.U8, Src: mine, Dst: all}
		if err := r.Do(ctx, m.group); err != nil {
			return nil, err
		}
		return slices.Collect(slices.Chunk(all, len(mine))), nil
	}
}

// left returns an error if anything of the stand-in is alive in this process.
func (m *member) left() error {
	c, err := fakecuda.ReadCounters(os.Getenv("FAKECUDA_COUNTERS"))
	if err == nil && c != m.undestroyed {
		err = fmt.Errorf("left: %+v, expected %+v", c, m.undestroyed)
	}
	return err
}

// noise returns n elements of d that a seed and a rank give, without NaN.
func noise(d tensor.DType, n int, seed, rank uint64) []byte {
	rng := rand.New(rand.NewPCG(seed, rank))
	b := make([]byte, 0, n*d.Size())
	for range n {
		switch x := float32(rng.NormFloat64()); d {
		case tensor.F64:
			b = binary.LittleEndian.AppendUint64(b, math.Float64bits(float64(x)))
		case tensor.F32:
			b = binary.LittleEndian.AppendUint32(b, math.Float32bits(x))
		case tensor.F16:
			b = binary.LittleEndian.AppendUint16(b, uint16(element.ToFloat16(x)))
		case tensor.BF16:
			b = binary.LittleEndian.AppendUint16(b, uint16(element.ToBFloat16(x)))
		case tensor.Bool:
			b = append(b, byte(rng.IntN(2)))
		default:
			for range d.Size() {
				b = append(b, byte(rng.Uint32()))
			}
		}
	}
	return b
}

// start starts one collective, every second one beside other work.
func (m *member) start(s device.Space, x *device.Collective, meet device.Meet) (device.Pending, error) {
	m.started++
	all, err := m.peers.Start(s, []device.Collective{*x}, m.started%2 == 0, meet)
	if err != nil || x.Failed {
		return nil, err
	}
	return all[0], nil
}

// collect runs one collective on a new value of s, and returns the result's bytes.
func (m *member) collect(ctx context.Context, s device.Space, x *device.Collective, src []byte) ([]byte, error) {
	n := len(src) / x.DType.Size()
	if err := errors.Join(s.Make(1, x.DType, tensor.Shape{n}), s.Fill(1, src)); err != nil {
		return nil, err
	}
	x.In = 1
	p, err := m.start(s, x, m.meet(ctx))
	if err != nil {
		return nil, err
	}
	if err := p.Finish(2); err != nil {
		return nil, err
	}
	if _, there := s.Lookup(1); there == x.InPlace {
		return nil, fmt.Errorf("the value that was given exists: %v, in place %v", there, x.InPlace)
	}
	s.Free(1)
	defer s.Free(2)
	blocks, err := s.Host(2)
	if err != nil || blocks[0] == nil {
		return nil, err
	}
	defer blocks[0].Release()
	return bytes.Clone(blocks[0].Bytes()[:x.Shape.Elems()*x.DType.Size()]), nil
}

// staged makes the same call on the host.
func (m *member) staged(ctx context.Context, x *device.Collective, src []byte) ([]byte, error) {
	d := x.DType
	if d == tensor.Bool {
		d = tensor.U8
	}
	dst := make([]byte, x.Shape.Elems()*d.Size())
	r := collective.Raw{Kind: x.Kind, Op: x.Op, DType: d, Scale: x.Scale, Src: src, Dst: dst, Send: x.Send, Recv: x.Recv}
	return dst, r.Do(ctx, m.group)
}

// all runs all collectives of all dtypes, and compares each with the host's.
func (m *member) all(ctx context.Context) error {
	s := m.dev.Open()
	defer s.Close()
	seed, count, opens := uint64(0), 0, uint64(0)
	for round := range 2 {
		for _, x := range m.cases() {
			seed++
			src := noise(x.DType, m.given(&x), seed, uint64(m.rank))
			want, err := m.staged(ctx, &x, src)
			if err != nil {
				return err
			}
			got, err := m.collect(ctx, s, &x, src)
			if err != nil {
				return fmt.Errorf("%+v: %w", x, err)
			}
			if err := m.same(ctx, &x, got, want); err != nil {
				return fmt.Errorf("rank %d, seed %d, %+v: %x, staged %x: %w", m.rank, seed, x, got, want, err)
			}
			count++
		}
		if now := m.dev.Stats().Work.Opens; round == 0 {
			opens = now
		} else if now != opens {
			return fmt.Errorf("%d segments were opened in the second round, expected none", now-opens)
		}
	}
	fmt.Printf("%d collectives as on the host, %d of other bits, %d meetings\n", count, m.others, m.meets)
	return nil
}

// given returns the elements that this member gives to a collective.
func (m *member) given(x *device.Collective) (n int) {
	switch x.Kind {
	case protocol.AllGather:
		return x.Recv[m.rank]
	case protocol.ReduceScatter, protocol.AllToAll:
		for _, k := range x.Send {
			n += k
		}
		return n
	}
	return x.Shape.Elems()
}

// together starts collectives of all kinds seven at a time, again and again, so that
// those at the same addresses become graphs, and compares each with the host's.
func (m *member) together(ctx context.Context) error {
	s := m.dev.Open()
	defer s.Close()
	count := 0
	for round := range 4 {
		for xs := range slices.Chunk(m.cases(), 7) {
			srcs := make([][]byte, len(xs))
			for k := range xs {
				x, id := &xs[k], uint64(1+k)
				n := m.given(x)
				srcs[k], x.In = noise(x.DType, n, uint64(count+k), uint64(m.rank)), id
				if err := errors.Join(s.Make(id, x.DType, tensor.Shape{n}), s.Fill(id, srcs[k])); err != nil {
					return err
				}
			}
			all, err := m.peers.Start(s, xs, round >= 2, m.meet(ctx))
			if err != nil {
				return err
			}
			for k := range xs {
				x, id := &xs[k], uint64(1+k)
				err := all[k].Finish(100 + id)
				want, e := m.staged(ctx, x, srcs[k])
				blocks, readErr := s.Host(100 + id)
				if err := errors.Join(err, e, readErr); err != nil {
					return err
				}
				if b := blocks[0]; b != nil {
					if err := m.same(ctx, x, b.Bytes()[:len(want)], want); err != nil {
						return fmt.Errorf("rank %d, %+v among others: %x, staged %x: %w", m.rank, x, b.Bytes()[:len(want)], want, err)
					}
					b.Release()
				}
				s.Free(id)
				s.Free(100 + id)
				count++
			}
		}
	}
	if c := m.dev.Counters(); c.Replays == 0 && !m.library {
		return fmt.Errorf("no graph was launched: %+v", c)
	}
	fmt.Printf("%d collectives together as on the host\n", count)
	return nil
}

// cases are collectives of all kinds and dtypes that a member of this rank makes.
func (m *member) cases() (out []device.Collective) {
	uneven := make([]int, m.size)
	for i := range uneven {
		uneven[i] = 5*i + 3*(i%2)
	}
	for _, d := range tensor.DTypes() {
		ops := []element.Reduction{element.Sum, element.Prod, element.Max, element.Min}
		if d == tensor.Bool {
			ops = ops[2:]
		}
		for i, op := range ops {
			scale := 1.0
			if d.IsFloat() && op == element.Sum {
				scale = 1 / float64(m.size)
			}
			for _, n := range []int{1, 37, 2048 + 12*m.size + i} {
				out = append(out, device.Collective{Kind: protocol.AllReduce, Op: op, DType: d, Scale: scale, Shape: tensor.Shape{n}, InPlace: n%2 == i%2})
			}
			out = append(out, device.Collective{Kind: protocol.ReduceScatter, Op: op, DType: d, Scale: scale, Send: uneven, Shape: tensor.Shape{uneven[m.rank]}})
		}
		total := 0
		for _, k := range uneven {
			total += k
		}
		out = append(out, device.Collective{Kind: protocol.AllGather, DType: d, Recv: uneven, Shape: tensor.Shape{total}, Scale: 1})
		send, recv, in := make([]int, m.size), make([]int, m.size), 0
		for r := range m.size {
			send[r], recv[r] = uneven[(m.rank+2*r)%m.size], uneven[(r+2*m.rank)%m.size]
			in += recv[r]
		}
		out = append(out, device.Collective{Kind: protocol.AllToAll, DType: d, Send: send, Recv: recv, Shape: tensor.Shape{in}, Scale: 1})
	}
	return out
}

// large runs an all-reduce on either side of the bytes from which it has two steps.
func (m *member) large(ctx context.Context) error {
	s := m.dev.Open()
	defer s.Close()
	for _, n := range []int{128<<10 - 1, 128 << 10} {
		before := m.meets
		x := device.Collective{Kind: protocol.AllReduce, Op: element.Sum, DType: tensor.F32, Scale: 0.5, Shape: tensor.Shape{n}}
		src := noise(x.DType, n, 7, uint64(m.rank))
		want, err := m.staged(ctx, &x, src)
		if err != nil {
			return err
		}
		got, err := m.collect(ctx, s, &x, src)
		if err != nil {
			return err
		}
		if !bytes.Equal(got, want) {
			return fmt.Errorf("an all-reduce of %d elements is not that of the host", n)
		}
		fmt.Printf("%d elements, %d meetings\n", n, m.meets-before)
	}
	return nil
}

// forever runs all-reduces until one fails.
func (m *member) forever(ctx context.Context) error {
	s := m.dev.Open()
	defer s.Close()
	for i := uint64(0); ; i++ {
		n := []int{100, 3000}[i%2]
		x := device.Collective{Kind: protocol.AllReduce, Op: element.Sum, DType: tensor.F32, Scale: 1, Shape: tensor.Shape{n}, InPlace: i%3 == 0}
		srcs := make([][]byte, m.size)
		for r := range srcs {
			srcs[r] = noise(x.DType, n, i, uint64(r))
		}
		want := make([]byte, 4*n)
		if err := collective.Fold(x.Op, x.DType, 1, want, srcs...); err != nil {
			return err
		}
		got, err := m.collect(ctx, s, &x, srcs[m.rank])
		if err != nil {
			return err
		}
		// A member that was killed may not have written its value: the meeting says so.
		if _, err := m.meet(ctx)([]byte{1}); err != nil {
			return err
		}
		if err := m.same(ctx, &x, got, want); err != nil {
			return fmt.Errorf("all-reduce %d is not that of the host: %w", i, err)
		}
	}
}

// late has one member fail, and programs run while collectives are pending.
func (m *member) late(ctx context.Context) error {
	s := m.dev.Open()
	defer s.Close()
	x := device.Collective{Kind: protocol.AllReduce, Op: element.Sum, DType: tensor.I32, Scale: 1, Shape: tensor.Shape{2}, In: 1, Failed: m.rank == 1}
	ones := []byte{1, 0, 0, 0, 1, 0, 0, 0}
	if err := errors.Join(s.Make(1, tensor.I32, x.Shape), s.Fill(1, ones)); err != nil {
		return err
	}
	p, err := m.start(s, &x, m.meet(ctx))
	if err != nil || (p == nil) != x.Failed {
		return fmt.Errorf("a member failed, and this one has %v, %w", p, err)
	}
	if p != nil {
		if err := p.Finish(2); err != nil {
			return err
		}
		if b, err := s.Read(2, 0, 8); err != nil || !bytes.Equal(b, make([]byte, 8)) {
			return fmt.Errorf("a member failed: %x, %w, expected zeros", b, err)
		}
	}
	if err := m.unheard(ctx, s); err != nil {
		return err
	}
	x.Failed = false
	if m.rank == 1 {
		x.In = 99
	}
	if p, err = m.start(s, &x, m.meet(ctx)); (m.rank == 1) != errors.Is(err, tensor.ErrUnknown) {
		return fmt.Errorf("a value that rank 1 does not have: %w", err)
	} else if p != nil {
		p.Drop()
	}
	x.In = 1
	first, err := m.start(s, &x, m.meet(ctx))
	if err != nil {
		return err
	}
	second, err := m.start(s, &x, m.meet(ctx))
	if err != nil {
		return err
	}
	s.Free(1) // while both read it
	err = errors.Join(s.Make(1, tensor.I32, x.Shape), s.Fill(1, make([]byte, 8)), second.Finish(3), first.Finish(4))
	if err != nil {
		return err
	}
	if err := errors.Join(s.Alias(5, 3), s.Make(6, tensor.I32, x.Shape)); err != nil {
		return err
	}
	for _, id := range []uint64{3, 4} {
		if b, err := s.Read(id, 0, 8); err != nil || int(b[0]) != m.size || int(b[4]) != m.size {
			return fmt.Errorf("a sum of ones: %x, %w, expected %d", b, err, m.size)
		}
	}
	return errors.Join(m.partly(ctx), m.overwrite(ctx, s))
}

// partly starts four collectives together, of which rank 1 lacks the third one's value:
// the others have zeros, and no member keeps memory.
func (m *member) partly(ctx context.Context) error {
	const n = 5000 // an all-reduce has two steps
	before, s := m.dev.Stats().Values.Blocks, m.dev.Open()
	var xs []device.Collective
	for k := range uint64(4) {
		x := device.Collective{Kind: protocol.AllReduce, Op: element.Sum, DType: tensor.F32, Scale: 1, Shape: tensor.Shape{n}, In: 30 + k, InPlace: k%2 == 0}
		if k == 1 {
			x.Kind, x.Shape, x.Recv = protocol.AllGather, tensor.Shape{m.size * n}, slices.Repeat([]int{n}, m.size)
		}
		if m.rank == 1 && k == 2 {
			x.In = 99
		} else if err := errors.Join(s.Make(x.In, x.DType, tensor.Shape{n}), s.Fill(x.In, noise(x.DType, n, 11, k))); err != nil {
			return err
		}
		xs = append(xs, x)
	}
	for _, beside := range []bool{false, true} {
		all, err := m.peers.Start(s, xs, beside, m.meet(ctx))
		if (m.rank == 1) != errors.Is(err, tensor.ErrUnknown) || len(all) != 0 && m.rank == 1 {
			return fmt.Errorf("a value among four that rank 1 does not have: %d pending, %w", len(all), err)
		}
		for k, p := range all {
			id := 40 + uint64(k)
			if err := p.Finish(id); err != nil {
				return err
			}
			got, err := s.Read(id, 0, 4*xs[k].Shape.Elems())
			if err != nil || slices.ContainsFunc(got, func(b byte) bool { return b != 0 }) {
				return fmt.Errorf("collective %d beside one that a member has no value of is not zeros: %w", k, err)
			}
			s.Free(id)
		}
		for k := range uint64(4) {
			id := 30 + k
			if _, there := s.Lookup(id); there {
				s.Free(id)
			}
			if m.rank == 1 && k == 2 {
				continue
			}
			if err := errors.Join(s.Make(id, tensor.F32, tensor.Shape{n}), s.Fill(id, noise(tensor.F32, n, 11, k))); err != nil {
				return err
			}
		}
	}
	s.Close()
	if now := m.dev.Stats().Values.Blocks; now != before {
		return fmt.Errorf("%d blocks are left of collectives that a member had no value of, expected the %d before", now, before)
	}
	return nil
}

// unheard has a member fail in the collective by which the others would hear of a new
// segment, and runs it again.
func (m *member) unheard(ctx context.Context, s device.Space) error {
	n := 5 << 20 // more than the first segment has
	x := device.Collective{Kind: protocol.AllGather, DType: tensor.U8, Scale: 1, Shape: tensor.Shape{m.size * n}, Recv: slices.Repeat([]int{n}, m.size), In: 20}
	if err := errors.Join(s.Make(20, x.DType, tensor.Shape{n}), s.Fill(20, bytes.Repeat([]byte{byte(m.rank + 1)}, n))); err != nil {
		return err
	}
	defer s.Free(20)
	for _, x.Failed = range []bool{m.rank == 1, false} {
		p, err := m.start(s, &x, m.meet(ctx))
		if err != nil {
			return fmt.Errorf("a value in a new segment: %w", err)
		}
		if p == nil {
			continue
		}
		if err := p.Finish(21); err != nil {
			return err
		}
		if !x.Failed {
			b, err := s.Read(21, (m.size-1)*n, 1)
			if err != nil || b[0] != 0 && b[0] != byte(m.size) {
				return fmt.Errorf("a value in a new segment: %x, %w", b, err)
			}
		}
		s.Free(21)
	}
	return nil
}

// overwrite has rank 0, whose stream is not late, give new bytes to the memory of a value
// and of its result as soon as a collective has been finished. The others, which are
// late, have yet to read it: the value where they copy or fold it, and the result where
// an all-reduce has two steps.
func (m *member) overwrite(ctx context.Context, s device.Space) error {
	for i := range 12 {
		// More bytes than stay on the host.
		n, want := []int{20000, 36000}[i/2%2], byte(m.size)
		x := device.Collective{Kind: protocol.AllReduce, Op: element.Sum, DType: tensor.U8, Scale: 1, Shape: tensor.Shape{n}, In: 10}
		if i < 6 {
			x.Kind, x.Shape, x.Recv, want = protocol.AllGather, tensor.Shape{m.size * n}, slices.Repeat([]int{n}, m.size), 1
		}
		if err := errors.Join(s.Make(10, x.DType, tensor.Shape{n}), s.Fill(10, bytes.Repeat([]byte{1}, n))); err != nil {
			return err
		}
		p, err := m.start(s, &x, m.meet(ctx))
		if err != nil {
			return err
		}
		if err := p.Finish(11); err != nil {
			return err
		}
		s.Free(10)
		if m.rank > 0 {
			got, err := s.Read(11, 0, x.Shape.Elems())
			if at := slices.IndexFunc(got, func(b byte) bool { return b != want }); err != nil || at >= 0 {
				return fmt.Errorf("overwritten before this member had read it: %v of %d bytes, from byte %d on, %v, expected %d everywhere", x.Kind, n, at, err, want)
			}
		}
		s.Free(11)
		for k, shape := range []tensor.Shape{{n}, x.Shape} {
			id := uint64(12 + k)
			err := errors.Join(s.Make(id, x.DType, shape), s.Fill(id, bytes.Repeat([]byte{100}, shape.Elems())))
			if err != nil {
				return err
			}
		}
		s.Free(12)
		s.Free(13)
	}
	return nil
}

// spoiled returns meetings to which rank 1 says something else than it means.
func (m *member) spoiled(ctx context.Context, rng *rand.Rand) device.Meet {
	meet := m.meet(ctx)
	return func(mine []byte) ([][]byte, error) {
		b := bytes.Clone(mine)
		at, value, whole := rng.IntN(len(b)), rng.Uint64(), rng.IntN(2) == 0
		switch {
		case m.rank != 1:
		case whole && len(b) >= 8:
			binary.LittleEndian.PutUint64(b[at/8*8%(len(b)-7):], value>>(value%64))
		default:
			b[at] ^= 1 << (value % 8)
		}
		return meet(b)
	}
}

// hostile has rank 1 say anything, when members connect and at every meeting of a
// collective. The others refuse it or compute something, and go on.
func (m *member) hostile(ctx context.Context) error {
	const seed = 3
	rng := rand.New(rand.NewPCG(seed, 0))
	for range 20 {
		p, o, err := m.dev.Connect(m.rank, m.size, m.spoiled(ctx, rng))
		if err == nil && (p == nil) == (o == device.None) {
			err = fmt.Errorf("peers %v, obstacle %v", p, o)
		}
		if p != nil && err == nil {
			err = p.Close(m.meet(ctx))
		}
		// Members that heard different things go on together all the same.
		if _, broken := m.meet(ctx)([]byte{1}); err != nil || broken != nil {
			return errors.Join(err, broken)
		}
	}
	s := m.dev.Open()
	defer s.Close()
	reduce := device.Collective{Kind: protocol.AllReduce, Op: element.Sum, DType: tensor.U8, Scale: 1, Shape: tensor.Shape{6000}}
	exchange := device.Collective{Kind: protocol.AllToAll, DType: tensor.U8, Scale: 1, Shape: tensor.Shape{30}}
	for range m.size {
		exchange.Send, exchange.Recv = append(exchange.Send, 30/m.size), append(exchange.Recv, 30/m.size)
	}
	refused := 0
	for i := range 200 {
		x := reduce
		if i%2 == 1 {
			x = exchange
		}
		meet := m.spoiled(ctx, rng)
		if i == 0 || i == 199 {
			meet = m.meet(ctx) // the first tells the segment, the last is to be right
		}
		src := bytes.Repeat([]byte{1}, x.Shape.Elems())
		if err := errors.Join(s.Make(1, x.DType, x.Shape), s.Fill(1, src)); err != nil {
			return err
		}
		x.In = 1
		p, err := m.start(s, &x, meet)
		if err != nil {
			refused++
		} else if err := p.Finish(2); err != nil {
			return err
		}
		if err := s.Sync(); err != nil {
			return err
		}
		if i == 199 && err != nil {
			return err
		}
		s.Free(1)
		s.Free(2)
	}
	if refused == 0 && m.rank != 1 {
		return errors.New("nothing was refused")
	}
	return nil
}

// process is a member's process as the test sees it.
type process struct {
	cmd      *exec.Cmd
	in       io.WriteCloser
	out      *bufio.Reader
	counters string
	obstacle string // why it has no peers
}

// members starts the processes of a group, each with the stand-in lib and, from the
// second on, more of an environment, and helps them to connect. device returns the number
// of each one's device.
func members(t *testing.T, lib string, size int, does string, device func(rank int) int, env ...string) []*process {
	t.Helper()
	dir := t.TempDir()
	all := make([]*process, size)
	for r := range all {
		p := &process{cmd: exec.Command(os.Args[0]), counters: filepath.Join(dir, strconv.Itoa(r))}
		p.cmd.Env = append(os.Environ(), fmt.Sprintf("%s=%d %d %d %s %s", memberVariable, r, size, device(r), does, lib), "FAKECUDA_COUNTERS="+p.counters)
		if r > 0 {
			p.cmd.Env = append(p.cmd.Env, env...)
		}
		p.cmd.Stderr = os.Stderr
		p.cmd.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		in, err := p.cmd.StdinPipe()
		if err != nil {
			t.Fatal(err)
		}
		out, err := p.cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		p.in, p.out = in, bufio.NewReader(out)
		if err := p.cmd.Start(); err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = p.cmd.Process.Kill(); _ = p.cmd.Wait() })
		all[r] = p
	}
	for connected := 0; connected == 0; {
		var said []string
		for r, p := range all {
			line, err := p.out.ReadString('\n')
			word, rest, _ := strings.Cut(strings.TrimSpace(line), " ")
			switch {
			case word == "exchange":
				said = append(said, rest)
			case word == "connected", word == "obstacle":
				connected++
				p.obstacle = rest
			default:
				t.Fatalf("rank %d said %q, %v", r, line, err)
			}
		}
		for _, p := range all {
			if connected == 0 {
				fmt.Fprintln(p.in, strings.Join(said, " "))
			}
		}
	}
	return all
}

// rest returns what a process still says.
func (p *process) rest() string {
	b, _ := io.ReadAll(p.out)
	_ = p.cmd.Wait()
	return string(b)
}

// alternate gives ranks the two devices in turns.
func alternate(rank int) int { return rank % 2 }

// TestPeers runs collectives on values of GPUs among 2 to 4 processes that share one, or
// two, and compares the bits of all kinds and dtypes with the host's. Their streams are
// late.
func TestPeers(t *testing.T) {
	lib := cudatest.Library(t, os.Getenv)
	t.Setenv("FAKECUDA_DELAY_US", "20")
	for size := 2; size <= 4; size++ {
		device := alternate
		if size == 2 {
			device = func(int) int { return 0 }
		}
		t.Run(fmt.Sprint(size), func(t *testing.T) {
			for r, p := range members(t, lib, size, "all", device) {
				if said := p.rest(); !strings.Contains(said, "collectives as on the host") || !strings.HasSuffix(said, "nothing left\n") {
					t.Errorf("rank %d said %q", r, said)
				} else if r == 0 {
					t.Log(said)
				}
			}
		})
	}
}

// TestPeersTogether compares collectives that are started together with the host's.
func TestPeersTogether(t *testing.T) {
	lib := cudatest.Library(t, os.Getenv)
	t.Setenv("FAKECUDA_DELAY_US", "20")
	for r, p := range members(t, lib, 3, "together", alternate) {
		if said := p.rest(); !strings.Contains(said, "collectives together as on the host") || !strings.HasSuffix(said, "nothing left\n") {
			t.Errorf("rank %d said %q", r, said)
		}
	}
}

// TestPeersLarge has an all-reduce of fewer bytes than 512 KiB done in one step, which
// takes two meetings, and one of that size in two, which take three.
func TestPeersLarge(t *testing.T) {
	for r, p := range members(t, cudatest.Library(t, os.Getenv), 2, "large", alternate) {
		const want = "131071 elements, 2 meetings\n131072 elements, 3 meetings\nnothing left\n"
		if said := p.rest(); said != want {
			t.Errorf("rank %d said %q, expected %q", r, said, want)
		}
	}
}

// TestPeersLate has collectives pending while their values are freed, a member without a
// value, so that the others have zeros, and memory that is used again while others, which
// are late, still read it.
func TestPeersLate(t *testing.T) {
	for r, p := range members(t, cudatest.Library(t, os.Getenv), 3, "late", alternate, "FAKECUDA_DELAY_US=2000") {
		if said := p.rest(); said != "nothing left\n" {
			t.Errorf("rank %d said %q", r, said)
		}
	}
}

// TestObstacles has members that can't have peers: all are told the same reason, and
// nothing is left of the attempt.
func TestObstacles(t *testing.T) {
	lib := cudatest.Library(t, os.Getenv)
	for _, c := range []struct {
		env  string // of all but the first
		want device.Obstacle
	}{
		{"FAKECUDA_FAIL=cuIpcOpenEventHandle:2=201", device.Refused},
		{"FAKECUDA_FAIL=cuIpcOpenMemHandle_v2:1=201", device.Refused},
		{"FAKECUDA_FAIL=cuIpcGetMemHandle:1=801", device.Refused},
		{"FAKECUDA_FAIL=cuMemcpyDtoHAsync_v2:1=1", device.Refused},
		{"FAKECUDA_DEVICES=1", device.Unreached},
	} {
		number := func(rank int) int { return 1 - min(rank, 1) }
		for r, p := range members(t, lib, 3, "all", number, c.env) {
			if said := p.rest(); p.obstacle != c.want.String() || said != "" {
				t.Errorf("%s: rank %d has the obstacle %q, expected %q, and said %q", c.env, r, p.obstacle, c.want, said)
			}
		}
	}
	api := standIn(t, 1)
	for name, c := range map[string]struct {
		size  int
		want  device.Obstacle
		spoil int // the byte of rank 1's offer that is another one
	}{
		"two members in one process":    {2, device.OneProcess, 0},
		"members of two PID namespaces": {2, device.Namespaces, 5},
		"more than a fold takes":        {cuda.MaxPeers + 1, device.TooMany, 0},
	} {
		met := newMeeting(c.size)
		var got sync.WaitGroup
		for rank := range c.size {
			got.Go(func() {
				d, err := cuda.Open(api, rank%2, &small)
				if err != nil {
					t.Error(err)
					return
				}
				p, o, err := d.Connect(rank, c.size, func(mine []byte) ([][]byte, error) {
					if rank == 1 && len(mine) > 1 && c.spoil > 0 {
						mine[c.spoil]++
					}
					return met.meet(rank, mine), nil
				})
				if p != nil || o != c.want || err != nil {
					t.Errorf("%s: %v, %v, %v, expected %v", name, p, o, err, c.want)
				}
				if err := d.Close(); err != nil {
					t.Error(err)
				}
			})
		}
		got.Wait()
	}
}

// meeting is the meetings of goroutines.
type meeting struct {
	mu      sync.Mutex
	changed *sync.Cond
	said    [][]byte
	here    int
	round   int
}

func newMeeting(size int) *meeting {
	m := &meeting{said: make([][]byte, size)}
	m.changed = sync.NewCond(&m.mu)
	return m
}

func (m *meeting) meet(rank int, mine []byte) [][]byte {
	m.mu.Lock()
	defer m.mu.Unlock()
	m.said[rank] = mine
	all, round := m.said, m.round
	if m.here++; m.here == len(m.said) {
		m.said, m.here, m.round = make([][]byte, len(m.said)), 0, round+1
		m.changed.Broadcast()
	}
	for m.round == round {
		m.changed.Wait()
	}
	return all
}

// TestHostilePeer has a member say anything at all: the others' devices are not lost, and
// the next collective is right.
func TestHostilePeer(t *testing.T) {
	for r, p := range members(t, cudatest.Library(t, os.Getenv), 3, "hostile", alternate) {
		if said := p.rest(); said != "nothing left\n" {
			t.Errorf("rank %d said %q", r, said)
		}
	}
}

// TestPeerKilled kills one of three members at different calls of the driver. The others
// are told which, also where their streams wait for what the dead one never did, and
// nothing is left.
func TestPeerKilled(t *testing.T) {
	t.Setenv("FAKECUDA_DELAY_US", "300")
	kills := 12
	if testing.Short() {
		kills = 4
	}
	const seed = 5
	t.Logf("seed %d", seed)
	rng := rand.New(rand.NewPCG(seed, 0))
	lib := cudatest.Library(t, os.Getenv)
	for k := range kills {
		victim, calls := k%3, 1+rng.Int64N(400)
		all := members(t, lib, 3, "forever", alternate)
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

func readCalls(t *testing.T, counters string, pid int) int64 {
	t.Helper()
	n, err := fakecuda.ReadCalls(counters, pid)
	if err != nil {
		t.Fatal(err)
	}
	return n
}
