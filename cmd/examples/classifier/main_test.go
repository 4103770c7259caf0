package main

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/safetensors"
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
	if err := run(t.Context(), "", 60, weights, options()); err != nil {
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
	if err := predict(t.Context(), &out, weights, rows, options()); err != nil {
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
	if err := evaluate(t.Context(), &out, weights, "points.csv", options()); err != nil || out.String() != fmt.Sprintf("%.1f %% of %d rows are right\n", 100*float64(right)/float64(table.Rows), table.Rows) {
		t.Errorf("evaluated: %q, %v, expected that %d are right", out.String(), err, right)
	}
	for text, says := range map[string]string{"x\n1\n": `learnt from: "x", "y"`, "x,y,z\n1,1,1\n": `a column "z"`, "x,y\n1,\n": "train with -fill mean"} {
		if err := os.WriteFile(rows, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := predict(t.Context(), &out, weights, rows, options()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, expected %q", text, err, says)
		}
	}
	// before the table is read
	if err := run(t.Context(), "none.csv", 1, filepath.Join(dir, "none", "w.safetensors"), options()); err == nil || !strings.Contains(err.Error(), "none is not there") {
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
	o := options()
	err = run(t.Context(), rows, 1, weights, o)
	if err == nil || !strings.Contains(err.Error(), `rows.csv: line 4, column "size": "", expected`) || !strings.Contains(err.Error(), "-fill mean") {
		t.Errorf("an empty field without -fill: %v", err)
	}
	o.Fill = data.FillMean
	if err := run(t.Context(), rows, 60, weights, o); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := predict(t.Context(), &out, weights, more, options()); err != nil || out.String() != "cherry\npear\nlime\n" {
		t.Errorf("%q, %v", out.String(), err)
	}
	// The class may be there, and rows without it can't be judged.
	if err := errors.Join(os.WriteFile(more, []byte("colour,fruit,size\nred,cherry,12\n"), 0o600), predict(t.Context(), &out, weights, more, options())); err != nil {
		t.Error(err)
	}
	for text, says := range map[string]string{"colour,size\nred,12\n": "-predict takes rows without it", "colour,size,fruit\nblue,1,lime\n": `"blue", expected one of "green", "red", which are all in the table that was learnt from (that of -load)`} {
		if err := os.WriteFile(more, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		if err := evaluate(t.Context(), &out, weights, more, options()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, expected %q", text, err, says)
		}
	}
	other := filepath.Join(dir, "other.safetensors")
	if err := safetensors.WriteFile(other, nil, nil); err != nil {
		t.Fatal(err)
	}
	if err := predict(t.Context(), &out, other, more, options()); err == nil || !strings.Contains(err.Error(), "do not say which table they learnt from") || strings.Contains(err.Error(), "JSON") {
		t.Errorf("weights of something else: %v", err)
	}
}

// options are those of main without flags.
func options() *data.TableOptions {
	o := &data.TableOptions{Categories: []string{data.AllTexts}, OneHot: true}
	o.AddFlags(flag.NewFlagSet("classifier", flag.ContinueOnError))
	return o
}

// TestIdle gives flags that have no effect beside others.
func TestIdle(t *testing.T) {
	for args, says := range map[string]string{
		"-predict new.csv -fill mean":         "-fill has no effect beside -predict: leave it out",
		"-evaluate new.csv -fill mean":        "-fill has no effect beside -evaluate",
		"-predict new.csv -without a":         "-without has no effect beside -predict",
		"-predict new.csv -categories a":      "-categories has no effect beside -predict",
		"-predict new.csv -evaluate new.csv":  "-evaluate has no effect beside -predict",
		"-predict new.csv -label a":           "-label has no effect beside -predict",
		"-predict new.csv -save a":            "-save has no effect beside -predict",
		"-predict new.csv mine.csv":           `the table "mine.csv" has no effect beside -predict`,
		"a.csv b.csv -label a":                "expected one table",
		"-comma ;":                            "-comma has no effect without a table",
		"-predict new.csv -comma ; -load a":   "",
		"-evaluate new.csv -comma ; -label a": "",
		"-load a mine.csv":                    "-load has no effect without -predict or -evaluate",
		"-evaluate new.csv -epochs 3":         "-epochs has no effect beside -evaluate",
		"mine.csv -fill mean -label a -without b -categories c -save d -epochs 3": "",
	} {
		fs := flag.NewFlagSet("classifier", flag.ContinueOnError)
		for _, name := range []string{"epochs", "save", "load", "predict", "evaluate"} {
			fs.String(name, "", "")
		}
		new(data.TableOptions).AddFlags(fs)
		path, err := data.ParseTable(fs, strings.Fields(args))
		if err == nil {
			err = idle(fs, path)
		}
		if got := fmt.Sprint(err); says == "" && err != nil || !strings.Contains(got, says) {
			t.Errorf("%s: %v, expected %q", args, err, says)
		}
	}
}
