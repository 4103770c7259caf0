package command

import (
	"bytes"
	"image/png"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPlot draws two runs that train wrote.
func TestPlot(t *testing.T) {
	runtimeDir(t)
	dir := t.TempDir()
	var runs []string
	for _, seed := range []string{"1", "2"} {
		run := filepath.Join(dir, seed)
		trained(t, "--in-process", "--data", textFile(t), "--batch", "2", "--steps", "6", "--loss-every", "1", "--sample=-1", "--seed", seed, "--log-dir", run)
		runs = append(runs, run)
	}
	svg, picture := filepath.Join(dir, "p.svg"), filepath.Join(dir, "p.png")
	out, _, err := execute(t, append([]string{"plot", "--svg", svg, "--png", picture, "--of", "loss,lr"}, runs...)...)
	if err != nil || out != "2 runs in "+svg+" "+picture+"\n" {
		t.Fatalf("%v, %q", err, out)
	}
	b, err := os.ReadFile(svg)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range append(runs, "learning rate") {
		if !bytes.Contains(b, []byte(want)) {
			t.Errorf("no %q in the SVG", want)
		}
	}
	if b, err = os.ReadFile(picture); err != nil {
		t.Fatal(err)
	}
	if m, err := png.Decode(bytes.NewReader(b)); err != nil || m.Bounds().Dx() != 1200 {
		t.Errorf("the PNG: %v", err)
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"plot", "--svg", svg}, "expected runs"},
		{[]string{"plot", runs[0]}, "--svg FILE or --png FILE is needed"},
		{[]string{"plot", runs[0], "--png", picture, "--of", "mood"}, "expected some of loss, lr, rate"},
		{[]string{"plot", filepath.Join(dir, "3"), "--png", picture}, "3: no such file or directory; expected a folder that train --log-dir made"},
		{[]string{"plot", textFile(t), "--png", picture}, "no losses of a training run"},
		{[]string{"plot", runs[0], "--png", dir}, "is a directory"},
	} {
		if _, _, err := execute(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, expected %q", c.args, err, c.says)
		}
	}
}
