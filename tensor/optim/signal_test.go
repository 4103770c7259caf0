package optim_test

import (
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/optim"
)

// TestStateSignal: state has its own signal, so that it can be placed apart from the
// parameters; the operations of a step have none.
func TestStateSignal(t *testing.T) { devicetest.Each(t, testStateSignal) }

func testStateSignal(t *devicetest.T) {
	s, e := spied(t)
	defer s.Close()
	w := tensor.Ones(s, tensor.F32, 4).RequireGrad()
	if err := s.Flush(); err != nil {
		t.Fatal(err)
	}
	opt := optim.NewAdamW([]tensor.Named{{Name: "w", T: w}}, optim.AdamWOptions{})
	for range 2 {
		if err := opt.Step([]*tensor.Tensor{tensor.Ones(s, tensor.F32, 4)}); err != nil {
			t.Fatal(err)
		}
		if err := s.Flush(); err != nil {
			t.Fatal(err)
		}
	}
	inputs, results := 0, 0
	for line := range strings.Lines(e.text[len(e.text)-1]) {
		switch marked := strings.Contains(line, "@"+optim.StateSignal); {
		case marked && strings.HasPrefix(line, "in"):
			inputs++
		case marked:
			results++
		}
	}
	if inputs != 2 || results != 0 {
		t.Errorf("%d inputs and %d results of a step are state, expected the two moments\n%s", inputs, results, e.text[len(e.text)-1])
	}
}
