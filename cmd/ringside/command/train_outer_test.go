package command

import (
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/gather/outer"
	"github.com/ringside-go/ringside/tensor/train"
)

// TestTrainApart: two peers in this process train over a folder, end with the same
// weights and say what they sent; a third that comes when all is over has them too.
func TestTrainApart(t *testing.T) {
	runtimeDir(t)
	dir := t.TempDir()
	args := []string{"train", "--json", "--data", textFile(t), "--steps", "20", "--batch", "4", "--loss-every", "1", "--sample", "0",
		"--outer", "diloco", "--inner", "16", "--topk", "64", "--levels", "4", "--store", filepath.Join(dir, "store")}
	trainedApart := func(more ...string) apartOutcome {
		t.Helper()
		out, errOut, err := execute(t, append(args, more...)...)
		if err != nil {
			t.Fatalf("%v: %v\n%s", more, err, errOut)
		}
		var o apartOutcome
		d := json.NewDecoder(strings.NewReader(out))
		d.DisallowUnknownFields()
		if err := d.Decode(&o); err != nil {
			t.Fatalf("%v in %s", err, out)
		}
		return o
	}
	o := trainedApart("--peers", "2", "--compare", "--save", filepath.Join(dir, "weights"))
	if len(o.Peers) != 2 || o.Peers[0].Weights != o.Peers[1].Weights || o.Peers[0].HeldOut != o.Peers[1].HeldOut {
		t.Fatalf("the peers differ: %+v", o.Peers)
	}
	for _, p := range o.Peers {
		if p.Rounds != 3 || p.Steps != 40 || p.Batch != 2 || p.Sent == 0 || p.Dense < 100 || len(p.Missing) != 0 || p.Losses[0].Loss < p.HeldOut+0.3 {
			t.Errorf("peer %d: %+v, %+v", p.Peer, p.Stats, p.Summary)
		}
	}
	if _, err := os.Stat(filepath.Join(dir, "weights")); err != nil {
		t.Error(err)
	}
	if d := o.DataParallel; d == nil || d.Batch != 8 || d.Steps != 20 || d.Seed != o.Peers[0].Seed || math.Abs(o.Over-(o.Peers[0].HeldOut/d.HeldOut-1)) > 1e-9 {
		t.Errorf("compared with %+v: %v over, expected a run of batches of 8", d, o.Over)
	}
	if p := &o.Peers[0]; math.Abs(p.Dense*float64(p.Sent)-float64(p.Parameters)*4*20) > 1 {
		t.Errorf("%v times the bytes sent, expected those of gradients of 20 steps", p.Dense)
	}
	again := trainedApart("--peers", "2", "--peer", "2", "--in-process")
	if p := again.Peers[0]; p.Peer != 2 || p.Resumed != 40 || p.Sent != 0 || p.Weights != o.Peers[0].Weights {
		t.Errorf("a peer that comes again: %+v, %+v", p.Stats, p.Summary)
	}
}

// TestApartTable: peers that found all rounds in the store have no loss, and the table
// says why.
func TestApartTable(t *testing.T) {
	const none = "no step was taken"
	for _, c := range []struct {
		sum  train.Summary
		want string // a row's steps, rounds, loss
		says bool
	}{
		{train.Summary{Steps: 40, Loss: 2.5}, "40 3 2.5000", false},
		{train.Summary{Steps: 40, Resumed: 20, Loss: 2.5}, "40 3 2.5000", false},
		{train.Summary{Steps: 40, Resumed: 40}, "40 3 -", true},
		{train.Summary{Stopped: true}, "0 3 -", false},
	} {
		o := apartOutcome{Peers: []peerOutcome{{Stats: outer.Stats{Peer: 1, Rounds: 3}, Summary: &c.sum}}}
		var b strings.Builder
		if err := o.write(&b); err != nil {
			t.Fatal(err)
		}
		text := strings.Join(strings.Fields(b.String()), " ")
		if !strings.Contains(text, " 1 "+c.want+" ") || strings.Contains(text, none) != c.says {
			t.Errorf("%+v gives %s, expected a row of %s", c.sum, text, c.want)
		}
	}
}

// TestTrainApartFlags: flags that do not go together are errors of usage.
func TestTrainApartFlags(t *testing.T) {
	for text, want := range map[string]string{
		"--peers 2":                           "--peers: it is about peers",
		"--compare":                           "--compare: it is about peers",
		"--outer diloco --peers 2 --levels 1": "--levels 1: expected 2 to 256",
		"--outer diloco --peers 2 --compare --peer 1":   "exclude each other",
		"--outer x --peers 2 --store s":                 "--outer x: expected diloco",
		"--outer diloco --store s":                      "--peers 0",
		"--outer diloco --peers 2":                      "--store: expected",
		"--outer diloco --peers 2 --peer 3":             "--peer 3: expected 1 to 2",
		"--outer diloco --peers 2 --workers 2":          "say which --peer",
		"--outer diloco --peers 2 --resume c":           "exclude each other",
		"--outer diloco --peers 2 --sign-key-file k":    "say which with --peer",
		"--outer diloco --peers 2 --outer-momentum 1":   "expected at least 0 and below 1",
		"--outer diloco --peers 2 --outer-momentum NaN": "expected at least 0 and below 1",
		"--outer diloco --peers 2 --outer-timeout -1s":  "--outer-timeout -1s: expected above 0",
		"--outer diloco --peers 2 --inner 0":            "--inner",
		"--outer diloco --peers 2 --store ftp://host":   "scheme",
	} {
		_, _, err := execute(t, append([]string{"train", "--data", textFile(t)}, strings.Fields(text)...)...)
		var usage *usageError
		if err == nil || !strings.Contains(err.Error(), want) || want != "scheme" && !errors.As(err, &usage) {
			t.Errorf("%s gave %v, expected an error of usage with %q", text, err, want)
		}
	}
}
