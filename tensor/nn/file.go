package nn

import (
	"cmp"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// Save writes ps to a safetensors file at path. The file is replaced as a whole or not at
// all. Save reads one tensor at a time. It adds notes, which may be nil; Load returns
// them. If an operation of the session failed before, Save returns its error.
func Save(path string, ps []tensor.Named, notes map[string]string) error {
	out := make([]safetensors.Tensor, len(ps))
	for i, p := range ps {
		if err := p.T.Err(); err != nil {
			return fmt.Errorf("nn: saving %s: %w", p.Name, err)
		}
		if s := p.T.Session(); i == 0 || s != ps[i-1].T.Session() {
			// Later, its first error would look like one of the tensor that is read.
			if err := s.Sync(); err != nil {
				return fmt.Errorf("nn: saving to %s, after an earlier error of the session: %w", plain.Name(path), err)
			}
		}
		out[i] = safetensors.Tensor{Name: p.Name, DType: safetensors.TypeOf(p.T.DType()), Shape: safetensors.Dims(p.T.Shape()), From: p.T.ViewBytes}
	}
	return safetensors.WriteFile(path, out, &safetensors.WriteOptions{Metadata: notes})
}

// LoadOptions say which differences Load tolerates; nil tolerates none.
type LoadOptions struct {
	Missing    bool // parameters that the file lacks keep their values
	Unexpected bool // tensors that the model lacks are skipped
}

// Load reads ps from the safetensors file at path and returns the file's notes. A
// parameter keeps its dtype: F16 and BF16 are widened to f32, any other difference is an
// error.
//
// Load checks the file's header before it changes a parameter: ErrMismatch names each
// tensor that is missing, unexpected or of another shape or type, with the expected one.
// It reads and sends one tensor at a time; if reading fails midway, the parameters read
// before have changed.
func Load(path string, ps []tensor.Named, o *LoadOptions) (notes map[string]string, err error) {
	o = cmp.Or(o, &LoadOptions{})
	f, err := safetensors.Open(path)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	ps, err = fits(f, ps, o)
	if err != nil {
		return nil, err
	}
	var raw []byte
	var wide []float32
	for _, p := range ps {
		info, err := f.Lookup(p.Name)
		if err != nil {
			return nil, err
		}
		s, n := p.T.Session(), p.T.Elems()
		var upload func() *tensor.Tensor
		if p.T.DType() == tensor.F32 && info.DType != safetensors.F32 {
			wide = slices.Grow(wide[:0], n)[:n]
			err = f.ReadFloat32(p.Name, wide)
			upload = func() *tensor.Tensor { return tensor.From(s, wide, p.T.Shape()...) }
		} else {
			raw = slices.Grow(raw[:0], int(info.Size))[:info.Size]
			err = f.Read(p.Name, raw)
			upload = func() *tensor.Tensor { return tensor.FromBytes(s, p.T.DType(), raw, p.T.Shape()...) }
		}
		if err != nil {
			return nil, err
		}
		s.NoGrad(func() {
			s.Scope(func(*tensor.Scope) { err = p.T.Assign(upload()) })
		})
		if err == nil {
			err = s.Flush()
		}
		if err != nil {
			return nil, fmt.Errorf("nn: loading %s: %w", p.Name, err)
		}
	}
	return f.Metadata(), nil
}

// fits checks f's header against ps and returns the parameters that the file has.
func fits(f *safetensors.File, ps []tensor.Named, o *LoadOptions) ([]tensor.Named, error) {
	known := make(map[string]bool, len(ps))
	var found []tensor.Named
	var diff safetensors.Differences
	for _, p := range ps {
		known[p.Name] = true
		info, err := f.Lookup(p.Name)
		if err != nil {
			diff.Missing = append(diff.Missing, p.Name)
			continue
		}
		found = append(found, p)
		want := safetensors.TypeOf(p.T.DType())
		widened := want == safetensors.F32 && (info.DType == safetensors.F16 || info.DType == safetensors.BF16)
		if !slices.Equal(info.Shape, safetensors.Dims(p.T.Shape())) || info.DType != want && !widened {
			diff.Wrong = append(diff.Wrong, fmt.Sprintf("%s is %s%v, expected %s%v", p.Name, info.DType, info.Shape, want, p.T.Shape()))
		}
	}
	for _, name := range f.Names() {
		if !known[name] {
			diff.Unexpected = append(diff.Unexpected, name)
		}
	}
	if o.Missing {
		diff.Missing = nil
	}
	if o.Unexpected {
		diff.Unexpected = nil
	}
	if text := diff.String(); text != "" {
		return nil, fmt.Errorf("%w: %s: %s; build the network with the layers and sizes that it had when the file was written", ErrMismatch, f.Name(), text)
	}
	return found, nil
}
