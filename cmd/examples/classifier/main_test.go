package main

import (
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/data"
)

// TestPredict trains, and has the saved weights name the classes of the same points.
func TestPredict(t *testing.T) {
	dir, err := os.MkdirTemp("", "rs") // no dispatcher is there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	weights, rows := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "rows.csv")
	if err := run(t.Context(), "points.csv", 60, weights); err != nil {
		t.Fatal(err)
	}
	table, err := data.ReadCSVFile("points.csv", nil)
	if err != nil {
		t.Fatal(err)
	}
	text := "x,y\n"
	for i := range table.Rows {
		text += fmt.Sprintf("%v,%v\n", table.X[2*i], table.X[2*i+1])
	}
	if err := os.WriteFile(rows, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := predict(t.Context(), &out, weights, rows); err != nil {
		t.Fatal(err)
	}
	said, right := strings.Fields(out.String()), 0
	if len(said) != table.Rows {
		t.Fatalf("%d classes for %d rows", len(said), table.Rows)
	}
	for i, class := range table.Class {
		if said[i] == table.Classes[class] {
			right++
		}
	}
	if right < table.Rows*8/10 {
		t.Errorf("%d of %d rows are right", right, table.Rows)
	}
	for _, text := range []string{"x\n1\n", "y,x\n1,1\n"} {
		if err := os.WriteFile(rows, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := predict(t.Context(), &out, weights, rows); err == nil || !strings.Contains(err.Error(), `expected ["x" "y"]`) {
			t.Errorf("a table that begins with %.4q: %v", text, err)
		}
	}
	// before the table is read
	if err := run(t.Context(), "none.csv", 1, filepath.Join(dir, "none", "w.safetensors")); err == nil || !strings.Contains(err.Error(), "none is not there") {
		t.Errorf("saved to a folder that is not there: %v", err)
	}
}
