package command

import (
	"bytes"
	"context"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/train"
)

// trainModels returns the names of the models of train.
func trainModels() (names []string) {
	for _, m := range train.Models() {
		names = append(names, m.Name)
	}
	return names
}

// trained takes steps of a model of train, on data without meaning, and returns the
// program of the last one. fresh is called when the steps begin that are timed.
func (o *dumpOptions) trained(s *tensor.Session, m *train.Model, last *lastProgram, fresh func()) (encoded []byte, err error) {
	ctx, cancel := context.WithCancel(context.Background())
	defer cancel()
	const before = 2 // the first makes the optimizer's state
	_, err = m.Train(ctx, s, exampleData(m), &train.Options{
		Steps: before + o.timed, LossEvery: 1, NameParams: o.several(),
		Progress: func(p train.Progress) {
			if p.Step == before {
				fresh()
			}
		},
		Trained: func(int) {
			encoded = last.encoded
			cancel() // nothing is evaluated
		},
	})
	if encoded != nil {
		err = nil
	}
	return encoded, err
}

// exampleData returns data of the kind and the size that a model of train takes.
func exampleData(m *train.Model) train.Data {
	if m.Data == "text" {
		text := bytes.Repeat([]byte("abc "), m.Context)
		return &train.Text{Text: &data.Text{Train: text, Held: text}, From: "an example"}
	}
	const images = 10
	set := &data.Images{Count: images, Rows: m.Side, Cols: m.Side, Classes: m.Classes, Pixels: make([]byte, images*m.Side*m.Side), Labels: make([]byte, images)}
	return &train.Images{Train: set, Test: set, From: "an example"}
}
