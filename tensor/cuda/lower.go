package cuda

import (
	"github.com/ringside-go/ringside/tensor/cuda/memory"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// maxLaunch is how many elements the kernels on their way may compute together: a few
// milliseconds of a GPU, for none of them can be stopped. Kernels count in 32 bits.
const maxLaunch = 1 << 31

// kernel is the kernel of a step, with all choices made that don't depend on the run.
type kernel interface {
	// launch puts it into the stream, and returns the number of launches.
	launch(r *running) (int, error)
	// work returns how many elements it computes or reads.
	work() int
}

// lowerer finds the kernels of steps.
type lowerer struct {
	mem  *memory.Device
	none bool // every step runs on the host
}

// plan returns the kernel of each step, nil for one that runs on the host.
func (lw *lowerer) plan(p *compile.Plan) ([]kernel, error) {
	out := make([]kernel, len(p.Steps))
	return out, nil
}

func (lw *lowerer) close() error { return nil }
