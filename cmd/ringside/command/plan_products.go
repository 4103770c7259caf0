package command

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/device"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// product is a matrix product whose operands are cut by the signals "rows" and "columns"
// they are made under.
type product struct {
	name string
	of   func(make func(signal string, rows, columns int) *tensor.Tensor) *tensor.Tensor
}

// The dims are large enough that nothing is better off whole.
const productDim = 256

var products = []product{
	{"left by rows", func(make func(string, int, int) *tensor.Tensor) *tensor.Tensor {
		return make("rows", productDim, productDim).Matmul(make("whole", productDim, productDim))
	}},
	{"right by columns", func(make func(string, int, int) *tensor.Tensor) *tensor.Tensor {
		return make("whole", productDim, productDim).Matmul(make("columns", productDim, productDim))
	}},
	{"both by the inner dim", func(make func(string, int, int) *tensor.Tensor) *tensor.Tensor {
		return make("columns", productDim, productDim).Matmul(make("rows", productDim, productDim))
	}},
	{"by columns, tanh, by rows", func(make func(string, int, int) *tensor.Tensor) *tensor.Tensor {
		return make("whole", productDim, productDim).Matmul(make("columns", productDim, 4*productDim)).Tanh().Matmul(make("rows", 4*productDim, productDim))
	}},
}

func newPlanProducts() *cobra.Command {
	var workers int
	c := &cobra.Command{
		Use:   "products",
		Short: "show what products move between workers, by how they are cut",
		Long: `Products shows the collectives of four ways to multiply matrices on several workers, from the plan to the result read as a whole, and
the bytes that a worker sends in them: by rows, by columns, by the inner dim, and a layer by columns followed by one by rows.`,
		Args: noArgs,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if workers < 2 || workers > productDim {
				return usagef("--workers %d: expected 2 to %d", workers, productDim)
			}
			return writeProducts(cmd.OutOrStdout(), workers)
		},
	}
	c.Flags().IntVar(&workers, "workers", 2, "how many")
	return c
}

func writeProducts(w io.Writer, workers int) error {
	c := &config.Config{NumWorkers: workers, Signals: []config.Signal{
		{Name: "rows", Shard: &config.Shard{}}, {Name: "columns", Shard: &config.Shard{Axis: 1}}}}
	if err := c.Check(); err != nil {
		return err
	}
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(tw, "product\tthe result lies\tcollectives\tbytes a worker sends")
	for _, x := range products {
		lies, calls, bytes, err := x.plan(c)
		if err != nil {
			return fmt.Errorf("%s: %w", x.name, err)
		}
		fmt.Fprintf(tw, "%s\t%v\t%d\t%d\n", x.name, lies, calls, bytes)
	}
	return tw.Flush()
}

// plan returns the placement of the result, the number of collectives until it is read,
// and the bytes that they send. Reading a sharded result needs no collective: the reader
// puts it together.
func (x *product) plan(c *config.Config) (lies shard.Placement, calls int, bytes int64, err error) {
	d, err := cpu.New(nil)
	if err != nil {
		return lies, 0, 0, err
	}
	defer d.Close()
	last := &lastProgram{Engine: device.NewEngine(d)}
	s := tensor.NewSession(last, nil)
	defer s.Close()
	y := x.of(func(signal string, rows, columns int) (made *tensor.Tensor) {
		s.Signal(signal, func() { made = tensor.From(s, make([]float32, rows*columns), rows, columns) })
		return made
	})
	if err := s.Flush(); err != nil {
		return lies, 0, 0, err
	}
	p, err := tensor.ParseProgram(last.encoded)
	if err != nil {
		return lies, 0, 0, err
	}
	m, hints := c.Stages()[0].Mesh, c.Hints()
	inputs, err := shard.Place(p, m, hints)
	if err != nil {
		return lies, 0, 0, err
	}
	plan, err := shard.Rewrite(p, m, inputs, &shard.Options{Signals: hints})
	if err != nil {
		return lies, 0, 0, err
	}
	count := func(of *shard.Plan) {
		for _, n := range of.Stats.Collectives {
			calls += n
		}
		bytes += of.Stats.Bytes
	}
	count(plan)
	out := plan.Outputs[len(plan.Outputs)-1]
	lies = out.Layout[0]
	if _, partial := lies.Partial(); partial {
		to := out.Layout
		to[0] = shard.Replicate
		read, err := shard.Redistribute(m, y.DType(), y.Shape(), out.Layout, to)
		if err != nil {
			return lies, 0, 0, err
		}
		count(read)
	}
	return lies, calls, bytes, nil
}
