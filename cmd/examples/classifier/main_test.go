package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"

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
	if err := run(t.Context(), io.Discard, "", 60, weights, options()); err != nil {
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
	if err := evaluate(t.Context(), &out, weights, "points.csv", options()); err != nil || !strings.HasPrefix(out.String(), fmt.Sprintf("%.1f %% of %d rows are right; always saying ", 100*float64(right)/float64(table.Rows), table.Rows)) {
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
	err = run(t.Context(), io.Discard, rows, 1, weights, o)
	if err == nil || !strings.Contains(err.Error(), `rows.csv: line 4, column "size": "", expected`) || !strings.Contains(err.Error(), "-fill mean") {
		t.Errorf("an empty field without -fill: %v", err)
	}
	o.Fill = data.FillMean
	if err := run(t.Context(), io.Discard, rows, 60, weights, o); err != nil {
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
		_, err := parse(strings.Fields(args), io.Discard)
		if got := fmt.Sprint(err); says == "" && err != nil || !strings.Contains(got, says) {
			t.Errorf("%s: %v, expected %q", args, err, says)
		}
	}
}

// TestUsage gives command lines that are wrong: the status is 2, and the only output one
// line about the flag.
func TestUsage(t *testing.T) {
	for args, says := range map[string]string{
		"-epochs -1":                  "-epochs -1: expected 1 or more",
		"-epochs 0":                   "-epochs 0: expected 1 or more",
		"-epochs 1000000001":          "-epochs 1000000001: expected at most 1000000000",
		"-epochs 9999999999999999999": `-epochs "9999999999999999999": out of range, expected a whole number; see classifier -help`,
		"-epochs 1.5":                 `-epochs "1.5": expected a whole number`,
		"-eopchs 1":                   "unknown flag -eopchs, did you mean -epochs?; see classifier -help",
		"-fill mode":                  `-fill "mode": expected a finite number of at most 3.4e38, or mean; see classifier -help`,
		"-fill nan t.csv":             `-fill "nan": expected a finite number`,
		"-lable a t.csv":              "unknown flag -lable, did you mean -label?; see classifier -help",
		"-predict":                    "-predict needs a value; see classifier -help",
		"-comma ab t.csv":             `-comma "ab": expected one character, or tab; see classifier -help`,
		"-predict a -evaluate b":      "has no effect",
	} {
		var out, errs strings.Builder
		if status := start(t.Context(), strings.Fields(args), &out, &errs); status != 2 || out.Len() > 0 ||
			!strings.Contains(errs.String(), says) || !strings.HasPrefix(errs.String(), "classifier: ") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: status %d, printed %q and %q, expected 2 and %q alone", args, status, &out, &errs, says)
		}
	}
	var out, errs strings.Builder
	if status := start(t.Context(), []string{"-help"}, &out, &errs); status != 0 || !strings.Contains(errs.String(), "usage: classifier") {
		t.Errorf("-help: status %d, printed %q", status, &errs)
	}
}

// TestTables trains on tables with a flaw: some are refused before anything is printed,
// others have a line that says so.
func TestTables(t *testing.T) {
	dir, err := os.MkdirTemp("", "rs") // no dispatcher is there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	path, weights := filepath.Join(dir, "t.csv"), filepath.Join(dir, "new", "folder", "w.safetensors")
	rows := func(n int, head, row string) string { return head + strings.Repeat(row, n) }
	for _, c := range []struct {
		text string
		args []string
		says []string
	}{
		{rows(333, "a,size\n", "1,small\n"), nil, []string{`label "size": all 333 rows say "small", expected two values or more`}},
		{rows(20, "a,size\n", "1,small\n"), nil, []string{`all 20 rows say "small"`}},
		{"a,size\n1,small\n", nil, []string{`label "size": its only row says "small", expected two values or more`}},
		{rows(10, "a,size\n", "1,small\n2,big\n"), nil, []string{"the number of rows is 20, expected at least 40"}},
		{rows(40, "a,b,size\n", "1,2,small\n3,4,big\n"), []string{"-without", "a,b"}, []string{`-without leaves none beside the label "size", expected at least 1 that stays`}},
		{rows(40, "", "1,2,small\n3,4,big\n"), nil, []string{"line 1 of", "was taken for the first row, since it does not look like names of columns: the columns are called c1 to c3"}},
		{rows(40, "a,price,size\n", "1,\"1,234\",small\n3,\"2,345\",big\n"), nil, []string{`column "price" was taken for texts, but looks like numbers with thousands separators, first in line 2: "1,234"`, "write that one as 1234", "-categories 'price' says so"}},
		{rows(40, "a,size\n", "1,small\n3,big\n3,big\n"), []string{"-save", weights}, []string{"120 rows of 1 column,", "96 rows to train on, 24 others to judge it by", ` % of 24 other rows are right; always saying "big" would be right for `, "saved"}},
		{rows(40, "a,size\n", "1,small\n3,big\n3,big\n"), []string{"-save", "/proc/none/w.safetensors"}, []string{`-save "/proc/none/w.safetensors": making a file in the folder /proc: `}},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		status := start(t.Context(), append([]string{"-epochs", "2", path}, c.args...), &out, &errs)
		if status != 0 && out.Len() > 0 {
			t.Errorf("%.30q: printed %q before the error %q", c.text, &out, &errs)
		}
		for _, says := range c.says {
			if status == 0 && !strings.Contains(out.String(), says) || status != 0 && !strings.Contains(errs.String(), says) {
				t.Errorf("%.30q: status %d, printed\n%s\n%s\nexpected %q", c.text, status, &out, &errs, says)
			}
		}
	}
	var out strings.Builder
	if err := os.WriteFile(path, []byte("a,size\n3,big\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := evaluate(t.Context(), &out, weights, path, options()); err != nil || out.String() != "100.0 % of 1 row is right; always saying \"big\" would be right for 100.0 %\n" {
		t.Errorf("%q, %v", &out, err)
	}
}

// TestScore has rows of which most are of one class.
func TestScore(t *testing.T) {
	table := &data.Table{Rows: 4, Classes: []string{"big", "small"}, Class: []int64{1, 0, 1, 1}}
	if got := score(2, table, "other ", most(table)); got != `50.0 % of 4 other rows are right; always saying "small" would be right for 75.0 %` {
		t.Error(got)
	}
}

// TestMain is the program itself for the tests that start it as a process.
func TestMain(m *testing.M) {
	if os.Getenv("EXAMPLE_ALONE") != "" {
		main()
	}
	os.Exit(m.Run())
}

// TestSignal checks that SIGTERM ends the process while it waits for the rest of a table.
func TestSignal(t *testing.T) {
	pipe := filepath.Join(t.TempDir(), "t.csv")
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 20*time.Second)
	defer cancel()
	cmd := exec.CommandContext(ctx, os.Args[0], pipe)
	cmd.Env = append(os.Environ(), "EXAMPLE_ALONE=1")
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	opened := make(chan *os.File, 1)
	go func() {
		f, _ := os.OpenFile(pipe, os.O_WRONLY, 0) // waits for the process to open it
		opened <- f
	}()
	var f *os.File
	select {
	case f = <-opened:
	case <-ctx.Done():
		t.Fatal("the process did not open the table")
	}
	defer f.Close()
	// The write ends when the process reads, since a pipe holds less.
	if _, err := f.WriteString("a,b\n" + strings.Repeat("1,2\n", 1<<18)); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Signal(syscall.SIGTERM)
	_ = cmd.Wait()
	if state, ok := cmd.ProcessState.Sys().(syscall.WaitStatus); !ok || state.Signal() != syscall.SIGTERM {
		t.Errorf("%v: the process ended with %v, expected SIGTERM", ctx.Err(), cmd.ProcessState)
	}
}

// refusing is an output that has no room for the line with a text.
type refusing string

func (r refusing) Write(b []byte) (int, error) {
	if strings.Contains(string(b), string(r)) {
		return 0, syscall.ENOSPC
	}
	return len(b), nil
}

// TestFull has outputs without room for a line: the status says so, and the weights are
// saved if the training has ended.
func TestFull(t *testing.T) {
	dir, err := os.MkdirTemp("", "rs") // no dispatcher is there
	if err != nil {
		t.Fatal(err)
	}
	defer os.RemoveAll(dir)
	t.Setenv("XDG_RUNTIME_DIR", dir)
	path, weights := filepath.Join(dir, "t.csv"), filepath.Join(dir, "w.safetensors")
	if err := os.WriteFile(path, []byte("a,b\n"+strings.Repeat("1,100\n3,300\n", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"80 rows of 1 column", "to judge it by", "are right", "saved"} {
		_ = os.Remove(weights)
		var errs strings.Builder
		status := start(t.Context(), []string{"-epochs", "1", "-save", weights, path}, refusing(text), &errs)
		_, err := os.Stat(weights)
		if ended := text == "are right" || text == "saved"; status != 1 || !strings.Contains(errs.String(), "no space left") || ended && err != nil {
			t.Errorf("%q: status %d, %q, weights: %v, expected 1 and that no space is left", text, status, &errs, err)
		}
	}
}

// TestSaveFirst names places for the weights where no file can be: that is refused before
// anything is printed, read or made.
func TestSaveFirst(t *testing.T) {
	dir := t.TempDir()
	file := filepath.Join(dir, "c.csv")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	for _, save := range []string{dir, file + "/x", "/dev/full", filepath.Join(dir, "new") + "/", "/proc/none/w"} {
		for _, table := range [][]string{nil, {filepath.Join(dir, "none.csv")}} {
			var out, errs strings.Builder
			status := start(t.Context(), append(table, "-epochs", "1", "-save", save), &out, &errs)
			if status != 1 || out.Len() > 0 || !strings.Contains(errs.String(), fmt.Sprintf("-save %q: ", save)) {
				t.Errorf("-save %s: status %d, printed %q and %q, expected 1 and an error about -save alone", save, status, &out, &errs)
			}
		}
	}
	if entries, err := os.ReadDir(dir); err != nil || len(entries) != 1 {
		t.Errorf("the folder has %v, %v, expected c.csv alone", entries, err)
	}
}

// TestEmpty gives flags and a table that are empty: nothing is trained instead.
func TestEmpty(t *testing.T) {
	for _, args := range [][]string{{"-predict", ""}, {"-evaluate", ""}, {"-save", ""}, {"-load", ""}, {"-label", "", "t.csv"}, {""}} {
		var out, errs strings.Builder
		if status := start(t.Context(), args, &out, &errs); status != 2 || out.Len() > 0 || !strings.Contains(errs.String(), `"" for the table, expected`) && !strings.Contains(errs.String(), args[0]+` "": expected a value`) {
			t.Errorf("%q: status %d, printed %q and %q, expected 2 and an error about it", args, status, &out, &errs)
		}
	}
}
