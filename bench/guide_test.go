package bench

import (
	"os"
	"strings"
	"testing"
)

// TestGuide runs the scenario with little work, and checks that docs/tuning.md has its
// rows.
func TestGuide(t *testing.T) {
	t.Setenv("XDG_RUNTIME_DIR", t.TempDir())
	r, err := runScenario(t, "guide", &Options{Rounds: 2, Scale: 100, Self: testSelf(t)})
	if err != nil {
		t.Fatal(err)
	}
	var out strings.Builder
	if err := r.WriteTable(&out); err != nil {
		t.Fatal(err)
	}
	page, err := os.ReadFile("../docs/tuning.md")
	if err != nil {
		t.Fatal(err)
	}
	rows := strings.Split(strings.TrimSpace(out.String()), "\n")
	if len(rows) != 2+len(guideKnobs()) {
		t.Errorf("%d rows, expected a head of two lines and %d:\n%s", len(rows), len(guideKnobs()), &out)
	}
	for _, row := range rows {
		words := row
		if cells := strings.Split(row, " | "); len(cells) == 5 {
			words = strings.Join(cells[:3], " | ")
		}
		if !strings.Contains(string(page), "\n"+words) {
			t.Errorf("docs/tuning.md has no row that begins with %q: make guide", words)
		}
	}
}
