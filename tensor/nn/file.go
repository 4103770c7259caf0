package nn

import (
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// fileType returns the name of an element type in files.
func fileType(d tensor.DType) safetensors.DType {
	switch d {
	case tensor.F32:
		return safetensors.F32
	case tensor.F64:
		return safetensors.F64
	case tensor.I32:
		return safetensors.I32
	case tensor.I64:
		return safetensors.I64
	case tensor.U8:
		return safetensors.U8
	case tensor.F16:
		return safetensors.F16
	case tensor.BF16:
		return safetensors.BF16
	}
	return safetensors.Bool
}

// Save writes ps to a safetensors file at path. The file is replaced as a whole or not at
// all. Save reads one tensor at a time. It adds notes, which may be nil; Load returns
// them.
func Save(path string, ps []tensor.Named, notes map[string]string) error {
	out := make([]safetensors.Tensor, len(ps))
	for i, p := range ps {
		if err := p.T.Err(); err != nil {
			return fmt.Errorf("nn: saving %s: %w", p.Name, err)
		}
		shape := make([]int64, p.T.Rank())
		for d, n := range p.T.Shape() {
			shape[d] = int64(n)
		}
		out[i] = safetensors.Tensor{Name: p.Name, DType: fileType(p.T.DType()), Shape: shape, From: &content{t: p.T}}
	}
	return safetensors.WriteFile(path, out, &safetensors.WriteOptions{Metadata: notes})
}

// content reads the bytes of a tensor on the first Read, and releases them at their end.
type content struct {
	t    *tensor.Tensor
	read bool
	rest []byte
}

func (c *content) Read(p []byte) (int, error) {
	if !c.read {
		c.read = true
		if err := c.t.ViewBytes(func(b []byte) error {
			c.rest = slices.Clone(b)
			return nil
		}); err != nil {
			return 0, err
		}
	}
	if len(c.rest) == 0 {
		c.rest = nil
		return 0, io.EOF
	}
	n := copy(p, c.rest)
	c.rest = c.rest[n:]
	return n, nil
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
	if o == nil {
		o = &LoadOptions{}
	}
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
		var v *tensor.Tensor
		switch {
		case p.T.DType() == tensor.F32 && info.DType != safetensors.F32:
			wide = slices.Grow(wide[:0], n)[:n]
			if err := f.ReadFloat32(p.Name, wide); err != nil {
				return nil, err
			}
		default:
			raw = slices.Grow(raw[:0], int(info.Size))[:info.Size]
			if err := f.Read(p.Name, raw); err != nil {
				return nil, err
			}
		}
		s.NoGrad(func() {
			s.Scope(func(*tensor.Scope) {
				if p.T.DType() == tensor.F32 && info.DType != safetensors.F32 {
					v = tensor.From(s, wide, p.T.Shape()...)
				} else {
					v = tensor.FromBytes(s, p.T.DType(), raw, p.T.Shape()...)
				}
				err = p.T.Assign(v)
			})
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
	var missing, wrong, unexpected []string
	for _, p := range ps {
		known[p.Name] = true
		info, err := f.Lookup(p.Name)
		if err != nil {
			missing = append(missing, p.Name)
			continue
		}
		found = append(found, p)
		same := len(info.Shape) == p.T.Rank()
		for d := 0; same && d < len(info.Shape); d++ {
			same = info.Shape[d] == int64(p.T.Dim(d))
		}
		widened := p.T.DType() == tensor.F32 && (info.DType == safetensors.F16 || info.DType == safetensors.BF16)
		if !same || info.DType != fileType(p.T.DType()) && !widened {
			wrong = append(wrong, fmt.Sprintf("%s is %s%v, expected %s%v", p.Name, info.DType, info.Shape, fileType(p.T.DType()), p.T.Shape()))
		}
	}
	for _, name := range f.Names() {
		if !known[name] {
			unexpected = append(unexpected, name)
		}
	}
	var all []string
	if len(missing) > 0 && !o.Missing {
		all = append(all, "missing "+some(missing))
	}
	if len(unexpected) > 0 && !o.Unexpected {
		all = append(all, "unexpected "+some(unexpected))
	}
	if len(wrong) > 0 {
		all = append(all, some(wrong))
	}
	if len(all) > 0 {
		return nil, fmt.Errorf("%w: %s: %s", ErrMismatch, f.Name(), strings.Join(all, "; "))
	}
	return found, nil
}

// some returns the first few of many names.
func some(names []string) string {
	const most = 8
	if n := len(names); n > most {
		return fmt.Sprintf("%s and %d more", strings.Join(names[:most], ", "), n-most)
	}
	return strings.Join(names, ", ")
}
