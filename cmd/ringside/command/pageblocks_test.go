package command

import (
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/collective/testsize"
)

// otherwise says of a kind of blocks what checks it instead of TestPages.
type otherwise struct {
	test   string // a test of Go, or file:text of another test or script
	cannot string // why nothing runs it
}

// kinds says what becomes of the blocks of pages. The key is a language, or a page and a
// language ("picture": none), or a page and how the first line of an indented block
// begins that is not for a shell. The test is written as in elsewhere.
var kinds = map[string]otherwise{
	"go":                    {test: "TestPagePrograms"},
	"README.md python":      {test: "cmd/libringside/python/tests/test_pages.py:README.md"},
	"docs/python.md python": {test: "cmd/libringside/python/tests/test_pages.py:python.md"},
	"docs/sharding.md yaml": {test: "TestPageConfigs"},
	"docs/launch.md yaml":   {test: "collective/launch/kubernetes/manifests_test.go:func TestManifests"},
	"docs/launch.md bash":   {test: "TestBatchScript"},

	"docs/architecture.md picture":       {cannot: "a picture of processes"},
	"docs/concepts.md picture":           {cannot: "a picture of processes, and one of what is recorded and sent"},
	"docs/architecture.md: shm, ring":    {test: "floors_test.go:func TestFloors"},
	"docs/sharding.md: c.yaml:3:3":       {test: "tensor/shard/config/parse_test.go:c.yaml:3:3: b.workers"},
	"docs/sharding.md: c.yaml:2:17":      {test: "tensor/shard/config/program_test.go:batch.shard.axis: 7: no tensor of batch"},
	"docs/sharding.md: everything whole": {test: "cmd/ringside/command/plan_test.go:everything whole on every worker"},
	"docs/sharding.md: in0 f32[256 64]":  {test: "tensor/shard/signals_test.go:typo: no tensor of the program has it"},
	"docs/watching.md: path  messages":   {test: "tensor/cluster/far_test.go:a queue of their own in shared memory"},
	"docs/watching.md: os.WriteFile":     {test: "cmd/ringside/command/pages_test.go:tape.Append(nil)"},
	"docs/watching.md: scrape_configs:":  {cannot: "a config of Prometheus, which is not started; TestPageAgrees reads /metrics as it would"},
}

// block is a block of a page.
type block struct {
	page, lang string // lang: "picture" has none, "" is indented
	line       int    // of the page
	text       string
}

// blocksOf returns the blocks of a page: what is fenced, and paragraphs that are indented
// by four blanks.
func blocksOf(t *testing.T, page string) (blocks []block) {
	t.Helper()
	text := readText(t, filepath.Join(root, page))
	fenced := regexp.MustCompile("(?ms)^```([^\n]*)\n(.*?)^```$")
	for _, at := range fenced.FindAllStringSubmatchIndex(text, -1) {
		lang := text[at[2]:at[3]]
		if lang == "" {
			lang = "picture"
		}
		blocks = append(blocks, block{page, lang, 1 + strings.Count(text[:at[4]], "\n"), text[at[4]:at[5]]})
	}
	text = fenced.ReplaceAllStringFunc(text, func(s string) string { return strings.Repeat("\n", strings.Count(s, "\n")) })
	for _, at := range regexp.MustCompile(`(?m)(?:^\n)((?:^    .*\n)+)`).FindAllStringSubmatchIndex(text, -1) {
		blocks = append(blocks, block{page, "", 1 + strings.Count(text[:at[2]], "\n"), text[at[2]:at[3]]})
	}
	return blocks
}

// kind returns a block's key in kinds, or "shell".
func (b block) kind() string {
	first := strings.TrimPrefix(b.text, "    ")
	if word, _, _ := strings.Cut(assignment.ReplaceAllString(first, ""), " "); b.lang == "" && slices.Contains(shellWords, word) {
		return "shell"
	}
	for key := range kinds {
		if begin, ok := strings.CutPrefix(key, b.page+": "); ok && b.lang == "" && strings.HasPrefix(first, begin) {
			return key
		}
	}
	if _, ok := kinds[b.page+" "+b.lang]; ok {
		return b.page + " " + b.lang
	}
	return b.lang
}

// allPages returns README.md and the pages of docs.
func allPages(t *testing.T) (pages []string) {
	t.Helper()
	paths, err := filepath.Glob(filepath.Join(root, "docs/*.md"))
	if err != nil || len(paths) < 10 {
		t.Fatalf("%d pages, %v", len(paths), err)
	}
	for _, p := range paths {
		pages = append(pages, filepath.Join("docs", filepath.Base(p)))
	}
	return append(pages, "README.md")
}

// TestPageKinds checks that each block of the pages is of a kind that something reads or
// runs, and prints how many there are of each. The commands of a shell are TestPages'.
func TestPageKinds(t *testing.T) {
	names, counts, languages := testNames(t), map[string]int{}, map[string]int{}
	pages := allPages(t)
	for _, pattern := range []string{"docs/contributing/*.md", "CONTRIBUTING.md", "SECURITY.md", "cmd/examples/*.md", "cmd/examples/*/*.md", "bench/results/*.md"} {
		paths, err := filepath.Glob(filepath.Join(root, pattern))
		if err != nil {
			t.Fatal(err)
		}
		for _, p := range paths {
			pages = append(pages, strings.TrimPrefix(p, root+"/"))
		}
	}
	all := 0
	for _, page := range pages {
		for _, b := range blocksOf(t, page) {
			all++
			k := b.kind()
			counts[k]++
			switch {
			case k == "shell" && slices.Contains(allPages(t), page):
				languages["shell"]++
			case kinds[k] == (otherwise{}):
				first, _, _ := strings.Cut(b.text, "\n")
				t.Errorf("%s:%d: %q begins a block of the language %q that no test runs or reads", page, b.line, first, b.lang)
			case b.lang == "":
				languages["shown"]++
			default:
				languages[b.lang]++
			}
		}
	}
	for key, o := range kinds {
		if counts[key] == 0 {
			t.Errorf("no page has a block of %q", key)
		}
		if (o.test == "") == (o.cannot == "") || o.test != "" && !testExists(t, names, o.test) {
			t.Errorf("%q: the test %q does not exist, or there is no reason why it has none", key, o.test)
		}
	}
	t.Logf("%d blocks in %d pages: %s", all, len(pages), byTest(languages))
}

// TestKindOfBlock checks that a language which no test knows is of no kind.
func TestKindOfBlock(t *testing.T) {
	for want, b := range map[string]block{
		"shell": {page: "docs/x.md", text: "    A=1 ringside top\n"}, "go": {page: "docs/x.md", lang: "go"},
		"docs/launch.md bash": {page: "docs/launch.md", lang: "bash"}, "toml": {page: "docs/launch.md", lang: "toml"},
		"": {page: "docs/x.md", text: "    unheard of\n"},
	} {
		if got := b.kind(); got != want {
			t.Errorf("%+v is of the kind %q, expected %q", b, got, want)
		}
	}
}

// pageProgram says how TestPagePrograms runs a block of Go.
type pageProgram struct {
	ranks  int    // 0: it runs alone
	before string // statements before the block
	after  string // statements after it: what the block must have made
	then   string // a command that ends the test, with what it must print
	says   []string
}

// pagePrograms are the blocks of Go, by words that one of them alone has.
var pagePrograms = map[string]pageProgram{
	"client.Open(ctx, nil)":     {says: []string{"2.00, by worker w"}},
	"collective.Init(ctx, nil)": {ranks: 2, after: "if err != nil { return err }\n"},
	"BroadcastObject":           {ranks: 2, after: "if r.Config != \"{}\" { return fmt.Errorf(\"the config is %q\", r.Config) }\n"},
	"collective.Min":            {ranks: 2, before: "batches += int64(g.Rank())\n", after: "if n[0] != 3 { return fmt.Errorf(\"%d batches\", n[0]) }\n"},
	"nn.NewDataParallel":        {ranks: 2},
	"collective.RecvTagAsync":   {ranks: 2, after: "_ = in\n"},
	"signal.NotifyContext":      {ranks: 2, after: "if sum[0] != 1 { return fmt.Errorf(\"the sum is %v\", sum) }\n"},
	`sess.Signal("columns"`:     {after: "if _, err := y.Sum().Item(); err != nil { return err }\n"},
	"trace.Start":               {then: "ringside trace view mine.json", says: []string{"19 of ", "my program", "matmul"}},
	"client.Training{":          {},
}

// pageImports are what the blocks use, with the paths in this module.
var pageImports = []string{
	"context", "errors", "fmt", "log/slog", "os", "os/signal", "syscall", "collective", "ipc/local", "tensor", "tensor/autograd",
	"tensor/cluster/client", "tensor/cluster/trace", "tensor/nn", "tensor/optim",
}

// pageMain is the program around the blocks. It has what they use without declaring it.
const pageMain = `
var (
	ctx = context.Background()
	g       *collective.Group
	batches int64 = 3

	sess         *tensor.Session
	pixels, a, b = make([]float32, 64*784), make([]float32, 784*256), make([]float32, 256*10)
	x, w1, w2    *tensor.Tensor
)

// step fails, or never returns, if the ranks don't take the same number of steps.
func step(ctx context.Context, g *collective.Group) error { return g.Barrier(ctx) }

func main() {
	if err := run(os.Args[1], os.Args[2] == "group"); err != nil {
		fmt.Println(err)
		os.Exit(1)
	}
}

func run(name string, group bool) (err error) {
	if group {
		if g, err = collective.Init(ctx, nil); err != nil {
			return err
		}
		defer g.Close()
	}
	if sess, err = client.Open(ctx, nil); err != nil {
		return err
	}
	defer sess.Close()
	x = tensor.Ones(sess, tensor.F32, 4, 784)
	return blocks[name]()
}
`

// TestPagePrograms runs the blocks of Go in the pages, each as the body of a function
// that returns an error, beside a cluster of two workers. Programs of ranks are two.
func TestPagePrograms(t *testing.T) {
	if testing.Short() || testsize.Raced {
		t.Skip("builds a program; without -short and -race")
	}
	found := map[string]string{} // blocks, by words in pagePrograms
	functions, table := "", "var blocks = map[string]func() error{\n"
	for _, page := range allPages(t) {
		for _, b := range blocksOf(t, page) {
			if b.lang != "go" || strings.HasPrefix(b.text, "import") {
				continue // a list of packages
			}
			words := ""
			for w := range pagePrograms {
				if strings.Contains(b.text, w) {
					words += w
				}
			}
			how, ok := pagePrograms[words]
			if !ok || found[words] != "" {
				t.Errorf("%s:%d: pagePrograms has %q for this block, expected an entry of its own", page, b.line, words)
				continue
			}
			found[words] = b.text
			functions += fmt.Sprintf("\nfunc f%d() error {\n%s//line %s:%d\n%s\n%sreturn nil\n}\n", len(found), how.before, page, b.line, b.text, how.after)
			table += fmt.Sprintf("%q: f%d,\n", words, len(found))
		}
	}
	p := newPagePlace(t)
	p.build(t, pageMain+table+"}\n"+functions)
	if err := os.WriteFile(filepath.Join(p.dir, "model.json"), []byte("{}"), 0o600); err != nil {
		t.Fatal(err)
	}
	for words, how := range pagePrograms {
		t.Run(words, func(t *testing.T) {
			command := "./page '" + words + "' alone"
			if how.ranks > 0 {
				command = fmt.Sprintf("ringside run -n %d -- ./page '%s' group", how.ranks, words)
			}
			if strings.Contains(found[words], "collective.Init") {
				// the block makes the group
				command = strings.TrimSuffix(command, "group") + "alone"
			}
			if how.then != "" {
				command += " && " + how.then
			}
			out, err := p.sh(t, command, nil)
			if found[words] == "" || err != nil {
				t.Errorf("no block, or %s: %v\n%s", command, err, out)
			}
			for _, says := range how.says {
				if !strings.Contains(out, says) {
					t.Errorf("expected %q\n%s", says, out)
				}
			}
		})
	}
	t.Logf("%d blocks of Go were run", len(found))
}

// build compiles a program of package main without imports as page.
func (p *pagePlace) build(t *testing.T, text string) {
	t.Helper()
	source := "package main\n\n"
	for _, path := range pageImports {
		if _, err := os.Stat(filepath.Join(p.clone, path)); err == nil {
			path = "github.com/ringside-go/ringside/" + path
		}
		source += fmt.Sprintf("import %q\n", path)
	}
	file := filepath.Join(p.dir, "page.go")
	// A folder that is only in the overlay is in this module, and needs no go.mod.
	overlay, err := json.Marshal(map[string]any{"Replace": map[string]string{filepath.Join(p.clone, "docs/blocks/main.go"): file}})
	if err := errors.Join(err, os.WriteFile(file, []byte(source+text), 0o600), os.WriteFile(file+".json", overlay, 0o600)); err != nil {
		t.Fatal(err)
	}
	build := exec.Command("go", "build", "-overlay", file+".json", "-o", filepath.Join(p.dir, "page"), "./docs/blocks")
	build.Dir = p.clone
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
}
