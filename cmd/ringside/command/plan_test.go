package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/cluster/client"
	"github.com/ringside-go/ringside/tensor/cuda"
	"github.com/ringside-go/ringside/tensor/explain"
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
	if out, _, err := execute(t, "plan", "dump", "--model", "mlp_adamw", "--time", "2"); err != nil || !strings.Contains(out, "  together\n") {
		t.Errorf("timed: %v\n%s", err, out)
	}
}

// testPlanDot checks that a flag chooses one of both graphs.
func testPlanDot(t *testing.T) {
	for flag, begin := range map[string]string{"--dot": "digraph plan {\n", "--dot=plan": "digraph plan {\n", "--dot=program": "digraph program {\n"} {
		out, _, err := execute(t, "plan", "dump", "--model", "mlp_sgd", flag)
		if err != nil || !strings.HasPrefix(out, begin) || strings.Count(out, "digraph") != 1 || strings.Count(out, "{") != strings.Count(out, "}") {
			t.Errorf("%s: %v\n%s", flag, err, out)
		}
	}
}

// TestPlanDumpCUDA checks that the steps of a plan for a GPU are listed with where they
// run, and that training steps of the models have none on the host.
func TestPlanDumpCUDA(t *testing.T) {
	for _, model := range []string{"mlp_sgd", "mlp_adamw", "lenet", "gpt_t64", "qwen_t64"} {
		out, _, err := execute(t, "plan", "dump", "--model", model, "--device", "cuda")
		if err != nil {
			t.Fatal(err)
		}
		for _, want := range []string{"kernel      ", " = matmul ", " kernels   ", " steps, 0 of them on the host\n"} {
			if !strings.Contains(out, want) {
				t.Errorf("%s: no %q in\n%s", model, want, out)
			}
		}
	}
	var b strings.Builder
	const want = "host        y = rand\nkernel      z = exp y\n2 steps, 1 of them on the host\n"
	if err := writePlaced(&b, []cuda.Placed{{Step: "y = rand", Host: true}, {Step: "z = exp y", Kernels: 1}}); err != nil || b.String() != want {
		t.Errorf("%v, printed %q, want %q", err, b.String(), want)
	}
	for _, flags := range [][]string{{"--device", "tpu"}, {"--device", "cuda", "--dot"}, {"--dot=picture"},
		{"--hosts", "2"}, {"--workers", "2", "--hosts", "3"}, {"--workers", "2", "--hosts", "-1"}} {
		if _, _, err := execute(t, append([]string{"plan", "dump"}, flags...)...); err == nil {
			t.Errorf("%v is taken", flags)
		}
	}
}

// TestPlanDumpEdges checks that the plan for several workers says how those reach each
// other: on GPUs of one host and of two, and on cores.
func TestPlanDumpEdges(t *testing.T) {
	const peer, hosts, tcp = "GPU memory (peer)", "not from GPU to GPU, because the workers are on different hosts", "TCP; no faster way"
	for _, c := range []struct {
		flags  string
		lines  []string // begin with and have
		absent []string
	}{
		{"--workers 4 --device cuda", []string{"workers 0 1 2 3: ", "  0-1, 0-2, 0-3, 1-2, 1-3, 2-3: " + peer, "peer needs a process"}, []string{"TCP", "staged"}},
		{"--workers 4 --device cuda --hosts 2", []string{"  0-1, 2-3: shared memory, by which values of GPUs are copied (staged); " + hosts, "  0-2, 0-3, 1-2, 1-3: " + tcp}, []string{peer}},
		{"--workers 2x2 --auto-shard --device cuda --hosts 2", []string{"workers 0 2: ", "  0-2: " + tcp, "  1-3: " + tcp}, []string{"staged"}},
		{fmt.Sprintf("--workers %d --device cuda", cuda.MaxPeers+1), []string{"  0-1, ", "because there are more workers than a fold takes"}, []string{peer}},
		{"--model qwen_t64 --config ../../../docs/pipeline.yaml --device cuda", []string{"workers 0 1: ", " send\n  0-1: " + peer}, []string{"TCP", "staged"}},
		{"--model qwen_t64 --config ../../../docs/pipeline.yaml --device cuda --hosts 2", []string{" send\n  0-1: " + tcp}, []string{peer}},
		{"--workers 2 --hosts 2", []string{"  0-1: " + tcp}, []string{"GPU"}},
		{"--workers 2 --hosts 1", []string{"  0-1: shared memory\n"}, []string{"GPU"}},
	} {
		out, _, err := execute(t, append([]string{"plan", "dump", "--model", "gpt_t64"}, strings.Fields(c.flags)...)...)
		if err != nil {
			t.Errorf("%s: %v", c.flags, err)
			continue
		}
		_, out, _ = strings.Cut(out, "\nedges\n")
		out, _, found := strings.Cut(out, "\nsteps\n")
		for _, line := range c.lines {
			found = found && strings.Contains(out, line)
		}
		for _, line := range c.absent {
			found = found && !strings.Contains(out, line)
		}
		if !found {
			t.Errorf("%s: expected %q and not %q in\n%s", c.flags, c.lines, c.absent, out)
		}
	}
}

// TestPlanDumpJSON checks that --json has the plan of the text: as many steps, each with
// existing buffers, and a time where steps were timed.
func TestPlanDumpJSON(t *testing.T) {
	file := filepath.Join(t.TempDir(), "program")
	for _, args := range [][]string{{"--model", "gpt_t64", "--save", file}, {"--program", file}, {"--model", "mlp_adamw", "--time", "2"}} {
		out, _, err := execute(t, append([]string{"plan", "dump", "--json"}, args...)...)
		if err != nil {
			t.Fatalf("%v: %v", args, err)
		}
		var p explain.Document
		d := json.NewDecoder(strings.NewReader(out))
		d.DisallowUnknownFields()
		if err := d.Decode(&p); err != nil || d.More() {
			t.Fatalf("%v: %v in\n%s", args, err, out)
		}
		if len(p.Instructions) == 0 || len(p.Instructions) != p.Stats.Instructions || len(p.Steps) != p.Stats.Steps || len(p.Results) == 0 || p.Stats.Over < 1 {
			t.Errorf("%v: %d instructions, %d steps and %d results, of which the stats are %+v", args, len(p.Instructions), len(p.Steps), len(p.Results), p.Stats)
		}
		for i, s := range p.Steps {
			for _, o := range slices.Concat(s.Operands, s.Results) {
				if (o.Scalar == "") == (o.Buffer == nil) || o.Buffer != nil && (*o.Buffer < 0 || *o.Buffer >= len(p.Buffers)) {
					t.Errorf("%v: step %d has operand %+v", args, i, o)
				}
			}
			if (s.Microseconds != nil) != slices.Contains(args, "--time") {
				t.Errorf("%v: step %d took %v", args, i, s.Microseconds)
			}
		}
		if text, _, err := execute(t, append([]string{"plan", "dump"}, args...)...); err != nil || !strings.HasPrefix(text, "program "+p.Hash) {
			t.Errorf("%v: the hash is %s in JSON; error %v", args, p.Hash, err)
		}
	}
	if _, _, err := execute(t, "plan", "dump", "--json", "--dot"); err == nil {
		t.Error("a graph in JSON was printed")
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
	says := func(args []string, want ...string) {
		t.Helper()
		out, _, err := execute(t, append([]string{"plan", "dump"}, args...)...)
		if err != nil {
			t.Errorf("%v: %v", args, err)
		}
		for _, w := range want {
			if !strings.Contains(out, w) {
				t.Errorf("%v: nothing says %q", args, w)
			}
		}
	}
	says([]string{"--model", "gpt_t64", "--workers", "2"}, "batch cuts it in dim 0 along data", "all-reduce along data", "mesh data 2", "start all-reduce 0", "rank 0 1\n")
	says([]string{"--model", "gpt_t64", "--workers", "2", "--auto-shard"}, "everything whole on every worker", "by rows along data", "so the inputs of 2 rows")
	says([]string{"--model", "mlp_adamw", "--workers", "1x2"}, "mesh data 1 x model 2")
	for _, bad := range []string{"0", "two", "2x", "2x2x2", "-1", "100000"} {
		if _, _, err := execute(t, "plan", "dump", "--model", "mlp_adamw", "--workers", bad); err == nil || !strings.Contains(err.Error(), bad) {
			t.Errorf("--workers %s: error %v", bad, err)
		}
	}

	dir := t.TempDir()
	file := filepath.Join(dir, "config.yaml")
	write := func(text string) {
		t.Helper()
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	write("mesh: {data: 2, model: 2}\nzero1: true\nbatch:\n  shard: {axis: 0, along: data}\nfc1.weight:\n  shard: {axis: 0, along: model}\n\"missing.*\":\n")
	says([]string{"--model", "mlp_adamw", "--config", file}, "batch cuts it in dim 0 along data", "fc1.weight cuts it in dim 0 along model",
		"optimizer.state/fc2.weight cuts it in dim 0 along data", "reduce-scatter along data", "all-gather along data", "mesh data 2 x model 2")
	write("fc1.*:\n  workers: [0]\nfc2.*:\n  workers: [1]\nbatch:\n  workers: [0]\n")
	says([]string{"--model", "mlp_adamw", "--config", file}, "fc2.* runs on stage 1", "stage 1: workers 1, mesh data 1", "from stage 0 to stage 1", "from stage 1 to stage 0", "start send")

	if _, _, err := execute(t, "plan", "dump", "--config", file, "--workers", "2"); err == nil || !strings.Contains(err.Error(), "exclude each other") {
		t.Errorf("--config with --workers gave %v", err)
	}
	write("batch:\n  shard: {axis: 9}\n")
	if _, _, err := execute(t, "plan", "dump", "--config", file); err == nil || !strings.Contains(err.Error(), file+":2:17: batch.shard.axis: 9: expected -8 to 7") {
		t.Errorf("a config with a mistake gave %v", err)
	}
	for want, args := range map[string][]string{
		"--auto-shard needs":             {"--auto-shard"},
		"leave --time":                   {"--workers", "2", "--time", "1"},
		filepath.Join(dir, "nobody.yml"): {"--config", filepath.Join(dir, "nobody.yml")},
	} {
		if _, _, err := execute(t, append([]string{"plan", "dump"}, args...)...); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v gave %v, expected %s", args, err, want)
		}
	}
}

// TestPlanDumpSession: the program of a session of a running cluster, as it is and for
// its two workers.
func TestPlanDumpSession(t *testing.T) {
	addr := busyCluster(t)
	id := ""
	for n := 1; id == ""; n++ { // until the session has run its program
		_, _, err := execute(t, "plan", "dump", "--session", "1", "--connect", addr)
		switch {
		case err == nil:
			id = "1"
		case !errors.Is(err, client.ErrNoProgram) || n == 1000:
			t.Fatal(err)
		}
	}
	out, said, err := execute(t, "plan", "dump", "--session", id, "--connect", addr)
	if err != nil || !strings.Contains(out, "tanh") || !strings.Contains(said, `session 1, "summer", workers: 2; program `) {
		t.Errorf("%v: %s\n%s", err, said, out)
	}
	out, _, err = execute(t, "plan", "dump", "--session", id, "--connect", addr, "--workers", "2")
	if err != nil || !strings.Contains(out, "rank 0 1") {
		t.Errorf("--workers: %v: %s", err, out)
	}
	if _, _, err = execute(t, "plan", "dump", "--session", "77", "--connect", addr); !errors.Is(err, client.ErrNoProgram) || !strings.Contains(err.Error(), "no session 77 has a worker") {
		t.Errorf("no such session: %v", err)
	}
	failed(t, 2, []string{"--session 0: expected the number"}, "plan", "dump", "--session", "0")
	failed(t, 2, []string{"without --model"}, "plan", "dump", "--session", "1", "--model", "qwen_t64")
	failed(t, 2, []string{"--connect is for --session"}, "plan", "dump", "--connect", addr)
}

// TestPlanOfTrainModels: plan dump knows the models of train by their names, whole and on
// several workers, with times, and under a config that leaves fusion out.
func TestPlanOfTrainModels(t *testing.T) {
	steps := map[string]int{}
	plain := filepath.Join(t.TempDir(), "plain.yaml")
	if err := os.WriteFile(plain, []byte("workers: 2\nbatch: {shard: {axis: 0}, compile: false}\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		flags, says string
	}{
		{"--model fashion-mlp", " adamw"},
		{"--model qwen3-tiny", " adamw"},
		{"--model qwen3-tiny --time 2", "  together\n"},
		{"--model qwen3-tiny --workers 2", "all-reduce along data"},
		{"--model qwen3-tiny --config " + plain, "all-reduce along data"},
	} {
		out, errOut, err := execute(t, append([]string{"plan", "dump"}, strings.Fields(c.flags)...)...)
		if err != nil || !strings.Contains(out, c.says) {
			t.Errorf("%s: %v, %s, %.500s; expected %q", c.flags, err, errOut, out, c.says)
		}
		steps[c.flags] = strings.Count(out, "unfused\n")
	}
	if n := steps["--model qwen3-tiny --config "+plain]; n == 0 {
		t.Errorf("under compile: false %d programs are unfused", n)
	}
	_, _, err := execute(t, "plan", "dump", "--model", "parrot")
	if err == nil || !strings.Contains(err.Error(), "qwen3-tiny") {
		t.Errorf("no such model: %v", err)
	}
}
