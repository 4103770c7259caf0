package devicetest

import (
	"bytes"
	"math"
	"os"
	"slices"
	"syscall"

	"github.com/ringside-go/ringside/shm"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device"
)

func info(f *fixture) {
	i := f.dev.Info()
	if i.Name == "" || !i.Kind.Valid() || i.Flops < 0 || i.Bandwidth < 0 || i != f.dev.Info() {
		f.Errorf("info is %+v, then %+v", i, f.dev.Info())
	}
	if k, err := device.ParseKind(i.Kind.String()); err != nil || k != i.Kind {
		f.Errorf("kind %v is parsed as %v, %v", i.Kind, k, err)
	}
}

func bytesComeBack(f *fixture) {
	id := uint64(1)
	for _, own := range []bool{false, true} {
		for _, d := range tensor.DTypes() {
			for _, shape := range []tensor.Shape{{}, {0}, {3, 0, 2}, {5}, {7, 9, 11}, {1 << 16}} {
				n := shape.Elems() * d.Size()
				b := make([]byte, n)
				for i := range b {
					b[i] = byte(i*7 + i>>8)
					if d == tensor.Bool {
						b[i] &= 1
					}
				}
				f.must(f.space.Import(id, d, shape, f.block(b), own))
				v, ok := f.space.Lookup(id)
				if !ok || v.DType != d || !v.Shape.Equal(shape) || v.Bytes() != n {
					f.Errorf("value %d is %v%v of %d bytes, expected %v%v of %d", id, v.DType, v.Shape, v.Bytes(), d, shape, n)
				}
				f.holds("an import", id, b)
				id++
			}
		}
	}
	f.put(id, 1, 2)
	f.put(id+1, 3)
	blocks, err := f.space.Host(id, id+1, id)
	f.must(err)
	for i, want := range [][]byte{floats(1, 2), floats(3), floats(1, 2)} {
		if b := blocks[i].Bytes()[:len(want)]; !bytes.Equal(b, want) {
			f.Errorf("of three values read together number %d is %x, expected %x", i, b, want)
		}
		blocks[i].Release()
	}
}

// importsFail checks the errors of Import, and that it takes over the reference in any
// case: the fixture counts the blocks that are left.
func importsFail(f *fixture) {
	f.put(1, 1, 2, 3)
	four := tensor.Shape{4}
	f.is("an id that exists", f.space.Import(1, tensor.F32, four, f.block(floats(1, 2, 3, 4)), false), tensor.ErrUnknown)
	f.is("a short block", f.space.Import(2, tensor.F32, four, f.block(floats(1, 2, 3)), false), tensor.ErrShape)
	f.is("no block", f.space.Import(3, tensor.F32, four, nil, false), tensor.ErrShape)
	f.is("a byte of 2 in a bool", f.space.Import(4, tensor.Bool, four, f.block([]byte{0, 1, 2, 1}), false), tensor.ErrDType)
	f.gone("a failed import", 2, 3, 4)
	f.floats("a value whose id was used again", 1, 1, 2, 3)
	// The id of an import that failed is free.
	f.must(f.space.Import(4, tensor.Bool, four, f.block([]byte{0, 1, 0, 1}), false))
	f.must(f.space.Import(5, tensor.F32, tensor.Shape{0}, f.block([]byte{1}), false))
	f.holds("bools", 4, []byte{0, 1, 0, 1})
}

// importsOfPeers checks that a value which is going to be updated is a copy of memory
// that the device may not write to, and that one which isn't has its bytes all the same.
func importsOfPeers(f *fixture) {
	theirs, err := shm.Create(1<<16, nil)
	f.must(err)
	defer theirs.Close()
	fd, err := syscall.Dup(int(theirs.File().Fd()))
	f.must(err)
	released := 0
	table := shm.NewTable(&shm.TableOptions{OnRelease: func(uint64, shm.Handle) { released++ }})
	defer table.Close()
	f.must(table.Add(1, theirs.ID(), os.NewFile(uintptr(fd), "peer"), theirs.Size()))
	copy(theirs.Bytes(), floats(1, 2, 3, 4))
	open := func() *shm.Block {
		b, err := table.Open(1, shm.Handle{Segment: theirs.ID(), Len: 16})
		f.must(err)
		return b
	}
	f.must(f.space.Import(1, tensor.F32, tensor.Shape{4}, open(), true))
	f.must(f.space.Import(2, tensor.F32, tensor.Shape{4}, open(), false))
	f.floats("a peer's memory", 2, 1, 2, 3, 4)
	f.must(f.space.Sync())
	out := f.run(f.addOne(4, true), 10, 1)
	f.floats("the update", out[0], 2, 3, 4, 5)
	if !bytes.Equal(theirs.Bytes()[:16], floats(1, 2, 3, 4)) {
		f.Errorf("the peer's memory was updated in place: %x", theirs.Bytes()[:16])
	}
	f.space.Free(2)
	f.must(f.space.Sync())
	if released != 2 {
		f.Errorf("%d of 2 blocks of the peer's memory were given back", released)
	}
}

func makeAndFill(f *fixture) {
	f.must(f.space.Make(1, tensor.F32, tensor.Shape{2, 2}))
	f.must(f.space.Make(2, tensor.Bool, tensor.Shape{3}))
	f.must(f.space.Make(3, tensor.F64, tensor.Shape{0}))
	if v, ok := f.space.Lookup(1); !ok || v.DType != tensor.F32 || !v.Shape.Equal(tensor.Shape{2, 2}) {
		f.Errorf("a value that was made is %v%v, %v", v.DType, v.Shape, ok)
	}
	f.is("making an id that exists", f.space.Make(1, tensor.F32, tensor.Shape{1}), tensor.ErrUnknown)
	f.is("filling an unknown id", f.space.Fill(9, nil), tensor.ErrUnknown)
	f.is("filling too little", f.space.Fill(1, floats(1, 2, 3)), tensor.ErrShape)
	f.is("filling too much", f.space.Fill(1, floats(1, 2, 3, 4, 5)), tensor.ErrShape)
	f.is("filling a bool with 7", f.space.Fill(2, []byte{0, 7, 1}), tensor.ErrDType)
	src := floats(1, 2, 3, 4)
	f.must(f.space.Fill(1, src))
	clear(src) // it is the caller's again
	f.must(f.space.Fill(2, []byte{0, 1, 1}))
	f.must(f.space.Fill(3, nil))
	f.floats("a filled value", 1, 1, 2, 3, 4)
	f.holds("a filled bool", 2, []byte{0, 1, 1})
	f.holds("a filled value of no bytes", 3, nil)
	f.must(f.space.Make(4, tensor.F32, tensor.Shape{1000}))
	f.space.Free(4) // never filled
}

func alias(f *fixture) {
	f.put(1, 1, 2, 3)
	f.must(f.space.Alias(2, 1))
	f.is("an alias of an unknown id", f.space.Alias(3, 9), tensor.ErrUnknown)
	f.is("an alias that exists", f.space.Alias(2, 1), tensor.ErrUnknown)
	add := f.addOne(3, true)
	// The alias is donated: it may be updated in place, its twin may not.
	out := f.run(add, 10, 2)
	f.floats("the value that was aliased", 1, 1, 2, 3)
	f.floats("the alias, updated", out[0], 2, 3, 4)
	f.must(f.space.Alias(3, 1))
	f.space.Free(1)
	f.gone("a value whose alias lives", 1)
	f.floats("the alias of a value that was freed", 3, 1, 2, 3)
	f.must(f.space.Import(20, tensor.F32, tensor.Shape{0}, nil, false))
	f.must(f.space.Alias(21, 20))
	f.holds("an alias of no bytes", 21, nil)
}

// hostStays checks that bytes which Host returned stay whatever becomes of the value.
func hostStays(f *fixture) {
	add := f.addOne(4, true)
	f.put(1, 0, 0, 0, 0)
	id := uint64(1)
	var held []*shm.Block
	for i := range 10 {
		blocks, err := f.space.Host(id)
		f.must(err)
		held = append(held, blocks...)
		id = f.run(add, uint64(10+10*i), id)[0]
	}
	f.space.Free(id)
	for i := range uint64(40) {
		f.put(1000+i, -1, -1, -1, -1)
	}
	f.must(f.space.Sync())
	for i, b := range held {
		x := float32(i)
		if want := floats(x, x, x, x); !bytes.Equal(b.Bytes()[:16], want) {
			f.Errorf("bytes that Host returned before update %d are %x, expected %x", i, b.Bytes()[:16], want)
		}
		b.Release()
	}
}

// hostAlone checks what a collective in place relies on: a block that has one reference
// after the value was freed is the caller's to write.
func hostAlone(f *fixture) {
	f.put(1, 1, 2)
	f.must(f.space.Alias(2, 1))
	for _, id := range []uint64{1, 2} {
		blocks, err := f.space.Host(id)
		f.must(err)
		b := blocks[0]
		f.space.Free(id)
		if b.Refs() == 1 && !b.ReadOnly() {
			copy(b.Bytes(), floats(8, 9))
		} else if id == 2 {
			f.Errorf("the block of a value that was freed has %d references", b.Refs())
		}
		if id == 1 {
			f.floats("the alias of a value whose block was written", 2, 1, 2)
		}
		b.Release()
	}
}

func read(f *fixture) {
	want := make([]float32, 5000)
	for i := range want {
		want[i] = float32(i)
	}
	f.put(1, want...)
	b := floats(want...)
	for _, r := range [][2]int{{0, len(b)}, {0, 0}, {4, 400}, {len(b) - 3, 3}, {len(b), 0}} {
		got, err := f.space.Read(1, r[0], r[1])
		if err != nil || !bytes.Equal(got, b[r[0]:r[0]+r[1]]) {
			f.Errorf("%d bytes from %d on: %d bytes, %v", r[1], r[0], len(got), err)
		}
	}
	for _, r := range [][2]int{{0, len(b) + 1}, {len(b), 1}, {-4, 8}, {0, -1}, {math.MaxInt, 8}} {
		_, err := f.space.Read(1, r[0], r[1])
		f.is("reading beyond a value", err, tensor.ErrShape)
	}
	_, err := f.space.Read(2, 0, 0)
	f.is("reading an unknown id", err, tensor.ErrUnknown)
	out := f.run(f.addOne(len(want), false), 10, 1)
	got, err := f.space.Read(out[0], 0, 8) // waits
	if err != nil || !bytes.Equal(got, floats(1, 2)) {
		f.Errorf("reading a result: %x, %v", got, err)
	}
}

func free(f *fixture) {
	f.put(1, 1)
	f.put(2, 2)
	f.space.Free(1)
	f.space.Free(1)
	f.space.Free(99)
	f.gone("a freed value", 1)
	f.floats("its neighbour", 2, 2)
	f.put(1, 3) // the id is free again
	f.floats("a value with the id of one that was freed", 1, 3)

	large := make([]float32, 1<<20)
	f.put(10, large...)
	f.put(11, large...)
	inputs, ids := []uint64{10}, []uint64{10, 11, 12}
	f.space.FreeUnread(ids, inputs)
	out := f.run(f.addOne(1<<20, false), 20, inputs...)
	for _, id := range ids {
		f.space.Free(id)
	}
	f.gone("a value that the next program reads, or not", ids...)
	b, err := f.space.Read(out[0], 4<<20-4, 4)
	if err != nil || !slices.Equal(b, floats(1)) {
		f.Errorf("the result of a program whose input was freed after it: %x, %v", b, err)
	}
}

// noSpace checks that more than any machine has is an error, and that the space goes on.
func noSpace(f *fixture) {
	f.put(1, 1, 2, 3)
	huge := tensor.Shape{1 << 24, 1 << 18}
	f.is("making 16 TiB", f.space.Make(2, tensor.F32, huge), tensor.ErrNoSpace)
	p := f.record(false, func(s *tensor.Session) []*tensor.Tensor {
		return []*tensor.Tensor{tensor.Full(s, tensor.F32, 1, huge...)}
	})
	err := f.space.Run(p.Program, 10, nil, p.scalars, nil)
	if err == nil {
		err = f.space.Sync()
	}
	f.is("a result of 16 TiB", err, tensor.ErrNoSpace)
	f.gone("what has no space", append(p.results(10), 2)...)
	f.floats("a value from before", 1, 1, 2, 3)
}
