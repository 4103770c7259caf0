// Package torch reads the updates that the known implementation of gather writes with
// torch.save, and makes payloads of package codec of them. It runs none of the file's
// code and takes nothing from it but numbers and texts.
//
//	import.go    the update's fields; the payload
//	unpickle.go  the pickle's opcodes
//	object.go    tensors, which the pickle makes by three of them
//
// The file is a zip archive of stored entries, all in one folder:
//
//	x/data.pkl   {"state_dict": {…, "metadata": {"window": 7}}, "global_step": 3}
//	x/data/0     the bytes of a tensor's storage
//
// and state_dict has three fields for each parameter P, the names without a separator:
//
//	Pidxs          uint8, 3 bytes for 2 indices (PACK12 of package codec)
//	Pvals          uint8, a code for each index
//	Pquant_params  (shift, scale, offset, lookup, dtype): a code b means lookup[b] + shift
//
// Rows are the manifest's, K values each; a row's indices may be in any order.
package torch

import (
	"archive/zip"
	"bytes"
	"crypto/ed25519"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"maps"
	"math"
	"path"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/plain"
)

// maxPickle bounds the bytes of data.pkl: it holds a few hundred for each parameter.
const maxPickle = 16 << 20

// Import makes a payload of an update of size bytes, for the peer uid, with the manifest
// m of codec.KnownConfig. It signs if there is a key. A fault of the file is a
// *outcome.Error.
func Import(r io.ReaderAt, size int64, m *codec.Manifest, window, uid uint64, key ed25519.PrivateKey) (*codec.Payload, error) {
	a, err := open(r, size)
	if err != nil {
		return nil, err
	}
	root, _ := a.root.(*dict)
	if root == nil {
		return nil, outcome.Errorf(outcome.BadFormat, "the file holds %T, expected a dict", a.root)
	}
	state, _ := root.items["state_dict"].(*dict)
	if state == nil {
		return nil, outcome.Errorf(outcome.BadFormat, "there is no dict state_dict")
	}
	if err := sameWindow(state, root, window); err != nil {
		return nil, err
	}
	if err := known(state, m); err != nil {
		return nil, err
	}
	step, _ := root.items["global_step"].(int64)
	p, err := codec.Recode(m, codec.Header{Window: window, UID: uid, Step: uint64(max(step, 0))}, func(i int) (*codec.Coded, error) {
		return a.param(state, &m.Params[i])
	}, key)
	if err != nil {
		return nil, err
	}
	_, err = codec.Validate(bytes.NewReader(p.Bytes()), &codec.Expect{Manifest: m, Window: window, UID: uid})
	return p, err
}

// archive is an open file.
type archive struct {
	files map[string]*zip.File // by their name in the folder
	size  int64
	root  any
}

func open(r io.ReaderAt, size int64) (*archive, error) {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return nil, outcome.Errorf(outcome.BadFormat, "zip: %v", err)
	}
	a := &archive{map[string]*zip.File{}, size, nil}
	for _, f := range z.File {
		_, name, ok := strings.Cut(f.Name, "/")
		if !ok || f.Method != zip.Store || f.UncompressedSize64 > uint64(size) {
			return nil, outcome.Errorf(outcome.BadFormat, "entry %.80q, method %d, %d bytes: expected stored entries in a folder", f.Name, f.Method, f.UncompressedSize64)
		}
		a.files[name] = f
	}
	b, err := a.read("data.pkl", 0, -1)
	if err != nil {
		return nil, err
	}
	if order, ok := a.files["byteorder"]; ok && order.UncompressedSize64 != uint64(len("little")) {
		return nil, outcome.Errorf(outcome.BadFormat, "the file is not little-endian")
	}
	if a.root, err = unpickle(b); err != nil {
		return nil, outcome.Errorf(outcome.BadFormat, "%v", err)
	}
	return a, nil
}

// read returns n bytes of an entry from off on; all of it, of at most maxPickle, for a
// negative n.
func (a *archive) read(name string, off, n int64) ([]byte, error) {
	f := a.files[name]
	if f == nil {
		return nil, outcome.Errorf(outcome.BadFormat, "the archive has no %.80q", name)
	}
	have := int64(f.UncompressedSize64)
	if n < 0 {
		n = have
		if n > maxPickle {
			return nil, outcome.Errorf(outcome.BadFormat, "%s has %d bytes, expected at most %d", name, n, maxPickle)
		}
	}
	if n > have || off > have-n {
		return nil, outcome.Errorf(outcome.Truncated, "%.80q has %d bytes, expected %d from %d on", name, have, n, off)
	}
	in, err := f.Open()
	if err != nil {
		return nil, outcome.Errorf(outcome.BadFormat, "%.80q: %v", name, err)
	}
	defer in.Close()
	if _, err := io.CopyN(io.Discard, in, off); err != nil {
		return nil, outcome.Errorf(outcome.Truncated, "%.80q: %v", name, err)
	}
	b := make([]byte, n)
	if _, err := io.ReadFull(in, b); err != nil {
		return nil, outcome.Errorf(outcome.Truncated, "%.80q: %v", name, err)
	}
	// the checksum is compared at the end
	if _, err := io.Copy(io.Discard, in); errors.Is(err, zip.ErrChecksum) {
		return nil, outcome.Errorf(outcome.BadDigest, "%.80q: %v", name, err)
	}
	return b, nil
}

// sameWindow compares the window that the update says it is of, if it does.
func sameWindow(state, root *dict, want uint64) error {
	for _, d := range []*dict{state, root} {
		meta, ok := d.items["metadata"].(*dict)
		if !ok {
			continue
		}
		got, ok := meta.items["window"]
		if n, number := got.(int64); ok && (!number || n < 0 || uint64(n) != want) {
			return outcome.Errorf(outcome.WindowMismatch, "window %d of type %T, expected %d", n, got, want)
		}
	}
	return nil
}

// fields are those of each parameter.
var fields = []string{"idxs", "vals", "quant_params"}

// known refuses a field that is of no parameter.
func known(state *dict, m *codec.Manifest) error {
	all := map[string]bool{"metadata": true}
	for i := range m.Params {
		for _, f := range fields {
			all[m.Params[i].Name+f] = true
		}
	}
	for _, name := range slices.Sorted(maps.Keys(state.items)) {
		if !all[name] {
			return outcome.Errorf(outcome.UnknownParam, "field %.80q is of no parameter", name)
		}
	}
	return nil
}

// param reads one parameter.
func (a *archive) param(state *dict, p *codec.Param) (*codec.Coded, error) {
	for _, f := range fields {
		if _, ok := state.items[p.Name+f]; !ok {
			return nil, outcome.Errorf(outcome.MissingParam, "field %q is missing", p.Name+f)
		}
	}
	n := int64(p.Rows) * int64(p.K)
	packed, err := a.content(state.items[p.Name+"idxs"], "Byte", n*3/2)
	if err != nil {
		return nil, inField(p.Name+"idxs", err)
	}
	c := &codec.Coded{}
	if c.Codes, err = a.content(state.items[p.Name+"vals"], "Byte", n); err != nil {
		return nil, inField(p.Name+"vals", err)
	}
	if n%2 != 0 {
		return nil, outcome.Errorf(outcome.BadShape, "%s: %d values, expected an even number", plain.Name(p.Name), n)
	}
	c.Indices = make([]uint32, 0, n)
	for b := range slices.Chunk(packed, 3) {
		c.Indices = append(c.Indices, uint32(b[0])|uint32(b[1]&15)<<8, uint32(b[1]>>4)|uint32(b[2])<<4)
	}
	return c, inField(p.Name+"quant_params", a.quant(c, state.items[p.Name+"quant_params"], p))
}

func inField(name string, err error) error {
	if err == nil {
		return nil
	}
	return fmt.Errorf("%s: %w", plain.Name(name), err)
}

// quant reads the codebook.
func (a *archive) quant(c *codec.Coded, v any, p *codec.Param) error {
	var q []any
	switch v := v.(type) {
	case tuple:
		q = v
	case *list:
		q = v.items
	}
	if len(q) != 5 {
		return outcome.Errorf(outcome.BadQuant, "%T of %d, expected shift, scale, offset, lookup and dtype", v, len(q))
	}
	var err error
	if c.Shift, err = a.number(q[0]); err != nil {
		return err
	}
	if c.Scale, err = a.number(q[1]); err != nil {
		return err
	}
	b, err := a.content(q[3], "Float", int64(p.Bins))
	if err != nil {
		return outcome.Errorf(outcome.BadQuant, "lookup: %v", err)
	}
	c.Lookup = floats(b)
	return nil
}

// number reads a number, or a tensor of one.
func (a *archive) number(v any) (float32, error) {
	switch v := v.(type) {
	case int64:
		return float32(v), nil
	case float64:
		return float32(v), nil
	}
	b, err := a.content(v, "Float", 1)
	if err != nil {
		return 0, outcome.Errorf(outcome.BadQuant, "expected a number: %v", err)
	}
	return floats(b)[0], nil
}

func floats(b []byte) []float32 {
	out := make([]float32, len(b)/4)
	for i := range out {
		out[i] = math.Float32frombits(binary.LittleEndian.Uint32(b[4*i:]))
	}
	return out
}

// content returns the bytes of a tensor of n elements of a kind.
func (a *archive) content(v any, kind string, n int64) ([]byte, error) {
	t, ok := v.(*tensor)
	if !ok {
		return nil, outcome.Errorf(outcome.BadShape, "%T, expected a tensor", v)
	}
	if t.kind != kind || t.elements() != n {
		return nil, outcome.Errorf(outcome.BadShape, "%s %v, expected %d of %s", t.kind, t.shape, n, kind)
	}
	wide := storages[kind]
	return a.read(path.Join("data", t.key), t.offset*wide, n*wide)
}
