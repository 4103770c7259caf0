package command

import (
	"context"
	"encoding/json"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster"
	"github.com/ringside-go/ringside/tensor/train"
)

// TestGenerateAndEval trains a model for a few steps and has the weights, from a file and
// from a checkpoint, here and through a cluster, give what train gave in the end.
func TestGenerateAndEval(t *testing.T) {
	runtimeDir(t)
	dir, err := os.MkdirTemp("", "rs")
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { os.RemoveAll(dir) })
	cl, err := cluster.Start(context.Background(), &cluster.Options{InProcess: true, Workers: 1, Dir: dir})
	if err != nil {
		t.Fatal(err)
	}
	defer cl.Close()
	text, weights, kept := textFile(t), filepath.Join(t.TempDir(), "model.safetensors"), filepath.Join(t.TempDir(), "run")
	o := trained(t, "--in-process", "--data", text, "--steps", "20", "--batch", "2", "--seed", "5", "--sample", "12", "--prompt", "the ", "--save", weights, "--checkpoint", kept)
	for _, load := range []string{weights, filepath.Dir(weights), kept} {
		for _, place := range [][]string{nil, {"--in-process"}, {"--connect", cl.Addr()}} {
			args := append([]string{"--load", load}, place...)
			write := append([]string{"generate", "--prompt", "the ", "--bytes", "12", "--seed", "5"}, args...)
			out, errOut, err := execute(t, write...)
			if err != nil || out != o.Sample+"\n" {
				t.Errorf("%v: %q, %v, %s; train wrote %q", args, out, err, errOut, o.Sample)
			}
			out, errOut, err = execute(t, append(write, "--json")...)
			var g generated
			if e := json.Unmarshal([]byte(out), &g); err != nil || e != nil || g.Prompt+g.Text != o.Sample || g.Bytes != 12 || g.Stopped || g.Model != "qwen3-tiny" {
				t.Errorf("%v: %+v, %v, %v, %s", args, g, err, e, errOut)
			}
			out, errOut, err = execute(t, append([]string{"eval", "--data", text, "--json"}, args...)...)
			var e train.Evaluation
			if bad := json.Unmarshal([]byte(out), &e); err != nil || bad != nil || e.HeldOut != o.HeldOut || *e.BitsPerByte != *o.BitsPerByte {
				t.Errorf("%v: %+v, %v, %v, %s; train had %v", args, e, err, bad, errOut, o.HeldOut)
			}
		}
	}
	out, _, err := execute(t, "eval", "--data", text, "--load", kept)
	if err != nil || !strings.Contains(out, "bits per byte\n") || !strings.Contains(out, kept) {
		t.Errorf("%v\n%s", err, out)
	}

	ctx, cancel := context.WithCancel(t.Context())
	root := NewRootCommand()
	var said strings.Builder
	root.SetOut(writerFunc(func(b []byte) (int, error) {
		if said.Len() > 40 {
			cancel()
		}
		return said.Write(b)
	}))
	root.SetErr(&said)
	root.SetArgs([]string{"generate", "--load", kept, "--prompt", "\x1bthe ", "--bytes", "1000000", "--in-process"})
	if status := Main(ctx, root); status != 130 || !strings.HasPrefix(said.String(), `\x1bthe `) || !strings.HasSuffix(said.String(), "\n") || strings.Contains(said.String(), "ringside:") {
		t.Errorf("interrupted: exit status %d, %q", status, &said)
	}

	dir = t.TempDir()
	of := func(model string) string {
		path := filepath.Join(dir, model+".safetensors")
		if err := os.WriteFile(path, ofModel(model), 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"generate", "--prompt", "a", "--load", of("fashion-mlp")}, "fashion-mlp learns from images and writes no text; ringside eval says how good it is"},
		{[]string{"generate", "--prompt", "a", "--load", of("sines")}, "has weights of a program's own model, which only that program can take: it evaluates them (Model.Evaluate)"},
		{[]string{"generate"}, "--prompt TEXT is needed"},
		{[]string{"generate", "--prompt", "a"}, "--load FILE is needed"},
		{[]string{"eval"}, "--load FILE is needed"},
		{[]string{"eval", "--load", kept, "--data", text, "--in-process", "--connect", "x"}, "--in-process and --connect exclude each other"},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--bytes", "0"}, "--bytes 0: expected 1 to"},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--temperature", "-1"}, "--temperature -1: expected 0 or more"},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--temperature", "NaN"}, "--temperature NaN: expected"},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--top-k", "-1"}, "--top-k -1: expected"},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--top-p", "0"}, "--top-p 0: expected above 0"},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--model", "parrot"}, `"parrot"`},
		{[]string{"generate", "--prompt", "a", "--load", text}, "--load: safetensors: "},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--model", "fashion-mlp"}, "holds weights of qwen3-tiny; leave --model out"},
		{[]string{"generate", "--prompt", "a", "--load", dir}, "--load: checkpoint: none here"},
		{[]string{"generate", "--prompt", "a", "--load", kept, "--model", "qwen3-small", "--in-process"}, "holds weights of qwen3-tiny; leave --model out"},
		{[]string{"eval", "--load", kept, "--model", "fashion-mlp", "--data", imageFolder(t)}, "--model fashion-mlp: " + kept + " holds weights of qwen3-tiny; leave --model out"},
		{[]string{"export", "--load", kept, "--model", "fashion-mlp", "--to", dir}, "holds weights of qwen3-tiny; leave --model out"},
	} {
		if out, _, err := execute(t, c.args...); err == nil || out != "" || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %q, %v, expected %q", c.args, out, err, c.says)
		}
	}
}

// ofModel is a safetensors file that says that it is of a model.
func ofModel(name string) []byte {
	return weights(`{"__metadata__":{"model":"`+name+`"},"a":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}}`, 1)
}

// TestTextWriter checks that characters come whole, and that what is none is marked.
func TestTextWriter(t *testing.T) {
	var parts []string
	w := textWriter{w: writerFunc(func(b []byte) (int, error) { parts = append(parts, string(b)); return len(b), nil })}
	for _, b := range []byte("a\u00e9\xff\x1b\xe2\x82") {
		if err := w.add(b); err != nil {
			t.Fatal(err)
		}
	}
	if err := w.end(); err != nil {
		t.Fatal(err)
	}
	if got, want := strings.Join(parts, "|"), "a||\u00e9|\uFFFD|\\x1b|||\uFFFD\n"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
}
