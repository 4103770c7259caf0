package ringside

import (
	"testing"

	"github.com/ringside-go/ringside/bench/shape"
)

// TestShape holds the tree to the limits of package bench/shape: the direction of arrows
// between files, the size of types and functions, the width and the words of comments.
func TestShape(t *testing.T) {
	figures, err := shape.Measure(".")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range figures {
		if f.OK() {
			continue
		}
		t.Errorf("%s: %.4g %s", f.Name, f.Value, f.Unit)
		for _, where := range f.Where[:min(20, len(f.Where))] {
			t.Log(where)
		}
	}
}
