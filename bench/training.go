package bench

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/tensor"
)

// TrainingModels are the names of the models whose training steps can be taken with NewTraining.
func TrainingModels() []string {
	var names []string
	for _, t := range trials() {
		names = append(names, t.Name)
	}
	return names
}

// Training takes training steps of one of the models that are compared with PyTorch's, always on the same batch.
type Training struct{ t *trainer }

// NewTraining makes the model of that name on s. The error is ErrUnknown if there is none.
func NewTraining(s *tensor.Session, name string) (*Training, error) {
	for _, t := range trials() {
		if t.Name == name {
			tr, err := newTrainer(s, &t)
			return &Training{tr}, err
		}
	}
	return nil, fmt.Errorf("%w model %q; expected one of %s", ErrUnknown, name, strings.Join(TrainingModels(), ", "))
}

// Step takes a step and returns its loss.
func (t *Training) Step() (float64, error) { return t.t.step() }
