package train

import (
	"cmp"
	"context"
	"fmt"
	"math"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
)

// Model is a model that Train trains: one of Models, or a program's own. Checkpoints and
// saved weights have its name. Predict is for rows of a table; a program that predicts
// from other data calls Build, has nn.Load read the file of Options.Save into the
// network's Params, calls nn.SetTraining(false, network), and Forward in Session.NoGrad.
// Train and Evaluate leave the training mode for what is held out.
type Model struct {
	Name     string
	Doc      string  // one line
	Data     string  // its kind of data: "images", "text" or "table"
	Defaults Options // for zero fields of the options of a run

	// Build makes the network with its first weights, of which Session.Seed decides the
	// random ones. It makes the same layers every time. From images [n, 1, Side, Side] or
	// rows of a table [n, columns] of f32 the network computes [n, classes], or [n, 1]
	// for a number; from tokens [n, length] of i32 it computes [n, length, 256]. A
	// language model writes samples if it has the methods Generate and Stream of
	// model.Qwen3. The interfaces nn.Parted, nn.Recomputer and nn.Signaler are for stages
	// of a pipeline, Options.Recompute and Options.NameParams.
	Build func(s *tensor.Session) (nn.Layer, error)

	Side    int // rows and columns of images; 0 for any
	Classes int // most that images or tables may have; 0 for any
	Context int // tokens that a language model sees at once
}

// Data is a model's training data: *Images, *Text or *Table.
type Data interface {
	kind() string      // Model.Data
	where() string     // file or folder
	unit() string      // what a rate counts
	content() [][]byte // what is learnt from
	check(m *Model) error
	// of what the network computed for some examples
	loss(out, y *tensor.Tensor) *tensor.Tensor
	steps(r *run) (next feed, itemsPerStep int, err error)
	evaluate(ctx context.Context, r *run) error
	sample(ctx context.Context, r *run) error
}

// Find returns the model of that name, or ErrModel, which lists all.
func Find(name string) (*Model, error) {
	for _, m := range Models() {
		if m.Name == name {
			return m, nil
		}
	}
	return nil, fmt.Errorf("%w: %q; there are %s", ErrModel, name, strings.Join(modelNames(), ", "))
}

// modelNames returns the names of the models in the list.
func modelNames() (all []string) {
	for _, m := range Models() {
		all = append(all, m.Name)
	}
	return all
}

// Load loads the model's data: path is a folder of images in MNIST's format, a file or
// folder of text, or a file of comma-separated values whose last column is the class. An
// empty path is Fashion-MNIST in a distribution's folder, or the text that comes with Go;
// there is no such table.
func (m *Model) Load(path string) (Data, error) {
	switch m.Data {
	case "images":
		return LoadImages(path)
	case "table":
		return LoadTable(path, nil)
	}
	return LoadText(path)
}

// network makes the network.
func (m *Model) network(s *tensor.Session) (nn.Layer, error) {
	if m.Build == nil {
		return nil, fmt.Errorf("%w: %q has no Build, expected a function that makes the network", ErrModel, m.Name)
	}
	net, err := m.Build(s)
	if err == nil && net == nil {
		err = fmt.Errorf("%w: Build of %q returned neither a network nor an error", ErrModel, m.Name)
	}
	return net, err
}

// takes returns an error for data that does not fit the model.
func (m *Model) takes(d Data) error {
	if d.kind() != m.Data {
		return fmt.Errorf("%w: %s learns from %s, and %s holds %s", ErrData, m.Name, m.Data, plain.Name(d.where()), d.kind())
	}
	return d.check(m)
}

// Train trains the model on d in the session s, evaluates it on the held-out part of d,
// and writes a sample if it is a language model. If ctx is done between two steps, Train
// saves and returns the state so far without evaluating it, and returns no error. With an
// error it also returns the summary so far.
//
// The session's own context should not be ctx: that would cancel a step instead of ending
// between two.
func (m *Model) Train(ctx context.Context, s *tensor.Session, d Data, o *Options) (*Summary, error) {
	r := &run{s: s, model: m, loss: d.loss, o: *cmp.Or(o, &Options{})}
	resumed := r.reopen(d)
	defer func() {
		if r.from != nil { // restore did not run
			r.from.Close()
		}
	}()
	r.o = r.o.filled(m.Defaults)
	r.sum = &Summary{Model: m.Name, Engine: s.Engine().Name(), Data: d.where(), Unit: d.unit(),
		Seed: r.o.Seed, Batch: r.o.Batch, Accumulate: r.o.Accumulate, Recompute: r.o.Recompute, Exact: r.o.Exact, Planned: r.o.Steps}
	if resumed != nil {
		return r.sum, resumed
	}
	if err := r.o.check(); err != nil {
		return r.sum, err
	}
	if err := m.takes(d); err != nil {
		return r.sum, err
	}
	if r.o.Save != "" { // fail now rather than after the training
		if err := writable(r.o.Save); err != nil {
			return r.sum, err
		}
	}
	if err := r.claim(); err != nil {
		return r.sum, err
	}
	if r.o.Checkpoint != "" || r.o.Save != "" {
		r.print = fingerprint(d)
	}
	s.Seed(r.o.Seed)
	var err error
	if r.net, err = m.network(s); err != nil {
		return r.sum, err
	}
	if r.o.Save != "" {
		if err := mayConfigure(r.o.Save, r.net); err != nil {
			return r.sum, err
		}
	}
	if r.o.Load != "" {
		if err := m.load(ctx, r.o.Load, r.net.Params()); err != nil {
			return r.sum, err
		}
	}
	if d, err = r.fit(d); err != nil {
		return r.sum, err
	}
	if r.form, err = formNote(formOf(d)); err != nil {
		return r.sum, err
	}
	if err := r.recompute(); err != nil {
		return r.sum, err
	}
	if r.pipe, err = newPipeline(m, r.net, &r.o); err != nil {
		return r.sum, err
	}
	if r.pipe != nil {
		r.sum.Micro, r.sum.Stages = r.o.MicroBatches, len(r.pipe.stages)
	}
	r.write = func(ctx context.Context) error {
		nn.SetTraining(false, r.net)
		defer nn.SetTraining(true, r.net)
		return d.sample(ctx, r)
	}
	next, items, err := d.steps(r)
	if err != nil {
		return r.sum, err
	}
	if err := r.train(ctx, r.apart(next), items*r.o.Accumulate*r.o.MicroBatches); err != nil {
		return r.sum, err
	}
	if r.o.Exact > 0 {
		var err error
		if r.sum.ExactWeights, err = digest(r.net.Params()); err != nil {
			return r.sum, err
		}
	}
	if r.o.Save != "" {
		if _, err := m.save(r.o.Save, r.net, r.dataNotes()); err != nil {
			return r.sum, err
		}
	}
	if r.sum.Stopped {
		return r.sum, nil
	}
	if err := r.evaluate(ctx, d); err != nil {
		return r.sum, err
	}
	return r.sum, r.write(ctx)
}

// evaluate evaluates the model on the held-out part of d. If the loss is not a finite
// number it returns ErrDiverged, and a summary that JSON has numbers for.
func (r *run) evaluate(ctx context.Context, d Data) error {
	nn.SetTraining(false, r.net)
	defer nn.SetTraining(true, r.net)
	if err := d.evaluate(ctx, r); err != nil {
		return err
	}
	if x := r.sum.HeldOut; math.IsNaN(x) || math.IsInf(x, 0) {
		r.sum.HeldOut, r.sum.Accuracy, r.sum.BitsPerByte, r.sum.Explained = 0, nil, nil, nil
		return fmt.Errorf("%w: %v on the held-out part of %s", ErrDiverged, x, plain.Name(d.where()))
	}
	return nil
}
