package main

import (
	"errors"
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
	if err := run(t.Context(), "points.csv", 60, weights, nil); err != nil {
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
	out.Reset()
	if err := evaluate(t.Context(), &out, weights, "points.csv"); err != nil || out.String() != fmt.Sprintf("%.1f %% of %d rows are right\n", 100*float64(right)/float64(table.Rows), table.Rows) {
		t.Errorf("evaluated: %q, %v, expected that %d are right", out.String(), err, right)
	}
	for text, says := range map[string]string{"x\n1\n": `expected ["x" "y"]`, "x,y,z\n1,1,1\n": `a column "z"`, "x,y\n1,\n": "expected a finite number"} {
		if err := os.WriteFile(rows, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := predict(t.Context(), &out, weights, rows); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, expected %q", text, err, says)
		}
	}
	// before the table is read
	if err := run(t.Context(), "none.csv", 1, filepath.Join(dir, "none", "w.safetensors"), nil); err == nil || !strings.Contains(err.Error(), "none is not there") {
		t.Errorf("saved to a folder that is not there: %v", err)
	}
}

// TestCategories trains on a column of texts, of which some are missing, and predicts
// with columns in another order.
func TestCategories(t *testing.T) {
	dir, err := os.MkdirTemp("", "rs") // no dispatcher is there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	weights, rows, more := filepath.Join(dir, "model.safetensors"), filepath.Join(dir, "rows.csv"), filepath.Join(dir, "more.csv")
	text := "size,colour,fruit\n"
	for i := range 40 {
		text += fmt.Sprintf("%d,green,pear\n%d,red,cherry\n,red,apple\n%d,green,lime\n", 30+i, 10+i%9, 10+i%9)
	}
	if err := errors.Join(os.WriteFile(rows, []byte(text), 0o600), os.WriteFile(more, []byte("colour,size\nred,12\ngreen,60\ngreen,12\n"), 0o600)); err != nil {
		t.Fatal(err)
	}
	err = withAdvice(run(t.Context(), rows, 1, weights, nil))
	if err == nil || !strings.Contains(err.Error(), `rows.csv: line 2, column "colour": "green", expected`) || !strings.Contains(err.Error(), "-categories 'colour'") {
		t.Errorf("texts without -categories: %v", err)
	}
	o := &data.TableOptions{Categories: []string{data.AllTexts}}
	err = withAdvice(run(t.Context(), rows, 1, weights, o))
	if err == nil || !strings.Contains(err.Error(), `rows.csv: line 4, column "size": "", expected`) || !strings.Contains(err.Error(), "-fill mean") {
		t.Errorf("an empty field without -fill: %v", err)
	}
	o.Fill = data.FillMean
	if err := run(t.Context(), rows, 60, weights, o); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := predict(t.Context(), &out, weights, more); err != nil || out.String() != "cherry\npear\nlime\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
}
