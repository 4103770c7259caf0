package train

import (
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/checkpoint"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/nn/model"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

// weightsName is the file of weights in a folder that is no checkpoint, as other
// libraries name it.
const weightsName = "model.safetensors"

// digest returns the SHA-256 of ps in hexadecimal: of each tensor a line with its name,
// type and shape, and its bytes.
func digest(ps []tensor.Named) (string, error) {
	h := sha256.New()
	for _, p := range ps {
		fmt.Fprintf(h, "%s %v%v\n", p.Name, p.T.DType(), p.T.Shape())
		if err := p.T.ViewBytes(func(b []byte) error {
			h.Write(b)
			return nil
		}); err != nil {
			return "", fmt.Errorf("train: reading %s: %w", p.Name, err)
		}
	}
	return hex.EncodeToString(h.Sum(nil)), nil
}

// weightsAt returns the file of weights at path: path itself, model.safetensors in the
// folder path, or "" for a checkpoint's folder.
func weightsAt(path string) (file string, err error) {
	st, err := os.Stat(path)
	if err != nil {
		return "", fmt.Errorf("train: weights: %w", plain.Path(err))
	}
	if !st.IsDir() {
		return path, nil
	}
	if _, err := os.Stat(filepath.Join(path, weightsName)); !errors.Is(err, fs.ErrNotExist) {
		return filepath.Join(path, weightsName), plain.Path(err)
	}
	return "", nil
}

// ModelOf returns the model whose weights are at path: a file or a folder, as of
// Options.Load, that a training run wrote. It returns ErrModel if they are of none.
func ModelOf(path string) (*Model, error) {
	notes, err := notesAt(path)
	if err != nil {
		return nil, err
	}
	name, said := notes[noteModel]
	m, err := Find(name)
	if err == nil {
		return m, nil
	}
	if notes[noteTable] != "" {
		return nil, &worded{plain.Name(path) + " has weights of a program's own model, which learnt from a table; the program that trained it takes them" + takesTable(notes), ErrModel}
	}
	if said {
		return nil, fmt.Errorf("%s has weights of a program's own model, which only that program can take: it evaluates them (Model.Evaluate), predicts (Model.Predict), writes them for other libraries (Model.Export, or Options.Save while it trains): %w", plain.Name(path), err)
	}
	if file, errAt := weightsAt(path); errAt == nil && file != "" {
		path = file // in the folder
	}
	return nil, &worded{plain.Name(path) + " does not say which model it is of; there are " + strings.Join(modelNames(), ", "), ErrModel}
}

// takesTable returns the command line of the example that takes weights of a table as
// those with notes, to be added to an error; empty if the notes have no valid form.
func takesTable(notes map[string]string) string {
	form, err := formIn(notes, "")
	if err != nil || form == nil {
		return ""
	}
	example := "classifier"
	if form.Target != nil {
		example = "ownmodel"
	}
	return fmt.Sprintf(", such as bin/%s -load FILE -predict rows.csv", example)
}

// openKept opens the checkpoint in a folder that has no file of weights.
func openKept(path string) (*checkpoint.Checkpoint, error) {
	c, err := checkpoint.Open(path)
	if errors.Is(err, checkpoint.ErrNone) {
		err = fmt.Errorf("%w, nor is %s", err, weightsName)
	}
	return c, err
}

// load gives the parameters the weights at path, a file or a folder. An error says so if
// they are another model's, or none of a model of the list.
func (m *Model) load(ctx context.Context, path string, params []tensor.Named) error {
	err := load(ctx, path, params)
	if err == nil {
		return nil
	}
	if is, unknown := ModelOf(path); unknown == nil && is.Name != m.Name {
		for _, mismatch := range []error{nn.ErrMismatch, checkpoint.ErrMismatch} {
			if errors.Is(err, mismatch) { // whose list of tensors says no more
				err = mismatch
			}
		}
		return fmt.Errorf("%s holds weights of %s, expected those of %s: %w", plain.Name(path), is.Name, m.Name, err)
	}
	if _, own := Find(m.Name); own == nil && errors.Is(err, nn.ErrMismatch) {
		return m.unlike(path, params, err)
	}
	return err
}

// unlike returns a shorter form of err, the error that the file of weights at path does
// not fit m. It has no advice on how to build the network, since the layers of a model of
// the list are fixed.
func (m *Model) unlike(path string, params []tensor.Named, err error) error {
	file, e := weightsAt(path)
	if e != nil {
		return err
	}
	f, e := safetensors.Open(file)
	if e != nil {
		return err
	}
	defer f.Close()
	has, wants, differs := f.Names(), make([]string, len(params)), ""
	for i, p := range params {
		wants[i] = p.Name
		info, e := f.Lookup(p.Name)
		if dims := safetensors.Dims(p.T.Shape()); e == nil && differs == "" && !slices.Equal(info.Shape, dims) {
			differs = fmt.Sprintf("; its %s has the shape %v, expected %v", p.Name, info.Shape, dims)
		}
	}
	// suchAs names the first that the others lack.
	suchAs := func(names, others []string) string {
		text := plain.Count(len(names), "tensor")
		if i := slices.IndexFunc(names, func(n string) bool { return !slices.Contains(others, n) }); i >= 0 {
			text += " such as " + plain.Names(names[i:i+1])
			differs = ""
		}
		return text
	}
	have, want := suchAs(has, wants), suchAs(wants, has)
	if slices.Equal(has, slices.Sorted(slices.Values(wants))) && differs == "" {
		return err // of other types
	}
	if f.Metadata()[noteTable] != "" {
		differs = "; it learnt from a table"
	}
	return &worded{fmt.Sprintf("%s is not weights of %s: it has %s, expected %s%s", plain.Name(file), m.Name, have, want, differs), nn.ErrMismatch}
}

// Predict returns what the model with the weights at path (as of Options.Load) computes
// of the rows of t: a number for each class, of which the largest is that of the row's
// class, or the number to predict, in the unit of the table that the weights learnt from.
// It finds columns by their names, as Evaluate does; classes and numbers to predict may
// be missing. FormOf returns the form with which t is to be read, and the names of
// classes.
func (m *Model) Predict(ctx context.Context, s *tensor.Session, t *data.Table, path string) ([]float32, error) {
	form, err := FormOf(path)
	if err != nil {
		return nil, err
	}
	bare := *t
	bare.Class, bare.Target = make([]int64, t.Rows), nil
	if err := whole(&bare, "the rows to predict", 1); err != nil {
		return nil, err
	}
	if t, err = (fitting{form, "the rows to predict", "the weights in " + plain.Name(path)}).rows(t); err != nil {
		return nil, err
	}
	net, err := m.open(ctx, s, path)
	if err != nil {
		return nil, err
	}
	var all []float32
	for first, columns := 0, len(t.Names); first < t.Rows; first += evalRows {
		if err := ctx.Err(); err != nil {
			return nil, err
		}
		end := min(first+evalRows, t.Rows)
		out := nn.Result(s, func() *tensor.Tensor {
			return net.Forward(tensor.From(s, t.X[first*columns:end*columns], end-first, columns))
		})
		x, err := tensor.Data[float32](out)
		out.Free()
		if err != nil {
			return nil, err
		}
		all = append(all, x...)
	}
	return rescaled(all, form.TargetScale, nil), nil
}

// load gives the parameters the weights at path, of any model.
func load(ctx context.Context, path string, params []tensor.Named) error {
	file, err := weightsAt(path)
	if err != nil {
		return err
	}
	if file != "" {
		_, err := nn.Load(file, params, nil)
		return err
	}
	c, err := openKept(path)
	if err != nil {
		return err
	}
	defer c.Close()
	return c.RestorePart(ctx, params)
}

// Fits returns an error early unless the weights at path (as of Options.Load) are those
// of the model. It loads them into the session s.
func (m *Model) Fits(ctx context.Context, s *tensor.Session, path string) error {
	_, err := m.open(ctx, s, path)
	return err
}

// open builds the model with the weights at path, not in training mode.
func (m *Model) open(ctx context.Context, s *tensor.Session, path string) (nn.Layer, error) {
	net, err := m.network(s)
	if err != nil {
		return nil, err
	}
	nn.SetTraining(false, net)
	return net, m.load(ctx, path, net.Params())
}

// Continue has the language model with the weights at path (as of Options.Load) continue
// prompt, which is not empty, by n bytes, and yields each as soon as it is known. An
// error is the last that it yields, that of ctx included.
func (m *Model) Continue(ctx context.Context, s *tensor.Session, path string, prompt []byte, n int, o model.Sampling) iter.Seq2[byte, error] {
	return func(yield func(byte, error) bool) {
		net, err := m.open(ctx, s, path)
		w, ok := net.(writer)
		if err == nil && !ok {
			err = fmt.Errorf("%w: %s learns from %s and writes no text", ErrModel, m.Name, m.Data)
		}
		if err != nil {
			yield(0, err)
			return
		}
		for next, err := range w.Stream(ctx, tokensOf(prompt), n, o) {
			if !yield(byte(next), err) {
				return
			}
		}
	}
}

// Evaluation is how a model does on data that it was not trained on.
type Evaluation struct {
	Model       string   `json:"model"`
	Engine      string   `json:"engine"`
	Data        string   `json:"data"`
	TrainedOn   string   `json:"trained_on,omitempty"` // if it is other data, and known
	Weights     string   `json:"weights"`
	Parameters  int      `json:"parameters"`
	HeldOut     float64  `json:"held_out_loss"` // as of Summary
	Accuracy    *float64 `json:"accuracy,omitempty"`
	BitsPerByte *float64 `json:"bits_per_byte,omitempty"`
	Explained   *float64 `json:"variance_explained,omitempty"`
	Seconds     float64  `json:"seconds"`
}

// Evaluate evaluates the model with the weights at path (as of Options.Load) on the
// held-out part of d, as Train does in the end. It finds columns and classes of a table
// by the names that Train has written with the weights, and returns ErrData for other
// ones. Evaluation.TrainedOn tells of weights that learnt from other data.
func (m *Model) Evaluate(ctx context.Context, s *tensor.Session, d Data, path string) (*Evaluation, error) {
	begin := time.Now()
	if err := m.takes(d); err != nil {
		return nil, err
	}
	net, err := m.open(ctx, s, path)
	if err != nil {
		return nil, err
	}
	notes, err := notesAt(path)
	if err != nil {
		return nil, err
	}
	trained := ""
	if print, ok := notes[noteData]; ok && print != fingerprint(d) {
		trained = cmp.Or(notes[noteFrom], print)
	}
	if d, err = fitted(d, notes, path); err != nil {
		return nil, err
	}
	r := &run{s: s, model: m, net: net, sum: &Summary{}}
	if err := r.evaluate(ctx, d); err != nil {
		return nil, fmt.Errorf("%w, with the weights in %s", err, plain.Name(path))
	}
	return &Evaluation{Model: m.Name, Engine: s.Engine().Name(), Data: d.where(), TrainedOn: trained, Weights: path, Parameters: nn.Count(net.Params()),
		HeldOut: r.sum.HeldOut, Accuracy: r.sum.Accuracy, BitsPerByte: r.sum.BitsPerByte, Explained: r.sum.Explained, Seconds: time.Since(begin).Seconds()}, nil
}
