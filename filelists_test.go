package ringside

import (
	"path"
	"regexp"
	"strings"
	"testing"
)

// fileName matches the name of a Go file, or a pattern of names such as rules_*.go.
var fileName = regexp.MustCompile(`[a-z0-9_*]+\.go\b`)

// TestFileLists: the list of files in a package's doc.go names files that exist, and all
// of them but tests, errors.go and those that only hold what unsafe or one architecture
// needs. A doc.go has a list if three of its indented lines begin with the name of a
// file.
func TestFileLists(t *testing.T) {
	files, docs := map[string][]source{}, map[string]string{}
	for _, s := range sources(t) {
		if path.Base(s.path) == "doc.go" && s.ast.Doc != nil {
			docs[s.pkg] = s.text
		} else {
			files[s.pkg] = append(files[s.pkg], s)
		}
	}
	lists := 0
	for pkg, doc := range docs {
		if !hasFileList(doc) {
			continue
		}
		lists++
		patterns := fileName.FindAllString(doc, -1)
		for _, s := range files[pkg] {
			name := path.Base(s.path)
			if !s.test && !isAside(name) && !matchesAny(patterns, name) {
				t.Errorf("%s/doc.go: its list of files lacks %s", pkg, name)
			}
		}
		for _, line := range indented(doc) {
			for _, p := range fileName.FindAllString(line, -1) {
				if !namesAny(p, files[pkg]) {
					t.Errorf("%s/doc.go: no file %s", pkg, p)
				}
			}
		}
	}
	if lists < 20 {
		t.Errorf("%d lists of files found: is this the root?", lists)
	}
}

// indented returns the lines of a doc comment that are printed as they stand.
func indented(doc string) (out []string) {
	for line := range strings.Lines(doc) {
		if rest, ok := strings.CutPrefix(line, "//\t"); ok {
			out = append(out, rest)
		}
	}
	return out
}

func hasFileList(doc string) bool {
	n := 0
	for _, line := range indented(doc) {
		if at := fileName.FindStringIndex(line); at != nil && at[0] == 0 {
			n++
		}
	}
	return n >= 3
}

// isAside reports whether a list may leave a file out.
func isAside(name string) bool {
	for _, end := range []string{"_unsafe.go", "_amd64.go", "_arm64.go", "_other.go"} {
		if strings.HasSuffix(name, end) {
			return true
		}
	}
	return name == "errors.go"
}

func matchesAny(patterns []string, name string) bool {
	for _, p := range patterns {
		if ok, _ := path.Match(p, name); ok {
			return true
		}
	}
	return false
}

func namesAny(pattern string, files []source) bool {
	for _, s := range files {
		if matchesAny([]string{pattern}, path.Base(s.path)) {
			return true
		}
	}
	return false
}
