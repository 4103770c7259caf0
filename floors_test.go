package ringside

import (
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "github.com/ringside-go/ringside"

// folders is the one-way street of the top level: a package imports only from its own
// folder and from folders before it. shm and ring don't know of each other.
var folders = []string{"shm", "ring", "ipc", "net", "collective", "tensor", "gather", "bench", "cmd"}

// checkFolder returns an error unless a package of the folder from may import one of the
// folder to. Both are paths relative to the root.
func checkFolder(from, to string) error {
	a, b := folder(from), folder(to)
	switch i, j := slices.Index(folders, a), slices.Index(folders, b); {
	case a == b || a == "":
		return nil
	case i < 0 || j < 0:
		return fmt.Errorf("%s or %s is not one of %s", a, b, strings.Join(folders, ", "))
	case j > i:
		return fmt.Errorf("%s imports %s, but %s comes after %s", from, to, b, a)
	case a == "ring" && b == "shm":
		return fmt.Errorf("%s imports %s: a ring is built over a []byte", from, to)
	}
	return nil
}

// TestFolders plants imports against the law.
func TestFolders(t *testing.T) {
	for _, c := range []struct {
		from, to string
		ok       bool
	}{
		{"tensor/cluster/worker", "collective", true},
		{"collective/internal/algorithm/onehost", "shm", true},
		{"cmd/ringside/command", "bench", true},
		{"tensor/cpu", "tensor/internal/compile", true},
		{"collective", "tensor", false},
		{"ipc/local", "net/tcp", false},
		{"shm", "ring", false},
		{"ring", "shm", false},
		{"tensor/train", "gather", false},
		{"ipc", "utils", false},
	} {
		if err := checkFolder(c.from, c.to); (err == nil) != c.ok {
			t.Errorf("%s imports %s: %v", c.from, c.to, err)
		}
	}
}

// floors orders the packages within a folder: a package imports only packages of its
// folder on lower floors.
var floors = map[string]int{
	"shm/limits":            0,
	"shm/plain":             0,
	"shm/plain/plaintest":   0,
	"shm/limits/limitstest": 1,
	"shm/testneeds":         0,
	"shm":                   1,

	"ring": 0,

	"ipc/encoding":              0,
	"ipc/encoding/encodingtest": 1,
	"ipc":                       1,
	"ipc/ipctest":               2,
	"ipc/lingertest":            0,
	"ipc/local":                 2,

	"net/nettest":             0,
	"net/tcp/internal/crc32c": 0,
	"net/tcp":                 1,
	"net/route":               2,

	"collective/element":                      0,
	"collective/isa":                          0,
	"collective/isa/isatest":                  1,
	"collective/testsize":                     0,
	"collective/protocol":                     1,
	"collective/internal/kernel":              2,
	"collective/internal/algorithm/onehost":   3,
	"collective/internal/algorithm/crosshost": 3,
	"collective/internal/tagged":              2,
	"collective/rendezvous":                   3,
	"collective/launch":                       4,
	"collective":                              4,

	"tensor/data":                      0,
	"tensor/safetensors":               0,
	"tensor/internal/elementary":       0,
	"tensor/cpu/internal/kernel":       1,
	"tensor":                           0,
	"tensor/spmd":                      1,
	"tensor/autograd":                  1,
	"tensor/internal/compile":          1,
	"tensor/explain":                   2,
	"tensor/device":                    1,
	"tensor/enginetest":                1,
	"tensor/checkpoint":                2,
	"tensor/shard":                     1,
	"tensor/optim":                     1,
	"tensor/shard/config":              2,
	"tensor/cpu":                       3,
	"tensor/device/apart":              4,
	"tensor/device/devicetest":         5,
	"tensor/nn":                        2,
	"tensor/nn/model":                  3,
	"tensor/cluster/internal/turn":     3,
	"tensor/cluster/internal/transfer": 3,
	"tensor/cluster/internal/wire/gen": 0,
	"tensor/cluster/internal/wire":     2,
	"tensor/cluster/metrics":           3,
	"tensor/cluster/client":            4,
	"tensor/cluster/dispatcher":        4,
	"tensor/cluster/worker":            4,
	"tensor/cluster":                   5,
	"tensor/cluster/trace":             5,
	"tensor/cluster/breaker":           6,
	"tensor/train":                     5,
	"tensor/cuda/driver":               0,
	"tensor/cuda/driver/dlopen":        1,
	"tensor/cuda/blas":                 1,
	"tensor/cuda/blas/cublaslt":        2,
	"tensor/cuda/comm":                 1,
	"tensor/cuda/comm/nccl":            2,
	"tensor/cuda/driver/drivertest":    1,
	"tensor/cuda/fakecuda":             0,
	"tensor/cuda/memory":               2,
	"tensor/cuda":                      4,
	"tensor/cuda/gpucheck":             4,
	"tensor/cuda/cudatest":             3,
	"tensor/cuda/kernels":              0,
	"tensor/cuda/internal/load":        0,
	"tensor/cuda/internal/ptx":         2,

	"gather/outcome":         0,
	"gather/codec":           1,
	"gather/store":           1,
	"gather/codec/codectest": 2,
	"gather/torch":           2,
	"gather/store/storetest": 2,
	"gather/agg":             0,
	"gather":                 3,
	"gather/apply":           4,
	"gather/overlap":         4,
	"gather/artifact":        5,
	"gather/outer":           6,

	"bench":          0,
	"bench/shape":    0,
	"bench/revision": 0,
	"bench/turns":    1,

	"cmd/examples":         0,
	"cmd/shape":            0,
	"cmd/turns":            0,
	"cmd/fakecuda":         0,
	"cmd/libringside":      0,
	"cmd/ringside/events":  0,
	"cmd/ringside/page":    0,
	"cmd/ringside/plot":    0,
	"cmd/ringside/command": 1,
	"cmd/ringside":         2,

	"": 0, // this package
}

// outside lists the packages from outside of the module and their importers. A package
// that isn't listed may not be imported. Tests may import more. Folders with a go.mod of
// their own (bench/peers, cmd/manual, tensor/cuda/driver/gorgonia,
// tensor/cpu/internal/kernel/gen, collective/internal/kernel/gen, the folders in
// cmd/examples) are not of this module.
var outside = map[string][]string{
	"golang.org/x/sys/unix":        {"shm", "shm/limits", "shm/limits/limitstest", "ipc", "ipc/local", "net/tcp", "net/nettest", "tensor/cuda/memory", "bench", "cmd/ringside/command"},
	"golang.org/x/sys/cpu":         {"collective/isa", "net/tcp/internal/crc32c"},
	"github.com/edsrzf/mmap-go":    {"shm"},
	"github.com/cloudwego/netpoll": {"net/tcp"},
	"github.com/gdamore/tcell/v2":  {"cmd/ringside/command"},
	"github.com/spf13/cobra":       {"cmd/ringside/command"},
	"github.com/spf13/pflag":       {"cmd/ringside/command"},
	"go.yaml.in/yaml/v3":           {"tensor/shard/config"},
	"github.com/ebitengine/purego": {"tensor/cuda/driver/dlopen", "tensor/cuda/blas/cublaslt", "tensor/cuda/comm/nccl", "tensor/cuda/internal/load"},

	"google.golang.org/protobuf/encoding/protowire": {"cmd/ringside/events"},
	"golang.org/x/image/font":                       {"cmd/ringside/plot"},
	"golang.org/x/image/font/basicfont":             {"cmd/ringside/plot"},
	"golang.org/x/image/math/fixed":                 {"cmd/ringside/plot"},
	"golang.org/x/image/vector":                     {"cmd/ringside/plot"},

	"lukechampine.com/blake3":                      {"gather/codec", "gather/apply"},
	"github.com/fxamacker/cbor/v2":                 {"gather/codec"},
	"github.com/minio/minio-go/v7":                 {"gather/store"},
	"github.com/minio/minio-go/v7/pkg/credentials": {"gather/store"},
}

type source struct {
	path string // relative to the root
	pkg  string
	test bool
	text string
	ast  *ast.File
}

func sources(t *testing.T) []source {
	t.Helper()
	var out []source
	fset := token.NewFileSet()
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			if name := d.Name(); path != "." && (strings.HasPrefix(name, ".") || name == "testdata" || name == "bin") {
				return fs.SkipDir
			}
			if _, err := os.Stat(filepath.Join(path, "go.mod")); path != "." && err == nil {
				return fs.SkipDir // a module of its own
			}
			return nil
		}
		if !strings.HasSuffix(path, ".go") {
			return nil
		}
		text, err := os.ReadFile(path)
		if err != nil {
			return err
		}
		f, err := parser.ParseFile(fset, path, text, parser.ParseComments)
		if err != nil {
			return err
		}
		pkg := filepath.ToSlash(filepath.Dir(path))
		if pkg == "." {
			pkg = ""
		}
		out = append(out, source{filepath.ToSlash(path), pkg, strings.HasSuffix(path, "_test.go"), string(text), f})
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if len(out) < 50 {
		t.Fatalf("%d source files found: is this the root?", len(out))
	}
	return out
}

func imports(f *ast.File) []string {
	var out []string
	for _, i := range f.Imports {
		p, _ := strconv.Unquote(i.Path.Value)
		out = append(out, p)
	}
	return out
}

// folder returns the top-level folder of a package.
func folder(pkg string) string {
	first, _, _ := strings.Cut(pkg, "/")
	return first
}

func TestFloors(t *testing.T) {
	used := map[string]bool{}
	taken := map[[2]string]bool{} // import and importer
	for _, s := range sources(t) {
		floor, ok := floors[s.pkg]
		if !ok {
			t.Errorf("%s: package %q has no floor", s.path, s.pkg)
			continue
		}
		used[s.pkg] = true
		for _, imp := range imports(s.ast) {
			if own, ok := strings.CutPrefix(imp, module+"/"); ok {
				below, known := floors[own]
				switch {
				case !known:
					t.Errorf("%s imports %s, which has no floor", s.path, own)
				case s.test:
				case folder(own) == folder(s.pkg) && below >= floor:
					t.Errorf("%s (floor %d) imports %s (floor %d)", s.path, floor, own, below)
				default:
					if err := checkFolder(s.pkg, own); err != nil {
						t.Errorf("%s: %v", s.path, err)
					}
				}
				continue
			}
			if first, _, _ := strings.Cut(imp, "/"); !strings.Contains(first, ".") {
				continue // standard library
			}
			if s.test {
				continue
			}
			taken[[2]string{imp, s.pkg}] = true
			if !slices.Contains(outside[imp], s.pkg) {
				t.Errorf("%s may not import %s", s.path, imp)
			}
		}
	}
	for pkg := range floors {
		if !used[pkg] {
			t.Errorf("%q has a floor and no files", pkg)
		}
	}
	for imp, who := range outside {
		for _, pkg := range who {
			if !taken[[2]string{imp, pkg}] {
				t.Errorf("%q may import %s and does not", pkg, imp)
			}
		}
	}
}

// rule is a lint: a pattern that must not match, where it holds, and why.
type rule struct {
	why     string
	pattern *regexp.Regexp
	applies func(s source) bool
}

func TestTopLevel(t *testing.T) {
	for _, s := range sources(t) {
		if first := folder(s.pkg); first != "" && !slices.Contains(folders, first) {
			t.Errorf("%s: code lies in %s", s.path, strings.Join(folders, ", "))
		}
	}
}

func library(s source) bool { return !s.test && !strings.HasPrefix(s.pkg, "cmd/") }

var rules = []rule{
	{
		"unsafe code is small and says so in the file's name",
		regexp.MustCompile(`(?m)^\s*(import )?"unsafe"$`),
		func(s source) bool {
			return !strings.HasSuffix(s.path, "_unsafe.go") && !strings.HasSuffix(s.path, "_unsafe_test.go")
		},
	},
	{
		"a library has no hidden configuration: the command line maps environment variables to options",
		regexp.MustCompile(`os\.(Getenv|LookupEnv|Environ)\(`),
		// dir.go reads XDG_RUNTIME_DIR.
		func(s source) bool { return library(s) && s.path != "ipc/local/dir.go" },
	},
	{
		"a library does nothing at import",
		regexp.MustCompile(`(?m)^func init\(\)`),
		library,
	},
	{
		"a library owns no logger and prints nothing",
		regexp.MustCompile(`\bslog\.(Info|Warn|Error|Debug|Default|SetDefault)\(|\blog\.(Print|Fatal|Panic)|fmt\.Print(ln|f)?\(`),
		library,
	},
	{
		"a test waits for the event, not for the clock",
		regexp.MustCompile(`time\.Sleep\(`),
		func(s source) bool { return s.test },
	},
	{
		"memory is mapped by shm alone, and slept on there",
		regexp.MustCompile(`(unix|syscall)\.(Mmap|MmapPtr|SYS_MMAP|SYS_FUTEX)`),
		func(s source) bool { return s.pkg != "shm" && !s.test },
	},
	{
		"templates find methods by name, so the linker keeps every method of every type: 4 MB",
		regexp.MustCompile(`"(text|html)/template"|\.Set(Version|Help|Usage)Template\(`),
		func(s source) bool { return !s.test },
	},
	{
		"a test that lacks something says so by package testneeds, which knows what is promised",
		regexp.MustCompile(`"TESTS_NEE[D]_`),
		func(s source) bool { return s.pkg != "shm/testneeds" },
	},
	{
		"what is left to do is in the issues, not in the code",
		// Written so that it does not find itself.
		regexp.MustCompile(`\b(TO[D]O|FIX[M]E|X{3})\b`),
		func(s source) bool { return true },
	},
}

func TestRules(t *testing.T) {
	for _, s := range sources(t) {
		for _, r := range rules {
			if m := r.pattern.FindStringIndex(s.text); m != nil && r.applies(s) {
				t.Errorf("%s:%d: %q: %s", s.path, 1+strings.Count(s.text[:m[0]], "\n"), strings.TrimSpace(s.text[m[0]:m[1]]), r.why)
			}
		}
	}
}

// TestVectorEncoding: assembly that uses AVX names no vector register in an instruction
// of SSE. That keeps the upper half of the register, and beside instructions of AVX may
// take hundreds of cycles: one load of a constant made norms of short rows 12 times as
// slow.
func TestVectorEncoding(t *testing.T) {
	avx := regexp.MustCompile(`(?m)^\tV`)
	sse := regexp.MustCompile(`^\t[A-JL-UW-Z]\w*\s.*\bX\d+\b`)
	files := 0
	err := filepath.WalkDir(".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || !strings.HasSuffix(path, "_amd64.s") {
			return err
		}
		text, err := os.ReadFile(path)
		if err != nil || !avx.Match(text) {
			return err
		}
		files++
		for i, line := range strings.Split(string(text), "\n") {
			if sse.MatchString(line) {
				t.Errorf("%s:%d: %s: expected the instruction of AVX, which begins with V", path, i+1, strings.TrimSpace(line))
			}
		}
		return nil
	})
	if err != nil || files == 0 {
		t.Errorf("%v, %d files use AVX", err, files)
	}
}

// TestDocFiles: a file that the documentation of a package names is there.
func TestDocFiles(t *testing.T) {
	named, n := regexp.MustCompile(`[*/\w.]*\w\.go\b`), 0
	for _, s := range sources(t) {
		if filepath.Base(s.path) != "doc.go" || s.ast.Doc == nil {
			continue
		}
		for _, name := range named.FindAllString(s.ast.Doc.Text(), -1) {
			n++
			path := filepath.Join(s.pkg, name)
			if strings.Contains(name, "/") {
				path = name
			}
			if found, err := filepath.Glob(path); err != nil || len(found) == 0 {
				t.Errorf("%s: there is no %s", s.path, name)
			}
		}
	}
	if n == 0 {
		t.Error("no documentation names a file")
	}
}

// TestLightImports checks that importers of ring or shm get nothing heavy with them.
func TestLightImports(t *testing.T) {
	want := map[string][]string{
		"ring":       nil,
		"shm/limits": {"golang.org/x/sys/unix"},
		"shm":        {"github.com/edsrzf/mmap-go", "golang.org/x/sys/unix", module + "/shm/limits"},
	}
	for _, s := range sources(t) {
		allowed, ok := want[s.pkg]
		if !ok || s.test {
			continue
		}
		for _, imp := range imports(s.ast) {
			if first, _, _ := strings.Cut(imp, "/"); strings.Contains(first, ".") && !slices.Contains(allowed, imp) {
				t.Errorf("%s imports %s", s.path, imp)
			}
		}
	}
}

// TestNoLoader checks that importers of ring, shm or the cluster's client get no purego
// with them, which makes a program dynamically linked, and no CUDA engine.
func TestNoLoader(t *testing.T) {
	const loader = "github.com/ebitengine/purego"
	imported := map[string][]string{}
	for _, s := range sources(t) {
		if !s.test {
			imported[s.pkg] = append(imported[s.pkg], imports(s.ast)...)
		}
	}
	// reaches reports whether pkg imports the loader, through packages of this module.
	seen := map[string]bool{}
	var reaches func(pkg string) bool
	reaches = func(pkg string) bool {
		if seen[pkg] {
			return false
		}
		seen[pkg] = true
		return slices.ContainsFunc(imported[pkg], func(imp string) bool {
			own, ok := strings.CutPrefix(imp, module+"/")
			return ok && reaches(own) || imp == loader
		})
	}
	for pkg, want := range map[string]bool{
		"ring": false, "shm": false, "tensor/cluster/client": false, "tensor/cluster": false,
		"tensor/cuda/driver": false, "tensor/cuda/driver/dlopen": true, "tensor/cuda/blas": false, "tensor/cuda/blas/cublaslt": true,
		"tensor/cuda/comm": false, "tensor/cuda/comm/nccl": true,
	} {
		clear(seen)
		if len(imported[pkg]) == 0 && pkg != "ring" {
			t.Errorf("%s imports nothing", pkg)
		}
		if got := reaches(pkg); got != want {
			t.Errorf("%s imports %s: %v, want %v", pkg, loader, got, want)
		}
		if !want && seen["tensor/cuda"] {
			t.Errorf("%s imports the CUDA engine", pkg)
		}
	}
}

// TestPageFiles checks that the files which the pages name by their path are there, and
// the pages that they link to.
func TestPageFiles(t *testing.T) {
	pages := []string{"README.md", "CONTRIBUTING.md"}
	for _, folder := range []string{"docs", "docs/contributing", "bench/results"} {
		found, err := filepath.Glob(folder + "/*.md")
		if err != nil || len(found) == 0 {
			t.Fatalf("%s: %d pages, %v", folder, len(found), err)
		}
		pages = append(pages, found...)
	}
	file := regexp.MustCompile(`[\w./]+/\w+\.(?:go|md|py|c|s|yaml)\b`)
	link := regexp.MustCompile(`\]\(([\w./-]+)(?:#[^)]*)?\)`)
	for _, page := range pages {
		text, err := os.ReadFile(page)
		if err != nil {
			t.Fatal(err)
		}
		for _, name := range file.FindAllString(string(text), -1) {
			if _, err := os.Stat(name); err != nil && !strings.Contains(name, "://") {
				t.Errorf("%s names %s: %v", page, name, err)
			}
		}
		for _, m := range link.FindAllStringSubmatch(string(text), -1) {
			if _, err := os.Stat(filepath.Join(filepath.Dir(page), m[1])); err != nil {
				t.Errorf("%s links to %s: %v", page, m[1], err)
			}
		}
	}
}

// TestPackageList: doc.go names each package by its whole path.
func TestPackageList(t *testing.T) {
	list, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	for pkg := range floors {
		if !regexp.MustCompile(`[\t ]` + regexp.QuoteMeta(pkg) + `[ \n]`).Match(list) {
			t.Errorf("doc.go lacks %s", pkg)
		}
	}
}
