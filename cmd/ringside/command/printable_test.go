package command

import (
	"strings"
	"testing"
)

// testPrintable checks that a sample has no characters that change a terminal's state.
func testPrintable(t *testing.T) {
	if got, want := printable("a\tb\n\x1b]0;x\a\r\x7f\u009b é\uFFFD"), "a\tb\n\\x1b]0;x\\x07\\x0d\\x7f\\x9b é\uFFFD"; got != want {
		t.Errorf("%q, expected %q", got, want)
	}
	out, errOut, err := execute(t, "train", "--in-process", "--data", textFile(t), "--steps", "1", "--batch", "1", "--sample", "1", "--prompt", "\x1b]0;title\a")
	if err != nil {
		t.Fatalf("%v\n%s", err, errOut)
	}
	if !strings.Contains(out, `sample:`+"\n"+`\x1b]0;title\x07`) || strings.ContainsAny(out, "\x1b\a") {
		t.Errorf("%q", out)
	}
	out2, err := ringside(t, "train", "--in-process", "--data", "\x1b]0;x\a").CombinedOutput()
	if err == nil || !strings.Contains(string(out2), `\x1b]0;x\a`) || strings.ContainsAny(string(out2), "\x1b\a") {
		t.Errorf("%v, %q", err, out2)
	}
}
