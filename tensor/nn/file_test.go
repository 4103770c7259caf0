package nn_test

import (
	"errors"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
	"github.com/ringside-go/ringside/tensor/safetensors"
)

func TestSaveAndLoad(t *testing.T) { devicetest.Each(t, testSaveAndLoad) }

func testSaveAndLoad(t *devicetest.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	s := newSession(t, 1)
	mixed := func(s *tensor.Session) []tensor.Named {
		return append(nn.Prefix("net", nn.NewMLP(s, 3, 4, 2, nil).Params()),
			tensor.Named{Name: "doubles", T: tensor.RandN(s, tensor.F64, 3)},
			tensor.Named{Name: "f16", T: tensor.RandN(s, tensor.F16, 5)},
			tensor.Named{Name: "bf16", T: tensor.RandN(s, tensor.BF16, 2, 3)},
			tensor.Named{Name: "whole", T: tensor.Rand(s, tensor.F32, 2, 2).MulS(100).Cast(tensor.I64)},
			tensor.Named{Name: "number", T: tensor.Rand(s, tensor.F32)},
			tensor.Named{Name: "nothing", T: tensor.Zeros(s, tensor.F32, 0, 2)},
			tensor.Named{Name: "flags", T: tensor.Rand(s, tensor.F32, 9).GtS(0.5)},
		)
	}
	saved := mixed(s)
	if err := nn.Save(path, saved, map[string]string{"step": "12"}); err != nil {
		t.Fatal(err)
	}
	loaded := mixed(newSession(t, 2))
	notes, err := nn.Load(path, loaded, nil)
	if err != nil {
		t.Fatal(err)
	}
	if notes["step"] != "12" {
		t.Errorf("notes %v", notes)
	}
	for i, p := range saved {
		var a, b []byte
		for _, x := range []struct {
			t   *tensor.Tensor
			dst *[]byte
		}{{p.T, &a}, {loaded[i].T, &b}} {
			if err := x.t.ViewBytes(func(v []byte) error {
				*x.dst = slices.Clone(v)
				return nil
			}); err != nil {
				t.Fatal(err)
			}
		}
		if !slices.Equal(a, b) {
			t.Errorf("%s: %v was saved, %v loaded", p.Name, a, b)
		}
		if p.T.RequiresGrad() != loaded[i].T.RequiresGrad() {
			t.Errorf("%s: loading changed whether it requires a gradient", p.Name)
		}
	}
}

// TestLoadHalf: half-precision files are widened.
func TestLoadHalf(t *testing.T) { devicetest.Each(t, testLoadHalf) }

func testLoadHalf(t *devicetest.T) {
	path := filepath.Join(t.TempDir(), "half.safetensors")
	if err := safetensors.WriteFile(path, []safetensors.Tensor{
		{Name: "a", DType: safetensors.F16, Shape: []int64{2}, Data: []byte{0x00, 0x3c, 0x00, 0xc1}},
		{Name: "b", DType: safetensors.BF16, Shape: []int64{2}, Data: []byte{0x80, 0x3f, 0x20, 0xc0}},
	}, nil); err != nil {
		t.Fatal(err)
	}
	s := newSession(t, 1)
	ps := []tensor.Named{{Name: "a", T: tensor.Zeros(s, tensor.F32, 2)}, {Name: "b", T: tensor.Zeros(s, tensor.F32, 2)}}
	if _, err := nn.Load(path, ps, nil); err != nil {
		t.Fatal(err)
	}
	near(t, "f16", read(t, ps[0].T), 1, -2.5)
	near(t, "bf16", read(t, ps[1].T), 1, -2.5)
}

func TestLoadRefuses(t *testing.T) { devicetest.Each(t, testLoadRefuses) }

func testLoadRefuses(t *devicetest.T) {
	path := filepath.Join(t.TempDir(), "other.safetensors")
	s := newSession(t, 1)
	put := func(ps ...tensor.Named) {
		t.Helper()
		if err := nn.Save(path, ps, nil); err != nil {
			t.Fatal(err)
		}
	}
	named := func(name string, d tensor.DType, shape ...int) tensor.Named {
		return tensor.Named{Name: name, T: tensor.Ones(s, d, shape...)}
	}
	put(named("a", tensor.F32, 2, 3), named("wrong", tensor.F32, 3, 2), named("type", tensor.F64, 4), named("extra", tensor.F32, 1))
	model := []tensor.Named{{Name: "a", T: tensor.Zeros(s, tensor.F32, 2, 3)}, {Name: "wrong", T: tensor.Zeros(s, tensor.F32, 2, 3)},
		{Name: "type", T: tensor.Zeros(s, tensor.F32, 4)}, {Name: "absent", T: tensor.Zeros(s, tensor.F32, 1)}}
	_, err := nn.Load(path, model, nil)
	if !errors.Is(err, nn.ErrMismatch) {
		t.Fatalf("error %v", err)
	}
	for _, want := range []string{path, "missing absent", "unexpected extra", "wrong is F32[3 2], expected F32[2 3]", "type is F64[4], expected F32[4]"} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q doesn't say %q", err, want)
		}
	}
	near(t, "a after a refusal", read(t, model[0].T), 0, 0, 0, 0, 0, 0)

	some := []tensor.Named{model[0], model[3]}
	if _, err := nn.Load(path, some, &nn.LoadOptions{Missing: true, Unexpected: true}); err != nil {
		t.Fatal(err)
	}
	near(t, "a", read(t, model[0].T), 1, 1, 1, 1, 1, 1)
	near(t, "what the file doesn't have", read(t, model[3].T), 0)

	var many []tensor.Named
	for range 20 {
		many = append(many, named(strings.Repeat("x", len(many)+1), tensor.F32, 1))
	}
	if _, err := nn.Load(path, many, nil); err == nil || !strings.Contains(err.Error(), "and 12 more") {
		t.Errorf("20 missing names: %v", err)
	}
	if _, err := nn.Load(filepath.Join(t.TempDir(), "none"), model, nil); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("no file: %v", err)
	}
}

// TestSaveFails: if a parameter can't be read the old file stays.
func TestSaveFails(t *testing.T) { devicetest.Each(t, testSaveFails) }

func testSaveFails(t *devicetest.T) {
	path := filepath.Join(t.TempDir(), "model.safetensors")
	s := newSession(t, 1)
	w := tensor.Ones(s, tensor.F32, 2)
	if err := nn.Save(path, []tensor.Named{{Name: "w", T: w}}, nil); err != nil {
		t.Fatal(err)
	}
	before, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	gone := tensor.Ones(s, tensor.F32, 2)
	gone.Free()
	if err := nn.Save(path, []tensor.Named{{Name: "w", T: w}, {Name: "gone", T: gone}}, nil); !errors.Is(err, tensor.ErrReleased) {
		t.Errorf("error %v", err)
	}
	if after, err := os.ReadFile(path); err != nil || !slices.Equal(before, after) {
		t.Errorf("the file changed: %v", err)
	}
}

func TestSaveAfterAnError(t *testing.T) { devicetest.Each(t, testSaveAfterAnError) }

// testSaveAfterAnError checks that the error of an earlier operation is not said to be of
// a tensor that is saved.
func testSaveAfterAnError(t *devicetest.T) {
	s := newSession(t, 1)
	ps := nn.NewMLP(s, 3, 4, 2, nil).Params()
	tensor.Zeros(s, tensor.F32, 2, 3).Matmul(tensor.Zeros(s, tensor.F32, 2, 3))
	path := filepath.Join(t.TempDir(), "x")
	err := nn.Save(path, ps, nil)
	if !errors.Is(err, tensor.ErrShape) || !strings.Contains(err.Error(), "an earlier error of the session: matmul") || strings.Contains(err.Error(), ps[0].Name) {
		t.Errorf("%v", err)
	}
	s.ClearErr()
	if err := nn.Save(path, ps, nil); err != nil {
		t.Errorf("after ClearErr: %v", err)
	}
}
