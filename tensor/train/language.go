package train

import (
	"bytes"
	"context"
	"fmt"
	"iter"
	"math"
	"slices"
	"strings"
	"time"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/nn/model"
)

// evalPieces is the number of pieces of the held-out text that are evaluated at once.
const evalPieces = 16

// heldShare is how many bytes of a text one is held out of.
const heldShare = 20

// Text is the data of a language model, byte by byte.
type Text struct {
	*data.Text
	From string // file or folder
}

// LoadText loads the file or folder at path, or the text that comes with Go if path is
// empty.
func LoadText(path string) (*Text, error) {
	if path == "" {
		var err error
		if path, err = data.FindText(); err != nil {
			return nil, err
		}
	}
	t, err := data.LoadText(path, &data.TextOptions{HeldOut: 1.0 / heldShare})
	if err != nil {
		return nil, err
	}
	return &Text{t, path}, nil
}

func (d *Text) kind() string  { return "text" }
func (d *Text) where() string { return d.From }
func (d *Text) unit() string  { return "tokens" }

func (d *Text) content() [][]byte { return [][]byte{d.Train} }

func (d *Text) check(m *Model) error {
	if m.Context < 1 {
		return fmt.Errorf("%w: %s has Context %d, expected at least 1", ErrModel, m.Name, m.Context)
	}
	if !d.fits(m) {
		return fmt.Errorf("%w: %s is too short: %s to train on and %d held out, and %s takes pieces of %d; expected a text of %d bytes or more", ErrData, plain.Name(d.From),
			plain.Count(len(d.Train), "byte"), len(d.Held), m.Name, m.Context, m.EnoughText())
	}
	return nil
}

// EnoughText returns the length in bytes of the shortest text of which LoadText holds out
// more than a piece of the language model m. Train takes shorter texts too, but what it
// computes of their held-out part says little about other text.
func (m *Model) EnoughText() int { return (m.Context + 1) * heldShare }

// fits reports whether a text has enough to train m and to judge it.
func (d *Text) fits(m *Model) bool { return len(d.Train) > m.Context && len(d.Held) >= 2 }

// Little reports whether less of the text is held out than a piece of the model m. It
// returns false for a text that is so short that Train refuses it.
func (d *Text) Little(m *Model) bool { return d.fits(m) && len(d.Held) <= m.Context }

func (d *Text) loss(out, y *tensor.Tensor) *tensor.Tensor { return nn.CrossEntropy(out, y) }

// steps feeds pieces of the text from random places.
func (d *Text) steps(r *run) (feed, int, error) {
	rows := r.rows()
	length := r.model.Context
	crops, err := data.NewCrops(d.Train, length, r.o.Seed)
	if err != nil {
		return nil, 0, err
	}
	x, y := make([]int32, rows*length), make([]int32, rows*length)
	return func(n int) (*tensor.Tensor, *tensor.Tensor, error) {
		if err := data.FillCrops(crops, uint64(n)*uint64(rows), x, y); err != nil {
			return nil, nil, err
		}
		return tensor.From(r.s, x, rows, length), tensor.From(r.s, y, rows, length), nil
	}, rows * length, nil
}

// evaluate reads the held-out text from its beginning to its end in pieces that don't
// overlap: every byte but the first is predicted once, from the bytes before it in its
// piece. It returns the mean over all of them.
func (d *Text) evaluate(ctx context.Context, r *run) error {
	start := time.Now()
	length := r.model.Context
	x, y := make([]int32, 0, evalPieces*length), make([]int32, 0, evalPieces*length)
	var sum float64
	all := len(d.Held) - 1
	for at := 0; at < all; {
		if err := ctx.Err(); err != nil {
			return err
		}
		pieces, n := min((all-at)/length, evalPieces), length
		if pieces == 0 {
			pieces, n = 1, all-at // the rest is shorter than a piece
		}
		x, y = x[:0], y[:0]
		for i := at; i < at+pieces*n; i++ {
			x, y = append(x, int32(d.Held[i])), append(y, int32(d.Held[i+1]))
		}
		nll, err := d.judge(r, x, y, pieces, n)
		if err != nil {
			return err
		}
		sum += nll * float64(pieces*n)
		at += pieces * n
	}
	r.sum.HeldOut = sum / float64(all)
	bits := r.sum.HeldOut / math.Ln2
	r.sum.BitsPerByte = &bits
	r.sum.EvalSeconds = time.Since(start).Seconds()
	return nil
}

// judge returns the mean loss of a few pieces.
func (d *Text) judge(r *run, x, y []int32, pieces, n int) (float64, error) {
	loss := nn.Result(r.s, func() *tensor.Tensor {
		return nn.CrossEntropy(r.net.Forward(tensor.From(r.s, x, pieces, n)), tensor.From(r.s, y, pieces, n))
	})
	defer loss.Free()
	return loss.Item()
}

// promptBytes is the length of the held-out text that a sample continues, unless
// Options.Prompt is set.
const promptBytes = 32

// prompt returns the beginning of the held-out text, from the first word on that is whole
// in it.
func (d *Text) prompt() []byte {
	const between = " \t\n\r"
	held := d.Held[:min(2*promptBytes, len(d.Held))]
	if n := len(d.Train); n > 0 && !strings.ContainsRune(between, rune(d.Train[n-1])) {
		if at := bytes.IndexAny(held[:min(promptBytes, len(held))], between); at >= 0 && at+1 < len(held) {
			held = held[at+1:]
		}
	}
	return held[:min(promptBytes, len(held))]
}

// writer is a model that can continue a text.
type writer interface {
	Generate(ctx context.Context, prompt []int32, n int, o model.Sampling) ([]int32, error)
	Stream(ctx context.Context, prompt []int32, n int, o model.Sampling) iter.Seq2[int32, error]
}

// tokensOf returns a text's bytes as tokens.
func tokensOf(text []byte) []int32 {
	tokens := make([]int32, len(text))
	for i, b := range text {
		tokens[i] = int32(b)
	}
	return tokens
}

// sample has the model continue a prompt. An interrupt ends the sample early.
func (d *Text) sample(ctx context.Context, r *run) error {
	w, ok := r.net.(writer)
	if !ok || r.o.Sample <= 0 {
		return nil
	}
	prompt := []byte(r.o.Prompt)
	if len(prompt) == 0 {
		prompt = d.prompt()
	}
	more, err := w.Generate(ctx, tokensOf(prompt), r.o.Sample, model.Sampling{Temperature: 0.7, TopK: 40, Seed: r.o.Seed})
	if err != nil && ctx.Err() == nil {
		return err
	}
	out := slices.Clone(prompt) // it lies in the held-out text
	for _, t := range more {
		out = append(out, byte(t))
	}
	r.sum.Sample = strings.ToValidUTF8(string(out), "\uFFFD")
	return nil
}
