package command

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io/fs"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
)

// failed runs the program as a process of its own. The process must end by itself with
// the exit status, without a panic, and with an error that contains every string of says.
func failed(t *testing.T, status int, says []string, args ...string) {
	t.Helper()
	exe, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	c := exec.CommandContext(t.Context(), exe, args...)
	var errOut bytes.Buffer
	c.Stderr = &errOut
	err = c.Run()
	var exit *exec.ExitError
	if !errors.As(err, &exit) || exit.ExitCode() != status {
		t.Errorf("%v: %v, want exit status %d\n%s", args, err, status, &errOut)
	}
	said := errOut.String()
	if !strings.HasPrefix(said, "ringside: ") && !strings.Contains(said, "\nringside: ") || strings.Contains(said, "goroutine ") {
		t.Errorf("%v: no error in\n%s", args, said)
	}
	for _, s := range says {
		if !strings.Contains(said, s) {
			t.Errorf("%v: %q does not say %q", args, said, s)
		}
	}
}

// listing is every path below dir.
func listing(t *testing.T, dir string) []string {
	t.Helper()
	var all []string
	if err := filepath.WalkDir(dir, func(path string, _ fs.DirEntry, err error) error {
		all = append(all, path)
		return err
	}); err != nil {
		t.Fatal(err)
	}
	return all
}

// weights is a safetensors file of a header and n zero bytes.
func weights(header string, n int) []byte {
	b := binary.LittleEndian.AppendUint64(nil, uint64(len(header)))
	return append(append(b, header...), make([]byte, n)...)
}

// damaged is a folder of images with one file spoiled.
func damaged(t *testing.T, name string, spoil func([]byte) []byte) string {
	t.Helper()
	dir := imageFolder(t)
	path := filepath.Join(dir, name)
	b, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(path, spoil(b), 0o600); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestBadFiles checks that a file of the wrong kind is an error that names it and what
// was expected, before any training, and that nothing is left behind.
func TestBadFiles(t *testing.T) {
	runtimeDir(t)
	dir, text, images := t.TempDir(), textFile(t), imageFolder(t)
	write := func(name string, b []byte) string {
		path := filepath.Join(dir, name)
		if err := os.WriteFile(path, b, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	pipe, loop := filepath.Join(dir, "pipe"), filepath.Join(dir, "loop")
	if err := errors.Join(syscall.Mkfifo(pipe, 0o600), os.Symlink(loop, loop)); err != nil {
		t.Fatal(err)
	}
	const trainImages, trainLabels = "train-images-idx3-ubyte.gz", "train-labels-idx1-ubyte.gz"
	plain := func(dims ...byte) func([]byte) []byte {
		return func([]byte) []byte {
			b := []byte{0, 0, 8, byte(len(dims))}
			for _, d := range dims {
				b = append(b, 0, 0, 0, d)
			}
			return append(b, make([]byte, 10)...)
		}
	}
	learnText := []string{"train", "--in-process", "--steps", "1", "--batch", "1", "--sample=-1", "--data"}
	learnImages := append([]string{"train", "--model", "fashion-mlp"}, learnText[1:]...)
	for _, c := range []struct {
		name, path string
		says       []string
	}{
		{"no text", filepath.Join(dir, "gone"), []string{"gone", "no such file"}},
		{"empty text", write("empty", nil), []string{"is empty, expected text"}},
		{"short text", write("short", []byte("twenty bytes of text")), []string{"19 bytes to train on and 1 held out", "pieces of 64"}},
		{"binary folder", filepath.Dir(write("zeros", make([]byte, 99))), []string{"no text file", `but others: ["b"]`}},
		{"pipe", pipe, []string{"expected a file or a folder"}},
		{"device", "/dev/zero", []string{"--data: ", "is no file but a device or a pipe, expected a file or a folder"}},
		{"link to itself", loop, []string{"too many links"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			if c.name == "binary folder" {
				c.path = t.TempDir()
				if err := os.WriteFile(filepath.Join(c.path, "b"), []byte{0, 1}, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			failed(t, 1, append(c.says, c.path), append(slices.Clone(learnText), c.path)...)
		})
	}
	for _, c := range []struct {
		name, dir string
		says      []string
	}{
		{"no images", t.TempDir(), []string{"train-images-idx3-ubyte", "--data"}},
		{"file for a folder", text, []string{"train-images-idx3-ubyte", "not a directory", "--data"}},
		{"empty images", damaged(t, trainImages, func([]byte) []byte { return nil }), []string{trainImages, "truncated", "magic"}},
		{"truncated gzip", damaged(t, trainImages, func(b []byte) []byte { return b[:len(b)/2] }), []string{trainImages, "truncated", "of 156800 elements"}},
		{"broken gzip", damaged(t, trainImages, func(b []byte) []byte { b[len(b)/2] ^= 0xff; return b }), []string{trainImages}},
		{"not gzip", damaged(t, trainImages, func([]byte) []byte { return []byte("hello, world") }), []string{trainImages, "0x68656c6c", "expected 0x000008"}},
		{"truncated plain", damaged(t, trainImages, plain(2, 28, 28)), []string{trainImages, "ends in 10 of 1568 elements"}},
		{"bytes behind", damaged(t, trainLabels, plain(4)), []string{trainLabels}},
		{"labels for images", damaged(t, trainImages, plain(10)), []string{trainImages, "dimensions [10], expected [images, rows, columns]"}},
		{"fewer labels", damaged(t, trainLabels, plain(10)), []string{trainLabels, "holds 10 labels, expected 200"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			failed(t, 1, append(c.says, c.dir), append(slices.Clone(learnImages), c.dir)...)
		})
	}

	mlp := filepath.Join(dir, "mlp.safetensors")
	if out, errOut, err := execute(t, append(slices.Clone(learnImages), images, "--save", mlp)...); err != nil {
		t.Fatalf("%v\n%s%s", err, out, errOut)
	}
	good, err := os.ReadFile(mlp)
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		name string
		file []byte // nil: nothing is there
		says []string
	}{
		{"no weights", nil, []string{"no such file"}},
		{"empty weights", []byte{}, []string{"truncated"}},
		{"truncated weights", good[:len(good)-4], []string{"expected"}},
		{"text for weights", []byte(strings.Repeat("weights ", 9)), []string{"header"}},
		{"huge header", weights(strings.Repeat(" ", 8), 0)[:8:8], []string{"header"}},
		{"overlapping", weights(`{"a":{"dtype":"U8","shape":[8],"data_offsets":[0,8]},"b":{"dtype":"U8","shape":[8],"data_offsets":[4,12]}}`, 12),
			[]string{`tensor "b" starts at 4, expected 8`}},
		{"hole", weights(`{"a":{"dtype":"U8","shape":[4],"data_offsets":[0,4]},"b":{"dtype":"U8","shape":[4],"data_offsets":[8,12]}}`, 12),
			[]string{`tensor "b" starts at 8, expected 4`}},
		{"beyond the end", weights(`{"a":{"dtype":"U8","shape":[9],"data_offsets":[0,9]}}`, 8), []string{`"a"`, "[0 9]", "<= 8"}},
		{"overflowing", weights(`{"a":{"dtype":"F64","shape":[4611686018427387904,4],"data_offsets":[0,8]}}`, 8), []string{`"a"`, "4611686018427387904", "overflows"}},
		{"negative", weights(`{"a":{"dtype":"U8","shape":[-1],"data_offsets":[0,8]}}`, 8), []string{`"a"`, "-1", "expected"}},
		{"size that is not the shape's", weights(`{"a":{"dtype":"F32","shape":[3],"data_offsets":[0,8]}}`, 8), []string{`"a"`, "span 8 bytes, expected 12"}},
		{"other names", weights(`{"a":{"dtype":"F32","shape":[2],"data_offsets":[0,8]}}`, 8), []string{`is not weights of fashion-mlp: it has 1 tensor such as "a", expected 4 tensors such as "fc1.weight"`}},
		{"other dtype", retype(t, good, `"dtype":"F32"`, `"dtype":"I32"`), []string{"fc1.weight", "I32", "F32"}},
		{"other shape", retype(t, good, `"shape":[256,784]`, `"shape":[784,256]`), []string{"fc1.weight", "[784 256]", "[256 784]"}},
	} {
		t.Run(c.name, func(t *testing.T) {
			path := filepath.Join(t.TempDir(), "w.safetensors")
			if c.file != nil {
				if err := os.WriteFile(path, c.file, 0o600); err != nil {
					t.Fatal(err)
				}
			}
			failed(t, 1, append(c.says, path), append(slices.Clone(learnImages), images, "--load", path)...)
		})
	}
	t.Run("a pipe for weights", func(t *testing.T) {
		failed(t, 1, []string{pipe, "expected a regular file"}, append(slices.Clone(learnImages), images, "--load", pipe)...)
	})
	for name, path := range map[string]string{
		"below a file": filepath.Join(text, "w.safetensors"), "to a folder": dir, "to a device": "/dev/null",
		"to a pipe": pipe, "to a file system that is read only": "/proc/w.safetensors",
	} {
		t.Run(name, func(t *testing.T) {
			before := listing(t, dir)
			// With so many steps the test would not end if the path were checked after
			// training.
			failed(t, 1, []string{"write " + path}, "train", "--in-process", "--steps", "100000000", "--data", text, "--save", path)
			if after := listing(t, dir); !slices.Equal(before, after) {
				t.Errorf("there was %v, there is %v", before, after)
			}
		})
	}
}

// retype puts to in from's place in a header.
func retype(t *testing.T, file []byte, from, to string) []byte {
	t.Helper()
	if len(from) != len(to) || !bytes.Contains(file, []byte(from)) {
		t.Fatalf("no %s in the header, or %s is longer", from, to)
	}
	return bytes.ReplaceAll(file, []byte(from), []byte(to))
}

// TestBadFlags checks that a senseless value gives exit status 2 and an error with the
// value and what was expected.
func TestBadFlags(t *testing.T) {
	runtimeDir(t)
	text := textFile(t)
	train := func(args ...string) []string {
		return append([]string{"train", "--in-process", "--data", text}, args...)
	}
	for _, c := range []struct {
		args []string
		says []string
	}{
		{[]string{"tarin"}, []string{`"tarin"`}},
		{[]string{"train", "now"}, []string{`"now"`}},
		{[]string{"train", "--modle", "x"}, []string{"--modle"}},
		{[]string{"train", "--model"}, []string{"--model"}},
		{[]string{"train", "--model", "parrot"}, []string{`"parrot"`, "fashion-mlp", "qwen3-tiny"}},
		{train("--steps", "many"), []string{`--steps "many": expected a whole number; see`}},
		{train("--steps", ""), []string{`--steps "": expected a whole number`}},
		{train("--steps", "99999999999999999999"), []string{`--steps "99999999999999999999": expected a whole number below 2^63`}},
		{train("--steps", "-1"), []string{"--steps -1: expected above 0"}},
		{train("--batch", "-1"), []string{"--batch -1: expected above 0"}},
		{train("--batch", "1000000000"), []string{"--batch 1000000000: expected 1 to 65536"}},
		{train("--lr", "NaN"), []string{"--lr NaN: expected above 0"}},
		{train("--lr", "Inf"), []string{"--lr +Inf: expected above 0"}},
		{train("--sample-every", "-5"), []string{"--sample-every -5: expected above 0"}},
		{train("--loss-every", "-5"), []string{"--loss-every -5: expected above 0"}},
		{train("--seed", "18446744073709551615"), []string{"--seed 18446744073709551615: expected below 2^53"}},
		{train("--sample", "1000000000"), []string{"--sample 1000000000: expected at most 1048576"}},
		{train("--seed", "-1"), []string{`--seed "-1": expected a whole number of at least 0`}},
		{train("--lr", "fast"), []string{`--lr "fast": expected a number`}},
		{train("--zero1=perhaps"), []string{`--zero1 "perhaps": expected true or false`}},
		{train("--micro-batches", "-1"), []string{"--micro-batches -1: expected above 0"}},
		{train("--micro-batches", "3"), []string{"--micro-batches 3: expected a divisor of the batch, 8"}},
		{train("--checkpoint", ""), []string{`--checkpoint "": expected not to be empty`}},
		{train("--data", ""), []string{`--data "": expected not to be empty`}},
		{[]string{"train", "--stages", "-1", "--data", text}, []string{"--stages -1: expected above 0"}},
		{[]string{"train", "--stages", "9", "--data", text}, []string{"--stages 9: expected 1 to"}},
		{[]string{"train", "--stages", "1000000000", "--data", text}, []string{"--stages 1000000000: expected at least 1, of 1 workers each at most 1024"}},
		{[]string{"train", "--workers", "1000000000", "--data", text}, []string{"--workers 1000000000: expected 1 to 1024"}},
		{train("--workers", "2"), []string{"exclude each other"}},
		{train("--log-level", "loud"), []string{`"loud"`, "debug, info, warn or error"}},
		{[]string{"train", "--workers", "-1", "--data", text}, []string{"--workers -1: expected above 0"}},
		{train("--steps", "0"), []string{"--steps 0", "above 0"}},
		{[]string{"generate", "--prompt", ""}, []string{`--prompt "": expected not to be empty; it is the text to go on from, such as --prompt "The "`}},
		{[]string{"generate", "--prompt", "a", "--bytes", "many"}, []string{`--bytes "many": expected a whole number`}},
		{[]string{"eval", "--load"}, []string{"needs an argument"}},
		{[]string{"demo", "--steps", "0"}, []string{"--steps 0"}},
		{[]string{"demo", "--steps", "-1"}, []string{"--steps -1"}},
		{[]string{"bench", "ops", "--rounds", "0"}, []string{"--rounds 0"}},
		{[]string{"bench", "ops", "--scale", "-1"}, []string{"--scale -1"}},
		{[]string{"up", "--listen", "here"}, []string{"here", "absolute"}},
		{[]string{"dispatcher", "--listen", "here"}, []string{"here", "absolute"}},
		{[]string{"up", "-n", "0"}, []string{"-n 0: expected 1 to 1024"}},
		{[]string{"dispatcher", "--allow-gid", "-1"}, []string{"--allow-gid -1: expected at least 0"}},
		{[]string{"bench", "collective", "--ops", ""}, []string{`--ops "": expected not to be empty`}},
		{[]string{"up", "-n", "1000000000"}, []string{"-n 1000000000: expected 1 to 1024"}},
		{[]string{"top", "--interval", "soon"}, []string{`--interval "soon": expected a time with its unit`}},
		{[]string{"inspect", "--pid", "me"}, []string{`--pid "me": expected whole numbers with commas`}},
		{[]string{"worker", "--simd", "mmx"}, []string{"--simd: ", "mmx", "avx2"}},
		{[]string{"worker", "--shm", "shm"}, []string{"--shm shm: expected memfd, or the absolute path of a folder"}},
		{[]string{"up", "--shm", "/proc"}, []string{"--shm /proc: file system ", "expected a tmpfs"}},
		{[]string{"worker", "--memory-mib", "-1"}, []string{"--memory-mib -1: expected 0 to"}},
		{[]string{"worker", "--session-mib", "9223372036854775807"}, []string{"--session-mib 9223372036854775807: expected 0 to"}},
		{[]string{"worker", "--batch-messages", "0"}, []string{"--batch-messages 0: expected at least 1"}},
		{[]string{"up", "--batch-messages", "-1"}, []string{"--batch-messages -1: expected at least 1"}},
		{[]string{"worker", "--threads", "-1"}, []string{"--threads -1: expected 0 to"}},
		{[]string{"bench", "torch", "--model", "parrot"}, []string{"--model parrot", "mlp_adamw", "qwen_mid"}},
		{[]string{"bench", "ops-table", "--layouts", "diagonal"}, []string{"--layouts diagonal: expected dense, transposed"}},
		{[]string{"bench", "ops-table", "--level", "mmx"}, []string{"--level: ", "mmx", "avx2"}},
		{[]string{"bench", "ops", "--resume", "rows"}, []string{"--resume is for the scenario ops-table"}},
		{[]string{"bench", "ops", "--dtypes", "i64"}, []string{"--dtypes is for the scenario collective"}},
		{[]string{"bench", "kernels", "--model", "mlp_adamw"}, []string{"--model mlp_adamw", "expected products, adamw, chain"}},
		{[]string{"bench", "reduce", "--model", "chain"}, []string{"scenario reduce has none", "torch, ddp, exact, kernels, gpu or gather"}},
		{[]string{"plan", "dmup"}, []string{`unknown command "dmup" for "ringside plan"`}},
		{[]string{"plan", "dump", "--workers", "1000000"}, []string{"--workers 1000000", "1024 workers at most"}},
		{[]string{"bench", "marathon"}, []string{`"marathon"`, "step"}},
		{[]string{"up", "--log-level", "loud"}, []string{`"loud"`, "debug, info, warn or error"}},
		{[]string{"version", "--log-level", "loud"}, []string{`"loud"`}},
	} {
		t.Run(strings.Join(c.args, " "), func(t *testing.T) { failed(t, 2, c.says, c.args...) })
	}
}

// TestBadAddress checks the advice for an address without a dispatcher.
func TestBadAddress(t *testing.T) {
	runtimeDir(t)
	_, _, err := execute(t, "train", "--data", textFile(t), "--connect", "127.0.0.1:1")
	if err == nil || !strings.Contains(err.Error(), "ringside up --listen-tcp 127.0.0.1:1 --secret-file") {
		t.Errorf("train: %v", err)
	}
	if out, _, err := execute(t, "doctor", "--connect", "here"); err != errSilent || !strings.Contains(out, "here is no address") || strings.Contains(out, "end that process") {
		t.Errorf("doctor: %v\n%s", err, out)
	}

	addr := filepath.Join(t.TempDir(), "deaf") // a listener that is no dispatcher
	l, err := net.Listen("unixpacket", addr)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	go func() {
		for {
			c, err := l.Accept()
			if err != nil {
				return
			}
			c.Close()
		}
	}()
	if out, _, err := execute(t, "doctor", "--connect", addr); err != errSilent || !strings.Contains(out, "check the address") || strings.Contains(out, "of this version") {
		t.Errorf("doctor: %v\n%s", err, out)
	}
}

// TestBadPlaces checks that a missing path, or one of another kind, is reported with the
// flag or the path and what was expected.
func TestBadPlaces(t *testing.T) {
	runtimeDir(t)
	dir, text := t.TempDir(), textFile(t)
	none := filepath.Join(dir, "none")
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"train", "--data", none}, "--data: stat " + none},
		{[]string{"train", "--in-process", "--data", text, "--checkpoint", text}, text + " is not a folder, expected one with a manifest.json"},
		{[]string{"train", "--in-process", "--data", text, "--resume", text}, text + " is not a folder, expected one with a manifest.json"},
		{[]string{"train", "--in-process", "--data", text, "--load", dir}, "manifest.json is not there"},
		{[]string{"train", "--in-process", "--data", text, "--save", dir}, dir + ": it is a folder, expected a regular file or none"},
		{[]string{"demo", "--images", none}, "--images: stat " + none},
		{[]string{"demo", "--text", none}, "--text: stat " + none},
		{[]string{"worker", "--secret-file", none}, "--secret-file: secret file: open " + none},
		{[]string{"plan", "dump", "--program", none}, "--program: open " + none},
		{[]string{"plan", "dump", "--save", dir}, "--save: " + dir + ": open: is a directory"},
		{[]string{"inspect", "--pid", "2147483647"}, "process 2147483647 is not there"},
	} {
		if _, _, err := execute(t, c.args...); err == nil || !strings.Contains(err.Error(), c.says) {
			t.Errorf("%v: %v, expected %q", c.args, err, c.says)
		}
	}
}

// TestNoCluster checks that all commands that need a dispatcher give the same advice when
// they find none.
func TestNoCluster(t *testing.T) {
	dir := runtimeDir(t)
	text, out, nobody := textFile(t), filepath.Join(t.TempDir(), "o"), filepath.Join(dir, "nobody")
	for _, args := range [][]string{
		{"train", "--data", text}, {"worker"}, {"inspect"}, {"top", "--once"}, {"trace", "-o", out},
	} {
		if args[0] != "train" { // which starts a cluster of its own
			if _, _, err := execute(t, args...); err == nil || !strings.Contains(err.Error(), "; start one with: ringside up") || strings.Contains(err.Error(), "--listen") {
				t.Errorf("%v: %v", args, err)
			}
		}
		for addr, want := range map[string]string{
			nobody:        "; start one with: ringside up --listen " + nobody,
			"127.0.0.1:1": "; start one with: ringside up --listen-tcp 127.0.0.1:1 --secret-file FILE, on that host",
			"here":        "; give the absolute path of a dispatcher's socket, or host:port",
		} {
			if args[0] == "inspect" && addr != nobody { // inspect looks at this host
				want = "--connect " + addr + ": expected the absolute path of a dispatcher's socket"
			}
			if _, _, err := execute(t, append(slices.Clone(args), "--connect", addr)...); err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v at %s: %v, expected %q", args, addr, err, want)
			}
		}
	}
	for addr, want := range map[string]string{nobody: "ringside up --listen " + nobody, "127.0.0.1:1": "ringside up --listen-tcp 127.0.0.1:1"} {
		if said, _, err := execute(t, "doctor", "--connect", addr); err != errSilent || !strings.Contains(said, "start one with: "+want) {
			t.Errorf("doctor at %s: %v\n%s", addr, err, said)
		}
	}
}

// TestEndlessProgram: of a file that is no program no more is read than a program has.
func TestEndlessProgram(t *testing.T) {
	if _, _, err := execute(t, "plan", "dump", "--program", "/dev/zero"); err == nil || !strings.Contains(err.Error(), "at most") {
		t.Errorf("%v", err)
	}
}
