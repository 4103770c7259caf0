package command

import (
	"os/exec"
	"strings"
	"testing"
	"unicode"
)

// TestShellWord has bash read words, which it must take for the texts that they stand
// for; none has a control character.
func TestShellWord(t *testing.T) {
	for _, text := range []string{"", "run", "a b", "it's", "$HOME", "~/x", "a\\b", `a"b`, "`id`", "a;b", "*", "#x", "a!b", "-x", "Müll", "a\nb", "a'\\\x1b[31mé", "\xff1", "a=b"} {
		word := shellWord(text)
		out, err := exec.Command("bash", "-c", "printf %s "+"x"+word).Output()
		if err != nil || string(out) != "x"+text {
			t.Errorf("%s is %q to bash, %v; expected %q", word, out, err, text)
		}
		if strings.ContainsFunc(word, unicode.IsControl) {
			t.Errorf("%q has a control character", word)
		}
	}
	if got := shellWord("a/b-1.safetensors"); got != "a/b-1.safetensors" {
		t.Errorf("%s, expected it without quotes", got)
	}
}
