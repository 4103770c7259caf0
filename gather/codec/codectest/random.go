package codectest

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"math/rand/v2"
	"time"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/store"
)

// Mid is the manifest of four matrices of 4096 × 4096 in the known format: 2.5 MiB a
// payload.
func Mid() *codec.Manifest {
	var all []codec.Tensor
	for _, name := range []string{"q", "k", "v", "o"} {
		all = append(all, codec.Tensor{Name: name, Shape: []int64{4096, 4096}, DType: "F32"})
	}
	m, err := codec.NewManifest(codec.KnownConfig(), all)
	if err != nil {
		panic(err) // constant arguments
	}
	return m
}

// Random makes a payload of random rows without an update that it would come from,
// which is a hundred times faster. m must be of codec.KnownConfig, with TotalK a
// multiple of K.
func Random(m *codec.Manifest, window, uid uint64) *codec.Payload {
	rng := rand.New(rand.NewPCG(window, uid))
	digest := m.Digest()
	h := codec.Header{Window: window, UID: uid, Manifest: digest[:]}
	var sections []byte
	for i := range m.Params {
		p := &m.Params[i]
		ph := codec.ParamHeader{ID: uint32(i), Rows: uint64(p.Rows), K: uint64(p.K), Scale: 1, Lookup: make([]float32, p.Bins), Hist: make([]uint64, p.Bins)}
		for b := range ph.Lookup {
			ph.Lookup[b] = float32(b-p.Bins/2) / 64
		}
		ph.IndexOff = uint64(len(sections))
		every := p.TotalK / p.K
		for range p.Rows * p.K / 2 {
			j := len(sections) - int(ph.IndexOff)
			k := j / 3 * 2 % p.K
			bits := rng.Uint32()
			x, y := k*every+int(bits)%every, (k+1)*every+int(bits>>16)%every
			sections = append(sections, byte(x), byte(x>>8|y<<4), byte(y>>4))
		}
		ph.IndexLen = uint64(len(sections)) - ph.IndexOff
		sections = append(sections, make([]byte, -len(sections)&63)...)
		ph.ValueOff = uint64(len(sections))
		for range p.Rows * p.K / 8 {
			for bits, n := rng.Uint64(), 0; n < 8; bits, n = bits>>8, n+1 {
				sections = append(sections, byte(bits))
				ph.Hist[byte(bits)]++
			}
		}
		ph.ValueLen = uint64(len(sections)) - ph.ValueOff
		sections = append(sections, make([]byte, -len(sections)&63)...)
		h.Params = append(h.Params, ph)
	}
	p, err := codec.Seal(h, sections, nil)
	if err != nil {
		panic(err) // the header is small
	}
	return p
}

// Peers is a store whose objects are random payloads, made when they are asked for. Keys
// are peers' numbers.
type Peers struct {
	store.Mem
	M      *codec.Manifest
	Window uint64
}

// Open implements store.Store.
func (s *Peers) Open(_ context.Context, key string, get store.Get) (*store.Object, error) {
	var uid uint64
	if _, err := fmt.Sscan(key, &uid); err != nil {
		return nil, err
	}
	b := Random(s.M, s.Window, uid).Bytes()
	size := int64(len(b))
	b = b[get.Off:]
	if get.Len > 0 {
		b = b[:min(get.Len, int64(len(b)))]
	}
	return &store.Object{Body: io.NopCloser(bytes.NewReader(b)), Size: size, LastModified: time.Unix(1e9, 0), ETag: key}, nil
}
