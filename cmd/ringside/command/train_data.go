package command

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"unicode/utf8"

	"github.com/ringside-go/ringside/shm/plain"
	"github.com/ringside-go/ringside/tensor/data"
	"github.com/ringside-go/ringside/tensor/train"
)

// loadData loads what --data names.
func loadData(m *train.Model, path string) (train.Data, error) {
	if path != "" {
		if _, err := os.Stat(path); errors.Is(err, fs.ErrNotExist) {
			return nil, fmt.Errorf("--data: %w, expected %s", plain.Path(err), map[string]string{
				"images": "a folder of images in IDX files", "text": "a file or a folder of text"}[m.Data])
		}
	}
	d, err := m.Load(path)
	switch {
	case errors.Is(err, data.ErrNotFound) && path != "":
		return nil, fmt.Errorf("--data: %w; %s learns from %s", err, m.Name, m.Data)
	case err != nil && path != "":
		return nil, fmt.Errorf("--data: %w", err)
	case errors.Is(err, data.ErrNotFound):
		return nil, fmt.Errorf("%w; or name yours with --data", err)
	}
	if t, ok := d.(*train.Text); ok && err == nil && path != "" && t.Files[0] == path {
		if why := unlearnt(t); why != "" {
			return nil, fmt.Errorf("--data: %s is no text: %s; expected text in UTF-8, or a folder, in which such files are left out", plain.Name(path), why)
		}
	}
	return d, err
}

// signatures are how files of other kinds than text begin, and what they look like.
var signatures = []struct{ begin, like string }{
	{"\x7fELF", "it is a program or a library (ELF)"},
	{"\x1f\x8b", "it is compressed by gzip: gunzip it first"},
	{"\x28\xb5\x2f\xfd", "it is compressed by zstd: unzstd it first"},
	{"\xfd7zXZ\x00", "it is compressed by xz: unxz it first"},
	{"BZh", "it is compressed by bzip2: bunzip2 it first"},
	{"PK\x03\x04", "it is a zip archive, as those of office programs are: unpack it first"},
	{"%PDF-", "it is a PDF: pdftotext makes a text of it"},
	{"\x89PNG\r\n", "it is an image (PNG)"},
	{"\xff\xd8\xff", "it is an image (JPEG)"},
	{"\x93NUMPY", "it is an array of NumPy"},
	{"\xff\xfe", inUTF16},
	{"\xfe\xff", inUTF16},
}

const inUTF16 = "it is in UTF-16: iconv -f utf-16 -t utf-8 makes it UTF-8"

// unlearnt returns what kind of file t looks like if it is not a text that can be learnt,
// and an empty string if it is one. In a folder, files with a zero byte are left out.
func unlearnt(t *train.Text) string {
	at := bytes.IndexByte(t.Train, 0)
	if held := bytes.IndexByte(t.Held, 0); at < 0 && held >= 0 {
		at = len(t.Train) + held
	}
	for _, s := range signatures {
		// One of printable characters alone may begin a text, too.
		if bytes.HasPrefix(t.Train, []byte(s.begin)) && (at >= 0 || !printableASCII(s.begin) || noText(slices.Concat(t.Train, t.Held)) != "") {
			return s.like
		}
	}
	switch b := t.Train; {
	case at < 0:
		return ""
	case len(b) > 8 && b[8] == '{' && bytes.Count(b[4:8], []byte{0}) == 4:
		return "it is weights (safetensors), which --load takes"
	}
	return fmt.Sprintf("byte %d is 0", at)
}

// sayFiles says which files of a folder of text are trained on, or that a file is not the
// text that a language model is for.
func sayFiles(w io.Writer, path string, d train.Data) {
	t, ok := d.(*train.Text)
	if !ok || path == "" {
		return
	}
	if t.Files[0] == path { // no folder
		switch ext := strings.ToLower(filepath.Ext(path)); {
		case ext == ".csv" || ext == ".tsv":
			fmt.Fprintf(w, "warning: %s is learnt as text, byte by byte; to predict a column of a table, see the examples classifier and ownmodel in cmd/examples\n", plain.Name(path))
		default:
			if why := noText(slices.Concat(t.Train, t.Held)); why != "" {
				fmt.Fprintf(w, "warning: %s is no text (%s); it is learnt byte by byte\n", plain.Name(path), why)
			}
		}
		return
	}
	fmt.Fprintf(w, "data: %s of text in %s, %sB: %s\n", plain.Count(len(t.Files), "file"), plain.Name(path), count(float64(len(t.Train)+len(t.Held))), someNames(inside(path, t.Files)))
	if n := len(t.Left); n > 0 {
		fmt.Fprintf(w, "warning: left out %s, no text or too large: %s\n", plain.Count(n, "file"), someNames(inside(path, t.Left)))
	}
}

// sayHeld says that less of a text is held out than one piece that the model m takes.
func sayHeld(w io.Writer, m *train.Model, d train.Data) {
	t, ok := d.(*train.Text)
	if !ok {
		return
	}
	if !t.Little(m) {
		return
	}
	held, all := len(t.Held), len(t.Train)+len(t.Held)
	fmt.Fprintf(w, "warning: %d bytes of %s are held out of %d, less than a piece of %d: the bits per byte of so few say little about other text; expected a text of %d bytes or more\n",
		held, plain.Name(t.From), all, m.Context, m.EnoughText())
}

// printableASCII reports whether s has only printable characters of ASCII.
func printableASCII(s string) bool {
	return !strings.ContainsFunc(s, func(r rune) bool { return r < ' ' || r > '~' })
}

// noText says why b is no text in UTF-8; empty if it is.
func noText(b []byte) string {
	for at := 0; at < len(b); {
		r, n := utf8.DecodeRune(b[at:])
		if r == utf8.RuneError && n == 1 {
			return fmt.Sprintf("byte %d is no UTF-8", at)
		}
		at += n
	}
	return ""
}

// inside returns the paths of files from the folder path on.
func inside(path string, files []string) []string {
	root, err := filepath.EvalSymlinks(path) // as data.LoadText names files
	if err != nil {
		return files
	}
	names := make([]string, len(files))
	for i, f := range files {
		if names[i], err = filepath.Rel(root, f); err != nil {
			names[i] = f
		}
	}
	return names
}

// someNames returns the names of the first files, and how many more there are.
func someNames(files []string) string {
	const most = 4
	names := make([]string, 0, most)
	for _, f := range files[:min(len(files), most)] {
		names = append(names, fmt.Sprintf("%q", f))
	}
	s := strings.Join(names, ", ")
	if n := len(files) - most; n > 0 {
		s += fmt.Sprintf(" and %d more", n)
	}
	return s
}
