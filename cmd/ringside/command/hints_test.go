package command

import (
	"bytes"
	"slices"
	"strings"
	"testing"
)

// TestHints checks that names of other programs and misspelt ones lead to ours, beside
// those of TestStumbles.
func TestHints(t *testing.T) {
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"train", "--batch_size=3"}, "did you mean --batch?"},
		{[]string{"train", "--learning-rate=3"}, "did you mean --lr?"},
		{[]string{"train", "--modle", "x"}, "did you mean --model?"},
		{[]string{"up", "--wrokers", "2"}, "did you mean --workers?"},
		{[]string{"up", "--zebra"}, "unknown flag: --zebra; see ringside up --help"},
		{[]string{"help", "plan", "nosuch"}, "see ringside plan --help"},
		{[]string{"help", "trian"}, "train"},
	} {
		root := NewRootCommand()
		var out, errs bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&errs)
		root.SetArgs(c.args)
		if code := Main(t.Context(), root); code != 2 || !strings.Contains(errs.String(), c.says) {
			t.Errorf("%v: exit status %d with %q, expected 2 with %q", c.args, code, errs.String(), c.says)
		}
	}
	if out, _, err := execute(t, "help", "plan", "dump"); err != nil || !strings.Contains(out, "ringside plan dump [flags]") {
		t.Errorf("help plan dump: %v, %q", err, out)
	}
}

// TestOtherNames checks that every flag of the list exists in a command.
func TestOtherNames(t *testing.T) {
	names := allFlags(NewRootCommand())
	for name, others := range otherNames {
		if names.Lookup(name) == nil {
			t.Errorf("otherNames has %q, which no command has", name)
		}
		for _, other := range others {
			if strings.ContainsAny(other, "_ ") || other != strings.ToLower(other) {
				t.Errorf("otherNames[%q] has %q, expected lower case and no underscores", name, other)
			}
		}
	}
}

func TestUnknownVariables(t *testing.T) {
	got := unknownVariables(NewRootCommand(), []string{
		"PATH=/bin", "RINGSIDE_STEPS=3", "RINGSIDE_LOG_LEVEL=info", "RINGSIDE_SECRET=x", "RINGSIDE_TEST_X=1", "RINGSIDE_STEPSS=3", "RINGSIDE_ZEBRA=1",
	})
	if len(got) != 2 || !strings.Contains(got[0], "RINGSIDE_STEPSS is no flag's variable, did you mean") ||
		!strings.Contains(got[0], "RINGSIDE_STEPS") || got[1] != "RINGSIDE_ZEBRA is no flag's variable" {
		t.Errorf("%q", got)
	}
}

// testCompletions checks that the shell is told the values of flags and arguments.
func testCompletions(t *testing.T) {
	for _, c := range []struct {
		args []string
		want string
	}{
		{[]string{"train", "--model", ""}, "qwen3-tiny"},
		{[]string{"generate", "--model", ""}, "qwen3-tiny"},
		{[]string{"bench", "torch", "--model", ""}, "qwen_t64"},
		{[]string{"up", "--device", ""}, "cuda"},
		{[]string{"up", "--log-level", ""}, "debug"},
		{[]string{"bench", ""}, "latency-hops"},
		{[]string{"bench", "step", "--sides", ""}, "Gloo"},
		{[]string{"help", "plan", ""}, "dump"},
	} {
		out, _, err := execute(t, append([]string{"__complete"}, c.args...)...)
		lines := strings.FieldsFunc(out, func(r rune) bool { return r == '\n' || r == '\t' })
		if err != nil || !slices.Contains(lines, c.want) {
			t.Errorf("%v: %v, %q, expected %q in it", c.args, err, lines, c.want)
		}
	}
}
