package enginetest

import (
	"context"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"testing"

	"github.com/ringside-go/ringside/tensor"
)

var mutantFlag = flag.String("mutant", "", "run the suite on the reference with this bug; it is to fail")

// mutant is the reference with a bug in Submit.
type mutant struct {
	*reference
	submit func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error)
}

func (m *mutant) Submit(_ context.Context, b *tensor.Batch) ([]tensor.Fetched, error) {
	return m.submit(m.reference, b)
}

// mutants are bugs that engines have had, by name. Each call makes a bug of one engine.
var mutants = map[string]func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error){
	// finds plans by operations and shapes, without how they are wired
	"forgetful": func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
		plans := map[string]*tensor.Program{}
		return func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
			c := *b
			if p := b.Program; p != nil {
				key := fmt.Sprint(p.Externals, p.Shapes, p.NumScalars, len(p.Args), len(p.Ints))
				for _, in := range p.Instrs {
					key += fmt.Sprint(in.Op, in.DType, in.Shape, in.Keep)
				}
				if plans[key] == nil {
					plans[key] = p.Clone()
				}
				c.Program = plans[key]
			}
			return submit(r, &c)
		}
	},
	// keeps plans with the scalars of their first run
	"constant": func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
		scalars := map[tensor.Hash][]float64{}
		return func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
			c := *b
			if b.Program != nil {
				if scalars[b.Hash] == nil {
					scalars[b.Hash] = append([]float64{}, b.Scalars...)
				}
				c.Scalars = scalars[b.Hash]
			}
			return submit(r, &c)
		}
	},
	// fetches into the same memory each time
	"overwriting": func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
		shared := make([]byte, 1<<20)
		return func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
			got, err := submit(r, b)
			for i, f := range got {
				if i == 0 && len(f.Bytes) <= len(shared) {
					copy(shared, f.Bytes)
					got[0].Bytes = shared[:len(f.Bytes)]
				}
			}
			return got, err
		}
	},
	// reports that a failed batch went well unless it fetches
	"silent": func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
		return func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
			got, err := submit(r, b)
			if len(b.Fetch) == 0 {
				err = nil
			}
			return got, err
		}
	},
	// keeps inputs that were donated
	"hoarding": func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
		return func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
			c := *b
			if b.Program != nil {
				c.Program = b.Program.Clone()
				for i := range c.Program.Externals {
					c.Program.Externals[i].Donated = false
				}
			}
			return submit(r, &c)
		}
	},
	// gets the last element of longer rows wrong, as a kernel that misses its tail
	"short": func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
		return func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
			got, err := submit(r, b)
			if p := b.Program; p != nil && err == nil {
				for i, in := range p.Instrs {
					if a := r.values[b.Base+uint64(i)]; a != nil && in.Op == tensor.OpTanh && a.len() > 16 {
						a.f[a.len()-1] = 0
					}
				}
			}
			return got, err
		}
	},
	// treats NaN as the smaller one
	"comparing": func() func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
		return func(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
			got, err := submit(r, b)
			if p := b.Program; p != nil && err == nil {
				for i, in := range p.Instrs {
					if a := r.values[b.Base+uint64(i)]; a != nil && in.Op == tensor.OpMax {
						for k, x := range a.f {
							if x != x {
								a.f[k] = 0
							}
						}
					}
				}
			}
			return got, err
		}
	},
}

func submit(r *reference, b *tensor.Batch) ([]tensor.Fetched, error) {
	return r.Submit(context.Background(), b)
}

// TestRunFindsMutants wants the suite to find planted bugs: run on each mutant, in a
// process of its own, it fails; on the reference it passes.
func TestRunFindsMutants(t *testing.T) {
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	for name := range mutants {
		t.Run(name, func(t *testing.T) {
			out, err := exec.Command(exe, "-test.run=^TestMutant$", "-test.failfast", "-mutant="+name).CombinedOutput()
			if err == nil {
				t.Errorf("nothing was found:\n%s", out)
			} else if _, ok := err.(*exec.ExitError); !ok {
				t.Fatal(err)
			}
		})
	}
}

// TestMutant is the test that TestRunFindsMutants runs.
func TestMutant(t *testing.T) {
	bug, ok := mutants[*mutantFlag]
	if !ok {
		return // nothing is found
	}
	Run(t, func(*testing.T) tensor.Engine { return &mutant{newReference(nil), bug()} }, &Options{Programs: 20, Whole: true})
}
