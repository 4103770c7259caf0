package main

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// saveOptions say what a file of tensors has besides them, as JSON.
type saveOptions struct {
	Names []string          `json:"names"`
	Notes map[string]string `json:"notes"`
}

// named returns the tensors of numbers with their names.
func named(s *session, names []string, ids []int64) ([]tensor.Named, error) {
	_, ts, err := s.all(ids)
	if err != nil {
		return nil, err
	}
	if len(names) != len(ts) {
		return nil, fmt.Errorf("%w: %d names of %d tensors", errArgument, len(names), len(ts))
	}
	ps := make([]tensor.Named, len(ts))
	for i, t := range ts {
		ps[i] = tensor.Named{Name: names[i], T: t}
	}
	return ps, nil
}

// save writes tensors to a safetensors file.
func (s *session) save(path, options string, ids []int64) error {
	var o saveOptions
	if err := fromJSON(options, &o); err != nil {
		return err
	}
	ps, err := named(s, o.Names, ids)
	if err != nil {
		return err
	}
	if err := s.flush(true); err != nil {
		return err
	}
	return s.end(nn.Save(path, ps, o.Notes))
}

// checkpointOptions say what a checkpoint has besides tensors, as JSON.
type checkpointOptions struct {
	Names  []string          `json:"names"`
	Step   uint64            `json:"step"`
	Notes  map[string]string `json:"notes"`
	Random *[2]uint64        `json:"random"` // seed and counter; nil for those of now
}

// Notes of a checkpoint with the state of the session's random numbers. They are those of
// package train.
const (
	noteSeed    = "random seed"
	noteCounter = "random counter"
)

// saveCheckpoint writes tensors and the state of the random numbers to a folder, and
// replaces the checkpoint there.
func saveCheckpoint(s *session, dir, options string, ids []int64) error {
	var o checkpointOptions
	if err := fromJSON(options, &o); err != nil {
		return err
	}
	ps, err := named(s, o.Names, ids)
	if err != nil {
		return err
	}
	if err := s.flush(true); err != nil {
		return err
	}
	notes := map[string]string{}
	for k, v := range o.Notes {
		notes[k] = v
	}
	seed, counter := s.s.Random()
	if o.Random != nil {
		seed, counter = o.Random[0], o.Random[1]
	}
	notes[noteSeed], notes[noteCounter] = strconv.FormatUint(seed, 10), strconv.FormatUint(counter, 10)
	return s.end(checkpoint.Save(s.pulse, s.s, dir, ps, &checkpoint.Options{Step: o.Step, Notes: notes}))
}

// restoreCheckpoint gives tensors without a graph, and the random numbers, the values of
// a checkpoint. It returns its step and notes as JSON.
func restoreCheckpoint(s *session, dir, options string, ids []int64) (string, error) {
	var o checkpointOptions
	if err := fromJSON(options, &o); err != nil {
		return "", err
	}
	ps, err := named(s, o.Names, ids)
	if err != nil {
		return "", err
	}
	for _, p := range ps {
		if p.T.Node() != nil {
			return "", fmt.Errorf("%w: %s has a graph, expected a parameter or a value", errArgument, p.Name)
		}
	}
	c, err := checkpoint.Open(dir)
	if err != nil {
		return "", err
	}
	defer c.Close()
	seed, err := strconv.ParseUint(c.Notes[noteSeed], 10, 53)
	counter, err2 := strconv.ParseUint(c.Notes[noteCounter], 10, 64)
	if err != nil || err2 != nil {
		return "", fmt.Errorf("%w: %s: notes %q and %q are %.40q and %.40q, expected numbers", errArgument, dir, noteSeed, noteCounter, c.Notes[noteSeed], c.Notes[noteCounter])
	}
	if err := s.flush(true); err != nil {
		return "", err
	}
	if err := s.end(c.Restore(s.pulse, ps)); err != nil {
		return "", err
	}
	s.s.SetRandom(seed, counter)
	text, err := json.Marshal(map[string]any{"step": c.Step, "notes": c.Notes})
	return string(text), err
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
