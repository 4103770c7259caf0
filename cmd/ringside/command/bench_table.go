package command

import (
	"slices"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/bench"
	"github.com/ringside-go/ringside/collective/isa"
)

// tableFlags choose what `bench ops-table` times, beside --ops and --dtypes, which it has
// in common with the scenario collective.
type tableFlags struct {
	filter, level, resume string
	layouts               []string
}

func (f *tableFlags) add(set *pflag.FlagSet) {
	set.StringVar(&f.filter, "filter", "", "ops-table: only rows whose names contain this, such as \"amax f32\"")
	set.StringSliceVar(&f.layouts, "layouts", nil, "ops-table: "+strings.Join(bench.TableLayouts(), ", ")+" (default all)")
	set.StringVar(&f.level, "level", "", "ops-table: kernels of this level, such as avx2 (default: the best that the machine has)")
	set.StringVar(&f.resume, "resume", "", "ops-table: `file` that gets every row as soon as it is measured; rows that it has of this CPU and --scale are not measured again")
}

// options checks what was typed; which has the flags in common. The caller closes Saved.
func (f *tableFlags) options(which bench.CollectiveOptions) (bench.TableOptions, error) {
	o := bench.TableOptions{Filter: f.filter, Ops: which.Ops, DTypes: which.DTypes, Layouts: f.layouts}
	for _, name := range f.layouts {
		if !slices.Contains(bench.TableLayouts(), name) {
			return o, usagef("--layouts %s: expected %s", name, strings.Join(bench.TableLayouts(), ", "))
		}
	}
	if f.level != "" {
		level, err := isa.Parse(f.level)
		if err != nil {
			return o, usagef("--level: %v", err)
		}
		if !slices.Contains(isa.Levels(), level) {
			return o, usagef("--level %s: this machine does not run it, expected one of %v", f.level, isa.Levels())
		}
		o.Level = &level
	}
	if f.resume != "" {
		var err error
		if o.Saved, err = bench.OpenRows(f.resume); err != nil {
			return o, err
		}
	}
	return o, nil
}
