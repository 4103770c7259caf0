package command

import (
	"math"
	"slices"
	"strconv"
	"strings"

	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/bench"
)

// collectiveFlags choose what `bench collective` times.
type collectiveFlags struct {
	bench.CollectiveOptions
	sizes []string // of Sizes, as they were typed
}

func (f *collectiveFlags) add(set *pflag.FlagSet) {
	set.IntSliceVar(&f.Ranks, "ranks", nil, "collective: numbers of ranks (default 2,4)")
	set.StringSliceVar(&f.sizes, "sizes", nil, "collective: bytes of a rank's buffer, as in 4,64K,1M (default 4,1K,64K,1M,16M,64M; a limit is judged if none of its sizes is missing)")
	set.StringSliceVar(&f.Ops, "ops", nil, "collective: "+strings.Join(bench.CollectiveOps(), ", ")+"; ops-table: names of operations, as docs/ops.md lists them (default all)")
	set.StringSliceVar(&f.DTypes, "dtypes", nil, "collective: f32, f16, bf16 (default all of two ranks, f32 of more); ops-table: any")
	set.StringSliceVar(&f.Sides, "sides", nil, "collective: ringside, C, Open MPI, Gloo (default all that are installed)")
	set.IntVar(&f.Hosts, "hosts", 1, "collective: 2 for two network namespaces in place of one host; as root")
}

// options checks what was typed; args are the scenarios.
func (f *collectiveFlags) options(set *pflag.FlagSet, args []string) (bench.CollectiveOptions, error) {
	o := f.CollectiveOptions
	for _, name := range []string{"ranks", "sizes", "ops", "dtypes", "sides", "hosts"} {
		shared := (name == "ops" || name == "dtypes") && slices.Contains(args, "ops-table")
		if set.Changed(name) && !shared && !slices.Contains(args, "collective") {
			return o, usagef("--%s is for the scenario collective", name)
		}
	}
	if f.Hosts != 1 && f.Hosts != 2 {
		return o, usagef("--hosts %d: expected 1 or 2", f.Hosts)
	}
	for _, n := range f.Ranks {
		if n < 2 || n > 8 || n%f.Hosts != 0 {
			return o, usagef("--ranks %d: expected 2 to 8, a multiple of --hosts", n)
		}
	}
	for _, list := range []struct {
		flag    string
		given   []string
		allowed []string
	}{
		{"ops", f.Ops, bench.CollectiveOps()},
		{"dtypes", f.DTypes, []string{"f32", "f16", "bf16"}},
		{"sides", f.Sides, []string{"ringside", "C", "Open MPI", "Gloo"}},
	} {
		for _, x := range list.given {
			if !slices.Contains(args, "collective") {
				break // they are of ops-table
			}
			if !slices.Contains(list.allowed, x) {
				return o, usagef("--%s %s: expected %s", list.flag, x, strings.Join(list.allowed, ", "))
			}
		}
	}
	for _, s := range f.sizes {
		n, err := byteSize(s)
		if err != nil {
			return o, err
		}
		o.Sizes = append(o.Sizes, n)
	}
	return o, nil
}

// maxCollective bounds the buffers: each rank has two, and the machine must hold them
// all.
const maxCollective = 256 << 20

// byteSize parses a number of bytes, a multiple of four, with K or M for 2^10 and 2^20.
func byteSize(s string) (int, error) {
	digits, shift := s, 0
	if kib, ok := strings.CutSuffix(s, "K"); ok {
		digits, shift = kib, 10
	} else if mib, ok := strings.CutSuffix(s, "M"); ok {
		digits, shift = mib, 20
	}
	n, err := strconv.Atoi(digits)
	if err != nil || n < 1 || n > math.MaxInt>>shift || n<<shift > maxCollective || n<<shift%4 != 0 {
		return 0, usagef("--sizes %s: expected a multiple of 4 up to 256M, as in 4, 64K, 1M", s)
	}
	return n << shift, nil
}
