package ringside

import (
	"go/ast"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"
)

// pagePackages are the packages whose names pages give without a path.
var pagePackages = map[string]string{
	"autograd": "tensor/autograd", "client": "tensor/cluster/client", "collective": "collective",
	"data": "tensor/data", "nn": "tensor/nn", "optim": "tensor/optim", "spmd": "tensor/spmd", "tensor": "tensor",
	"train": "tensor/train", "trace": "tensor/cluster/trace", "local": "ipc/local",
}

// cells returns the texts in backticks of a column of the tables in a page.
func cells(t *testing.T, page string, column int) (texts []string) {
	t.Helper()
	b, err := os.ReadFile(page)
	if err != nil {
		t.Fatal(err)
	}
	quoted := regexp.MustCompile("`([^`]+)`")
	for _, line := range strings.Split(string(b), "\n") {
		if columns := strings.Split(line, "|"); len(columns) > column+1 && columns[0] == "" {
			for _, m := range quoted.FindAllStringSubmatch(columns[column+1], -1) {
				texts = append(texts, m[1])
			}
		}
	}
	return texts
}

// TestMigrationNames checks that packages have the names which docs/migration.md gives.
func TestMigrationNames(t *testing.T) {
	have := map[string]bool{}
	all := sources(t)
	for name, folder := range pagePackages {
		for _, s := range all {
			if s.pkg == folder && !s.test {
				for _, n := range exportedNames(s.ast) {
					have[name+"."+n.name] = true
				}
			}
		}
	}
	name := regexp.MustCompile(`^\w+\.[A-Z][\w.]*$`)
	n := 0
	for _, text := range cells(t, "docs/migration.md", 1) {
		if !name.MatchString(text) {
			continue
		}
		n++
		if !have[text] {
			t.Errorf("docs/migration.md gives %s: there is none", text)
		}
	}
	t.Logf("%d names", n)
	if n < 100 {
		t.Errorf("%d names were found, expected at least 100", n)
	}
}

// TestTroubleshootingTexts checks that the sources have the texts of errors which
// docs/troubleshooting.md explains.
func TestTroubleshootingTexts(t *testing.T) {
	var literals []string
	for _, s := range sources(t) {
		if s.test {
			continue
		}
		ast.Inspect(s.ast, func(n ast.Node) bool {
			if l, ok := n.(*ast.BasicLit); ok && l.Kind == token.STRING {
				literals = append(literals, l.Value)
			}
			return true
		})
	}
	all := strings.Join(literals, "\n")
	texts := cells(t, "docs/troubleshooting.md", 0)
	if len(texts) < 30 {
		t.Errorf("%d texts were found, expected at least 30", len(texts))
	}
	for _, text := range texts {
		parts := strings.Split(text, "…")
		for i, part := range parts {
			parts[i] = regexp.QuoteMeta(part)
		}
		if !regexp.MustCompile(strings.Join(parts, ".*")).MatchString(all) {
			t.Errorf("docs/troubleshooting.md explains %q, which no string of the program has", text)
		}
	}
}

// TestContributingNames checks that the sources have the names which CONTRIBUTING.md and
// the pages of docs/contributing give: an identifier in backticks is a word of a file.
func TestContributingNames(t *testing.T) {
	word, quoted := regexp.MustCompile(`[A-Za-z_]\w*`), regexp.MustCompile("`([A-Za-z_]\\w*)`")
	have := map[string]bool{}
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case d.IsDir() && path != "." && (d.Name() == "bin" || d.Name() == "docs" || strings.HasPrefix(d.Name(), ".")):
			return fs.SkipDir
		case d.Name() != "Makefile" && !slices.Contains([]string{".go", ".py", ".c", ".h", ".cu", ".sh", ".html"}, filepath.Ext(path)):
			return nil
		}
		b, err := os.ReadFile(path)
		for _, w := range word.FindAllString(string(b), -1) {
			have[w] = true
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	pages, err := filepath.Glob("docs/contributing/*.md")
	if err != nil {
		t.Fatal(err)
	}
	n := 0
	for _, page := range append(pages, "CONTRIBUTING.md") {
		b, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range quoted.FindAllStringSubmatch(string(b), -1) {
			if n++; !have[m[1]] {
				t.Errorf("%s names %s, which is in no source", page, m[1])
			}
		}
	}
	if n < 300 {
		t.Errorf("%d names were found, expected at least 300", n)
	}
}
