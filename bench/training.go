package bench

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// TrainingModels are the names of the models whose training steps can be taken with
// NewTraining.
func TrainingModels() []string {
	var names []string
	for _, t := range trials() {
		if t.Form.Kind != "decode" {
			names = append(names, t.Name)
		}
	}
	return names
}

// Training takes training steps of one of the models that are compared with PyTorch's,
// always on the same batch.
type Training struct{ t *trainer }

// NewTraining makes the model of that name on s. Its batch has the signal
// train.BatchSignal, its optimizer's state those of optim, and if named is set, every
// parameter that of its name. The error is ErrUnknown if there is none.
func NewTraining(s *tensor.Session, name string, named bool) (*Training, error) {
	t, err := findTrial(name)
	if err != nil {
		return nil, err
	}
	var tr *trainer
	err = try(func() { tr = makeTrainer(s, t, named) })
	return &Training{tr}, err
}

// findTrial is the trial of that name: ErrUnknown, which lists all, if there is none.
func findTrial(name string) (*trial, error) {
	for _, t := range trials() {
		if t.Name == name && t.Form.Kind != "decode" {
			return &t, nil
		}
	}
	return nil, fmt.Errorf("%w model %q; expected one of %s", ErrUnknown, name, strings.Join(TrainingModels(), ", "))
}

// Step takes a step and returns its loss.
func (t *Training) Step() (loss float64, err error) {
	err = try(func() { loss = t.t.step() })
	return loss, err
}
