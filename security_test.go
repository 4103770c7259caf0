package ringside

import (
	"bytes"
	"os"
	"path/filepath"
	"regexp"
	"testing"
)

// TestSecurityTable checks that every test that docs/security.md names is in the folder
// that it names, and that each row of the table of attacks names one.
func TestSecurityTable(t *testing.T) {
	page, err := os.ReadFile("docs/security.md")
	if err != nil {
		t.Fatal(err)
	}
	named := regexp.MustCompile("`([a-z/]+)`: ((?:`(?:Test|Fuzz)[A-Za-z0-9]+`(?:, )?)+)")
	one := regexp.MustCompile("(?:Test|Fuzz)[A-Za-z0-9]+")
	_, table, ok := bytes.Cut(page, []byte("| attack | promise | shown by |\n|---|---|---|\n"))
	if !ok {
		t.Fatal("docs/security.md has no table of attacks")
	}
	rows := 0
	for line := range bytes.Lines(table) {
		if !bytes.HasPrefix(line, []byte("|")) {
			break
		}
		rows++
		shown := named.FindAllSubmatch(line, -1)
		if len(shown) == 0 {
			t.Errorf("no test in row %d: %s", rows, line)
		}
		for _, s := range shown {
			files, err := filepath.Glob(filepath.Join(string(s[1]), "*_test.go"))
			if err != nil {
				t.Fatal(err)
			}
			var code []byte
			for _, f := range files {
				src, err := os.ReadFile(f)
				if err != nil {
					t.Fatal(err)
				}
				code = append(code, src...)
			}
			for _, test := range one.FindAll(s[2], -1) {
				if !bytes.Contains(code, []byte("\nfunc "+string(test)+"(")) {
					t.Errorf("row %d: there is no %s in %s", rows, test, s[1])
				}
			}
		}
	}
	if rows < 10 {
		t.Errorf("%d rows in the table of attacks", rows)
	}
}
