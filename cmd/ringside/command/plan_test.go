package command

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestPlanDump(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	out, _, err := execute(t, "plan", "dump", "--model", "gpt_t64", "--save", file)
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"program ", "causal_softmax", "attention_grad", "adamw_all*28", "of the most that live at once"} {
		if !strings.Contains(out, want) {
			t.Errorf("no %q in\n%s", want, out)
		}
	}
	if again, _, err := execute(t, "plan", "dump", "--program", file); err != nil || again != out {
		t.Errorf("the saved program prints otherwise: %v\n%s", err, again)
	}
	if out, _, err := execute(t, "plan", "dump", "--program", file, "--no-fuse"); err != nil || strings.Contains(out, "attention_grad") {
		t.Errorf("without fusion: %v\n%s", err, out)
	}
	if out, _, err := execute(t, "plan", "dump", "--program", file, "--dot"); err != nil || strings.Count(out, "digraph") != 2 || strings.Count(out, "{") != strings.Count(out, "}") {
		t.Errorf("as graphs: %v\n%s", err, out)
	}
	if out, _, err := execute(t, "plan", "dump", "--model", "mlp_adamw", "--time", "2"); err != nil || !strings.Contains(out, "  together\n") {
		t.Errorf("timed: %v\n%s", err, out)
	}
}

func TestPlanDumpOfNothing(t *testing.T) {
	if _, _, err := execute(t, "plan", "dump", "--model", "nobody"); err == nil || !strings.Contains(err.Error(), "qwen_t64") {
		t.Errorf("a model that doesn't exist gave %v", err)
	}
	file := filepath.Join(t.TempDir(), "bad")
	if err := os.WriteFile(file, []byte("no program"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := execute(t, "plan", "dump", "--program", file); err == nil || !strings.Contains(err.Error(), file) {
		t.Errorf("a file that is no program gave %v", err)
	}
}

func TestPlanDumpForWorkers(t *testing.T) {
	out, _, err := execute(t, "plan", "dump", "--model", "gpt_t64", "--workers", "2")
	if err != nil {
		t.Fatal(err)
	}
	for _, want := range []string{"by rows along data", "so the inputs of 2 rows", "all-reduce along data", "mesh data 2", "start all-reduce 0", "rank 0 1\n"} {
		if !strings.Contains(out, want) {
			t.Errorf("nothing says %q", want)
		}
	}
	if out, _, err := execute(t, "plan", "dump", "--model", "mlp_adamw", "--workers", "1x2"); err != nil || !strings.Contains(out, "mesh data 1 x model 2") {
		t.Errorf("1x2 workers: %v, %.200s", err, out)
	}
	for _, bad := range []string{"0", "two", "2x", "2x2x2", "-1", "100000"} {
		if _, _, err := execute(t, "plan", "dump", "--model", "mlp_adamw", "--workers", bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("--workers %s: error %v", bad, err)
		}
	}
}
