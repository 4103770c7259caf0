package train_test

import (
	"testing"

	"github.com/ringside-go/ringside/tensor/optim"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// TestStateSignal wants the names that configs use for optimizers' state to be those that
// optimizers give it. Neither package imports the other.
func TestStateSignal(t *testing.T) {
	if config.OptimizerState != optim.StateSignal {
		t.Errorf("configs say %q, optimizers %q", config.OptimizerState, optim.StateSignal)
	}
}
