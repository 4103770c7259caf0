package codec_test

import (
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"fmt"
	"math"
	"runtime"
	"slices"
	"testing"
	"testing/iotest"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/codec/codectest"
	"github.com/ringside-go/ringside/gather/outcome"
)

func expect(m *codec.Manifest) *codec.Expect {
	return &codec.Expect{Manifest: m, Window: 7, UID: 3, NormLimit: codectest.NormLimit}
}

// corpusConfig is one with all the ways to be wrong: indices in pairs, codes of 8 bits.
func corpusConfig() codec.Config {
	c := codec.KnownConfig()
	c.Bins = 64
	return c
}

// TestT16Corpus: every wrong container gets the outcome that is listed for it, whatever
// the pieces in which it arrives.
func TestT16Corpus(t *testing.T) {
	m := codectest.Tiny(corpusConfig())
	cases := codectest.Corpus(m, 7, 3)
	if len(cases) < 30 {
		t.Fatalf("%d cases, expected at least 30", len(cases))
	}
	seen := map[outcome.Outcome]bool{}
	for _, c := range cases {
		_, err := codec.Validate(bytes.NewReader(c.Bytes), expect(m))
		if got := outcome.Of(err); got != c.Want {
			t.Errorf("%s: %v (%v), expected %v", c.Name, got, err, c.Want)
		}
		_, slow := codec.Validate(iotest.OneByteReader(bytes.NewReader(c.Bytes)), expect(m))
		if outcome.Of(slow) != c.Want {
			t.Errorf("%s, byte by byte: %v, expected %v", c.Name, slow, c.Want)
		}
		seen[c.Want] = true
	}
	t.Logf("%d containers, %d statuses", len(cases), len(seen))
	honest := codectest.Payload(m, 7, 3, nil)
	if _, err := codec.Validate(bytes.NewReader(honest.Bytes()), expect(m)); err != nil {
		t.Errorf("an honest payload: %v", err)
	}
}

// TestEveryByte: a container in which one byte was changed is refused, and so is every
// beginning of one.
func TestEveryByte(t *testing.T) {
	m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{20, 30}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	whole := codectest.Payload(m, 7, 3, nil).Bytes()
	for i := range whole {
		b := bytes.Clone(whole)
		b[i] ^= 1 << (i % 8)
		if _, err := codec.Validate(bytes.NewReader(b), expect(m)); err == nil {
			t.Fatalf("byte %d of %d was changed and nothing said so", i, len(b))
		}
		if _, err := codec.Validate(bytes.NewReader(whole[:i]), expect(m)); outcome.Of(err) != outcome.Truncated {
			t.Fatalf("the first %d bytes of %d: %v, expected TRUNCATED", i, len(b), err)
		}
	}
}

// decode returns what a container says about parameter p, and where it says something.
func decode(t *testing.T, m *codec.Manifest, b []byte, p int) ([]float32, []bool) {
	t.Helper()
	rep, err := codec.Validate(bytes.NewReader(b), expect(m))
	if err != nil {
		t.Fatal(err)
	}
	q := &m.Params[p]
	out, said := make([]float32, q.Elements()), make([]bool, q.Elements())
	var rows codec.Rows
	var row codec.Row
	for from := 0; from < q.Rows; from += 7 { // blocks begin elsewhere
		n := min(7, q.Rows-from)
		if err := rep.ReadRows(&rows, m, bytes.NewReader(b), p, from, n); err != nil {
			t.Fatal(err)
		}
		message := rows.Append(nil)
		if len(message) > q.MaxRowsLen(n) {
			t.Fatalf("message of %d bytes for %d rows, expected at most %d", len(message), n, q.MaxRowsLen(n))
		}
		var sent codec.Rows
		if rest, err := sent.Parse(message, q, from, n); err != nil || len(rest) != 0 {
			t.Fatal(err, len(rest))
		}
		if err := sent.Each(&row, func(i int) {
			for j, at := range row.Index {
				v := float32(0)
				if len(sent.Table) > 0 {
					v = sent.Table[row.Codes[j]]
				} else {
					v = row.Values[j]
				}
				out[(from+i)*q.TotalK+int(at)], said[(from+i)*q.TotalK+int(at)] = v, true
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
	return out, said
}

// TestT25RoundTrip: every pair of codecs gives back the coefficients that are largest,
// and each value as its codec has it.
func TestT25RoundTrip(t *testing.T) {
	values := []codec.ValueCodec{codec.U8LUT, codec.U4LUT, codec.U2LUT, codec.Sign1, codec.BF16, codec.F32}
	for _, index := range []codec.IndexCodec{codec.Pack12, codec.Rice, codec.Bitmap, codec.Dense, codec.U16} {
		for _, value := range values {
			for _, topk := range []int{1, 13, 64, 2000} {
				t.Run(fmt.Sprint(index, "/", value, "/", topk), func(t *testing.T) {
					c := codec.Config{Chunk: 64, TopK: topk, Bins: 4, Range: 6, Index: index, Value: value, Book: codec.Lloyd}
					m := codectest.Tiny(c)
					b := codectest.Payload(m, 7, 3, nil).Bytes()
					if int64(len(b)) > m.MaxPayload() {
						t.Fatalf("%d bytes, MaxPayload says %d", len(b), m.MaxPayload())
					}
					for p := range m.Params {
						checkRows(t, m, b, p)
					}
				})
			}
		}
	}
}

func checkRows(t *testing.T, m *codec.Manifest, b []byte, p int) {
	t.Helper()
	q := &m.Params[p]
	x := make([]float32, q.Elements())
	codectest.Update(1, 3, 7, p, x)
	got, said := decode(t, m, b, p)
	row := make([]float32, q.TotalK)
	for r := range q.Rows {
		q.Gather(row, x, r)
		order := make([]int, q.TotalK)
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(i, j int) int {
			return int(math.Float32bits(row[j])&^(1<<31)) - int(math.Float32bits(row[i])&^(1<<31))
		})
		for n, i := range order {
			v := got[r*q.TotalK+i]
			if said[r*q.TotalK+i] != (n < q.K) {
				t.Fatalf("parameter %d row %d: coefficient %d is number %d of %d by magnitude: sent %v", p, r, i, n, q.K, n >= q.K)
			}
			switch {
			case n >= q.K:
			case q.Value == codec.F32 && v != row[i],
				q.Value == codec.BF16 && math.Abs(float64(v-row[i])) > math.Abs(float64(row[i]))/256,
				q.Value == codec.Sign1 && math.Signbit(float64(v)) != math.Signbit(float64(row[i])):
				t.Fatalf("parameter %d row %d: coefficient %d is %v, was %v", p, r, i, v, row[i])
			}
		}
	}
}

// TestT25Sizes: Rice needs at most 7.6 bits an index and 4 a row, and the default format
// less than a two-hundredth of float32.
func TestT25Sizes(t *testing.T) {
	m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{1024, 1024}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	p := codectest.Payload(m, 7, 3, nil)
	q := &m.Params[0]
	n := float64(q.Rows * q.K)
	perIndex := (float64(p.Header.Params[0].IndexLen)*8 - 4*float64(q.Rows)) / n
	perValue, ratio := float64(p.Size())*8/n, 4*float64(q.Elements())/float64(p.Size())
	t.Logf("%.3f bits an index, %.3f bits a value in all, 1/%.1f of f32", perIndex, perValue, ratio)
	if perIndex > 7.6 || perValue > 9.8 || ratio < 200 {
		t.Errorf("expected at most 7.6 and 9.8 bits and a ratio of at least 200")
	}
}

// TestT25Pack12 has the bytes that the known implementation packs.
func TestT25Pack12(t *testing.T) {
	m, err := codec.NewManifest(codec.Config{Chunk: 64, TopK: 4, Bins: 4, Range: 6}, []codec.Tensor{{Name: "w", Shape: []int64{64, 64}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := codec.NewEncoder(m, nil).Encode(codec.Header{}, func(_ int, x []float32) error {
		x[1], x[0x234], x[0xabc], x[0xfff] = 1, -2, 3, -4
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if got, want := p.Sections()[:6], []byte{0x01, 0x40, 0x23, 0xbc, 0xfa, 0xff}; !bytes.Equal(got, want) {
		t.Errorf("packed as %x, expected %x", got, want)
	}
}

// TestT3Golden is the vector of the known implementation for its quantiser.
func TestT3Golden(t *testing.T) {
	x := []float32{.5, -3, 2, -.25, 4, -1.5, .75, 1, -2.25, .1, 3.25, -.6, 0, 1.75, -4.5, 2.5}
	m, err := codec.NewManifest(codec.Config{Chunk: 16, TopK: 6, Bins: 4, Range: 6}, []codec.Tensor{{Name: "w", Shape: []int64{1, 16}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	p, err := codec.NewEncoder(m, nil).Encode(codec.Header{Window: 7, UID: 3}, func(_ int, dst []float32) error { copy(dst, x); return nil })
	if err != nil {
		t.Fatal(err)
	}
	h := p.Header.Params[0]
	if h.Shift != 0 || math.Abs(float64(h.Scale)-5.496021) > 1e-6 || !slices.Equal(h.Lookup, []float32{0, -3.75, .125, 3.625}) {
		t.Errorf("shift %v, scale %v, lookup %v", h.Shift, h.Scale, h.Lookup)
	}
	got, said := decode(t, m, p.Bytes(), 0)
	want := map[int]float32{1: -3.75, 4: 3.625, 8: .125, 10: 3.625, 14: -3.75, 15: .125}
	for i := range got {
		if v, ok := want[i]; said[i] != ok || got[i] != v {
			t.Errorf("coefficient %d: %v (sent: %v), expected %v (%v)", i, got[i], said[i], v, ok)
		}
	}
}

// TestT25Shapes: no shape is refused that a model has: odd chunks, scalars, vectors.
func TestT25Shapes(t *testing.T) {
	for _, shape := range [][]int64{{}, {1}, {2}, {29}, {50257}, {1, 1}, {3, 5}, {130, 96}, {7, 64}, {2, 3, 4, 5}, {97, 101}} {
		for _, c := range []codec.Config{codec.DefaultConfig(), codec.KnownConfig()} {
			m, err := codec.NewManifest(c, []codec.Tensor{{Name: "w", Shape: shape, DType: "F32"}})
			if err != nil {
				t.Fatal(err)
			}
			b := codectest.Payload(m, 7, 3, nil).Bytes()
			checkRows(t, m, b, 0)
			raw, err := m.Marshal()
			if err != nil {
				t.Fatal(err)
			}
			if back, err := codec.ParseManifest(raw); err != nil || back.Digest() != m.Digest() {
				t.Errorf("%v: the manifest came back with %v", shape, err)
			}
		}
	}
	for dim, want := range map[int64]int{50257: 29, 11008: 64, 28672: 64, 151936: 64, 262144: 64, 1000: 50, 130: 26} {
		m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{dim}, DType: "F32"}})
		if err != nil || m.Params[0].W != want {
			t.Errorf("dimension %d: chunks of %d, expected %d", dim, m.Params[0].W, want)
		}
	}
}

// TestFeedback: what the encoder keeps and what a decoder has add up to the update, with
// and without the transform.
func TestFeedback(t *testing.T) {
	for _, withDCT := range []bool{false, true} {
		c := codec.DefaultConfig()
		c.DCT = withDCT
		m := codectest.Tiny(c)
		e := codec.NewEncoder(m, &codec.EncoderOptions{Beta: 0.95})
		p, err := e.Encode(codec.Header{Window: 7, UID: 3}, func(p int, dst []float32) error { codectest.Update(1, 3, 7, p, dst); return nil })
		if err != nil {
			t.Fatal(err)
		}
		for i := range m.Params {
			q := &m.Params[i]
			x := make([]float32, q.Elements())
			codectest.Update(1, 3, 7, i, x)
			got, _ := decode(t, m, p.Bytes(), i)
			row, left := make([]float32, q.TotalK), make([]float32, q.TotalK)
			for r := range q.Rows {
				q.Gather(row, x, r)
				q.Gather(left, e.Residual()[i], r)
				sent := got[r*q.TotalK : (r+1)*q.TotalK]
				if withDCT {
					codec.NewTransform(q).Inverse(sent)
				}
				for j := range row {
					if d := math.Abs(float64(row[j] - sent[j] - left[j])); d > 1e-5 {
						t.Fatalf("dct %v, parameter %d row %d element %d: %v sent and %v kept of %v", withDCT, i, r, j, sent[j], left[j], row[j])
					}
				}
			}
		}
	}
}

// TestDCT: the transform keeps lengths, and its inverse undoes it.
func TestDCT(t *testing.T) {
	m, err := codec.NewManifest(codec.DefaultConfig(), []codec.Tensor{{Name: "w", Shape: []int64{24, 40}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	x := make([]float32, 24*40)
	codectest.Update(2, 0, 0, 0, x)
	y := slices.Clone(x)
	tr := codec.NewTransform(&m.Params[0])
	tr.Forward(y)
	var a, b float64
	for i := range x {
		a += float64(x[i]) * float64(x[i])
		b += float64(y[i]) * float64(y[i])
	}
	if math.Abs(a-b) > 1e-3 || slices.Equal(x, y) {
		t.Errorf("squared length %v became %v", a, b)
	}
	tr.Inverse(y)
	for i := range x {
		if math.Abs(float64(x[i]-y[i])) > 1e-5 {
			t.Fatalf("element %d: %v came back as %v", i, x[i], y[i])
		}
	}
}

func TestNotFinite(t *testing.T) {
	m := codectest.Tiny(codec.DefaultConfig())
	for _, v := range []float64{math.NaN(), math.Inf(1), -3.1e38} {
		_, err := codec.NewEncoder(m, nil).Encode(codec.Header{}, func(p int, dst []float32) error { dst[len(dst)-1] = float32(v); return nil })
		if err == nil {
			t.Errorf("an update with %v was encoded", v)
		}
	}
}

// TestZeros: an update of zeros, and one of equal values, make payloads that are right.
func TestZeros(t *testing.T) {
	for _, c := range []codec.Config{codec.DefaultConfig(), codec.KnownConfig()} {
		for _, v := range []float32{0, 1.5, 1e-30} {
			m := codectest.Tiny(c)
			p, err := codec.NewEncoder(m, nil).Encode(codec.Header{Window: 7, UID: 3}, func(_ int, dst []float32) error {
				for i := range dst {
					dst[i] = v
				}
				return nil
			})
			if err != nil {
				t.Fatal(err)
			}
			if _, err := codec.Validate(bytes.NewReader(p.Bytes()), expect(m)); err != nil {
				t.Errorf("%v everywhere: %v", v, err)
			}
		}
	}
}

func TestSignature(t *testing.T) {
	m := codectest.Tiny(codec.DefaultConfig())
	public, private, err := ed25519.GenerateKey(nil)
	if err != nil {
		t.Fatal(err)
	}
	other, _, _ := ed25519.GenerateKey(nil)
	signed, unsigned := codectest.Payload(m, 7, 3, private).Bytes(), codectest.Payload(m, 7, 3, nil).Bytes()
	for _, c := range []struct {
		name string
		b    []byte
		key  ed25519.PublicKey
		want outcome.Outcome
	}{
		{"signed", signed, public, outcome.OK},
		{"signed, no key is known", signed, nil, outcome.OK},
		{"signed by another", signed, other, outcome.BadDigest},
		{"not signed", unsigned, public, outcome.BadDigest},
		{"cut in the signature", signed[:len(signed)-1], public, outcome.Truncated},
	} {
		e := expect(m)
		e.Key = c.key
		if _, err := codec.Validate(bytes.NewReader(c.b), e); outcome.Of(err) != c.want {
			t.Errorf("%s: %v, expected %v", c.name, err, c.want)
		}
	}
}

// TestManifestRefused: a manifest with a layout of its own is refused.
func TestManifestRefused(t *testing.T) {
	for name, f := range map[string]func(m *codec.Manifest){
		"rows":    func(m *codec.Manifest) { m.Params[0].Rows++ },
		"k":       func(m *codec.Manifest) { m.Params[0].K = 5000 },
		"version": func(m *codec.Manifest) { m.Version = 2 },
		"shape":   func(m *codec.Manifest) { m.Params[0].Shape = []int64{1 << 50} },
		"names":   func(m *codec.Manifest) { m.Params[0].Name = m.Params[1].Name },
		"codec":   func(m *codec.Manifest) { m.Config.Value = 77 },
		"chunk":   func(m *codec.Manifest) { m.Config.Chunk = 0 },
		"none":    func(m *codec.Manifest) { m.Params = nil },
	} {
		m := codectest.Tiny(codec.DefaultConfig())
		f(m)
		b, err := m.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		if _, err := codec.ParseManifest(b); err == nil {
			t.Errorf("%s: accepted", name)
		}
	}
}

// TestLloyd: four Lloyd-Max levels are nearer to the values than four bins of one width.
func TestLloyd(t *testing.T) {
	loss := func(book codec.Codebook) float64 {
		c := codec.DefaultConfig()
		c.Book = book
		m := codectest.Tiny(c)
		got, said := decode(t, m, codectest.Payload(m, 7, 3, nil).Bytes(), 0)
		q := &m.Params[0]
		x, row := make([]float32, q.Elements()), make([]float32, q.TotalK)
		codectest.Update(1, 3, 7, 0, x)
		var d, n float64
		for r := range q.Rows {
			q.Gather(row, x, r)
			for j, v := range row {
				if i := r*q.TotalK + j; said[i] {
					d += math.Pow(float64(v-got[i]), 2)
					n += math.Pow(float64(v), 2)
				}
			}
		}
		return math.Sqrt(d / n)
	}
	u, l := loss(codec.Uniform), loss(codec.Lloyd)
	t.Logf("relative error: uniform %.3f, Lloyd-Max %.3f", u, l)
	if l > 0.075 || u < 1.3*l {
		t.Errorf("expected at most 0.075, and clearly less than uniform")
	}
}

// emptyParams is a container whose header is a list of n parameters without fields.
func emptyParams(n int) []byte {
	// {6: [ … ]}
	list := append([]byte{0xa1, 6, 0x9a}, binary.BigEndian.AppendUint32(nil, uint32(n))...)
	list = append(list, bytes.Repeat([]byte{0xa0}, n)...)
	b := append([]byte("GRD1"), codec.Version, 0, 0, 0)
	return append(binary.LittleEndian.AppendUint32(b, uint32(len(list))), list...)
}

// FuzzValidate: no bytes make Validate panic or take memory out of proportion.
func FuzzValidate(f *testing.F) {
	m := codectest.Tiny(corpusConfig())
	for _, c := range codectest.Corpus(m, 7, 3) {
		f.Add(c.Bytes)
	}
	rice := codectest.Tiny(codec.DefaultConfig())
	f.Add(codectest.Payload(rice, 7, 3, nil).Bytes())
	f.Add(emptyParams(30 << 10))
	f.Fuzz(func(t *testing.T, b []byte) {
		for _, m := range []*codec.Manifest{m, rice} {
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			rep, err := codec.Validate(bytes.NewReader(b), expect(m))
			runtime.ReadMemStats(&after)
			if n := after.TotalAlloc - before.TotalAlloc; n > 2*uint64(len(b))+1<<20 {
				t.Fatalf("%d bytes allocated for %d", n, len(b))
			}
			if err == nil && rep.Size != int64(len(b)) {
				t.Fatalf("%d of %d bytes were looked at", rep.Size, len(b))
			}
		}
	})
}

// FuzzRows: no message of another rank makes Parse or Each panic or give an index that is
// out of range.
func FuzzRows(f *testing.F) {
	for _, c := range []codec.Config{codec.DefaultConfig(), corpusConfig(), {Chunk: 64, TopK: 40, Index: codec.U16, Value: codec.BF16}} {
		m := codectest.Tiny(c)
		b := codectest.Payload(m, 7, 3, nil).Bytes()
		rep, err := codec.Validate(bytes.NewReader(b), expect(m))
		if err != nil {
			f.Fatal(err)
		}
		var rows codec.Rows
		if err := rep.ReadRows(&rows, m, bytes.NewReader(b), 0, 2, 3); err != nil {
			f.Fatal(err)
		}
		f.Add(rows.Append(nil), uint8(c.Index), uint8(c.Value))
	}
	f.Fuzz(func(t *testing.T, b []byte, index, value uint8) {
		m, err := codec.NewManifest(codec.Config{Chunk: 64, TopK: 64, Bins: 4, Range: 6, Index: codec.IndexCodec(index), Value: codec.ValueCodec(value)},
			[]codec.Tensor{{Name: "w", Shape: []int64{128, 256}, DType: "F32"}})
		if err != nil {
			return
		}
		p := &m.Params[0]
		var rows codec.Rows
		if _, err := rows.Parse(b, p, 2, 3); err != nil {
			return
		}
		var row codec.Row
		_ = rows.Each(&row, func(int) {
			for j, i := range row.Index {
				if int(i) >= p.TotalK || len(rows.Table) > 0 && int(row.Codes[j]) >= len(rows.Table) {
					t.Fatalf("index %d, code %d", i, row.Codes[j])
				}
			}
		})
	})
}

// FuzzManifest: what ParseManifest takes is a manifest that NewManifest makes.
func FuzzManifest(f *testing.F) {
	for _, c := range []codec.Config{codec.DefaultConfig(), codec.KnownConfig()} {
		b, err := codectest.Tiny(c).Marshal()
		if err != nil {
			f.Fatal(err)
		}
		f.Add(b)
	}
	f.Fuzz(func(t *testing.T, b []byte) {
		m, err := codec.ParseManifest(b)
		if err != nil {
			return
		}
		again, err := codec.NewManifest(m.Config, m.Tensors())
		if err != nil || again.Digest() != m.Digest() || m.MaxPayload() <= 0 {
			t.Fatalf("%v, payloads of at most %d bytes", err, m.MaxPayload())
		}
	})
}

func BenchmarkDecode(b *testing.B) {
	for _, c := range []codec.Config{codec.DefaultConfig(), codec.KnownConfig()} {
		b.Run(fmt.Sprint(c.Index, c.Value), func(b *testing.B) {
			m, err := codec.NewManifest(c, []codec.Tensor{{Name: "w", Shape: []int64{1024, 1024}, DType: "F32"}})
			if err != nil {
				b.Fatal(err)
			}
			data := codectest.Payload(m, 7, 3, nil).Bytes()
			rep, err := codec.Validate(bytes.NewReader(data), expect(m))
			if err != nil {
				b.Fatal(err)
			}
			var rows codec.Rows
			var row codec.Row
			if err := rep.ReadRows(&rows, m, bytes.NewReader(data), 0, 0, 256); err != nil {
				b.Fatal(err)
			}
			for b.Loop() {
				if err := rows.Each(&row, func(int) {}); err != nil {
					b.Fatal(err)
				}
			}
			b.ReportMetric(float64(b.N)*256*64/b.Elapsed().Seconds()/1e6, "Mvalues/s")
		})
	}
}
