package bench

import (
	"encoding/json"
	"errors"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
)

// TestGPU runs the scenario over the stand-ins: every part measures what it says, and the
// library's products are the kernels' to rounding.
func TestGPU(t *testing.T) {
	api, launches := cudatest.Open(t, 0, os.Getenv)
	library := cudatest.Products(t, launches)
	r, err := runScenario(t, "gpu", &Options{Rounds: 1, Scale: 100_000, GPU: GPUOptions{Training: "mlp_adamw", Open: func(products bool) (*cuda.Device, error) {
		o := &cuda.Options{}
		if products {
			o.Products = library
		}
		return cuda.Open(api, 0, o)
	}}})
	if err != nil {
		t.Fatal(err)
	}
	var cases, bars []string
	for _, m := range r.Measurements {
		cases = append(cases, m.Case)
		if !(m.Median > 0) {
			t.Errorf("%s: %v", m.Case, m.Median)
		}
	}
	for _, b := range r.Bars {
		bars = append(bars, b.Bar)
		if b.Bar == "gpu_products_apart" && !b.OK {
			t.Errorf("products of two ways are apart by %v", b.Value)
		}
	}
	for _, want := range []string{"qwen_t64, kernels", "lenet, generated", "gpt_t64, loaded", "launch", "graph of 8", "device copy", "AdamW", "product f32 by the library", "product bf16 small, by kernels", "products by the library", "attention", "training step of mlp_adamw"} {
		if !slices.Contains(cases, want) {
			t.Errorf("measured %q, but not %s", cases, want)
		}
	}
	if want := []string{"gpu_copy_bound", "gpu_chain_over_add", "gpu_products_apart"}; !slices.Equal(bars, want) {
		t.Errorf("bars %q, expected %q", bars, want)
	}
	if _, err := runScenario(t, "gpu", &Options{Scale: 1000}); !errors.Is(err, ErrNoGPU) {
		t.Errorf("without a GPU: %v, expected %v", err, ErrNoGPU)
	}
}

// TestGPUForms checks that the bundle's peer in PyTorch trains the models that this
// scenario does.
func TestGPUForms(t *testing.T) {
	b, err := os.ReadFile("../tensor/cuda/gpucheck/torch_peer.py")
	if err != nil {
		t.Fatal(err)
	}
	_, text, _ := strings.Cut(string(b), `FORMS = json.loads("""`)
	text, _, _ = strings.Cut(text, `""")`)
	var forms map[string]form
	if err := json.Unmarshal([]byte(text), &forms); err != nil || len(forms) == 0 {
		t.Fatalf("%d forms, %v in %s", len(forms), err, text)
	}
	for name, f := range forms {
		if want := must(findTrial(name)); want.Form != f || want.Opt != "adamw" {
			t.Errorf("%s: %+v, expected %+v", name, f, want)
		}
	}
}
