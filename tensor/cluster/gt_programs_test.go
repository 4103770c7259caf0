package cluster_test

import (
	"fmt"
	"slices"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/autograd"
	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/enginetest"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// cutInputs is a config for n workers that cuts what is made under "first" in the first
// dim and under "last" in the last.
func cutInputs(n int) *config.Config {
	return &config.Config{NumWorkers: n, Signals: []config.Signal{
		{Name: "first", Shard: &config.Shard{}}, {Name: "last", Shard: &config.Shard{Axis: -1}}}}
}

// cuts are how the tensors of a program are made, one so and the next otherwise.
var cuts = [][]string{{"first"}, {"last"}, {"first", "last"}, {"last", "first"}}

// still are the programs in which nothing has to move, by cuts in the order above: 0 says
// that they have no collective, 1 that they have, ? that it depends on the number of
// workers. All other programs have some, whatever the cut.
var still = map[string][]string{
	"0011": {"add", "mul", "(a+b)*a"},
	"0000": {"exp", "transpose(0, 1)", ".T swaps last two of 3-D", "permute(1, 2, 0)", "newaxis [:,None,:]", "isub scalar"},
	"1010": {"sum axis=0 keepdims=True", "max axis=0", "split 6/2", "chunk 5 into 2 = 3+2", "2-D [0,:]"},
	"0101": {"sum axis=1 keepdims=True", "max axis=1", "stable softmax shift", "grad max axis ties share", "3-D [...,0]"},
	"0111": {"cat axis1"},
	"?0?0": {"reshape -1"},
}

// counters asks the dispatcher for what it counted.
func counters(t *testing.T, c *cluster.Cluster) client.Counters {
	t.Helper()
	r, err := client.Status(testContext(t), nil, c.Addr())
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestPrograms runs the programs of known values with their tensors cut in the first dim,
// in the last, and one so and the next otherwise, on one to four workers, with -short on
// three: most of their dims are 2 to 6 long, so that parts are uneven, and some empty.
// Each program runs twice, and the second time nothing is compiled and nothing decided
// again.
func TestPrograms(t *testing.T) {
	programs := enginetest.Programs(t)
	for n := 1; n <= 4; n++ {
		if testing.Short() && n != 3 {
			continue
		}
		c := start(t, cluster.Options{Workers: n, InProcess: testing.Short()})
		for at, pattern := range cuts {
			t.Run(fmt.Sprint(n, pattern), func(t *testing.T) {
				e := dial(t, c, &client.Options{Config: cutInputs(n)})
				sess := tensor.NewSession(e, nil)
				var st [3]client.Stats
				for _, p := range programs {
					st[0] = e.Stats()
					for k := range 2 {
						t.Run(fmt.Sprint(p.Name, k), func(t *testing.T) {
							sess.Scope(func(*tensor.Scope) {
								p.Check(t, sess, autograd.Grad, func(k int, f func()) { sess.Signal(pattern[k%len(pattern)], f) })
							})
						})
						st[k+1] = e.Stats()
					}
					first, again := st[1].Calls-st[0].Calls, st[2].Calls-st[1].Calls
					want := byte('1')
					for cut, names := range still {
						if slices.Contains(names, p.Name) {
							want = cut[at]
						}
					}
					if n == 1 {
						want = '0'
					}
					if want == '0' && first > 0 || want == '1' && first == 0 {
						t.Errorf("%s: %d collectives; expected some: %c", p.Name, first, want)
					}
					if first != again || st[2].Bodies != st[1].Bodies || st[2].Plans != st[1].Plans {
						t.Errorf("%s: %d collectives, then %d; %d new bodies and %d new plans", p.Name, first, again, st[2].Bodies-st[1].Bodies, st[2].Plans-st[1].Plans)
					}
				}
				if moved := e.Stats().Moved; (moved > 0) != (n > 1) {
					t.Errorf("a worker sent %d bytes to others", moved)
				}
			})
		}
		if b := counters(t, c).Get("tensor_bytes"); b != 0 {
			t.Errorf("%d workers: %d bytes of tensors went through the dispatcher", n, b)
		}
	}
}
