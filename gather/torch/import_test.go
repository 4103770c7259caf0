package torch

import (
	"archive/zip"
	"bytes"
	"errors"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/gather/codec"
	"github.com/ringside-go/ringside/gather/outcome"
	"github.com/ringside-go/ringside/shm/testneeds"
)

const (
	window = 7
	uid    = 3
)

// manifest returns the one that testdata/make.py writes an update for.
func manifest(t testing.TB) *codec.Manifest {
	t.Helper()
	m, err := codec.NewManifest(codec.KnownConfig(), []codec.Tensor{{Name: "weight", Shape: []int64{64, 128}, DType: "F32"}, {Name: "bias", Shape: []int64{64}, DType: "F32"}})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

func fixture(t testing.TB) []byte {
	t.Helper()
	b, err := os.ReadFile("testdata/known.pt")
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// rewrite returns an archive with the content of another, changed by edit; entries for
// which edit returns nil are left out.
func rewrite(t testing.TB, b []byte, method uint16, edit func(name string, content []byte) []byte) []byte {
	t.Helper()
	in, err := zip.NewReader(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	var out bytes.Buffer
	w := zip.NewWriter(&out)
	for _, f := range in.File {
		r, err := f.Open()
		if err != nil {
			t.Fatal(err)
		}
		content, err := io.ReadAll(r)
		if err != nil {
			t.Fatal(err)
		}
		if content = edit(strings.TrimPrefix(f.Name, "known/"), content); content == nil {
			continue
		}
		to, err := w.CreateHeader(&zip.FileHeader{Name: f.Name, Method: method})
		if err == nil {
			_, err = to.Write(content)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	if err := w.Close(); err != nil {
		t.Fatal(err)
	}
	return out.Bytes()
}

// TestImport: the payload has the positions and the values of testdata/make.py. real.pt
// is by PyTorch 1.13.1.
func TestImport(t *testing.T) {
	for _, name := range []string{"known.pt", "real.pt"} {
		b, err := os.ReadFile(filepath.Join("testdata", name))
		if err != nil {
			t.Fatal(err)
		}
		imports(t, b)
	}
}

// TestRealTorch has the PyTorch of this machine write the same update. It fails where no
// python3 has that but Debian's package is there.
func TestRealTorch(t *testing.T) {
	file := filepath.Join(t.TempDir(), "now.pt")
	for _, python := range []string{"python3", "/usr/bin/python3"} {
		out, err := exec.CommandContext(t.Context(), python, "-B", "testdata/real.py", file).CombinedOutput()
		if err == nil {
			b, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			imports(t, b)
			return
		}
		if !errors.Is(err, exec.ErrNotFound) && !bytes.Contains(out, []byte("No module named 'torch'")) {
			t.Fatalf("%s: %v: %s", python, err, out)
		}
	}
	if _, err := os.Stat("/usr/lib/python3/dist-packages/torch"); err == nil {
		t.Fatal("Debian's PyTorch is there, and no python3 has it")
	}
	testneeds.Torch.Skipf(t, os.Getenv, "no python3 has PyTorch: apt-get install python3-torch")
}

func imports(t *testing.T, b []byte) {
	t.Helper()
	m := manifest(t)
	p, err := Import(bytes.NewReader(b), int64(len(b)), m, window, uid, nil)
	if err != nil {
		t.Fatal(err)
	}
	body := p.Bytes()
	rep, err := codec.Validate(bytes.NewReader(body), &codec.Expect{Manifest: m, Window: window, UID: uid})
	if err != nil || rep.Header.Step != 300 {
		t.Fatalf("step %d, expected 300: %v", rep.Header.Step, err)
	}
	lookup := func(code int) float32 { return float32(code%256)/64 - 2 }
	for i, want := range []func(row, at int) float32{
		func(row, at int) float32 { // of the 64 places 37·j+row
			if j := (at - row) / 37; at >= row && (at-row)%37 == 0 && j < 64 {
				return lookup(5*j+100*row) + 0.5
			}
			return 0
		},
		func(_, at int) float32 { return lookup(63 - at) },
	} {
		var rows codec.Rows
		q := &m.Params[i]
		if err := rep.ReadRows(&rows, m, bytes.NewReader(body), i, 0, q.Rows); err != nil {
			t.Fatal(err)
		}
		var row codec.Row
		if err := rows.Each(&row, func(r int) {
			got := make([]float32, q.TotalK)
			for j := range q.K {
				got[row.Index[j]] = rep.Header.Params[i].Table()[row.Codes[j]]
			}
			for at, x := range got {
				if x != want(r, at) {
					t.Errorf("%s, row %d: element %d is %v, expected %v", q.Name, r, at, x, want(r, at))
				}
			}
		}); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRefused: files that are not that update have the outcome that says why.
func TestRefused(t *testing.T) {
	m, b := manifest(t), fixture(t)
	pkl := func(old, new string) func(string, []byte) []byte {
		return func(name string, c []byte) []byte {
			if name != "data.pkl" {
				return c
			}
			if !bytes.Contains(c, []byte(old)) {
				t.Fatalf("the pickle has no %q", old)
			}
			return bytes.Replace(c, []byte(old), []byte(new), 1)
		}
	}
	entry := func(which string, edit func([]byte) []byte) func(string, []byte) []byte {
		return func(name string, c []byte) []byte {
			if name == which {
				return edit(c)
			}
			return c
		}
	}
	infinity := func(c []byte) []byte { copy(c, "\x00\x00\x80\x7f"); return c }
	for name, c := range map[string]struct {
		edit func(string, []byte) []byte
		want outcome.Outcome
	}{
		"no pickle":        {entry("data.pkl", func([]byte) []byte { return nil }), outcome.BadFormat},
		"a call":           {pkl("_rebuild_tensor_v2", "_rebuild_tensor_v9"), outcome.BadFormat},
		"os.system":        {pkl("ctorch._utils\n_rebuild_tensor_v2\n", "cos\nsystem\n"), outcome.BadFormat},
		"opcode":           {pkl("\x80\x02", "\x80\x02b"), outcome.BadFormat},
		"protocol":         {pkl("\x80\x02", "\x80\x04"), outcome.BadFormat},
		"cut pickle":       {entry("data.pkl", func(c []byte) []byte { return c[:len(c)/2] }), outcome.BadFormat},
		"no state":         {pkl("state_dict", "state_dicu"), outcome.BadFormat},
		"window":           {pkl("windowq", "windowr"), outcome.BadFormat},
		"other window":     {pkl("K\x07", "K\x08"), outcome.WindowMismatch},
		"stray field":      {pkl("biasvals", "zzzzvals"), outcome.UnknownParam},
		"twice":            {pkl("biasvals", "biasidxs"), outcome.BadFormat},
		"type":             {pkl("ByteStorage", "CharStorage"), outcome.BadShape},
		"missing storage":  {entry("data/0", func([]byte) []byte { return nil }), outcome.BadFormat},
		"short storage":    {entry("data/0", func(c []byte) []byte { return c[:len(c)-1] }), outcome.Truncated},
		"big-endian":       {entry("byteorder", func([]byte) []byte { return []byte("big") }), outcome.BadFormat},
		"index twice":      {entry("data/0", func(c []byte) []byte { copy(c[3:6], c[:3]); return c }), outcome.IndexDup},
		"index of the row": {entry("data/5", func(c []byte) []byte { c[0], c[1] = 64, c[1]&0xf0; return c }), outcome.IndexRange},
		"shift":            {entry("data/2", infinity), outcome.BadQuant},
		"scale":            {entry("data/3", func(c []byte) []byte { return make([]byte, len(c)) }), outcome.BadQuant},
		"lookup":           {entry("data/4", infinity), outcome.BadQuant},
	} {
		x := rewrite(t, b, zip.Store, c.edit)
		if _, err := Import(bytes.NewReader(x), int64(len(x)), m, window, uid, nil); err == nil || outcome.Of(err) != c.want {
			t.Errorf("%s: %v, expected %v", name, err, c.want)
		}
	}
	packed := rewrite(t, b, zip.Deflate, func(_ string, c []byte) []byte { return c })
	if _, err := Import(bytes.NewReader(packed), int64(len(packed)), m, window, uid, nil); outcome.Of(err) != outcome.BadFormat {
		t.Errorf("a compressed archive: %v, expected BAD_FORMAT", err)
	}
	if _, err := Import(bytes.NewReader(b), int64(len(b)), m, window+1, uid, nil); outcome.Of(err) != outcome.WindowMismatch {
		t.Errorf("another window: %v, expected WINDOW_MISMATCH", err)
	}
	bins := codec.KnownConfig()
	bins.Bins = 4
	for name, c := range map[string]struct {
		config codec.Config
		names  []string
		want   outcome.Outcome
	}{
		"bins":    {bins, []string{"weight", "bias"}, outcome.BadQuant},
		"missing": {codec.KnownConfig(), []string{"weight", "bias", "more"}, outcome.MissingParam},
		"unknown": {codec.KnownConfig(), []string{"weight"}, outcome.UnknownParam},
		"shape":   {codec.KnownConfig(), []string{"bias", "weight"}, outcome.BadShape},
	} {
		var tensors []codec.Tensor
		for i, name := range c.names {
			tensors = append(tensors, codec.Tensor{Name: name, Shape: [][]int64{{64, 128}, {64}, {64}}[i], DType: "F32"})
		}
		m, err := codec.NewManifest(c.config, tensors)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := Import(bytes.NewReader(b), int64(len(b)), m, window, uid, nil); outcome.Of(err) != c.want {
			t.Errorf("manifest with %s: %v, expected %v", name, err, c.want)
		}
	}
}

// TestTruncated: no prefix of the pickle and none of the file is taken or is a panic.
func TestTruncated(t *testing.T) {
	m, b := manifest(t), fixture(t)
	for n := range b {
		if _, err := Import(bytes.NewReader(b[:n]), int64(n), m, window, uid, nil); err == nil {
			t.Fatalf("the first %d of %d bytes are taken", n, len(b))
		}
	}
	a, err := open(bytes.NewReader(b), int64(len(b)))
	if err != nil {
		t.Fatal(err)
	}
	pickle, err := a.read("data.pkl", 0, -1)
	if err != nil {
		t.Fatal(err)
	}
	for n := range pickle {
		if _, err := unpickle(pickle[:n]); !errors.Is(err, ErrPickle) {
			t.Fatalf("the first %d of %d bytes of the pickle: %v, expected ErrPickle", n, len(pickle), err)
		}
	}
}

// TestLiterals: numbers are read as Python reads them.
func TestLiterals(t *testing.T) {
	for in, want := range map[string]any{
		"\x80\x02K\xff.":                                    int64(255),
		"\x80\x02M\x01\x02.":                                int64(513),
		"\x80\x02J\xff\xff\xff\xff.":                        int64(-1),
		"\x80\x02\x8a\x02\x00\x80.":                         int64(-32768),
		"\x80\x02\x8a\x00.":                                 int64(0),
		"\x80\x02\x8a\x05\x00\x00\x00\x00\x01.":             int64(1) << 32,
		"\x80\x02G\x3f\xf8\x00\x00\x00\x00\x00\x00.":        1.5,
		"\x80\x02X\x02\x00\x00\x00ab.":                      "ab",
		"\x80\x02\x88.":                                     true,
		"\x80\x02N.":                                        nil,
		"\x80\x02(.":                                        mark{},
		"\x80\x02ccollections\nOrderedDict\n)R)R.":          ErrPickle,
		"\x80\x02X\xff\xff\xff\xff.":                        ErrPickle,
		"\x80\x02h\x00.":                                    ErrPickle,
		"\x80\x02(q\x00.":                                   ErrPickle,
		"\x80\x02\x8a\x09\x00\x00\x00\x00\x00\x00\x00\x00.": ErrPickle,
	} {
		got, err := unpickle([]byte(in))
		if _, refused := want.(error); refused {
			if !errors.Is(err, ErrPickle) {
				t.Errorf("%q gave %v, %v, expected ErrPickle", in, got, err)
			}
		} else if err != nil || got != want {
			t.Errorf("%q gave %v, %v, expected %v", in, got, err, want)
		}
	}
}

// FuzzImport: whatever the file holds, it is taken or has an outcome.
func FuzzImport(f *testing.F) {
	b := fixture(f)
	m := manifest(f)
	f.Add(b)
	f.Fuzz(func(t *testing.T, b []byte) { taken(t, b, m) })
}

// FuzzContent is FuzzImport with archives that are whole: of any pickle, and of storages
// of any bytes, one behind the other.
func FuzzContent(f *testing.F) {
	b, m := fixture(f), manifest(f)
	var pickle, storages []byte
	var names []string
	var sizes []int
	rewrite(f, b, zip.Store, func(name string, c []byte) []byte {
		if name == "data.pkl" {
			pickle = c
		} else if strings.HasPrefix(name, "data/") {
			names, sizes, storages = append(names, name), append(sizes, len(c)), append(storages, c...)
		}
		return c
	})
	f.Add(pickle, storages)
	f.Fuzz(func(t *testing.T, pickle, storages []byte) {
		var out bytes.Buffer
		w := zip.NewWriter(&out)
		put := func(name string, c []byte) {
			to, err := w.CreateHeader(&zip.FileHeader{Name: "known/" + name, Method: zip.Store})
			if err == nil {
				_, err = to.Write(c)
			}
			if err != nil {
				t.Fatal(err)
			}
		}
		put("data.pkl", pickle)
		for i, name := range names {
			n := min(sizes[i], len(storages))
			put(name, storages[:n])
			storages = storages[n:]
		}
		if err := w.Close(); err != nil {
			t.Fatal(err)
		}
		taken(t, out.Bytes(), m)
	})
}

// taken imports a file, which becomes a payload within the bound or has an outcome.
func taken(t *testing.T, b []byte, m *codec.Manifest) {
	p, err := Import(bytes.NewReader(b), int64(len(b)), m, window, uid, nil)
	var s *outcome.Error
	if err != nil && !errors.As(err, &s) {
		t.Errorf("%v has no outcome", err)
	}
	if err == nil && p.Size() > m.MaxPayload() {
		t.Errorf("%d bytes, expected at most %d", p.Size(), m.MaxPayload())
	}
}

// FuzzUnpickle: a pickle is read or is ErrPickle.
func FuzzUnpickle(f *testing.F) {
	b := fixture(f)
	rewrite(f, b, zip.Store, func(name string, c []byte) []byte {
		if name == "data.pkl" {
			f.Add(c)
		}
		return c
	})
	f.Fuzz(func(t *testing.T, b []byte) {
		if _, err := unpickle(b); err != nil && !errors.Is(err, ErrPickle) {
			t.Errorf("%v is not ErrPickle", err)
		}
	})
}

// TestNestedDimension: a dimension that is a tuple of tuples, short in a file by the memo
// and long when it is printed, is refused in a few words.
func TestNestedDimension(t *testing.T) {
	nested := tuple{int64(1)}
	for range 20 {
		nested = tuple{nested, nested}
	}
	defer func() {
		if p := recover(); p == nil || len(fmt.Sprint(p)) > 200 {
			t.Errorf("%.200v", p)
		}
	}()
	newTensor(tuple{storage{count: 1}, int64(0), tuple{nested}, tuple{int64(1)}})
}
