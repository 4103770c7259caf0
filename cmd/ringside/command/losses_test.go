package command

import (
	"bytes"
	"encoding/binary"
	"encoding/csv"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/train"
)

// lossLines reads a log of losses.
func lossLines(t *testing.T, dir string) []lossLine {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, lossLogName))
	if err != nil {
		t.Fatal(err)
	}
	var all []lossLine
	for line := range bytes.Lines(b) {
		var l lossLine
		d := json.NewDecoder(bytes.NewReader(line))
		d.DisallowUnknownFields()
		if err := d.Decode(&l); err != nil {
			t.Fatalf("%v in %q", err, line)
		}
		all = append(all, l)
	}
	return all
}

// TestLossLog checks that the log has every loss that the summary has and what the run
// came to, that a resumed run goes on with it, and another run does not.
func TestLossLog(t *testing.T) {
	runtimeDir(t)
	dir, kept, profile := filepath.Join(t.TempDir(), "log"), filepath.Join(t.TempDir(), "run"), filepath.Join(t.TempDir(), "cpu")
	args := []string{"--in-process", "--data", textFile(t), "--batch", "2", "--loss-every", "2", "--sample=-1", "--log-dir", dir}
	first := trained(t, append(args, "--steps", "6", "--checkpoint", kept, "--cpuprofile", profile)...)
	got := lossLines(t, dir)
	if len(got) != len(first.Losses)+1 {
		t.Fatalf("%d lines for %d losses", len(got), len(first.Losses))
	}
	for i, p := range first.Losses {
		if l := got[i]; l.Step != p.Step || l.Loss == nil || *l.Loss != p.Loss || l.Steps != 6 || l.Time.IsZero() || !(l.Rate > 0) || !(l.LR > 0) {
			t.Errorf("line %d is %+v, the loss %+v", i, l, p)
		}
	}
	checkTable(t, dir, got)
	checkEvents(t, dir, got)
	if l := got[len(got)-1]; l.Step != 6 || l.HeldOut != first.HeldOut || *l.BitsPerByte != *first.BitsPerByte || l.Loss != nil {
		t.Errorf("the last line is %+v", l)
	}
	if b, err := os.ReadFile(profile); err != nil || !bytes.HasPrefix(b, []byte{0x1f, 0x8b}) {
		t.Errorf("a profile of %d bytes, %v", len(b), err)
	}
	next := trained(t, append(args, "--steps", "8", "--resume", kept)...)
	if more := lossLines(t, dir); len(more) != len(got)+len(next.Losses)+1 {
		t.Errorf("%d lines after %d and %d losses more", len(more), len(got), len(next.Losses))
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{append(args, "--steps", "1"), "is another run's"},
		{append(args, "--steps", "20", "--resume", kept, "--lr", "1e30", "--loss-every", "1", "--json"), "not finite"},
		{[]string{"--in-process", "--data", textFile(t), "--log-dir", textFile(t)}, "--log-dir: "},
		{[]string{"--in-process", "--data", textFile(t), "--cpuprofile", t.TempDir()}, "--cpuprofile: "},
		{[]string{"--data", textFile(t), "--log-dir", t.TempDir(), "--outer", "diloco", "--peers", "2", "--store", t.TempDir()}, "--outer and --log-dir"},
	} {
		if _, _, err := execute(t, append([]string{"train"}, c.args...)...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, expected %q", c.args, err, c.says)
		}
	}
	if all := lossLines(t, dir); !strings.Contains(all[len(all)-1].Error, "not finite") {
		t.Errorf("the last line of a run that diverged is %+v", all[len(all)-1])
	}
}

// checkTable checks that losses.csv has the losses of the log.
func checkTable(t *testing.T, dir string, lines []lossLine) {
	t.Helper()
	b, err := os.ReadFile(filepath.Join(dir, lossCSVName))
	if err != nil {
		t.Fatal(err)
	}
	rows, err := csv.NewReader(bytes.NewReader(b)).ReadAll()
	if err != nil || len(rows) != len(lines) || strings.Join(rows[0], ",")+"\n" != lossColumns {
		t.Fatalf("%v, %d rows for %d lines, the first is %v", err, len(rows), len(lines), rows[0])
	}
	for i, row := range rows[1:] {
		want := []string{fmt.Sprint(lines[i].Step), fmt.Sprint(*lines[i].Loss), fmt.Sprint(lines[i].LR), fmt.Sprint(lines[i].Rate)}
		for c, text := range want {
			a, e1 := strconv.ParseFloat(row[c+1], 64)
			b, e2 := strconv.ParseFloat(text, 64)
			if e1 != nil || e2 != nil || a != b {
				t.Errorf("row %d is %v, expected %v", i, row, want)
				break
			}
		}
	}
}

// checkEvents checks that there is one file of events with every loss of the log, and the
// text of the sample.
func checkEvents(t *testing.T, dir string, lines []lossLine) {
	t.Helper()
	found, err := filepath.Glob(filepath.Join(dir, "events.out.tfevents.*"))
	if err != nil || len(found) != 1 {
		t.Fatalf("files of events: %v, %v", found, err)
	}
	b, err := os.ReadFile(found[0])
	if err != nil {
		t.Fatal(err)
	}
	for _, l := range lines[:len(lines)-1] {
		// the field simple_value, behind the tag
		want := append([]byte("loss\x15"), binary.LittleEndian.AppendUint32(nil, math.Float32bits(float32(*l.Loss)))...)
		if !bytes.Contains(b, want) {
			t.Errorf("the events have no loss %v", *l.Loss)
		}
	}
	for _, want := range []string{"learning rate", "tokens a second", "bits per byte", "held-out loss"} {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("the events have no %q", want)
		}
	}
}

// TestCurve checks the picture of losses in a summary.
func TestCurve(t *testing.T) {
	var falling, many []train.Point
	for i := range 12 {
		falling = append(falling, train.Point{Step: 10 * (i + 1), Loss: 12 - float64(i)})
	}
	const want = "" +
		"12 |**\n" +
		"   |  **\n" +
		"   |    **\n" +
		"   |      **\n" +
		"   |        **\n" +
		" 1 |          **\n" +
		"   +------------\n" +
		"    10       120\n"
	if got := curve(falling); got != want {
		t.Errorf("\n%s\nexpected\n%s", got, want)
	}
	for i := range 1000 {
		many = append(many, train.Point{Step: i + 1, Loss: 3})
	}
	many = append(many, train.Point{Step: 5000, Loss: 3})
	for _, points := range [][]train.Point{many, falling[:3], {{Step: 1, Loss: 1}, {Step: 1, Loss: 2}, {Step: 1, Loss: 3}}} {
		for line := range strings.Lines(curve(points)) {
			if len(line) > curveColumns+20 || strings.Contains(line, "NaN") {
				t.Errorf("%d points: %q", len(points), line)
			}
		}
	}
	const sparse = "" +
		"12 |*.\n" +
		"   |  ..*.\n" +
		"10 |      ..*\n" +
		"   +---------\n" +
		"    10     30\n"
	if got := plotted(falling[:3], 9, 3); got != sparse {
		t.Errorf("\n%s\nexpected\n%s", got, sparse)
	}
	if got := curve(falling[:2]); got != "" {
		t.Errorf("of two losses: %q", got)
	}
}
