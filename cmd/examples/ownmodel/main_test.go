package main

import (
	"context"
	"flag"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

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
		"-steps -1":                  "-steps -1: expected 1 or more",
		"-steps 0":                   "-steps 0: expected 1 or more",
		"-steps 1000000001":          "-steps 1000000001: expected at most 1000000000",
		"-steps 9999999999999999999": `-steps "9999999999999999999": out of range, expected a whole number; see ownmodel -help`,
		"-steps 1.5":                 `-steps "1.5": expected a whole number`,
		"-epochs 1":                  "unknown flag -epochs, did you mean -steps?; see ownmodel -help",
		"-fill mode":                 `-fill "mode": expected a finite number of at most 3.4e38, or mean; see ownmodel -help`,
		"-fill nan t.csv":            `-fill "nan": expected a finite number`,
		"-lable a t.csv":             "unknown flag -lable, did you mean -label?; see ownmodel -help",
		"-predict":                   "-predict needs a value; see ownmodel -help",
		"-comma ab t.csv":            `-comma "ab": expected one character, or tab; see ownmodel -help`,
		"-predict a -evaluate b":     "has no effect",
	} {
		var out, errs strings.Builder
		if status := start(t.Context(), strings.Fields(args), &out, &errs); status != 2 || out.Len() > 0 ||
			!strings.Contains(errs.String(), says) || !strings.HasPrefix(errs.String(), "ownmodel: ") || strings.Count(errs.String(), "\n") != 1 {
			t.Errorf("%s: status %d, printed %q and %q, expected 2 and %q alone", args, status, &out, &errs, says)
		}
	}
	var out, errs strings.Builder
	if status := start(t.Context(), []string{"-help"}, &out, &errs); status != 0 || !strings.Contains(errs.String(), "usage: ownmodel") {
		t.Errorf("-help: status %d, printed %q", status, &errs)
	}
}

// TestTables trains on tables with a flaw: some are refused before anything is printed,
// others have a line that says so.
func TestTables(t *testing.T) {
	dir := alone(t)
	path, weights := filepath.Join(dir, "t.csv"), filepath.Join(dir, "new", "folder", "w.safetensors")
	rows := func(n int, head, row string) string { return head + strings.Repeat(row, n) }
	for _, c := range []struct {
		text string
		args []string
		says []string
	}{
		{rows(333, "a,price\n", "1,5.5\n"), nil, []string{`label "price": all 333 rows say 5.5, expected two values or more`}},
		{rows(4, "a,price\n", "1,5.5\n2,6.5\n")[:len("a,price\n")+5*6], nil, []string{"4 rows to train on, 1 other to judge it by"}},
		{rows(40, "a,b,price\n", "1,2,3\n3,4,5\n"), []string{"-without", "a,b"}, []string{`-without leaves none beside the label "price", expected at least 1 that stays`}},
		{rows(40, "", "1,2,3\n3,4,5\n"), nil, []string{"was taken for the first row, since it does not look like names of columns: the columns are called c1 to c3"}},
		{rows(40, "a,size,price\n", "1,\"1,234\",3\n3,\"2,345\",5\n"), nil, []string{`column "size" was taken for texts, but looks like numbers with thousands separators, first in line 2: "1,234"`, "-categories 'size' says so"}},
		{rows(40, "a,price\n", "1,\"1,234\"\n"), nil, []string{`line 2, column "price": "1,234", expected a finite number`, "write it as 1234"}},
		{rows(40, "a,price\n", "1,100\n3,300\n3,300\n"), []string{"-save", weights}, []string{"120 rows of 1 column,", "96 rows to train on, 24 others to judge it by", `: "price" is off by `, "after 2 steps, on 24 rows", "saved"}},
	} {
		if err := os.WriteFile(path, []byte(c.text), 0o600); err != nil {
			t.Fatal(err)
		}
		var out, errs strings.Builder
		status := start(t.Context(), append([]string{"-steps", "2", path}, c.args...), &out, &errs)
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
	if err := os.WriteFile(path, []byte("a,price\n3,300\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := evaluate(t.Context(), &out, path, weights, true, options()); err != nil || !strings.HasPrefix(out.String(), "on 1 row of ") {
		t.Errorf("%q, %v", &out, err)
	}
}

// TestProgress trains on a label of large numbers: what a step is off by is in the
// label's own unit, and falls to that of the rows held out.
func TestProgress(t *testing.T) {
	path := filepath.Join(alone(t), "t.csv")
	if err := os.WriteFile(path, []byte("a,price\n"+strings.Repeat("1,1000000\n3,3000000\n", 100)), 0o600); err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := run(t.Context(), &out, path, &train.Options{Steps: 2, LossEvery: 1}, options()); err != nil {
		t.Fatal(err)
	}
	m := regexp.MustCompile(`step 1 of 2: "price" is off by (\S+) in this step's rows`).FindStringSubmatch(out.String())
	if m == nil {
		t.Fatal(out.String())
	}
	if off, err := strconv.ParseFloat(m[1], 64); err != nil || off < 5e5 || off > 2e6 {
		t.Errorf("off by %s, %v, expected about the deviation, 1e6", m[1], err)
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
	dir := alone(t)
	path, weights := filepath.Join(dir, "t.csv"), filepath.Join(dir, "w.safetensors")
	if err := os.WriteFile(path, []byte("a,b\n"+strings.Repeat("1,100\n3,300\n", 40)), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, text := range []string{"80 rows of 1 column", "to judge it by", "after 1 step, on 16 rows", "saved"} {
		_ = os.Remove(weights)
		var errs strings.Builder
		status := start(t.Context(), []string{"-steps", "1", "-save", weights, path}, refusing(text), &errs)
		_, err := os.Stat(weights)
		if ended := text == "after 1 step, on 16 rows" || text == "saved"; status != 1 || !strings.Contains(errs.String(), "no space left") || ended && err != nil {
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
			status := start(t.Context(), append(table, "-steps", "1", "-save", save), &out, &errs)
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
