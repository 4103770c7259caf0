package main

import (
	"encoding/json"
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// saveOptions say what a file of tensors has besides them, as JSON.
type saveOptions struct {
	Names []string          `json:"names"`
	Notes map[string]string `json:"notes"`
}

// save writes tensors to a safetensors file.
func (s *session) save(path, options string, ids []int64) error {
	var o saveOptions
	if err := fromJSON(options, &o); err != nil {
		return err
	}
	_, ts, err := s.all(ids)
	if err != nil {
		return err
	}
	if len(o.Names) != len(ts) {
		return fmt.Errorf("%w: %d names of %d tensors", errArgument, len(o.Names), len(ts))
	}
	ps := make([]tensor.Named, len(ts))
	for i, t := range ts {
		ps[i] = tensor.Named{Name: o.Names[i], T: t}
	}
	return s.end(nn.Save(path, ps, o.Notes))
}

// file is a safetensors file that tensors are loaded from.
type file struct{ *safetensors.File }

// openFile opens a file.
func openFile(path string) (*file, error) {
	f, err := safetensors.Open(path)
	return &file{f}, err
}

// load makes a tensor of one in a file.
func (s *session) load(f *file, name string) (int64, error) {
	info, err := f.Lookup(name)
	if err != nil {
		return 0, err
	}
	d, err := tensor.ParseDType(strings.ToLower(string(info.DType)))
	if err != nil {
		return 0, fmt.Errorf("%s: %s: %w", f.Name(), name, err)
	}
	t, err := tensor.FromFill(s.s, d, func(dst []byte) error { return f.Read(name, dst) }, toInts(info.Shape)...)
	if err = s.end(err); err != nil {
		return 0, err
	}
	return s.put(t)
}

// about describes the file as JSON: names, and its notes.
func (f *file) about() (string, error) {
	text, err := json.Marshal(map[string]any{"names": f.Names(), "notes": f.Metadata()})
	return string(text), err
}

// close closes the file.
func (f *file) close() error { return f.Close() }
