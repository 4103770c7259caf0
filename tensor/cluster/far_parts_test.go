package cluster_test

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/shard"
	"github.com/ringside-go/ringside/tensor/shard/config"
)

// TestFarStages: what the config puts on a stage goes to its workers alone.
func TestFarStages(t *testing.T) {
	c := startFar(t, "tcp", "tcp")
	e := c.dial(t, "local", client.Options{Config: pipeline(2, 1)})
	s := tensor.NewSession(e, &tensor.SessionOptions{Context: testContext(t)})
	m := newChain(s, 2)
	want := newChain(here(t), 2).train(t, 5, 2)
	if got := m.train(t, 5, 2); !slices.Equal(got, want) {
		t.Errorf("losses %v, expected %v", got, want)
	}
	const weight, batch = 4 * pipeWidth * pipeWidth, 4 * pipeRows * pipeWidth
	// where a batch goes its first program says: it is sent to both
	if got := e.Stats().Pushed; got != 2*weight+5*2*2*batch {
		t.Errorf("%d bytes were sent, expected two weights of %d and ten batches of %d", got, weight, batch)
	}
}

// TestFarParts: a worker on another host is sent its part of an upload of which the
// config says how it lies, and nothing else; what it says nothing of goes there whole.
// Results of the client's tensors are the same wherever the workers are.
func TestFarParts(t *testing.T) {
	for _, over := range [][]string{{"local", "tcp"}, {"tcp", "tcp"}, {"tcp", "local", "tcp"}} {
		n := len(over)
		t.Run(fmt.Sprint(over), func(t *testing.T) {
			c := startFar(t, over...)
			cfg := rows(n)
			cfg.Signals = append(cfg.Signals, config.Signal{Name: "tails", Shard: &config.Shard{Axis: -1}})
			e := c.dial(t, "local", client.Options{Config: cfg})
			s := tensor.NewSession(e, &tensor.SessionOptions{Context: testContext(t)})
			var far []int // ranks that share no memory with the client
			for r, name := range regexp.MustCompile(`w\d* \(pid`).FindAllString(e.Name(), -1) {
				// the first has no number
				i, _ := strconv.Atoi(strings.TrimSuffix(name[1:], " (pid"))
				if over[i] == "tcp" {
					far = append(far, r)
				}
			}
			mesh := shard.Line(n)
			for _, x := range []struct {
				signal string
				dim    int // that is cut; -1 for none
				shape  tensor.Shape
				read   bool // as it was uploaded, before a program reads it
			}{
				{"rows", 0, tensor.Shape{301, 257}, true}, {"rows", 0, tensor.Shape{1, 40}, false}, {"columns", 1, tensor.Shape{301, 257}, false},
				{"columns", 1, tensor.Shape{2, 30, 7}, true}, {"tails", 2, tensor.Shape{5, 3, 200}, false}, {"none", -1, tensor.Shape{100, 3}, true},
				{"rows", 0, tensor.Shape{0, 3}, false}, {"none", -1, tensor.Shape{100, 3}, false},
			} {
				src := make([]int32, x.shape.Elems())
				for i := range src {
					src[i] = int32(i * 7)
				}
				before := e.Stats().Pushed
				var v *tensor.Tensor
				s.Signal(x.signal, func() { v = tensor.From(s, src, x.shape...) })
				if x.read {
					if got, err := tensor.Data[int32](v); err != nil || !slices.Equal(got, src) {
						t.Errorf("%s%v came back otherwise: %v", x.signal, x.shape, err)
					}
				}
				twice, err := tensor.Data[int32](v.Add(v))
				if err != nil {
					t.Fatal(err)
				}
				for i := range twice {
					if twice[i] != 2*src[i] {
						t.Fatalf("%s%v: element %d is %d, expected %d", x.signal, x.shape, i, twice[i], 2*src[i])
					}
				}
				layout := shard.Layout{}
				if x.dim >= 0 {
					layout = shard.On(shard.Shard(x.dim))
				}
				want := 0
				for _, r := range far {
					_, local := mesh.Local(layout, x.shape, r)
					want += 4 * local.Elems()
				}
				if got := e.Stats().Pushed - before; got != uint64(want) {
					t.Errorf("%s%v of %d bytes: %d were sent, expected %d", x.signal, x.shape, 4*len(src), got, want)
				}
			}
			if st := c.d.Stats(); st.TensorBytes != 0 {
				t.Errorf("%d bytes of tensors went through the dispatcher", st.TensorBytes)
			}
		})
	}
}
