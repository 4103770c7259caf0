package data

import (
	"errors"
	"slices"
	"sync"
	"testing"
)

// TestOrder checks that an epoch has every row once, and that rows of two arrays stay
// together.
func TestOrder(t *testing.T) {
	const rows, size = 7, 3
	x, y := make([]int32, rows*size), make([]int64, rows)
	for i := range x {
		x[i] = int32(i)
	}
	for i := range y {
		y[i] = int64(i)
	}
	o := NewOrder(rows, 5)
	var epochs [2][]int64
	for e := range epochs {
		bx, by := make([]int32, rows*size), make([]int64, rows)
		if err := errors.Join(FillRows(o, uint64(e*rows), x, bx), FillRows(o, uint64(e*rows), y, by)); err != nil {
			t.Fatal(err)
		}
		for i, row := range by {
			if !slices.Equal(bx[i*size:(i+1)*size], x[row*size:(row+1)*size]) || o.At(uint64(e*rows+i)) != int(row) {
				t.Errorf("example %d is row %d, %v", i, row, bx[i*size:(i+1)*size])
			}
		}
		if sorted := slices.Sorted(slices.Values(by)); !slices.Equal(sorted, y) {
			t.Errorf("epoch %d has rows %v", e, by)
		}
		epochs[e] = by
	}
	if slices.Equal(epochs[0], epochs[1]) {
		t.Errorf("two epochs have the order %v", epochs[0])
	}
	for _, bad := range [][2]int{{rows*size + 1, size}, {rows * size, size + 1}, {rows - 1, 1}} {
		if err := FillRows(o, 0, make([]int32, bad[0]), make([]int32, bad[1])); !errors.Is(err, ErrMismatch) {
			t.Errorf("%v: %v", bad, err)
		}
	}
}

func TestShuffleIsAPermutation(t *testing.T) {
	for _, n := range []uint64{1, 2, 3, 4, 5, 7, 16, 17, 64, 65, 1000, 4096, 4097} {
		for key := range uint64(20) {
			s := NewShuffle(key, n)
			seen := make([]bool, n)
			for i := range n {
				v := s.At(i)
				if v >= n || seen[v] {
					t.Fatalf("key %d: element %d of %d is %d, out of range or seen before", key, i, n, v)
				}
				seen[v] = true
			}
		}
	}
}

// TestShuffleIsUniform counts the positions of each element over many keys.
func TestShuffleIsUniform(t *testing.T) {
	const n, keys = 6, 30000
	var count [n][n]int
	orders := make(map[[n]uint64]int)
	for key := range uint64(keys) {
		s := NewShuffle(Hash(1, key), n)
		var o [n]uint64
		for i := range uint64(n) {
			o[i] = s.At(i)
			count[i][o[i]]++
		}
		orders[o]++
	}
	// Chi-squared over the (n-1)^2 free cells of a doubly stochastic table: 25 degrees
	// of freedom, 99.9999 % below 70.
	var chi float64
	for i := range count {
		for _, c := range count[i] {
			d := float64(c) - keys/n
			chi += d * d / (keys / n)
		}
	}
	if chi > 70 {
		t.Errorf("chi-squared %v over places, expected below 70", chi)
	}
	if len(orders) != 720 {
		t.Errorf("%d orders of 6 elements came, expected all 720", len(orders))
	}
}

func TestShuffleNeighboursScatter(t *testing.T) {
	const n = 60000
	s := NewShuffle(3, n)
	var adjacent int
	for i := range uint64(n - 1) {
		if a, b := s.At(i), s.At(i+1); a+1 == b || b+1 == a {
			adjacent++
		}
	}
	if adjacent > 20 { // a random order has 2 on average
		t.Errorf("%d neighbours stay neighbours, expected about 2", adjacent)
	}
}

func TestShuffleOutOfRangePanics(t *testing.T) {
	for _, f := range []func(){func() { NewShuffle(0, 5).At(5) }, func() { NewShuffle(0, 0).At(0) }, func() { NewShuffle(0, 1<<63) }} {
		func() {
			defer func() {
				if recover() == nil {
					t.Error("no panic")
				}
			}()
			f()
		}()
	}
}

func testImages() *Images {
	m := &Images{Count: 7, Rows: 2, Cols: 3, Classes: 4}
	for i := range 42 {
		m.Pixels = append(m.Pixels, byte(i*6))
	}
	m.Labels = []byte{0, 1, 2, 3, 0, 1, 2}
	return m
}

func TestEpochs(t *testing.T) {
	m := testImages()
	e := NewEpochs(m, 42)
	const n = 21 // three epochs in one call
	x, y := make([]float32, n*6), make([]int64, n)
	if err := e.Fill(0, x, y); err != nil {
		t.Fatal(err)
	}
	orders := make([][]int, 3)
	for i := range n {
		p := e.Example(uint64(i))
		orders[i/7] = append(orders[i/7], p)
		if y[i] != int64(m.Labels[p]) {
			t.Errorf("label of example %d is %d, expected %d", i, y[i], m.Labels[p])
		}
		for j := range 6 {
			if want := float32(float64(m.Pixels[p*6+j])/127.5 - 1); abs(x[i*6+j]-want) > 1e-6 {
				t.Errorf("pixel %d of example %d is %v, expected %v", j, i, x[i*6+j], want)
			}
		}
	}
	for i, o := range orders {
		sorted := slices.Clone(o)
		slices.Sort(sorted)
		if !slices.Equal(sorted, []int{0, 1, 2, 3, 4, 5, 6}) {
			t.Errorf("epoch %d shows %v, expected each image once", i, o)
		}
	}
	if slices.Equal(orders[0], orders[1]) && slices.Equal(orders[1], orders[2]) {
		t.Errorf("every epoch has the order %v", orders[0])
	}
	// Two ranks with batches of three draw together the examples of one call.
	px, py := make([]float32, 18), make([]int64, 3)
	for part := range 7 {
		if err := e.Fill(uint64(part*3), px, py); err != nil {
			t.Fatal(err)
		}
		if !slices.Equal(px, x[part*18:part*18+18]) || !slices.Equal(py, y[part*3:part*3+3]) {
			t.Errorf("part %d differs from the same examples in one call", part)
		}
	}
	if err := e.Fill(0, px[:17], py); !errors.Is(err, ErrMismatch) {
		t.Errorf("short buffer: %v, want ErrMismatch", err)
	}
	if a := testing.AllocsPerRun(100, func() { _ = e.Fill(5, px, py) }); a != 0 {
		t.Errorf("Fill allocates %v times a call", a)
	}
}

func abs(x float32) float32 { return max(x, -x) }

func TestNormalise(t *testing.T) {
	dst := []float32{9, 9, 9, 9}
	Normalise(dst, []byte{0, 255, 51})
	if want := []float32{-1, 1, -0.6, 9}; abs(dst[2]-want[2]) > 1e-7 || dst[0] != want[0] || dst[1] != want[1] || dst[3] != want[3] {
		t.Errorf("Normalise gives %v, want %v", dst, want)
	}
}

func TestImagesSlice(t *testing.T) {
	m := testImages()
	x, y := make([]float32, 4*6), make([]int64, 4)
	for first, want := range map[int]int{0: 4, 4: 3, 6: 1, 7: 0, 100: 0} {
		n, err := m.Slice(first, x, y)
		if err != nil || n != want {
			t.Errorf("Slice(%d) = %d, %v, want %d", first, n, err, want)
		}
		for i := range n {
			if y[i] != int64(m.Labels[first+i]) || abs(x[i*6]-(float32(m.Pixels[(first+i)*6])/127.5-1)) > 1e-6 {
				t.Errorf("Slice(%d): image %d is not that of the set", first, i)
			}
		}
	}
	if _, err := m.Slice(-1, x, y); !errors.Is(err, ErrMismatch) {
		t.Errorf("Slice(-1): %v, want ErrMismatch", err)
	}
	if _, err := m.Slice(0, x[1:], y); !errors.Is(err, ErrMismatch) {
		t.Errorf("short buffer: %v, want ErrMismatch", err)
	}
}

func TestCrops(t *testing.T) {
	text := make([]byte, 300)
	for i := range text {
		text[i] = byte(i % 251)
	}
	const length = 16
	c, err := NewCrops(text, length, 7)
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]int32, 5*length), make([]int32, 5*length)
	x64, y64 := make([]int64, 5*length), make([]int64, 5*length)
	if err := errors.Join(FillCrops(c, 10, x, y), FillCrops(c, 10, x64, y64)); err != nil {
		t.Fatal(err)
	}
	for i := range x {
		p := c.Position(uint64(10+i/length)) + i%length
		if x[i] != int32(text[p]) || y[i] != int32(text[p+1]) || x64[i] != int64(x[i]) || y64[i] != int64(y[i]) {
			t.Fatalf("token %d is %d then %d (64 bits: %d then %d), expected %d then %d", i, x[i], y[i], x64[i], y64[i], text[p], text[p+1])
		}
	}
	again, _ := NewCrops(text, length, 7)
	other, _ := NewCrops(text, length, 8)
	var same, firsts, lasts int
	for n := range uint64(10000) {
		p := c.Position(n)
		if p < 0 || p+length+1 > len(text) {
			t.Fatalf("piece %d begins at %d of %d", n, p, len(text))
		}
		if again.Position(n) != p {
			t.Fatalf("piece %d begins at %d and, with the same seed, at %d", n, p, again.Position(n))
		}
		if other.Position(n) == p {
			same++
		}
		if p == 0 {
			firsts++
		}
		if p == len(text)-length-1 {
			lasts++
		}
	}
	if same > 100 {
		t.Errorf("another seed chose the same place %d times of 10000, expected about 35", same)
	}
	if firsts == 0 || lasts == 0 {
		t.Errorf("of 10000 pieces %d were the first and %d the last of 284, expected some", firsts, lasts)
	}
	if a := testing.AllocsPerRun(100, func() { _ = FillCrops(c, 0, x, y) }); a != 0 {
		t.Errorf("FillCrops allocates %v times a call", a)
	}
	if err := FillCrops(c, 0, x, y[1:]); !errors.Is(err, ErrMismatch) {
		t.Errorf("unequal buffers: %v, want ErrMismatch", err)
	}
	if err := FillCrops(c, 0, x[1:], y[1:]); !errors.Is(err, ErrMismatch) {
		t.Errorf("a part of a piece: %v, want ErrMismatch", err)
	}
}

func TestCropsOfShortText(t *testing.T) {
	for _, length := range []int{-1, 0, 5, 6} {
		if _, err := NewCrops([]byte("hello"), length, 0); !errors.Is(err, ErrMismatch) {
			t.Errorf("pieces of %d of 5 bytes: %v, want ErrMismatch", length, err)
		}
	}
	c, err := NewCrops([]byte("hello"), 4, 0)
	if err != nil {
		t.Fatal(err)
	}
	x, y := make([]int64, 4), make([]int64, 4)
	if err := FillCrops(c, 3, x, y); err != nil || x[0] != 'h' || y[3] != 'o' {
		t.Errorf("the only piece is %v then %v, %v", x, y, err)
	}
}

// TestSamplersConcurrently is for the race detector.
func TestSamplersConcurrently(t *testing.T) {
	e := NewEpochs(testImages(), 1)
	c, err := NewCrops([]byte("to be or not to be"), 4, 1)
	if err != nil {
		t.Fatal(err)
	}
	var wg sync.WaitGroup
	for g := range uint64(4) {
		wg.Go(func() {
			x, y, tx, ty := make([]float32, 12), make([]int64, 2), make([]int32, 8), make([]int32, 8)
			for i := range uint64(50) {
				if err := errors.Join(e.Fill(g*50+i, x, y), FillCrops(c, g*50+i, tx, ty)); err != nil {
					t.Error(err)
				}
			}
		})
	}
	wg.Wait()
}

func BenchmarkEpochsFill64(b *testing.B) {
	m := &Images{Count: 60000, Rows: 28, Cols: 28, Pixels: make([]byte, 60000*784), Labels: make([]byte, 60000)}
	e := NewEpochs(m, 1)
	x, y := make([]float32, 64*784), make([]int64, 64)
	b.SetBytes(64 * 784)
	for i := uint64(0); b.Loop(); i += 64 {
		if err := e.Fill(i, x, y); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkCropsFill2x64(b *testing.B) {
	c, err := NewCrops(make([]byte, 567198), 64, 1)
	if err != nil {
		b.Fatal(err)
	}
	x, y := make([]int32, 128), make([]int32, 128)
	for i := uint64(0); b.Loop(); i += 2 {
		if err := FillCrops(c, i, x, y); err != nil {
			b.Fatal(err)
		}
	}
}
