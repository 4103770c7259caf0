package config

import (
	"errors"
	"os"
	"reflect"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor"
	"github.com/ringside-go/ringside/tensor/shard"
)

func parse(t *testing.T, text string) *Config {
	t.Helper()
	c, err := Parse("c.yaml", []byte(text))
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func sig(n string) tensor.Signal  { return tensor.Signal{Name: n} }
func back(n string) tensor.Signal { return tensor.Signal{Name: n, Backward: true} }

func TestParse(t *testing.T) {
	c := parse(t, `
workers: 8
mesh: {data: 2, model: 2}
zero1: true
micro_batches: 4
batch:
  shard: {axis: 0, along: data}
wide:
  shard:
    axis: -1
    along: [model]
    even: true
everywhere: {shard: {axis: 0}}
front:
  workers: [0, 1, 2, 3]
  backward: rear
  compile: true
rear: {shard: {axis: 1, along: model, workers: [4, 5, 6, 7]}}
said_nothing:
null_workers: {workers: null, shard: {axis: 0, workers: null, along: data}}
`)
	if n := c.Workers(); n != 8 {
		t.Errorf("%d workers", n)
	}
	want := []Stage{{shard.Grid(2, 2), []int{0, 1, 2, 3}}, {shard.Grid(2, 2), []int{4, 5, 6, 7}}}
	if got := c.Stages(); !reflect.DeepEqual(got, want) {
		t.Errorf("stages %v, expected %v", got, want)
	}
	stages := map[tensor.Signal]int{sig("front"): 0, back("front"): 1, sig("rear"): 1, back("rear"): 1}
	if got := c.StageOf(); !reflect.DeepEqual(got, stages) {
		t.Errorf("signals run in stages %v, expected %v", got, stages)
	}
	data, model := shard.On(shard.Shard(0)), shard.On(shard.Replicate, shard.Shard(1))
	hints := shard.Signals{
		sig("batch"):           {Layout: data},
		sig("wide"):            {Layout: shard.On(shard.Replicate, shard.Shard(-1)), Even: true},
		sig("everywhere"):      {Layout: shard.On(shard.Shard(0), shard.Shard(0))},
		sig("rear"):            {Layout: model},
		back("front"):          {Layout: model},
		sig("null_workers"):    {Layout: data},
		sig("optimizer.state"): {Layout: data},
	}
	if got := c.Hints(); !reflect.DeepEqual(got, hints) {
		t.Errorf("hints %v, expected %v", got, hints)
	}
	if again := parse(t, string(c.Marshal())); !reflect.DeepEqual(strip(c), strip(again)) {
		t.Errorf("does not survive:\n%s", c.Marshal())
	}
}

// strip returns c without the places of its keys.
func strip(c *Config) *Config {
	d := *c
	d.file, d.at = "", nil
	return &d
}

// TestWorkers: without a number of workers there are as many as are named, as the mesh
// has, or one.
func TestWorkers(t *testing.T) {
	for text, want := range map[string]int{
		"a: {workers: [0, 1]}\nb: {workers: [2]}": 3,
		"mesh: 2x3":                6,
		"mesh: 3":                  3,
		"a: {shard: {axis: 0}}":    1,
		"workers: 5\na:":           5,
		"mesh: {x: 2}\nworkers: 2": 2,
	} {
		if n := parse(t, text).Workers(); n != want {
			t.Errorf("%q: %d workers, expected %d", text, n, want)
		}
	}
	if n := (&Config{}).Workers(); n != 1 {
		t.Errorf("an empty config needs %d workers", n)
	}
	c := DataParallel(3)
	if err := c.Check(); err != nil || c.Workers() != 3 || c.Hints()[sig("batch")].Layout != shard.On(shard.Shard(0)) {
		t.Errorf("data parallel: %v, %d workers, %v", err, c.Workers(), c.Hints())
	}
}

// TestBadConfigs: every error has file, line and column, the value, and the allowed
// values.
func TestBadConfigs(t *testing.T) {
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "c.yaml: the file is empty, expected signals; a program without a config needs no file"},
		{"only a comment", "# nothing\n", "c.yaml: the file is empty, expected signals; a program without a config needs no file"},
		{"no mapping", "- a\n- b\n", "c.yaml:1:1: a list: expected a mapping of keys to values"},
		{"no YAML", "a: {shard: [\n", "c.yaml:1:1: not YAML: did not find expected node content"},
		{"a tab", "a:\n\tshard: 1\n", "c.yaml:2:1: a tab before the key, expected spaces: YAML has no tabs there"},
		{"two documents", "a:\n---\nb:\n", "c.yaml:2:1: expected one document"},
		{"unknown worker", "workers: 4\na:\n  workers: [0, 5]\n", "c.yaml:3:3: a.workers: 5: unknown worker, expected 0 to 3"},
		{"unknown worker in shard", "workers: 2\na:\n  shard: {axis: 0, workers: [0, 2]}\n", "c.yaml:3:20: a.workers: 2: unknown worker, expected 0 to 1"},
		{"negative worker", "a:\n  workers: [-1]\n", "c.yaml:2:3: a.workers: -1: unknown worker, expected 0 to 1023"},
		{"a worker twice", "a:\n  workers: [1, 1]\n", "c.yaml:2:3: a.workers: 1: is a duplicate"},
		{"a worker of no stage", "workers: 3\na: {workers: [0, 1]}\n", "c.yaml:1:10: workers: 3: worker 2 is in no stage: name it in a signal's workers, or leave workers out"},
		{"a gap", "a: {workers: [0, 2]}\n", "c.yaml: workers: 3: worker 1 is in no stage: name it in a signal's workers, or leave workers out"},
		{"stages that overlap", "a: {workers: [0, 1]}\nb:\n  workers: [1, 2]\n", "c.yaml:3:3: b.workers: [1, 2]: a has [0, 1]; expected the same workers in the same order, or others"},
		{"workers that differ", "a:\n  workers: [0]\n  shard: {axis: 0, workers: [1]}\n", "c.yaml:3:20: a.shard.workers: [1]: a.workers is [0]; expected the same, or one of the two"},
		{"workers as a number", "a:\n  workers: 2\n", "c.yaml:2:12: a.workers: 2: expected a list of workers such as [0, 1], or null for all"},
		{"no workers", "a:\n  workers: []\n", "c.yaml:2:12: a.workers: a list: expected a list of workers such as [0, 1], or null for all"},
		{"a worker that is none", "a:\n  workers: [zero]\n", "c.yaml:2:13: a.workers: zero: expected a whole number"},
		{"no number of workers", "workers: many\n", "c.yaml:1:10: workers: many: expected a whole number"},
		{"0 workers", "workers: 0\n", "c.yaml:1:10: workers: 0: expected 1 to 1024"},
		{"too many workers", "workers: 5000\n", "c.yaml:1:10: workers: 5000: expected 1 to 1024"},
		{"axis beyond", "a:\n  shard: {axis: 8}\n", "c.yaml:2:17: a.shard.axis: 8: expected -8 to 7: tensors have at most 8 dims"},
		{"axis below", "a:\n  shard:\n    axis: -9\n", "c.yaml:3:11: a.shard.axis: -9: expected -8 to 7: tensors have at most 8 dims"},
		{"no axis", "a:\n  shard: {along: data}\n", "c.yaml:2:3: a.shard: has no axis, expected the dim to cut, such as axis: 0"},
		{"axis a fraction", "a:\n  shard: {axis: 0.5}\n", "c.yaml:2:17: a.shard.axis: 0.5: expected a whole number"},
		{"axis in words", "a:\n  shard: {axis: \"0\"}\n", "c.yaml:2:17: a.shard.axis: 0: expected a whole number"},
		{"axis too large to count", "a: {shard: {axis: 99999999999999999999}}\n", "c.yaml:1:19: a.shard.axis: 99999999999999999999: expected a smaller number"},
		{"shard a number", "a:\n  shard: 0\n", "c.yaml:2:10: a.shard: 0: expected a mapping of keys to values"},
		{"no such dim", "mesh: {data: 2, model: 2}\na:\n  shard: {axis: 0, along: rows}\n", "c.yaml:3:27: a.shard.along: rows: unknown dim of the mesh, expected data or model"},
		{"a dim twice", "mesh: {data: 2, model: 2}\na:\n  shard: {axis: 0, along: [data, data]}\n", "c.yaml:3:20: a.shard.along: data: is a duplicate"},
		{"even a word", "a: {shard: {axis: 0, even: perhaps}}\n", "c.yaml:1:28: a.shard.even: perhaps: expected true or false"},
		{"circle", "a:\n  backward: b\nb:\n  backward: c\nc: {backward: a}\n", "c.yaml:2:13: a.backward: b: backward signals form a cycle, a to b to c to a; expected a chain that ends"},
		{"circle of one", "a: {backward: a}\n", "c.yaml:1:15: a.backward: a: backward signals form a cycle, a to a; expected a chain that ends"},
		{"backward to nobody", "a: {backward: d}\nb:\nc:\n", "c.yaml:1:15: a.backward: d: unknown signal, expected b or c"},
		{"backward a list", "a: {backward: [b]}\nb:\n", "c.yaml:1:15: a.backward: a list: expected the name of a signal"},
		{"duplicate signal", "a: {shard: {axis: 0}}\nb:\na: {shard: {axis: 1}}\n", "c.yaml:3:1: a: is a duplicate, first in line 1"},
		{"duplicate key", "a:\n  compile: true\n  compile: false\n", "c.yaml:3:3: a.compile: is a duplicate, first in line 2"},
		{"duplicate axis", "a:\n  shard: {axis: 0, axis: 0}\n", "c.yaml:2:20: a.shard.axis: is a duplicate, first in line 2"},
		{"unknown key", "a:\n  sharded: {axis: 0}\n", "c.yaml:2:3: a.sharded: unknown key, expected shard, workers, backward or compile"},
		{"unknown key of shard", "a:\n  shard: {axis: 0, dim: 1}\n", "c.yaml:2:25: a.shard.dim: unknown key, expected axis, along, workers or even"},
		{"a misspelt key of the config", "zero: true\n", "c.yaml:1:7: zero: true: expected a mapping with shard, workers, backward and compile, as every key but workers, mesh, zero1, auto_shard, micro_batches, exact is a signal"},
		{"zero1 a number", "zero1: 1\n", "c.yaml:1:8: zero1: 1: expected true or false"},
		{"mesh in words", "mesh: wide\n", "c.yaml:1:7: mesh: wide: expected a number such as 4, two such as 2x2, or names with numbers such as {data: 2, model: 2}"},
		{"mesh of three", "mesh: {a: 2, b: 2, c: 2}\n", "c.yaml:1:1: mesh: a 2 x b 2 x c 2: shard: bad mesh: 3 dims, expected 1 to 2"},
		{"mesh of nothing", "mesh: {}\n", "c.yaml:1:7: mesh: a mapping: expected 1 to 2 dims"},
		{"mesh of no ranks", "mesh: {data: 0}\n", "c.yaml:1:1: mesh: data 0: shard: bad mesh: dim data has 0 ranks, expected 1 to 1024"},
		{"mesh and workers", "workers: 3\nmesh: 2x2\n", "c.yaml:1:10: workers: 3: the mesh data 2 x model 2 has 4"},
		{"mesh and a stage", "mesh: 2x2\na:\n  workers: [0, 1]\n", "c.yaml:3:3: a.workers: [0, 1]: 2 workers, expected 4: the mesh of a stage is data 2 x model 2"},
		{"micro-batches", "micro_batches: 0\n", "c.yaml:1:16: micro_batches: 0: expected 1 to 4096"},
		{"a name with a space", "two words: {shard: {axis: 0}}\n", "c.yaml:1:1: two words: tensor: bad signal: name \"two words\", expected no spaces and no control characters"},
		{"a merge key", "a: &a {shard: {axis: 0}}\nb: {<<: *a}\n", "c.yaml:2:5: b: <<: expected a name as the key"},
		{"a list as key", "[a, b]: {shard: {axis: 0}}\n", "c.yaml:1:1: a list: expected a name as the key"},
		{"an unknown anchor", "a: *b\n", "c.yaml: not YAML: unknown anchor 'b' referenced"},
		{"compile a word", "a: {compile: maybe}\n", "c.yaml:1:14: a.compile: maybe: expected true or false"},
		{"parts that the workers don't divide", "workers: 4\nexact: 6", "c.yaml:2:8: exact: 6: 4 workers can't have as many parts each, expected a multiple of 4, or workers that divide 6"},
		{"parts on two dims", "mesh: 2x2\nexact: 4", "c.yaml:2:8: exact: 4: a mesh of two dims cuts matrices, expected a mesh of one dim, or no exact"},
		{"parts and a layout by cost", "workers: 2\nauto_shard: true\nexact: 4", "c.yaml:3:8: exact: 4: auto_shard chooses by the number of workers, expected one of the two"},
		{"parts and a matrix that is cut", "workers: 2\nexact: 4\nw: {shard: {axis: 0}}", "c.yaml:2:8: exact: 4: w is cut, expected a cut of batch and of optimizer.state only, or no exact"},
		{"parts and stages", "exact: 4\na: {workers: [0]}\nb: {workers: [1]}", "c.yaml:1:8: exact: 4: a is on workers of its own, expected no workers of signals, or no exact"},
		{"too long", "#" + strings.Repeat("x", MaxBytes), "c.yaml: 65537 bytes, expected at most 65536"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Parse("c.yaml", []byte(c.text))
			var e *Error
			if !errors.Is(err, ErrConfig) || !errors.As(err, &e) {
				t.Fatalf("error %v", err)
			}
			if err.Error() != c.want {
				t.Errorf("error\n%v\nexpected\n%v", err, c.want)
			}
		})
	}
}

// TestCheck: a config made in Go is checked by the same rules, without places.
func TestCheck(t *testing.T) {
	for want, c := range map[string]*Config{
		"config: bad config: a.shard.axis: 9: expected -8 to 7: tensors have at most 8 dims": {Signals: []Signal{{Name: "a", Shard: &Shard{Axis: 9}}}},
		"config: bad config: a: is a duplicate":                                              {Signals: []Signal{{Name: "a"}, {Name: "a"}}},
		"config: bad config: mesh: a signal can't have this name: it is a key of the config": {Signals: []Signal{{Name: "mesh"}}},
		"config: bad config: mesh: data: two dims have this name":                            {Mesh: shard.Mesh{{Name: "data", Size: 2}, {Name: "data", Size: 2}}},
		"config: bad config: workers: -1: expected 1 to 1024":                                {NumWorkers: -1},
		"config: bad config: micro_batches: 5000: expected 1 to 4096":                        {MicroBatches: 5000},
	} {
		if err := c.Check(); err == nil || err.Error() != want {
			t.Errorf("error %v, expected %s", err, want)
		}
	}
}

// TestAnchors: an alias is read as the node of its anchor.
func TestAnchors(t *testing.T) {
	c := parse(t, "a: {shard: &s {axis: 1}, workers: &w [0, 1]}\nb: {shard: *s, workers: *w}\n")
	if h := c.Hints(); h[sig("b")] != h[sig("a")] || h[sig("b")].Layout != shard.On(shard.Shard(1)) {
		t.Errorf("hints %v", h)
	}
	if s := c.Stages(); len(s) != 1 || len(s[0].Workers) != 2 {
		t.Errorf("stages %v", s)
	}
}

// FuzzParse: a config that is accepted passes Check, survives Marshal, and gives hints
// and stages that package shard accepts.
func FuzzParse(f *testing.F) {
	for _, s := range []string{
		"workers: 4\nmesh: 2x2\nbatch: {shard: {axis: 0, along: data}}\n",
		"a: {workers: [0], backward: b}\nb: {workers: [1], compile: true}\n",
		"a: &a {shard: {axis: -1, even: true}}\nb: *a\n", "a: [", "\"\\u2028\": {}", "mesh: {a: 2, b: 1}\nzero1: true",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, text []byte) {
		c, err := Parse("f", text)
		if err != nil {
			if !errors.Is(err, ErrConfig) {
				t.Fatalf("%v is no ErrConfig", err)
			}
			return
		}
		again, err := Parse("again", c.Marshal())
		if err != nil {
			t.Fatalf("%v\n%s", err, c.Marshal())
		}
		if !reflect.DeepEqual(strip(c), strip(again)) {
			t.Fatalf("%s\ndoes not survive", c.Marshal())
		}
		n := c.Workers()
		for _, s := range c.Stages() {
			if err := s.Mesh.Check(); err != nil || s.Mesh.Size() != len(s.Workers) {
				t.Fatalf("stage %v: %v", s, err)
			}
			for _, w := range s.Workers {
				if w < 0 || w >= n {
					t.Fatalf("worker %d of %d", w, n)
				}
			}
			if _, err := shard.Place(&tensor.Program{}, s.Mesh, c.Hints()); err != nil {
				t.Fatal(err)
			}
		}
		c.StageOf()
	})
}

// TestExample: the example of the documentation is a valid config.
func TestExample(t *testing.T) {
	b, err := os.ReadFile("doc.go")
	if err != nil {
		t.Fatal(err)
	}
	example, _, ok := strings.Cut(string(b), "// The keys of a signal:")
	if !ok {
		t.Fatal("doc.go has no list of keys after the example")
	}
	var text strings.Builder
	for line := range strings.Lines(example) {
		if s, ok := strings.CutPrefix(line, "//\t"); ok {
			text.WriteString(s)
		}
	}
	if c := parse(t, text.String()); len(c.Signals) != 4 || len(c.Stages()) != 2 {
		t.Errorf("%d signals, stages %v", len(c.Signals), c.Stages())
	}
}

// TestUnfuses: the entry that names a signal best says whether it is compiled.
func TestUnfuses(t *testing.T) {
	c, err := Parse("c.yaml", []byte("workers: 1\nmodel.*: {compile: false}\nmodel.norm: {compile: true}\nbatch: {shard: {axis: 0}}\n"))
	if err != nil {
		t.Fatal(err)
	}
	for signal, want := range map[string]bool{"model.a": true, "model.norm": false, "batch": false, "other": false, "optimizer.state/model.a": true} {
		if got := c.Unfuses(signal); got != want {
			t.Errorf("%s: unfused %v, expected %v", signal, got, want)
		}
	}
}
