package command

import (
	"bytes"
	"fmt"
	"os"
	"path/filepath"
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
		{[]string{"up", "--np", "2"}, "did you mean --workers?"},
		{[]string{"up", "--nproc-per-node", "2"}, "did you mean --workers?"},
		{[]string{"train", "--nproc_per_node", "2"}, "did you mean --workers?"},
		{[]string{"run", "--nproc_per_node", "2", "true"}, "did you mean --ranks?"},
		{[]string{"train", "--np", "2"}, "did you mean --workers?"},
		{[]string{"run", "--np", "2", "true"}, "did you mean --ranks?"},
		{[]string{"train", "--batchsize", "8"}, "did you mean --batch?"},
		{[]string{"train", "--text", "book.txt"}, "did you mean --data or --prompt?"},
		{[]string{"eval", "--text", "book.txt"}, "did you mean --data?"},
		{[]string{"generate", "--text", "x"}, "did you mean --prompt?"},
		{[]string{"train", "--gpu"}, "did you mean --device?"},
		{[]string{"up", "--gpu"}, "did you mean --device?"},
		{[]string{"train", "--out", "x"}, "did you mean --save?"},
		{[]string{"train", "--oute", "x"}, "did you mean --outer or"},
		{[]string{"export", "--out", "x"}, "did you mean --to?"},
		{[]string{"trace", "--out", "x"}, "did you mean --output?"},
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

// TestArgumentHints checks that an argument of a command that takes none leads to the
// flag that it is meant for.
func TestArgumentHints(t *testing.T) {
	text := textFile(t)
	kept, published := t.TempDir(), t.TempDir()
	for _, path := range []string{filepath.Join(kept, "manifest.json"), filepath.Join(published, "model.safetensors")} {
		if err := os.WriteFile(path, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const none = "takes no arguments; see ringside "
	meant := func(flag, value string) string {
		return fmt.Sprintf("takes no arguments, did you mean --%s %s?; see", flag, shellWord(value))
	}
	for _, c := range []struct {
		args []string
		says string
	}{
		{[]string{"train", text}, meant("data", text)},
		{[]string{"train", "book.txt"}, meant("data", "book.txt")},
		{[]string{"train", "x.safetensors"}, meant("load", "x.safetensors")},
		{[]string{"train", kept}, meant("load", kept)},
		{[]string{"train", "--data", text, "more.txt"}, none},
		{[]string{"eval", "x.safetensors"}, meant("load", "x.safetensors")},
		{[]string{"eval", "run"}, meant("load", "run")},
		{[]string{"eval", published}, meant("load", published)},
		{[]string{"eval", text}, meant("data", text)},
		{[]string{"eval", "--load", kept, "book.txt"}, meant("data", "book.txt")},
		{[]string{"eval", "--load", kept, "x.safetensors"}, none},
		{[]string{"export", "run"}, meant("load", "run")},
		{[]string{"export", text}, meant("load", text)},
		{[]string{"generate", "The "}, meant("prompt", "The ")},
		{[]string{"generate", "The", "rays"}, meant("prompt", "The rays")},
		{[]string{"generate", "--load", kept, "--prompt", "The", "rays"}, meant("prompt", "The rays")},
		{[]string{"generate", "--prompt", "The ", published}, meant("load", published)},
		{[]string{"up", "2"}, none},
		{[]string{"doctor", text}, none},
	} {
		failed(t, 2, []string{c.says}, c.args...)
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
