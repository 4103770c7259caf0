package train

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/device/devicetest"
	"github.com/ringside-go/ringside/tensor/nn"
)

// TestUnlike: of weights that are not those of a model of the list the error is short,
// and it names what differs: names of tensors, or else a shape.
func TestUnlike(t *testing.T) { devicetest.Each(t, testUnlike) }

func testUnlike(t *devicetest.T) {
	m, err := Find("fashion-mlp")
	if err != nil {
		t.Fatal(err)
	}
	s := inProcess(t)
	net, err := m.network(s)
	if err != nil {
		t.Fatal(err)
	}
	ps := net.Params()
	wide := append([]tensor.Named{}, ps...)
	wide[0].T = tensor.Zeros(s, tensor.F32, 2, 3)
	more := append(append([]tensor.Named{}, ps...), tensor.Named{Name: "more", T: tensor.Zeros(s, tensor.F32, 2)})
	for what, c := range map[string]struct {
		file []tensor.Named
		want string
	}{
		"a shape": {wide, "it has 4 tensors, expected 4 tensors; its " + ps[0].Name + " has the shape [2 3], expected ["},
		"more":    {more, `it has 5 tensors such as "more", expected 4 tensors`},
		"fewer":   {ps[:1], `it has 1 tensor, expected 4 tensors such as "` + ps[1].Name},
	} {
		path := filepath.Join(t.TempDir(), "w.safetensors")
		if err := nn.Save(path, c.file, nil); err != nil {
			t.Fatal(err)
		}
		err := m.load(t.Context(), path, ps)
		if !errors.Is(err, nn.ErrMismatch) || !strings.HasPrefix(err.Error(), path+" is not weights of fashion-mlp: "+c.want) {
			t.Errorf("%s: %v, expected %q", what, err, c.want)
		}
	}
}

// TestEnoughText: the length that a text is said to need is the shortest of which more
// than a piece is held out.
func TestEnoughText(t *testing.T) {
	m, err := Find("qwen3-tiny")
	if err != nil {
		t.Fatal(err)
	}
	path := filepath.Join(t.TempDir(), "text")
	for size, little := range map[int]bool{50: false, 100: true, m.EnoughText() - 1: true, m.EnoughText(): false} {
		if err := os.WriteFile(path, make([]byte, size), 0o600); err != nil {
			t.Fatal(err)
		}
		d, err := LoadText(path)
		if err != nil {
			t.Fatal(err)
		}
		if is := d.Little(m); is != little {
			t.Errorf("%d bytes: little is %v, expected %v", size, is, little)
		}
	}
}
