package checkpoint

import (
	"bytes"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// Manifest lists the contents of a checkpoint. In its file it is one JSON object, whose
// Sum is the SHA-256 of the same object, written without spaces, with an empty Sum.
type Manifest struct {
	Format  string            `json:"format"`  // formatName
	Version int               `json:"version"` // Version
	Step    uint64            `json:"step"`
	Notes   map[string]string `json:"notes"`
	Files   []File            `json:"files"`
	Tensors []Tensor          `json:"tensors"` // by name
	Sum     string            `json:"sum"`
}

// File is a safetensors file.
type File struct {
	Path  string `json:"path"` // below the folder, with slashes
	Bytes int64  `json:"bytes"`
}

// Tensor is a tensor and its slices, which cover it exactly.
type Tensor struct {
	Name   string            `json:"name"`
	DType  safetensors.DType `json:"dtype"`
	Shape  []int             `json:"shape"`
	Slices []Slice           `json:"slices"`
}

// Slice is the part of a tensor that begins at Start and has the size Shape, one number a
// dim. It lies, dense and row-major, in a file, as the tensor of the same name.
type Slice struct {
	// index in Manifest.Files; no two slices of a tensor have the same
	File   int    `json:"file"`
	Start  []int  `json:"start"`
	Shape  []int  `json:"shape"`
	Offset int64  `json:"offset"` // of its first byte in the file
	Sum    string `json:"sha256"` // of its bytes
}

// Version is the version of manifests.
//
// History:
//
//	1  first
const Version = 1

const (
	formatName = "ringside checkpoint"

	maxManifest = 64 << 20 // bytes; some 100,000 tensors
	maxFiles    = 1024     // a file a worker
)

// encode returns the manifest's bytes, its Sum included.
func (m *Manifest) encode() ([]byte, error) {
	m.Sum = ""
	b, err := json.Marshal(m)
	if err != nil {
		return nil, fmt.Errorf("checkpoint: manifest: %w", err)
	}
	sum := sha256.Sum256(b)
	m.Sum = hex.EncodeToString(sum[:])
	var out bytes.Buffer
	if b, err = json.Marshal(m); err == nil {
		err = json.Indent(&out, b, "", " ")
	}
	if err != nil {
		return nil, fmt.Errorf("checkpoint: manifest: %w", err)
	}
	out.WriteByte('\n')
	if out.Len() > maxManifest {
		return nil, fmt.Errorf("checkpoint: a manifest of %d tensors has %d bytes, at most %d can be read", len(m.Tensors), out.Len(), maxManifest)
	}
	return out.Bytes(), nil
}

// parse reads a manifest and checks it by itself. name stands in errors: ErrFormat for a
// text that no Save writes, and ErrDamaged for one that was changed after it was written.
func parse(src []byte, name string) (*Manifest, error) {
	name = plain.Name(name)
	bad := func(is error, format string, a ...any) (*Manifest, error) {
		return nil, fmt.Errorf("%w: %s: %s", is, name, fmt.Sprintf(format, a...))
	}
	if len(src) > maxManifest {
		return bad(ErrFormat, "%d bytes, expected at most %d", len(src), maxManifest)
	}
	m := &Manifest{}
	d := json.NewDecoder(bytes.NewReader(src))
	d.DisallowUnknownFields()
	switch err := d.Decode(m); {
	case err == io.EOF || err == io.ErrUnexpectedEOF:
		return bad(ErrDamaged, "its %d bytes end in the middle", len(src))
	case err != nil:
		return bad(ErrFormat, "line %d: %v", line(src, err), err)
	}
	if rest := bytes.TrimSpace(src[d.InputOffset():]); len(rest) > 0 {
		return bad(ErrFormat, "%d bytes after its end", len(rest))
	}
	if m.Format != formatName || m.Version != Version {
		return bad(ErrFormat, "format %.40q of version %d, expected %q of version %d", m.Format, m.Version, formatName, Version)
	}
	is := m.Sum
	m.Sum = ""
	b, err := json.Marshal(m)
	if err != nil {
		return bad(ErrFormat, "%v", err)
	}
	if sum := sha256.Sum256(b); hex.EncodeToString(sum[:]) != is {
		return bad(ErrDamaged, "sum is %.80q, its content has %x", is, sum)
	}
	m.Sum = is
	if err := m.check(); err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrFormat, name, err)
	}
	return m, nil
}

// line returns the line in src of a JSON error, counted from 1.
func line(src []byte, err error) int {
	var syntax *json.SyntaxError
	var kind *json.UnmarshalTypeError
	off := int64(0)
	if errors.As(err, &syntax) {
		off = syntax.Offset
	} else if errors.As(err, &kind) {
		off = kind.Offset
	}
	return 1 + bytes.Count(src[:min(off, int64(len(src)))], []byte{'\n'})
}

// check returns an error unless the manifest is consistent by itself.
func (m *Manifest) check() error {
	if len(m.Files) > maxFiles {
		return fmt.Errorf("%d files, expected at most %d", len(m.Files), maxFiles)
	}
	for i, f := range m.Files {
		if !filepath.IsLocal(f.Path) || strings.ContainsAny(f.Path, "\\\x00") || f.Bytes < 0 {
			return fmt.Errorf("file %d is %.200q of %d bytes, expected a path below the folder", i, f.Path, f.Bytes)
		}
	}
	for i := range m.Tensors {
		t := &m.Tensors[i]
		if !utf8.ValidString(t.Name) || i > 0 && t.Name <= m.Tensors[i-1].Name {
			return fmt.Errorf("tensor %d is %.200q, expected names in order, none twice", i, t.Name)
		}
		if err := m.checkTensor(t); err != nil {
			return fmt.Errorf("tensor %.200q: %w", t.Name, err)
		}
	}
	return nil
}

func (m *Manifest) checkTensor(t *Tensor) error {
	if len(t.Shape) > tensor.MaxRank {
		return fmt.Errorf("shape %v has %d dims, expected at most %d", t.Shape, len(t.Shape), tensor.MaxRank)
	}
	all, err := t.bytes(t.Shape)
	if err != nil {
		return err
	}
	covered := int64(0)
	for i := range t.Slices {
		s := &t.Slices[i]
		if s.File < 0 || s.File >= len(m.Files) {
			return fmt.Errorf("slice %d is in file %d, there are %d", i, s.File, len(m.Files))
		}
		if len(s.Start) != len(t.Shape) || len(s.Shape) != len(t.Shape) {
			return fmt.Errorf("slice %d begins at %v and has shape %v, expected %d dims", i, s.Start, s.Shape, len(t.Shape))
		}
		for d, n := range t.Shape {
			if s.Start[d] < 0 || s.Shape[d] < 0 || s.Start[d] > n || s.Shape[d] > n-s.Start[d] {
				return fmt.Errorf("slice %d begins at %v and has shape %v, which is not within %v", i, s.Start, s.Shape, t.Shape)
			}
		}
		n, _ := t.bytes(s.Shape) // within t.Shape
		if have := m.Files[s.File].Bytes; s.Offset < 0 || s.Offset > have || n > have-s.Offset {
			return fmt.Errorf("slice %d of %d bytes at %d of file %s, which has %d", i, n, s.Offset, plain.Name(m.Files[s.File].Path), have)
		}
		if b, err := hex.DecodeString(s.Sum); err != nil || len(b) != sha256.Size {
			return fmt.Errorf("slice %d has sha256 %.80q, expected %d hex digits", i, s.Sum, 2*sha256.Size)
		}
		for j := range t.Slices[:i] {
			o := &t.Slices[j]
			if o.File == s.File {
				return fmt.Errorf("slices %d and %d are both in file %s", j, i, plain.Name(m.Files[s.File].Path))
			}
			if n > 0 && overlap(o, s) {
				return fmt.Errorf("slices %d (from %v, shape %v) and %d (from %v, shape %v) overlap", j, o.Start, o.Shape, i, s.Start, s.Shape)
			}
		}
		covered += n
	}
	// Slices that do not overlap cover a tensor if they have as many bytes as it has.
	if covered != all {
		return fmt.Errorf("its slices have %d bytes, shape %v has %d", covered, t.Shape, all)
	}
	return nil
}

// bytes returns the bytes of a part of t, which fit an int64.
func (t *Tensor) bytes(shape []int) (int64, error) { return t.DType.Bytes(safetensors.Dims(shape)) }

// overlap reports whether two slices of a tensor share an element.
func overlap(a, b *Slice) bool {
	for d := range a.Start {
		if a.Start[d]+a.Shape[d] <= b.Start[d] || b.Start[d]+b.Shape[d] <= a.Start[d] {
			return false
		}
	}
	return true
}
