package train_test

import (
	"testing"

	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// TestStateSignal: configs cut optimizers' state by the name that optimizers give it. Neither package knows the other.
func TestStateSignal(t *testing.T) {
	if config.OptimizerState != optim.StateSignal {
		t.Errorf("configs say %q, optimizers %q", config.OptimizerState, optim.StateSignal)
	}
}
