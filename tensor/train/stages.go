package train

import (
	"context"
	"fmt"
	"slices"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// StageConfig returns a config that puts the model's parts on the given number of stages,
// each with the given number of workers. The parts of a stage are adjacent, and the
// largest work of a stage is as small as possible. Inside a stage each worker has a part
// of every batch. StageConfig returns ErrOption if the model has fewer parts with work
// than stages, or no parts.
func (m *Model) StageConfig(stages, workersEach int) (*config.Config, error) {
	if stages < 1 || workersEach < 1 || stages > shard.MaxRanks/workersEach {
		return nil, &OptionError{"stages", stages, fmt.Sprintf("at least 1, of %d workers each at most %d workers in all", workersEach, shard.MaxRanks)}
	}
	s := tensor.NewSession(nowhere{}, nil)
	defer s.Close()
	net, err := m.network(s)
	if err != nil {
		return nil, err
	}
	parted, ok := net.(nn.Parted)
	if !ok {
		return nil, fmt.Errorf("%w: %s has no parts that could be on several stages", ErrOption, m.Name)
	}
	parts := parted.Parts()
	work, busy := make([]int, len(parts)), 0
	for i := range parts {
		if work[i] = parts[i].Work(); work[i] > 0 {
			busy++
		}
	}
	if stages > busy {
		return nil, &OptionError{"stages", stages, fmt.Sprintf("1 to %d: %s has so many parts with work", busy, m.Name)}
	}
	c := config.DataParallel(stages * workersEach)
	first := 0
	for k, end := range evenly(work, stages) {
		var workers []int
		for i := range workersEach {
			workers = append(workers, k*workersEach+i)
		}
		for _, p := range parts[first:end] {
			c.Signals = append(c.Signals, config.Signal{Name: p.Name + ".*", Workers: workers})
		}
		first = end
	}
	return c, nil
}

// evenly cuts work into n runs and returns where they end. The largest run is as small as
// possible, and each has some work. At least n of work must be above 0. Of equally good
// cuts it is the one with the earliest ends.
func evenly(work []int, n int) (ends []int) {
	if n == 1 {
		return []int{len(work)}
	}
	// most[k][i] is the smallest possible largest run when work[:i] is cut into k runs,
	// and from[k][i] is the start of the last of them.
	most, from := make([][]int, n+1), make([][]int, n+1)
	for k := range most {
		most[k], from[k] = slices.Repeat([]int{-1}, len(work)+1), make([]int, len(work)+1)
	}
	most[0][0] = 0
	for k := 1; k <= n; k++ {
		for i := range most[k] {
			sum := 0
			for j := i - 1; j >= 0; j-- {
				if sum += work[j]; sum == 0 || most[k-1][j] < 0 {
					continue
				}
				if top := max(sum, most[k-1][j]); most[k][i] < 0 || top <= most[k][i] {
					most[k][i], from[k][i] = top, j
				}
			}
		}
	}
	ends = make([]int, n)
	for k, i := n, len(work); k > 0; k-- {
		ends[k-1], i = i, from[k][i]
	}
	return ends
}

// nowhere is an engine that runs nothing, for models of which only the shapes are needed.
type nowhere struct{}

type nothing []byte

func (b nothing) Bytes() []byte { return b }
func (nothing) Release()        {}

func (nowhere) Name() string                       { return "nowhere" }
func (nowhere) Alloc(n int) (tensor.Buffer, error) { return make(nothing, n), nil }
func (nowhere) Close() error                       { return nil }
func (nowhere) Submit(context.Context, *tensor.Batch) ([]tensor.Fetched, error) {
	return nil, tensor.ErrClosed
}
