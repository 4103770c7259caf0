package shape

import (
	"bytes"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"strings"
)

// file is one Go file of the tree.
type file struct {
	path      string // relative to the root, with slashes
	pkg       string // folder of the package, "." for the root
	test      bool
	generated bool
	own       bool // part of the module at the root, not of one nested in it
	text      []byte
	ast       *ast.File
}

// base returns the file's name within its package.
func (f *file) base() string { return path.Base(f.path) }

// tree is what one folder of source holds.
type tree struct {
	fset     *token.FileSet
	files    []*file
	assembly int // lines of .s files
}

// readTree parses every Go file below root. Folders whose name begins with a dot,
// testdata and bin are left out; modules nested in the tree are included.
func readTree(root string) (*tree, error) {
	t := &tree{fset: token.NewFileSet()}
	nested := map[string]bool{}
	err := filepath.WalkDir(root, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(root, name)
		if err != nil {
			return err
		}
		rel = filepath.ToSlash(rel)
		if d.IsDir() {
			if base := d.Name(); rel != "." && (strings.HasPrefix(base, ".") || base == "testdata" || base == "bin") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(name, "go.mod")); rel != "." && (err == nil || nested[path.Dir(rel)]) {
				nested[rel] = true
			}
			return nil
		}
		switch path.Ext(rel) {
		case ".s":
			text, err := os.ReadFile(name)
			t.assembly += bytes.Count(text, []byte("\n"))
			return err
		case ".go":
			return t.add(name, rel, !nested[path.Dir(rel)])
		}
		return nil
	})
	if err == nil && len(t.files) == 0 {
		err = fmt.Errorf("%s: no Go files; expected the root of a module", root)
	}
	return t, err
}

func (t *tree) add(name, rel string, own bool) error {
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	parsed, err := parser.ParseFile(t.fset, name, text, parser.ParseComments)
	if err != nil {
		return err
	}
	t.files = append(t.files, &file{
		path: rel, pkg: path.Dir(rel), test: strings.HasSuffix(rel, "_test.go"), own: own,
		generated: ast.IsGenerated(parsed), text: text, ast: parsed,
	})
	return nil
}

// packages returns the files of each package that are neither tests nor generated.
func (t *tree) packages() map[string][]*file {
	out := map[string][]*file{}
	for _, f := range t.files {
		if !f.test && !f.generated {
			out[f.pkg] = append(out[f.pkg], f)
		}
	}
	return out
}
