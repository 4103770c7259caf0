package command

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os"
	"strings"
	"testing"

	"github.com/spf13/pflag"

	"github.com/ringside-go/ringside/ipc/encoding"
)

// execute runs the command line and returns what it wrote.
func execute(t *testing.T, args ...string) (out, errOut string, err error) {
	t.Helper()
	return executeContext(t, t.Context(), args...)
}

func executeContext(t *testing.T, ctx context.Context, args ...string) (out, errOut string, err error) {
	t.Helper()
	root := NewRootCommand()
	var o, e bytes.Buffer
	root.SetOut(&o)
	root.SetErr(&e)
	root.SetArgs(args)
	err = root.ExecuteContext(ctx)
	return o.String(), e.String(), err
}

func TestHelpNamesEverySubcommand(t *testing.T) {
	out, _, err := execute(t, "--help")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		"up", "dispatcher", "worker", "run", "train", "generate", "eval", "export", "demo", "gather", "bench", "plan", "inspect", "top", "trace", "plot", "doctor", "version",
	} {
		if !strings.Contains(out, "\n  "+name+" ") {
			t.Errorf("no %s in\n%s", name, out)
		}
	}
	if strings.Contains(out, "bench-peer") {
		t.Errorf("bench-peer is for programs, but help lists it:\n%s", out)
	}
}

func TestExitStatus(t *testing.T) {
	for _, c := range []struct {
		args []string
		want int
		says string
	}{
		{[]string{"version"}, 0, ""},
		{[]string{"dance"}, 2, `unknown command "dance"`},
		{[]string{"plan", "dance"}, 2, "see ringside plan --help\n"},
		{[]string{"version", "--loud"}, 2, "--loud"},
		{[]string{"doctor", "--connect", "/nowhere/at/all"}, 1, ""},
		{[]string{"up", "--log-level", "shouting"}, 2, "shouting"},
		{[]string{"train", "--model", "parrot"}, 2, "qwen3-tiny"},
		// of gather 2 is a skipped window
		{[]string{"gather", "dance"}, 1, "see ringside gather --help\n"},
		{[]string{"gather", "run", "--loud"}, 1, "--loud"},
		{[]string{"gather", "plan", "--window", "1", "--peers", "x"}, 1, "manifest.json"},
	} {
		root := NewRootCommand()
		var out, errOut bytes.Buffer
		root.SetOut(&out)
		root.SetErr(&errOut)
		root.SetArgs(c.args)
		if got := Main(t.Context(), root); got != c.want || !strings.Contains(errOut.String(), c.says) {
			t.Errorf("%v: exit status %d with %q, want %d with %q", c.args, got, errOut.String(), c.want, c.says)
		}
	}
}

func TestFlagsFromEnvironment(t *testing.T) {
	env := map[string]string{"RINGSIDE_STEPS": "7", "RINGSIDE_LOSS_EVERY": "3", "RINGSIDE_SEED": "9", "RINGSIDE_SECRET": "1"}
	lookup := func(k string) (string, bool) { v, ok := env[k]; return v, ok }
	flags := pflag.NewFlagSet("t", pflag.ContinueOnError)
	steps, every, seed := flags.Int("steps", 1, ""), flags.Int("loss-every", 1, ""), flags.Int("seed", 1, "")
	secret := flags.Int("secret", 0, "")
	_ = flags.MarkHidden("secret")
	if err := flags.Parse([]string{"--seed", "5"}); err != nil {
		t.Fatal(err)
	}
	if err := fromEnv(flags, lookup); err != nil {
		t.Fatal(err)
	}
	if *steps != 7 || *every != 3 || *seed != 5 || *secret != 0 {
		t.Errorf("steps %d, loss-every %d, seed %d, secret %d; want 7, 3, 5 (the flag wins), 0 (hidden)", *steps, *every, *seed, *secret)
	}
	env["RINGSIDE_STEPS"] = "many"
	flags = pflag.NewFlagSet("t", pflag.ContinueOnError)
	flags.Int("steps", 1, "")
	if err := fromEnv(flags, lookup); err == nil || !strings.Contains(err.Error(), `RINGSIDE_STEPS="many"`) {
		t.Errorf("error %v, want one that names the variable and its value", err)
	}
}

// TestVariableNamed: an error about a flag that a variable set names the variable, one
// about a flag that was typed or about another flag does not.
func TestVariableNamed(t *testing.T) {
	for _, c := range []struct {
		variable, value string
		args            []string
		says            string
	}{
		{"RINGSIDE_LOG_LEVEL", "loud", []string{"up"}, `--log-level "loud": expected debug, info, warn or error (--log-level is set by RINGSIDE_LOG_LEVEL)`},
		{"RINGSIDE_LOG_LEVEL", "debug", []string{"up", "--log-level", "loud"}, `--log-level "loud": expected debug, info, warn or error`},
		{"RINGSIDE_WORKERS", "0", []string{"up"}, "-n 0: expected 1 to 1024 workers (--workers is set by RINGSIDE_WORKERS)"},
		{"RINGSIDE_WORKERS", "2", []string{"up", "--log-level", "loud"}, `--log-level "loud": expected debug, info, warn or error`},
	} {
		t.Setenv(c.variable, c.value)
		root := NewRootCommand()
		var said bytes.Buffer
		root.SetOut(io.Discard)
		root.SetErr(&said)
		root.SetArgs(c.args)
		if code := Main(t.Context(), root); code != 2 || said.String() != "ringside: "+c.says+"\n" {
			t.Errorf("%s=%s, %q: %d, %q; expected 2 and %q", c.variable, c.value, c.args, code, said.String(), c.says)
		}
		os.Unsetenv(c.variable)
	}
}

func TestVersion(t *testing.T) {
	out, _, err := execute(t, "version")
	if err != nil || !strings.HasPrefix(out, "ringside ") || !strings.Contains(out, fmt.Sprintf("messages %d,", encoding.Version)) {
		t.Errorf("%q, %v", out, err)
	}
	out, _, err = execute(t, "version", "--json")
	if err != nil {
		t.Fatal(err)
	}
	var v versionInfo
	if err := json.Unmarshal([]byte(out), &v); err != nil || v.Wire < 1 || v.Ring < 1 || v.Go == "" {
		t.Errorf("%s: %+v, %v", out, v, err)
	}
}
