package main

import (
	"fmt"
	"os"
	"path/filepath"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/train"
)

// TestColumnsOfOtherSizes trains on columns of which one is a million times the other,
// and evaluates the saved weights on the same table as it was before it was scaled.
func TestColumnsOfOtherSizes(t *testing.T) {
	dir, err := os.MkdirTemp("", "rs") // no dispatcher is there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	rows, weights := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "model.safetensors")
	s, text := sines(), "x,y,z\n"
	for i := range s.Rows {
		text += fmt.Sprintf("%v,%v,%v\n", 1e-3*s.X[2*i], 1e3*s.X[2*i+1]+1e4, s.Target[i])
	}
	if err := os.WriteFile(rows, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := run(t.Context(), rows, &train.Options{Steps: 400, Save: weights}); err != nil {
		t.Fatal(err)
	}
	table, err := load(rows)
	if err != nil {
		t.Fatal(err)
	}
	sess, err := client.Open(t.Context(), nil)
	if err != nil {
		t.Fatal(err)
	}
	defer sess.Close()
	e, err := model(2).Evaluate(t.Context(), sess, table, weights)
	if err != nil || e.HeldOut > 0.03 {
		t.Errorf("%+v, %v, expected a mean squared error of at most 0.03", e, err)
	}
	if err := evaluate(t.Context(), rows, weights); err != nil {
		t.Error(err)
	}
	if err := evaluate(t.Context(), rows, filepath.Join(dir, "none")); err == nil {
		t.Error("weights that are not there were evaluated")
	}
}
