package command

import (
	"encoding/binary"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/cpu"
	"github.com/ringside-go/ringside/tensor/nn"
)

// fails runs a command that must fail with an error that says all of says and none of
// not, and prints nothing before.
func fails(t *testing.T, says, not []string, args ...string) {
	t.Helper()
	_, said, err := execute(t, args...)
	if err == nil || said != "" {
		t.Errorf("%q: %v, and said %q before, expected an error alone", args, err, said)
		return
	}
	for _, s := range says {
		if !strings.Contains(err.Error(), s) {
			t.Errorf("%q: %v, expected %q", args, err, s)
		}
	}
	for _, s := range not {
		if strings.Contains(err.Error(), s) {
			t.Errorf("%q: %v, expected no %q", args, err, s)
		}
	}
}

// loaders are the commands that load weights.
func loaders(text string) [][]string {
	return [][]string{
		{"generate", "--prompt", "x"}, {"eval"}, {"export", "--to", filepath.Join(filepath.Dir(text), "to")},
		{"train", "--in-process", "--data", text, "--steps", "1"},
	}
}

// testWrongWeights: the error for weights that are not there says how to write them and
// which weights are beside them, and a text is refused as no weights.
func testWrongWeights(t *testing.T) {
	text, dir := textFile(t), t.TempDir()
	none, folder := filepath.Join(dir, "nosuch.safetensors"), filepath.Join(dir, "nosuch")
	if err := errors.Join(os.WriteFile(filepath.Join(dir, "a.safetensors"), nil, 0o600), os.WriteFile(filepath.Join(dir, "b"), []byte("b"), 0o600)); err != nil {
		t.Fatal(err)
	}
	dangling := filepath.Join(dir, "link.safetensors")
	if err := os.Symlink(none, dangling); err != nil {
		t.Fatal(err)
	}
	for _, c := range loaders(text) {
		fails(t, []string{"--load: stat " + none + ": no such file or directory; ringside train --save " + none + " writes weights there", "the folder " + dir + ` has the weights "a.safetensors"`},
			[]string{"no folder", "train: "}, append(c, "--load", none)...)
		fails(t, []string{"--load: stat " + dangling, "the folder " + dir + ` has the weights "a.safetensors"`}, []string{`"link.safetensors"`}, append(c, "--load", dangling)...)
		fails(t, []string{"ringside train --checkpoint " + folder + " saves a run there"}, nil, append(c, "--load", folder)...)
		fails(t, []string{"--load: ", text + " is no safetensors file: it begins with \"the quic\""}, []string{"header of"}, append(c, "--load", text)...)
		fails(t, []string{"b is 1 byte, expected a safetensors file"}, nil, append(c, "--load", filepath.Join(dir, "b"))...)
	}
}

// testForeignWeights: the error for weights of another program's model is short, and
// names the example that takes weights of a table.
func testForeignWeights(t *testing.T) {
	text, dir := textFile(t), t.TempDir()
	s, err := cpu.NewSession(nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	// Too little text to judge: nothing is said of it before the weights are refused.
	little := filepath.Join(dir, "little.txt")
	other, table, number := filepath.Join(dir, "other.safetensors"), filepath.Join(dir, "table.safetensors"), filepath.Join(dir, "number.safetensors")
	params := []tensor.Named{{Name: "fc1.weight", T: tensor.Zeros(s, tensor.F32, 2, 3)}, {Name: "fc2.weight", T: tensor.Zeros(s, tensor.F32, 3)}}
	form := `{"Names":["x"],"Classes":["red","blue"],"Label":"colour"}`
	target := map[string]string{"model": "sines", "table": `{"Names":["x"],"Label":"y","Target":[]}`}
	if err := errors.Join(nn.Save(other, params, nil), nn.Save(table, params, map[string]string{"table": form}), nn.Save(number, params, target),
		os.WriteFile(little, []byte(strings.Repeat("a fox ", 30)), 0o600)); err != nil {
		t.Fatal(err)
	}
	const tensors = `is not weights of qwen3-tiny: it has 2 tensors such as "fc1.weight", expected 24 tensors such as "model.`
	long := []string{"fc2", "build the network", "unknown model"}
	for i, c := range loaders(text) {
		says, named := []string{other + " " + tensors}, c
		if i < 3 {
			named = append(c[:len(c):len(c)], "--model", "qwen3-tiny")
			fails(t, []string{other + " does not say which model it is of; there are ", "; if it is one of these, say so with --model"}, long, append(c, "--load", other)...)
			const own = " has weights of a program's own model, which learnt from a table; "
			fails(t, []string{"--load: " + table + own, "such as bin/classifier -load FILE -predict rows.csv"}, append(long, "--model"), append(c, "--load", table)...)
			fails(t, []string{"--load: " + number + own, "such as bin/ownmodel -load FILE -predict rows.csv"}, append(long, "--model", "Model."), append(c, "--load", number)...)
		}
		fails(t, says, long, append(named, "--load", other)...)
		fails(t, []string{table + " " + tensors, "; it learnt from a table"}, long, append(named, "--load", table)...)
	}
	for _, c := range [][]string{{"eval", "--model", "qwen3-tiny"}, {"train", "--in-process"}} {
		fails(t, []string{"--load: " + table + " " + tensors}, long, append(c, "--data", little, "--load", table)...)
	}
}

// testBinaryData: a file that is no text is refused by its name, as it is left out of a
// folder, and it is said what it looks like.
func testBinaryData(t *testing.T) {
	dir := t.TempDir()
	weights := string(binary.LittleEndian.AppendUint64(nil, 40)) + `{"a":1}`
	for name, c := range map[string]struct{ body, says string }{
		"t.npy":     {"1,2.5,\x00\n", "byte 6 is 0"},
		"utf-16":    {"\xff\xfea\x00", "it is in UTF-16: iconv -f utf-16 -t utf-8 makes it UTF-8"},
		"weights":   {weights, "it is weights (safetensors), which --load takes"},
		"program":   {"\x7fELF\x02\x00", "it is a program"},
		"text.gz":   {"\x1f\x8b\x08ab", "it is compressed by gzip: gunzip it first"},
		"text.zip":  {"PK\x03\x04\x00", "it is a zip archive"},
		"page.pdf":  {"%PDF-1.7\n\x00", "it is a PDF: pdftotext"},
		"cut.pdf":   {"%PDF-1.7\n\xe2\xe3", "it is a PDF: pdftotext"},
		"plain.png": {"\x89PNG\r\n", "it is an image"},
	} {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, []byte(strings.Repeat(c.body, 500)), 0o600); err != nil {
			t.Fatal(err)
		}
		fails(t, []string{"--data: " + path + " is no text: " + c.says, "expected text in UTF-8, or a folder"}, nil, "train", "--in-process", "--steps", "1", "--data", path)
	}
	fails(t, []string{"holds no text file", "but others: "}, nil, "train", "--in-process", "--steps", "1", "--data", dir)
	notes := filepath.Join(dir, "notes")
	for _, begin := range []string{"BZh", "%PDF-"} {
		// The last letter has several bytes: the text may be cut in the middle of one.
		if err := os.WriteFile(notes, []byte(begin+strings.Repeat(" is how it begins \u20ac\n", 500)), 0o600); err != nil {
			t.Fatal(err)
		}
		if _, said, err := execute(t, "train", "--in-process", "--steps", "1", "--batch", "1", "--sample=0", "--data", notes); err != nil || strings.Contains(said, "no text") {
			t.Errorf("a text that begins with %s: %v, %s", begin, err, said)
		}
	}
}

// testShortText: a text that is too short is one error, which names the length that the
// warning about a longer one names.
func testShortText(t *testing.T) {
	path := filepath.Join(t.TempDir(), "short.txt")
	train := []string{"train", "--in-process", "--steps", "1", "--batch", "1", "--sample=0", "--data", path}
	for size, refused := range map[int]bool{50: true, 1000: false, 1299: false, 1300: false} {
		if err := os.WriteFile(path, []byte(strings.Repeat("a fox ", 300)[:size]), 0o600); err != nil {
			t.Fatal(err)
		}
		const want = "expected a text of 1300 bytes or more"
		if refused {
			fails(t, []string{path + " is too short: 48 bytes to train on and 2 held out", want}, nil, train...)
			continue
		}
		if _, said, err := execute(t, train...); err != nil || strings.Contains(said, want) != (size < 1300) {
			t.Errorf("%d bytes: %v, said %q", size, err, said)
		}
	}
}

// testResumeOtherData: a run that is at its end is not said to be evaluated before its
// data is known to be another one's, nor is anything said of that data.
func testResumeOtherData(t *testing.T) {
	runtimeDir(t)
	text, run := textFile(t), filepath.Join(t.TempDir(), "run")
	trained(t, "--in-process", "--data", text, "--steps", "1", "--batch", "1", "--sample=-1", "--checkpoint", run)
	other := filepath.Join(t.TempDir(), "other.csv")
	if err := os.WriteFile(other, []byte(strings.Repeat("1,2,3\n", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	resume := []string{"train", "--in-process", "--sample=0", "--resume", run}
	fails(t, []string{"--load w.safetensors and --resume " + run + " exclude each other"}, nil, append(resume, "--load", "w.safetensors")...)
	fails(t, []string{"--resume: " + other + " is other data than the run in " + run + " was trained on, which was " + text + "; give that again (text of "}, nil, append(resume, "--data", other)...)
	fails(t, []string{"--resume: the run in " + run + ` is of the model "qwen3-tiny", not of fashion-mlp`}, nil, append(resume, "--model", "fashion-mlp")...)
	if err := os.WriteFile(text, []byte(strings.Repeat("another fox ", 500)), 0o600); err != nil {
		t.Fatal(err)
	}
	fails(t, []string{"--resume: " + text + " has changed since the run in " + run + " was trained on it"}, nil, resume...)
}

// testLossesSay: it is said which loss is that of the last batch, and which that of the
// held-out text; a sample begins with a whole word; one is not several.
func testLossesSay(t *testing.T) {
	text, file := textFile(t), filepath.Join(t.TempDir(), "m.safetensors")
	body := strings.Repeat("abcdefghijk ", 700)
	if err := os.WriteFile(text, []byte(body), 0o600); err != nil {
		t.Fatal(err)
	}
	out, _, err := execute(t, "train", "--in-process", "--data", text, "--steps", "1", "--batch", "1", "--sample=1", "--save", file)
	if err != nil || !strings.Contains(out, ", of the last batch\n") || !strings.Contains(out, "sample:\nabcdefghijk abcdefghijk") {
		t.Errorf("train: %v\n%s", err, out)
	}
	if out, _, err = execute(t, "eval", "--load", file); err != nil || !strings.Contains(out, "held-out loss  ") {
		t.Errorf("eval: %v\n%s", err, out)
	}
	if one, more := mean(1, "round trip"), mean(2.5, "round trip"); one != "1 round trip" || more != "2.5 round trips" {
		t.Errorf("%s, %s", one, more)
	}
}
