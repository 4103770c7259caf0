package model

import (
	"errors"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
)

func TestGPTConfigs(t *testing.T) { devicetest.Each(t, testGPTConfigs) }

func testGPTConfigs(t *devicetest.T) {
	s := newSession(t)
	for want, c := range map[int]GPTConfig{
		256*64 + 64*64 + 2*(12*64*64+13*64) + 128:         GPTTiny(),
		1000*128 + 64*128 + 4*(12*128*128+13*128) + 256:   GPTSmall(),
		256*384 + 256*384 + 6*(12*384*384+13*384) + 2*384: GPTMid(),
	} {
		m, err := NewGPT(s, c)
		if err != nil {
			t.Fatal(err)
		}
		if n := nn.Count(m.Params()); n != want {
			t.Errorf("%+v has %d parameters, expected %d", c, n, want)
		}
	}
	for field, change := range map[string]func(*GPTConfig){
		"Vocab": func(c *GPTConfig) { c.Vocab = 0 }, "Hidden": func(c *GPTConfig) { c.Hidden = 66 }, "Layers": func(c *GPTConfig) { c.Layers = -1 },
		"Heads": func(c *GPTConfig) { c.Heads = 0 }, "Context": func(c *GPTConfig) { c.Context = 0 },
	} {
		c := GPTTiny()
		change(&c)
		if _, err := NewGPT(s, c); !errors.Is(err, ErrConfig) || !strings.Contains(err.Error(), field) {
			t.Errorf("%s: %v", field, err)
		}
	}
}

// TestGPTIsCausal: a position sees itself and earlier ones, whatever follows and however
// long the text is.
func TestGPTIsCausal(t *testing.T) { devicetest.Each(t, testGPTIsCausal) }

func testGPTIsCausal(t *devicetest.T) {
	s := newSession(t)
	m, err := NewGPT(s, GPTConfig{Vocab: 11, Hidden: 8, Layers: 2, Heads: 2, Context: 6})
	if err != nil {
		t.Fatal(err)
	}
	logits := func(tokens ...int32) []float32 {
		v, err := tensor.Data[float32](m.Forward(tensor.From(s, tokens, 1, len(tokens))))
		if err != nil {
			t.Fatal(err)
		}
		return v
	}
	all, other, short := logits(1, 2, 3, 4, 5, 6), logits(1, 2, 3, 9, 8, 7), logits(1, 2, 3)
	if !slices.Equal(all[:33], other[:33]) {
		t.Error("what follows changes what is before it")
	}
	if slices.Equal(all[33:44], other[33:44]) {
		t.Error("a position doesn't see itself")
	}
	for i, v := range short {
		if d := v - all[i]; d > 1e-5 || d < -1e-5 {
			t.Fatalf("logit %d of a short text is %v, of a long one %v", i, v, all[i])
		}
	}
	if err := m.Forward(tensor.From(s, make([]int32, 7), 1, 7)).Err(); err == nil {
		t.Error("a text longer than the context is no error")
	}
}
