package apply

import (
	"cmp"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"math"
	"os"

	"github.com/ringside-go/ringside/collective/element"
	"github.com/ringside-go/ringside/gather"
	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/shm/limits"
	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// The names of the files beside a model. Ranks that share the model share them.
const (
	journalSuffix  = ".journal"
	newSuffix      = ".new"
	momentumSuffix = ".momentum"
)

// File applies a result to a model in a safetensors file, once. A process that dies
// leaves the old model or the new one, and the next call with the same result goes on
// where it stopped. Parameters may be F32, F16 or BF16; tensors that the manifest does
// not name stay as they are, and so does the mode of the file. All ranks name the same
// file, or, with Replicated, each its own. An update that cannot be leaves nothing beside
// the model.
//
// It returns ErrAlreadyApplied, ErrJournal, ErrBudget, or what Update returns.
func File(ctx context.Context, ranks gather.Ranks, r *gather.Result, m *codec.Manifest, path string, o *Options) (*Stats, error) {
	f := &file{ranks: ranks, r: r, m: m, path: path, o: *o}
	f.leads = ranks.Rank() == 0 || o.Replicated
	if r.Skip {
		return &Stats{}, nil
	}
	if _, err := prepare(ranks, r, m, nil, o); err != nil {
		return nil, err
	}
	if err := f.together(ctx, f.begin); err != nil {
		return nil, err
	}
	stats := &Stats{}
	if f.j.Phase == updating {
		var err error
		if stats, err = f.update(ctx); err != nil {
			return nil, err
		}
	}
	return stats, f.together(ctx, f.commit)
}

// file is one File.
type file struct {
	ranks gather.Ranks
	r     *gather.Result
	m     *codec.Manifest
	path  string
	o     Options
	leads bool // this rank creates, renames and keeps the journal
	j     journal
}

// together has the ranks that lead do something, and all return its error or ErrAborted.
// It tells all how far the journal is.
func (f *file) together(ctx context.Context, do func() error) error {
	var mine error
	if f.leads {
		mine = do()
	}
	if err := f.barrier(ctx, mine); err != nil || f.o.Replicated {
		return err
	}
	b, err := codec.Marshal(&f.j)
	if err != nil {
		return err
	}
	if b, err = f.ranks.Broadcast(ctx, b); err != nil {
		return err
	}
	return codec.Unmarshal(b, &f.j)
}

// barrier waits for all ranks. It returns mine, or ErrAborted if another has an error.
func (f *file) barrier(ctx context.Context, mine error) error {
	flags := gather.Ready
	if mine != nil {
		flags = gather.Abort
	}
	_, err := f.ranks.Agree(ctx, "the model's file", flags, codec.Digest{})
	return cmp.Or(mine, err)
}

// begin reads the journal and makes the new files, unless they were begun.
func (f *file) begin() error {
	j, err := readJournal(f.path + journalSuffix)
	if err != nil {
		return err
	}
	want := journal{Phase: updating, Window: f.r.Window, Result: f.r.Digest(), Config: fmt.Sprintf("%+v", f.o.Optimizer)}
	switch {
	case j != nil && j.Phase == finished && f.r.Window <= j.Window:
		return fmt.Errorf("%w: window %d, %s has window %d", ErrAlreadyApplied, f.r.Window, plain.Name(f.path), j.Window)
	case j != nil && j.Phase != finished:
		if j.Window != want.Window || j.Result != want.Result || j.Config != want.Config {
			return fmt.Errorf("%w: %s: window %d, result %v, %s was begun; expected to go on with it, not with window %d, result %v, %s",
				ErrJournal, plain.Name(f.path), j.Window, j.Result, j.Config, want.Window, want.Result, want.Config)
		}
		f.j = *j
		return nil
	}
	from, _, err := openFrom(f.path, f.m)
	if err != nil {
		return err
	}
	from.Close()
	for _, suffix := range f.suffixes() {
		if err := f.create(suffix); err != nil {
			return err
		}
	}
	f.j = want
	return f.j.write(f.path + journalSuffix)
}

// suffixes are those of the model and, where there is any, of its momentum.
func (f *file) suffixes() []string {
	if f.o.Optimizer.Momentum != 0 {
		return []string{"", momentumSuffix}
	}
	return []string{""}
}

// create makes a new file: a copy of the model, for the tensors that the manifest does
// not name and for the layout; or momentum of zeros.
func (f *file) create(suffix string) error {
	old := f.path + suffix
	if _, err := os.Stat(old); suffix != "" && errors.Is(err, os.ErrNotExist) {
		if err := f.zeros(old); err != nil {
			return err
		}
	}
	src, err := os.Open(old)
	if err != nil {
		return fmt.Errorf("apply: %w", plain.Path(err))
	}
	defer src.Close()
	model, err := os.Stat(f.path)
	if err != nil {
		return fmt.Errorf("apply: %w", plain.Path(err))
	}
	dst, err := os.OpenFile(old+newSuffix, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return fmt.Errorf("apply: %w", plain.Path(err))
	}
	// it takes the model's place, and is written to
	err = dst.Chmod(model.Mode().Perm() | 0o600)
	if err == nil {
		_, err = io.Copy(dst, src)
	}
	if err = limits.Written(old, errors.Join(err, dst.Sync(), dst.Close())); err != nil {
		return errors.Join(fmt.Errorf("apply: %w", plain.Path(err)), plain.Path(os.Remove(dst.Name())))
	}
	return nil
}

// zeros makes the momentum of a model that has none, in F32.
func (f *file) zeros(path string) error {
	var all []safetensors.Tensor
	for i := range f.m.Params {
		p := &f.m.Params[i]
		all = append(all, safetensors.Tensor{Name: p.Name, DType: safetensors.F32, Shape: p.Shape, From: func(write func([]byte) error) error {
			zeros := make([]byte, 64<<10)
			for left := 4 * p.Elements(); left > 0; left -= int64(len(zeros)) {
				zeros = zeros[:min(int64(len(zeros)), left)]
				if err := write(zeros); err != nil {
					return err
				}
			}
			return nil
		}})
	}
	return safetensors.WriteFile(path, all, nil)
}

// update writes the new files.
func (f *file) update(ctx context.Context) (*Stats, error) {
	w, err := openPair(f.path, f.m)
	if err != nil {
		return nil, err
	}
	defer w.close()
	o := f.o
	if o.Optimizer.Momentum != 0 {
		mom, err := openPair(f.path+momentumSuffix, f.m)
		if err != nil {
			return nil, err
		}
		defer mom.close()
		o.Momentum = mom
	}
	o.First = f.j.Next
	o.AfterParam = func(ctx context.Context, p int) error {
		err := w.to.Sync()
		if mom, ok := o.Momentum.(*pair); ok {
			err = errors.Join(err, mom.to.Sync())
		}
		if err = f.barrier(ctx, err); err == nil && f.leads {
			f.j.Next = p + 1
			err = f.j.write(f.path + journalSuffix)
		}
		if err == nil && f.o.AfterParam != nil {
			err = f.o.AfterParam(ctx, p)
		}
		return err
	}
	return Update(ctx, f.ranks, f.r, f.m, w, &o)
}

// commit renames the new files. A file that is not there was renamed before a crash.
func (f *file) commit() error {
	if f.j.Phase == updating {
		f.j.Phase = committing
		if err := f.j.write(f.path + journalSuffix); err != nil {
			return err
		}
	}
	for _, suffix := range f.suffixes() {
		err := os.Rename(f.path+suffix+newSuffix, f.path+suffix)
		if err != nil && !errors.Is(err, os.ErrNotExist) {
			return fmt.Errorf("apply: %w", plain.Path(err))
		}
	}
	f.j.Phase = finished
	return f.j.write(f.path + journalSuffix)
}

// pair is an old file, which is read, and the new one of the same layout.
type pair struct {
	from *safetensors.File
	src  *os.File
	to   *os.File
	info []safetensors.Info // by parameter
	buf  []byte
}

// openFrom opens a file that has all parameters, and says where each is.
func openFrom(path string, m *codec.Manifest) (*safetensors.File, []safetensors.Info, error) {
	from, err := safetensors.Open(path)
	if err != nil {
		return nil, nil, err
	}
	var info []safetensors.Info
	for i := range m.Params {
		q := &m.Params[i]
		t, err := from.Lookup(q.Name)
		if err == nil && (t.Elements() != q.Elements() || size(t.DType) == 0) {
			err = fmt.Errorf("apply: %s: %s is %s %v, expected F32, F16 or BF16 %v", plain.Name(path), plain.Name(q.Name), t.DType, t.Shape, q.Shape)
		}
		if err != nil {
			from.Close()
			return nil, nil, err
		}
		info = append(info, t)
	}
	return from, info, nil
}

func openPair(path string, m *codec.Manifest) (*pair, error) {
	from, info, err := openFrom(path, m)
	if err != nil {
		return nil, err
	}
	p := &pair{from: from, info: info}
	if p.src, err = os.Open(path); err == nil {
		p.to, err = os.OpenFile(path+newSuffix, os.O_RDWR, 0)
	}
	if err != nil {
		p.close()
		return nil, fmt.Errorf("apply: %w", plain.Path(err))
	}
	return p, nil
}

func (p *pair) close() {
	p.from.Close()
	if p.src != nil {
		p.src.Close()
	}
	if p.to != nil {
		p.to.Close()
	}
}

func size(t safetensors.DType) int {
	switch t {
	case safetensors.F32:
		return 4
	case safetensors.F16, safetensors.BF16:
		return 2
	}
	return 0
}

// each calls f for every line of every run of rows that lie side by side in one band:
// runs of n rows, whose W·n elements at byte off are those from at on in each row.
func (p *pair) each(q *codec.Param, i, from, n int, f func(off int64, row, rows, at int) error) error {
	width, wide := q.Width(), size(p.info[i].DType)
	for row := from; row < from+n; {
		line, col := q.Origin(row)
		run := min(from+n-row, q.Across-row%q.Across)
		for y := range q.H {
			off := p.info[i].Offset + (int64(line+y)*int64(width)+int64(col))*int64(wide)
			if err := f(off, row-from, run, y*q.W); err != nil {
				return err
			}
		}
		row += run
	}
	return nil
}

// Read implements Weights.
func (p *pair) Read(q *codec.Param, i, from, n int, dst []float32) error {
	t := p.info[i].DType
	return p.each(q, i, from, n, func(off int64, row, rows, at int) error {
		p.buf = resize(p.buf, rows*q.W*size(t))
		if _, err := p.src.ReadAt(p.buf, off); err != nil {
			return fmt.Errorf("apply: reading %s: %w", plain.Name(q.Name), plain.Path(err))
		}
		for k := range rows {
			t.Widen(dst[(row+k)*q.TotalK+at:][:q.W], p.buf[k*q.W*size(t):])
		}
		return nil
	})
}

// Write implements Weights.
func (p *pair) Write(q *codec.Param, i, from, n int, src []float32) error {
	t := p.info[i].DType
	return p.each(q, i, from, n, func(off int64, row, rows, at int) error {
		p.buf = resize(p.buf, rows*q.W*size(t))
		for k := range rows {
			narrow(p.buf[k*q.W*size(t):], src[(row+k)*q.TotalK+at:][:q.W], t)
		}
		if _, err := p.to.WriteAt(p.buf, off); err != nil {
			return fmt.Errorf("apply: writing %s: %w", plain.Name(q.Name), plain.Path(err))
		}
		return nil
	})
}

func narrow(b []byte, src []float32, t safetensors.DType) {
	for i, v := range src {
		switch t {
		case safetensors.F32:
			binary.LittleEndian.PutUint32(b[4*i:], math.Float32bits(v))
		case safetensors.F16:
			binary.LittleEndian.PutUint16(b[2*i:], uint16(element.ToFloat16(v)))
		default:
			binary.LittleEndian.PutUint16(b[2*i:], uint16(element.ToBFloat16(v)))
		}
	}
}
