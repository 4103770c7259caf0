package codec_test

import (
	"bytes"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/outcome"
)

// TestAdd: Add gives the sums and counts of Next and the loop that it replaces, for every
// index codec, whatever the rest behind the last eight values.
func TestAdd(t *testing.T) {
	for _, index := range []codec.IndexCodec{codec.Pack12, codec.Rice, codec.Bitmap, codec.Dense, codec.U16} {
		for _, value := range []codec.ValueCodec{codec.U8LUT, codec.U4LUT, codec.U2LUT} {
			for _, topk := range []int{2, 8, 14, 64} {
				for _, bins := range []int{3, 4, 16, 256} {
					c := codec.Config{Chunk: 64, TopK: topk, Bins: bins, Range: 6, Index: index, Value: value}
					m, err := codec.NewManifest(c, []codec.Tensor{{Name: "w", Shape: []int64{128, 64}, DType: "F32"}, {Name: "small", Shape: []int64{40, 30}, DType: "F32"}})
					if err != nil {
						continue // the value codec has no codebook so large
					}
					b := codectest.Payload(m, 7, 3, nil).Bytes()
					for p := range m.Params {
						slow, slowN := sums(t, m, b, p, false)
						fast, fastN := sums(t, m, b, p, true)
						if !slices.Equal(slow, fast) || !slices.Equal(slowN, fastN) {
							t.Errorf("%v/%v/%d of %d levels, parameter %d: the sums differ", index, value, topk, bins, p)
						}
					}
				}
			}
		}
	}
}

// sums adds up the rows of a parameter, by Add or by Next.
func sums(t *testing.T, m *codec.Manifest, b []byte, p int, add bool) ([]int64, []uint16) {
	t.Helper()
	rep, err := codec.Validate(bytes.NewReader(b), expect(m))
	if err != nil {
		t.Fatal(err)
	}
	q := &m.Params[p]
	var rows codec.Rows
	var row codec.Row
	if err := rep.ReadRows(&rows, m, bytes.NewReader(b), p, 0, q.Rows); err != nil {
		t.Fatal(err)
	}
	s, n := make([]int64, q.TotalK), make([]uint16, q.TotalK)
	var levels codec.Levels
	for i := range levels {
		levels[i] = int64(i*i) - 1000
	}
	for range q.Rows {
		if add {
			err = rows.Add(s, n, &levels, &row)
		} else if err = rows.Next(&row); err == nil {
			for j, at := range row.Index {
				s[at] += levels[row.Codes[j]]
				n[at]++
			}
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	return s, n
}

// TestTiles: rows that are read tile by tile are those that are read at once, where tiles
// follow each other and where they do not.
func TestTiles(t *testing.T) {
	m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{64 * 40, 64 * 20}, DType: "F32"}, {Name: "b", Shape: []int64{64 * 20, 64 * 20}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	b := codectest.Payload(m, 7, 3, nil).Bytes()
	rep, err := codec.Validate(bytes.NewReader(b), expect(m))
	if err != nil {
		t.Fatal(err)
	}
	var rows codec.Rows
	var row codec.Row
	read := func(p, from, n int) (all []uint32) {
		t.Helper()
		if err := rep.ReadRows(&rows, m, bytes.NewReader(b), p, from, n); err != nil {
			t.Fatal(err)
		}
		for range n {
			if err := rows.Next(&row); err != nil {
				t.Fatal(err)
			}
			all = append(all, row.Index...)
		}
		return all
	}
	k := m.Params[0].K
	whole := [][]uint32{read(0, 0, 800), read(1, 0, 400)}
	for _, tile := range []struct{ p, from, n int }{
		// in order
		{0, 0, 100}, {0, 100, 100}, {0, 200, 100}, {0, 300, 1}, {0, 301, 300}, {0, 601, 199},
		// not in order
		{0, 520, 10}, {0, 525, 10}, {0, 540, 5}, {0, 512, 3}, {0, 300, 10}, {0, 0, 1},
		// of another parameter
		{1, 300, 50}, {0, 350, 50}, {1, 350, 50},
	} {
		if !slices.Equal(read(tile.p, tile.from, tile.n), whole[tile.p][tile.from*k:(tile.from+tile.n)*k]) {
			t.Errorf("parameter %d, %d rows from %d on: other indices than those of the whole", tile.p, tile.n, tile.from)
		}
	}
}

// TestAddChanged: a code of a spool that is not in the codebook any more is an error of
// its row, also where Add does not decode it by itself.
func TestAddChanged(t *testing.T) {
	for _, topk := range []int{64, 62} { // the code lies among the last two
		c := codec.KnownConfig()
		c.Bins, c.TopK = 4, topk
		m, err := codec.NewManifest(c, []codec.Tensor{{Name: "w", Shape: []int64{64, 64}, DType: "F32"}})
		if err != nil {
			t.Fatal(err)
		}
		b := codectest.Payload(m, 7, 3, nil).Bytes()
		rep, err := codec.Validate(bytes.NewReader(b), expect(m))
		if err != nil {
			t.Fatal(err)
		}
		q := &m.Params[0]
		b[rep.Base+int64(rep.Header.Params[0].ValueOff)+int64(q.K)-1] = 4
		var rows codec.Rows
		if err := rep.ReadRows(&rows, m, bytes.NewReader(b), 0, 0, 1); err != nil {
			t.Fatal(err)
		}
		err = rows.Add(make([]int64, q.TotalK), make([]uint16, q.TotalK), &codec.Levels{}, &codec.Row{})
		if outcome.Of(err) != outcome.CodeRange {
			t.Errorf("%d values a row: %v, expected CODE_RANGE", topk, err)
		}
	}
}
