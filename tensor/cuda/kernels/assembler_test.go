package kernels

import (
	"bytes"
	"flag"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"testing"

	"github.com/ringside-go/ringside/shm/testneeds"
	"github.com/ringside-go/ringside/tensor/cuda/cudatest"
)

var write = flag.Bool("write", false, "write the table of the assembler")

// tool is cudatest.Tool, and skips the test where there is none.
func tool(t *testing.T, name string) string {
	t.Helper()
	path := cudatest.Tool(t, os.Getenv, name)
	if path == "" {
		t.Skipf("no %s", name)
	}
	return path
}

// TestCompiled checks that the committed PTX is what clang makes of the CUDA C.
func TestCompiled(t *testing.T) {
	testneeds.Generator.Program(t, os.Getenv, "clang-19")
	dir := t.TempDir()
	if out, err := exec.Command("./compile.sh", dir).CombinedOutput(); err != nil {
		t.Fatalf("compile.sh: %v\n%s", err, out)
	}
	made, err := filepath.Glob(filepath.Join(dir, "*.ptx"))
	if err != nil || len(made) != len(Modules) {
		t.Fatalf("%d files for %d modules, %v", len(made), len(Modules), err)
	}
	for _, path := range made {
		b, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		name := strings.TrimSuffix(filepath.Base(path), ".ptx")
		if string(b) != text(t, name) {
			t.Errorf("%s.ptx is not what clang-19 makes of %s.cu; make ptx writes it", name, name)
		}
		for _, kernel := range Modules[name] {
			if !strings.Contains(string(b), ".entry "+kernel+"(") {
				t.Errorf("%s has no kernel %s", name, kernel)
			}
		}
		if n := strings.Count(string(b), ".entry "); n != len(Modules[name]) {
			t.Errorf("%s has %d kernels, %d are listed", name, n, len(Modules[name]))
		}
	}
}

// TestExact checks that no f32 operation may be joined with another, or is approximate.
func TestExact(t *testing.T) {
	loose := regexp.MustCompile(`\b(add|sub|mul)\.f(32|64)\b|\.approx|\.ftz|tanh`)
	for name := range Modules {
		if found := loose.FindString(text(t, name)); found != "" {
			t.Errorf("%s.ptx has %s", name, found)
		}
	}
}

var (
	instruction = regexp.MustCompile(`(?m)^\s+/\*[0-9a-f]{4}\*/\s+(?:@!?U?P[0-9T]\s+)?([A-Z0-9]+)(\.[A-Z0-9.]+)?`)
	usage       = regexp.MustCompile(`Function (\w+):\s+REG:(\d+) STACK:(\d+) SHARED:(\d+) LOCAL:(\d+)`)
)

// interesting are the kinds of machine instructions that the table lists: memory, joined
// arithmetic, tensor cores, shuffles and barriers.
var interesting = []string{"LDG", "STG", "LDL", "STL", "LDS", "STS", "RED", "REDG", "ATOM", "ATOMG", "FFMA", "HMMA", "MUFU", "SHFL", "BAR", "CALL"}

// assemble returns the rows of a module for a target.
func assemble(t *testing.T, module, target string) []string {
	t.Helper()
	cubin := filepath.Join(t.TempDir(), "a.cubin")
	if out, err := exec.Command(tool(t, "ptxas"), "-arch", target, "-o", cubin, module+".ptx").CombinedOutput(); err != nil {
		t.Errorf("%s for %s: %v\n%s", module, target, err, out)
		return nil
	}
	dump := func(flag string) string {
		c := exec.Command(tool(t, "cuobjdump"), flag, cubin)
		c.Env = append(os.Environ(), "PATH="+filepath.Dir(tool(t, "nvdisasm"))+":"+os.Getenv("PATH"))
		out, err := c.Output()
		if err != nil {
			t.Fatalf("cuobjdump %s: %v", flag, err)
		}
		return string(out)
	}
	kinds := map[string]string{} // of a function
	for _, part := range strings.Split(dump("-sass"), "Function : ")[1:] {
		seen := map[string]bool{}
		for _, m := range instruction.FindAllStringSubmatch(part, -1) {
			kind := m[1]
			if slices.Contains(interesting, kind) {
				if strings.Contains(m[2], ".128") {
					kind += ".128"
				}
				seen[kind] = true
			}
		}
		var list []string
		for k := range seen {
			list = append(list, k)
		}
		slices.Sort(list)
		kinds[strings.Fields(part)[0]] = strings.Join(list, " ")
	}
	var rows []string
	for _, m := range usage.FindAllStringSubmatch(dump("-res-usage"), -1) {
		rows = append(rows, fmt.Sprintf("%-14s %s %9s %5s %6s %5s  %s", m[1], target, m[2], m[3], m[4], m[5], kinds[m[1]]))
	}
	return rows
}

// rowsOf returns the first line of a table and its rows for those targets.
func rowsOf(table string, targets []string) string {
	first, rest, _ := strings.Cut(table, "\n")
	out := first + "\n"
	for row := range strings.Lines(rest) {
		if f := strings.Fields(row); len(f) < 2 || slices.Contains(targets, f[1]) {
			out += row
		}
	}
	return out
}

// TestAssembler checks that NVIDIA's assembler takes all kernels for all targets, and
// that it makes of them what assembler.txt says. A short test has the first target alone.
func TestAssembler(t *testing.T) {
	tool(t, "ptxas")
	targets := cudatest.Targets
	if testing.Short() && !*write {
		targets = targets[:1]
	}
	var rows []string
	for name := range Modules {
		for _, target := range targets {
			rows = append(rows, assemble(t, name, target)...)
		}
	}
	slices.Sort(rows)
	table := fmt.Sprintf("%-14s %s %9s %5s %6s %5s  %s\n", "kernel", "target", "registers", "stack", "shared", "local", "instructions") + strings.Join(rows, "\n") + "\n"
	if *write {
		if err := os.WriteFile("assembler.txt", []byte(table), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile("assembler.txt")
	if err != nil {
		t.Fatal(err)
	}
	if expected := rowsOf(string(want), targets); table != expected {
		t.Errorf("assembler.txt differs from what ptxas makes, which is\n%s\ngo test ./tensor/cuda/kernels -run TestAssembler -args -write writes it", table)
	}
	if m := regexp.MustCompile(`LDL|STL`).FindString(table); m != "" {
		t.Errorf("a kernel uses local memory: %s", m)
	}
	if m := regexp.MustCompile(`(?m)^(sum|max|argmax|cumsum)_f32.*FFMA`).FindString(table); m != "" {
		t.Errorf("a product is joined with a sum: %s", m)
	}
	for name := range Modules {
		for _, kernel := range Modules[name] {
			if n := strings.Count(table, "\n"+kernel+" "); n != len(targets) {
				t.Errorf("%s is in the table %d times, want %d", kernel, n, len(targets))
			}
		}
	}
}

var (
	token    = regexp.MustCompile(`%\w+|\.\w+|\w+|[^\s\w]`)
	register = regexp.MustCompile(`%\w+`)
	words    = strings.Fields(".b16 .b32 .b64 .u8 .u16 .u32 .u64 .s16 .s32 .s64 .f16 .f32 .f64 .pred .bf16 .v2 .v4 .sat .ftz .rn .rz .approx .wide .lo .hi .nc .global .shared .param .uni .sync .NaN")
)

// mutant returns the text with one change, and the changed line.
func mutant(r *rand.Rand, lines []string, registers []string) (string, string) {
	out := slices.Clone(lines)
	for {
		i := r.IntN(len(out))
		line := out[i]
		spans := token.FindAllStringIndex(line, -1)
		if len(spans) == 0 || strings.HasPrefix(strings.TrimSpace(line), "//") {
			continue
		}
		s := spans[r.IntN(len(spans))]
		was := line[s[0]:s[1]]
		switch r.IntN(6) {
		case 0:
			line = line[:s[0]] + line[s[1]:]
		case 1:
			line = line[:s[1]] + " " + was + line[s[1]:]
		case 2:
			if was[0] != '%' {
				continue
			}
			line = line[:s[0]] + registers[r.IntN(len(registers))] + line[s[1]:]
		case 3:
			if was[0] != '.' {
				continue
			}
			line = line[:s[0]] + words[r.IntN(len(words))] + line[s[1]:]
		case 4:
			j := r.IntN(len(out))
			out[j], line = line, out[j]
		default:
			line = line[:s[1]] + words[r.IntN(len(words))] + line[s[1]:]
		}
		out[i] = line
		return strings.Join(out, "\n"), line
	}
}

// TestMutants changes a line of a kernel 2000 times: NVIDIA's assembler refuses whatever
// the interpreter takes wrongly, and this finds it. A short test makes 100 mutants.
func TestMutants(t *testing.T) {
	ptxas := tool(t, "ptxas")
	g := cudatest.New(t, 0, os.Getenv)
	count := 2000
	if testing.Short() {
		count = 100
	}
	const seed = 16
	r := rand.New(rand.NewPCG(seed, 0))
	var names []string
	for name := range Modules {
		names = append(names, name)
	}
	slices.Sort(names)
	refusedHere, refused := 0, 0
	var lock sync.Mutex
	var wait sync.WaitGroup
	turns := make(chan bool, 4)
	for n := range count {
		name := names[n%len(names)]
		whole := text(t, name)
		ptx, line := mutant(r, strings.Split(whole, "\n"), register.FindAllString(whole, -1))
		m, err := g.ModuleLoad(ptx)
		if err != nil {
			refusedHere++
			continue // what ptxas says doesn't matter
		}
		if err := g.ModuleUnload(m); err != nil {
			t.Fatal(err)
		}
		turns <- true
		wait.Add(1)
		go func() {
			defer wait.Done()
			defer func() { <-turns }()
			path := filepath.Join(t.TempDir(), "m.ptx")
			if err := os.WriteFile(path, []byte(ptx), 0o600); err != nil {
				t.Error(err)
			}
			if out, err := exec.Command(ptxas, "-O0", "-arch", "sm_80", "-o", "/dev/null", path).CombinedOutput(); err != nil {
				lock.Lock()
				refused++
				lock.Unlock()
				t.Errorf("mutant %d of seed %d, %s: the interpreter takes %q; ptxas: %s", n, seed, name, line, bytes.TrimSpace(out))
			}
		}()
	}
	wait.Wait()
	t.Logf("of %d mutants the interpreter refuses %d; of the others ptxas refuses %d", count, refusedHere, refused)
	if refusedHere < count/2 {
		t.Errorf("%d of %d mutants are refused: are they mutants?", refusedHere, count)
	}
}
