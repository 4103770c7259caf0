package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"strconv"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/optim"
)

// A checkpoint of a run holds the parameters and, under their names, the optimizer's
// state. Its notes hold everything else that the next steps depend on: the options that
// matter, the state of the random numbers, and the fingerprint of the data.

// Notes of a checkpoint. A file of weights has those of the model and of its data.
const (
	noteModel   = "model"
	noteData    = "data"
	noteFrom    = "data from"
	noteSeed    = "random seed"
	noteCounter = "random counter"
	noteExact   = "exact"

	noteRecompute = "recompute"
)

// kept returns the options that a checkpoint keeps.
func (o *Options) kept() []keptOption {
	return []keptOption{
		{"seed", &o.Seed, true}, {"batch", &o.Batch, true}, {"accumulate", &o.Accumulate, true}, {noteExact, &o.Exact, true}, {noteRecompute, &o.Recompute, false}, {"steps", &o.Steps, false},
		{"warmup", &o.Warmup, false}, {"every", &o.Every, false}, {"loss-every", &o.LossEvery, false},
		{"lr", &o.LR, false}, {"lr-last", &o.LRLast, false}, {"decay", &o.Decay, false}, {"clip", &o.Clip, false},
	}
}

// keptOption is one of them.
type keptOption struct {
	name  string
	p     any  // points to it: a *uint64, *int, *float64 or *bool
	fixed bool // another value is another run
}

// String returns the number as JSON, which gives the same bits when it is read.
func (k *keptOption) String() string {
	b, err := json.Marshal(k.p)
	if err != nil {
		return err.Error()
	}
	return string(b)
}

// zero reports whether the option has its default.
func (k *keptOption) zero() bool { return reflect.ValueOf(k.p).Elem().IsZero() }

func (k *keptOption) set(text string) error {
	if text == "null" {
		return strconv.ErrSyntax
	}
	return json.Unmarshal([]byte(text), k.p)
}

// reopen opens the checkpoint that r continues, and takes the options from it that were
// not given.
func (r *run) reopen(d Data) error {
	if r.o.Resume == "" {
		return nil
	}
	if r.o.Load != "" {
		return fmt.Errorf("%w: load %s and resume %s: the weights come from one of them", ErrOption, plain.Name(r.o.Load), plain.Name(r.o.Resume))
	}
	c, err := checkpoint.Open(r.o.Resume)
	if err != nil {
		return err
	}
	r.from = c
	if err := r.model.goesOn(c, r.o.Resume, d); err != nil {
		return err
	}
	var was Options
	old := was.kept()
	for i, k := range r.o.kept() {
		text, ok := c.Notes[k.name]
		if k.name == noteRecompute { // it changes the bits of a run with parts
			if is := k.String(); r.o.Exact > 0 && is != cmp.Or(text, "false") {
				return fmt.Errorf("%w: %s: its %s is %s; %s would be other bits: give the same again", checkpoint.ErrMismatch, plain.Name(r.o.Resume), k.name, plain.Name(cmp.Or(text, "false")), is)
			}
			continue
		}
		if k.name == noteExact {
			if !ok { // it is older than the option
				text = "0"
			}
			if is := k.String(); is != text {
				return fmt.Errorf("%w: %s: its %s is %s; %s would be other bits: give the same again", checkpoint.ErrMismatch, plain.Name(r.o.Resume), k.name, plain.Name(text), is)
			}
		}
		if err := old[i].set(text); err != nil {
			return fmt.Errorf("%w: %s: %s is %.200q, expected a number", checkpoint.ErrFormat, plain.Name(r.o.Resume), k.name, text)
		}
		switch is := k.String(); {
		case k.zero():
			_ = k.set(text)
		case k.fixed && is != text:
			return fmt.Errorf("%w: %s: its %s is %s; %s would be another run", checkpoint.ErrMismatch, plain.Name(r.o.Resume), k.name, plain.Name(text), is)
		}
	}
	if c.Step > uint64(r.o.Steps) {
		return fmt.Errorf("%w: %s: %d steps are done, expected at most the %d that the run is to have", checkpoint.ErrMismatch, plain.Name(r.o.Resume), c.Step, r.o.Steps)
	}
	r.o.Checkpoint = cmp.Or(r.o.Checkpoint, r.o.Resume)
	return nil
}

// Resumes returns an error early unless the checkpoint in the folder path is that of a
// run of the model on d, which Options.Resume can continue. Of a nil d only the model is
// checked.
func (m *Model) Resumes(path string, d Data) error {
	c, err := checkpoint.Open(path)
	if err != nil {
		return err
	}
	defer c.Close()
	return m.goesOn(c, path, d)
}

// goesOn is Resumes of the checkpoint c at path.
func (m *Model) goesOn(c *checkpoint.Checkpoint, path string, d Data) error {
	if was := c.Notes[noteModel]; was != m.Name {
		return &worded{fmt.Sprintf("the run in %s is of the model %.200q, not of %s; give that model again", plain.Name(path), was, m.Name), checkpoint.ErrMismatch}
	}
	if d == nil {
		return nil
	}
	was, is := c.Notes[noteData], fingerprint(d)
	if was == is {
		return nil
	}
	text := fmt.Sprintf("%s is other data than the run in %s was trained on%s; give that again", plain.Name(d.where()), plain.Name(path), trainedOn(c.Notes))
	if from := c.Notes[noteFrom]; filepath.IsAbs(from) && from == place(d.where()) {
		text = fmt.Sprintf("%s has changed since the run in %s was trained on it; give again what it was", plain.Name(d.where()), plain.Name(path))
	}
	return &worded{fmt.Sprintf("%s (%s, expected %.200q)", text, is, was), checkpoint.ErrMismatch}
}

// claim returns an error early unless checkpoints can be saved to their folder and would
// replace only this run's.
func (r *run) claim() error {
	if r.o.Checkpoint == "" {
		if r.o.Every > 0 {
			return &OptionError{"every", r.o.Every, "a checkpoint to save to as well"}
		}
		return nil
	}
	if r.o.Checkpoint != r.o.Resume {
		c, err := checkpoint.Open(r.o.Checkpoint)
		if err == nil {
			defer c.Close()
			return fmt.Errorf("%w: checkpoint %s holds step %d of %q; resume it, or save elsewhere", ErrOption, plain.Name(r.o.Checkpoint),
				c.Step, c.Notes[noteModel])
		}
		if !errors.Is(err, checkpoint.ErrNone) {
			return err
		}
	}
	return checkpoint.Writable(r.o.Checkpoint)
}

// restore restores the state of the checkpoint, if the run continues one, and returns the
// number of steps done. It names the tensors of the run, for errors when they are lost.
func (r *run) restore(ctx context.Context, opt optim.Optimizer) (int, error) {
	r.s.Name(r.state(opt)...)
	c := r.from
	if c == nil {
		return 0, nil
	}
	r.from = nil
	// the run saves anew in its place, and the disk must have room for that
	defer c.Close()
	if err := c.Restore(ctx, r.state(opt)); err != nil {
		return 0, err
	}
	seed, err := strconv.ParseUint(c.Notes[noteSeed], 10, 53)
	counter, err2 := strconv.ParseUint(c.Notes[noteCounter], 10, 64)
	if err != nil || err2 != nil {
		return 0, fmt.Errorf("%w: %s: %s %.40q and %s %.40q, expected numbers", checkpoint.ErrFormat, plain.Name(c.Dir()), noteSeed,
			c.Notes[noteSeed], noteCounter, c.Notes[noteCounter])
	}
	r.s.SetRandom(seed, counter)
	opt.SetSteps(int(c.Step))
	r.saved = int(c.Step)
	return r.saved, nil
}

// state returns all tensors that a run continues from.
func (r *run) state(opt optim.Optimizer) []tensor.Named {
	return append(r.net.Params(), opt.State()...)
}

// save saves the run after its last step, whose loss is given, unless that was done. It
// does not save a run whose loss is not a finite number.
func (r *run) save(ctx context.Context, opt optim.Optimizer, loss *tensor.Tensor) error {
	if r.o.Checkpoint == "" || r.saved == r.sum.Steps || loss == nil {
		return nil
	}
	x, err := loss.Item()
	if err != nil {
		return err
	}
	if err := r.finite(x); err != nil {
		return err
	}
	seed, counter := r.s.Random()
	notes := map[string]string{
		noteModel: r.model.Name, noteSeed: strconv.FormatUint(seed, 10), noteCounter: strconv.FormatUint(counter, 10),
	}
	for k, v := range r.dataNotes() {
		if v != "" {
			notes[k] = v
		}
	}
	for _, k := range r.o.kept() {
		notes[k.name] = k.String()
	}
	if err := checkpoint.Save(ctx, r.s, r.o.Checkpoint, r.state(opt), &checkpoint.Options{Step: uint64(r.sum.Steps), Notes: notes}); err != nil {
		return err
	}
	r.saved = r.sum.Steps
	r.sum.Checkpoint = r.o.Checkpoint
	return nil
}

// dataNotes returns the notes about the data of a run: its fingerprint, where it is, and
// the form of a table, empty for other data.
func (r *run) dataNotes() map[string]string {
	return map[string]string{noteData: r.print, noteFrom: place(r.sum.Data), noteTable: r.form}
}

// fingerprint returns a hash of data, which does not depend on its folder.
func fingerprint(d Data) string {
	h := sha256.New()
	n := 0
	for _, part := range d.content() {
		h.Write(part)
		n += len(part)
	}
	return fmt.Sprintf("%s of %d bytes, sha256 %.16x", d.kind(), n, h.Sum(nil))
}

// place returns the absolute path of a file or folder of data, or another name as it is.
func place(from string) string {
	if _, err := os.Stat(from); err != nil {
		return from
	}
	if path, err := filepath.Abs(from); err == nil {
		return path
	}
	return from
}

// trainedOn returns ", which was PATH" of the data that a checkpoint's notes name; empty
// if they name none.
func trainedOn(notes map[string]string) string {
	if notes[noteFrom] == "" {
		return ""
	}
	return ", which was " + plain.Name(notes[noteFrom])
}

// DataOf returns where the data was that the weights at path (as of Options.Load) learnt
// from: the absolute path of a file or a folder, or the name of a program's own. It is
// empty for weights that do not say it, such as those of Export.
func DataOf(path string) (string, error) {
	notes, err := notesAt(path)
	return notes[noteFrom], err
}
