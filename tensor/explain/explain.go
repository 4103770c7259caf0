// Package explain shows the plan that a program is compiled to: as text (a line for each
// step), as a Graphviz graph, and as data that encoding/json prints. It is for people and
// tools; an engine runs the plan itself.
//
// Compile returns the plan of any program, and cpu.Options.Trace is called with the plan
// of each program that an engine runs.
package explain

import (
	"fmt"
	"io"
	"time"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/internal/compile"
)

// Plan is a compiled program. It is read-only; two are equal (==) if they are the same
// compilation.
type Plan struct{ plan *compile.Plan }

// Of returns the explanation of a plan, for engines.
func Of(p *compile.Plan) Plan { return Plan{p} }

// Options configure Compile; nil and the zero value are the defaults.
type Options struct {
	NoFuse bool // a step for each operation
}

// Compile compiles p as the engines do. p must be well formed: recorded by a session, or
// returned by tensor.ParseProgram. The plan keeps p.
func Compile(p *tensor.Program, o *Options) Plan {
	var opt compile.Options
	if o != nil {
		opt.NoFuse = o.NoFuse
	}
	return Plan{compile.Compile(p, &opt)}
}

// Steps returns the number of steps.
func (p Plan) Steps() int { return len(p.plan.Steps) }

// String returns the plan as text: a line for each step and for each result.
func (p Plan) String() string { return p.plan.String() }

// Summary returns one line about the size of the plan.
func (p Plan) Summary() string {
	s := p.Stats()
	return fmt.Sprintf("%d instructions in %d steps (%d views, %d dead, %d fused, %d copies), "+
		"%d in place, %d take an input's memory; temporaries %d bytes, %.2f of the most that live at once",
		s.Instructions, s.Steps, s.Views, s.Dead, s.Fused, s.Copies,
		s.InPlace, s.Taken, s.TempBytes, s.Over)
}

// WriteText writes the program, the plan and the summary. times holds the shortest time
// of each step, which is printed before it in microseconds; nil leaves the times out.
func (p Plan) WriteText(w io.Writer, times []time.Duration) error {
	fmt.Fprintf(w, "program %v\n%v\nplan\n", p.hash(), p.plan.Program)
	if times == nil {
		fmt.Fprint(w, p)
	} else {
		total := time.Duration(0)
		for i := range p.plan.Steps {
			total += times[i]
			fmt.Fprintf(w, "%9.1f  %s\n", microseconds(times[i]), p.plan.StepString(i))
		}
		fmt.Fprintf(w, "%9.1f  together\n", microseconds(total))
	}
	_, err := fmt.Fprintln(w, p.Summary())
	return err
}

func (p Plan) hash() tensor.Hash { return tensor.HashOf(p.plan.Program.Append(nil)) }

func microseconds(d time.Duration) float64 { return float64(d.Nanoseconds()) / 1e3 }
