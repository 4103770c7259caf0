package main

import (
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/train"
)

// alone has the test's sessions find no dispatcher, and returns a folder.
func alone(t *testing.T) string {
	t.Helper()
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	t.Setenv("XDG_RUNTIME_DIR", dir)
	return dir
}

// options are those of main without flags.
func options() *data.TableOptions {
	o := &data.TableOptions{Regression: true, Categories: []string{data.AllTexts}, OneHot: true}
	o.AddFlags(flag.NewFlagSet("ownmodel", flag.ContinueOnError))
	return o
}

// explained returns the percentage of the variance that the output tells.
func explained(t *testing.T, out string) float64 {
	t.Helper()
	m := regexp.MustCompile(`explains (-?[0-9.]+) % of its variance`).FindStringSubmatch(out)
	if m == nil {
		t.Fatalf("printed\n%s\nwithout a share of the variance", out)
	}
	share, err := strconv.ParseFloat(m[1], 64)
	if err != nil {
		t.Fatal(err)
	}
	return share
}

// TestColumnsOfOtherSizes trains on columns of which one is a million times the other,
// and evaluates the saved weights on the same table.
func TestColumnsOfOtherSizes(t *testing.T) {
	dir := alone(t)
	rows, weights := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "model.safetensors")
	s, text := sines(), "x,y,z\n"
	for i := range s.Rows {
		text += fmt.Sprintf("%v,%v,%v\n", 1e-3*s.X[2*i], 1e3*s.X[2*i+1]+1e4, s.Target[i])
	}
	if err := os.WriteFile(rows, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), &out, rows, &train.Options{Steps: 400, Save: weights}, options()); err != nil || explained(t, out.String()) < 88 {
		t.Fatalf("%v, %s", err, &out)
	}
	out.Reset()
	if err := evaluate(t.Context(), &out, rows, weights, false, options()); err != nil || explained(t, out.String()) < 88 {
		t.Errorf("%v, %s", err, &out)
	}
	if err := evaluate(t.Context(), &out, rows, filepath.Join(dir, "none"), false, options()); err == nil {
		t.Error("weights that are not there were evaluated")
	}
}

// TestHouses trains on prices of six digits with columns of texts, and predicts those of
// other houses.
func TestHouses(t *testing.T) {
	dir := alone(t)
	rows, more, weights := filepath.Join(dir, "rows.csv"), filepath.Join(dir, "more.csv"), filepath.Join(dir, "model.safetensors")
	text := "area,heating,price\n"
	order := data.NewOrder(400, 1)
	for i := range 400 {
		n := order.At(uint64(i))
		heating := []string{"gas", "oil", "none"}[n%3]
		text += fmt.Sprintf("%d,%s,%d\n", 40+n/2, heating, 50_000+3000*(n/2)+100_000*(n%3))
	}
	write := func(path, text string) {
		t.Helper()
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write(rows, text)
	var out strings.Builder
	if err := run(t.Context(), &out, rows, &train.Options{Steps: 400, Save: weights}, options()); err != nil || explained(t, out.String()) < 95 {
		t.Fatalf("%v, %s", err, &out)
	}
	out.Reset()
	if err := evaluate(t.Context(), &out, rows, weights, true, options()); err != nil || explained(t, out.String()) < 95 || !strings.Contains(out.String(), "on 400 rows") {
		t.Errorf("%v, %s", err, &out)
	}
	write(more, "heating,area\ngas,140\nnone,140\n")
	out.Reset()
	if err := predict(t.Context(), &out, more, weights, options()); err != nil {
		t.Fatal(err)
	}
	var gas, none float64
	if _, err := fmt.Sscan(out.String(), &gas, &none); err != nil || gas < 300_000 || gas > 400_000 || none-gas < 150_000 || none-gas > 250_000 {
		t.Errorf("%q, %v, expected about 350000 and 550000", out.String(), err)
	}
	for text, says := range map[string]string{"area\n1\n": `lacks "heating"`, "heating,area\ncoal,1\n": "that of -load", "heating,area\ngas,\n": "train with -fill mean"} {
		write(more, text)
		if err := predict(t.Context(), &out, more, weights, options()); err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%q: %v, expected %q", text, err, says)
		}
	}
}

// TestOff: where predictions are worse than the mean, more steps are not all that may
// help.
func TestOff(t *testing.T) {
	less := -0.5
	if got := off("price", 4, &less); !strings.Contains(got, `"price" is off by 2`) || !strings.Contains(got, "-steps may help, or columns that say more") {
		t.Error(got)
	}
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
		"-load a mine.csv -fill mean":         "-fill has no effect beside -load",
		"-load a -checkpoint b":               "-checkpoint has no effect beside -load",
		"-label z":                            "-label has no effect without a table",
		"-load a mine.csv -comma ;":           "",
		"mine.csv -fill mean -label a -without b -categories c -save d -steps 3": "",
	} {
		fs := flag.NewFlagSet("ownmodel", flag.ContinueOnError)
		for _, name := range []string{"steps", "checkpoint", "save", "load", "predict", "evaluate"} {
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
