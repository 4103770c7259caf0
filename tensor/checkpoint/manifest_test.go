package checkpoint

import (
	"errors"

	"encoding/json"
	"fmt"
	"strings"
	"testing"

	"github.com/ringside-go/ringside/tensor/safetensors"
)

const someSum = "e3b0c44298fc1c149afbf4c8996fb92427ae41e4649b934ca495991b7852b855"

// good returns a manifest of a tensor in two slices and one without dims.
func good() *Manifest {
	return &Manifest{
		Format: formatName, Version: Version, Step: 7, Notes: map[string]string{"model": "m"},
		Files: []File{{"data-1/0.safetensors", 1000}, {"data-1/1.safetensors", 1000}},
		Tensors: []Tensor{
			{"a", safetensors.F32, []int{4, 3}, []Slice{
				{0, []int{0, 0}, []int{1, 3}, 100, someSum}, {1, []int{1, 0}, []int{3, 3}, 200, someSum}}},
			{"b", safetensors.I64, nil, []Slice{{0, nil, nil, 112, someSum}}},
		},
	}
}

func encoded(t testing.TB, m *Manifest) []byte {
	t.Helper()
	b, err := m.encode()
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func TestManifest(t *testing.T) {
	m, err := parse(encoded(t, good()), "m")
	if err != nil || m.Step != 7 || m.Notes["model"] != "m" || len(m.Tensors) != 2 || m.Tensors[0].Slices[1].Offset != 200 {
		t.Errorf("%+v, %v", m, err)
	}
}

// TestBadManifest wants a manifest that no Save writes to be refused, with the file, the
// value and the expected value.
func TestBadManifest(t *testing.T) {
	for name, c := range map[string]struct {
		change func(m *Manifest)
		want   string
	}{
		"format":        {func(m *Manifest) { m.Format = "zip" }, `format "zip"`},
		"version":       {func(m *Manifest) { m.Version = 9 }, `of version 9, expected "ringside checkpoint" of version 1`},
		"path outside":  {func(m *Manifest) { m.Files[0].Path = "../../etc/passwd" }, `file 0 is "../../etc/passwd"`},
		"absolute path": {func(m *Manifest) { m.Files[1].Path = "/etc/passwd" }, `file 1 is "/etc/passwd"`},
		"negative size": {func(m *Manifest) { m.Files[0].Bytes = -1 }, "of -1 bytes"},
		"many files":    {func(m *Manifest) { m.Files = make([]File, maxFiles+1) }, "1025 files, expected at most 1024"},
		"twice":         {func(m *Manifest) { m.Tensors[1].Name = "a" }, `tensor 1 is "a", expected names in order`},
		"dtype":         {func(m *Manifest) { m.Tensors[0].DType = "F33" }, `tensor "a": safetensors: bad format: dtype "F33", expected one of BOOL, U8 to F64`},
		"negative dim":  {func(m *Manifest) { m.Tensors[0].Shape[0] = -4 }, "dimension 0 is -4, expected 0 or more"},
		"large":         {func(m *Manifest) { m.Tensors[0].Shape = []int{1 << 40, 1 << 40} }, "overflows 63 bits of bytes"},
		"dims":          {func(m *Manifest) { m.Tensors[0].Shape = make([]int, 9) }, "has 9 dims, expected at most 8"},
		"no file":       {func(m *Manifest) { m.Tensors[0].Slices[1].File = 2 }, "slice 1 is in file 2, there are 2"},
		"rank":          {func(m *Manifest) { m.Tensors[0].Slices[1].Start = []int{1} }, "expected 2 dims"},
		"outside": {func(m *Manifest) { m.Tensors[0].Slices[1].Start[0] = 2 },
			"slice 1 begins at [2 0] and has shape [3 3], which is not within [4 3]"},
		"wraps": {func(m *Manifest) { m.Tensors[0].Slices[1].Shape[0] = 1<<63 - 1 }, "which is not within [4 3]"},
		"beyond the file": {func(m *Manifest) { m.Tensors[0].Slices[1].Offset = 990 },
			"slice 1 of 36 bytes at 990 of file data-1/1.safetensors, which has 1000"},
		"before the file": {func(m *Manifest) { m.Tensors[0].Slices[1].Offset = -8 }, "at -8 of file"},
		"hash":            {func(m *Manifest) { m.Tensors[1].Slices[0].Sum = "00" }, `slice 0 has sha256 "00", expected 64 hex digits`},
		"overlap": {func(m *Manifest) { m.Tensors[0].Slices[0].Shape[0] = 2 },
			"slices 0 (from [0 0], shape [2 3]) and 1 (from [1 0], shape [3 3]) overlap"},
		"same file": {func(m *Manifest) { m.Tensors[0].Slices[1].File = 0 }, "slices 0 and 1 are both in file data-1/0.safetensors"},
		"hole":      {func(m *Manifest) { m.Tensors[0].Slices = m.Tensors[0].Slices[:1] }, "its slices have 12 bytes, shape [4 3] has 48"},
		"no slice":  {func(m *Manifest) { m.Tensors[1].Slices = nil }, "its slices have 0 bytes, shape [] has 8"},
	} {
		m := good()
		c.change(m)
		_, err := parse(encoded(t, m), "the-file")
		if !errors.Is(err, ErrFormat) || !strings.Contains(fmt.Sprint(err), c.want) || !strings.Contains(fmt.Sprint(err), "the-file") {
			t.Errorf("%s: %v\nexpected %q", name, err, c.want)
		}
	}
	src := string(encoded(t, good()))
	for name, c := range map[string]struct {
		src  string
		is   error
		want string
	}{
		"empty":       {"", ErrDamaged, "its 0 bytes end in the middle"},
		"truncated":   {src[:len(src)/2], ErrDamaged, "end in the middle"},
		"no JSON":     {"{\n\n]", ErrFormat, "line 3"},
		"more":        {src + "{}", ErrFormat, "2 bytes after its end"},
		"field":       {strings.Replace(src, `"step"`, `"stop"`, 1), ErrFormat, "stop"},
		"changed":     {strings.Replace(src, `"step": 7`, `"step": 8`, 1), ErrDamaged, "sum is"},
		"step":        {strings.Replace(src, `"step": 7`, `"step": -8`, 1), ErrFormat, "step"},
		"other sum":   {strings.Replace(src, `"sum": "`, `"sum": "0`, 1), ErrDamaged, "sum is"},
		"a list":      {"[]", ErrFormat, "array"},
		"wrong types": {strings.Replace(src, `"name": "a"`, `"name": 5`, 1), ErrFormat, "line"},
	} {
		if _, err := parse([]byte(c.src), "the-file"); !errors.Is(err, c.is) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v\nexpected %q", name, err, c.want)
		}
	}
}

// FuzzParse wants every manifest that parses to be sound, and to parse to the same when
// it is written again.
func FuzzParse(f *testing.F) {
	f.Add(encoded(f, good()))
	f.Add([]byte(`{"format":"ringside checkpoint","version":1,"step":0,"notes":null,"files":null,"tensors":null,"sum":""}`))
	f.Fuzz(func(t *testing.T, src []byte) {
		m, err := parse(src, "fuzz")
		if err != nil {
			// Replace the sum, to get past it.
			if m = reseal(src); m == nil {
				return
			}
		}
		first := encoded(t, m)
		again, err := parse(first, "fuzz")
		if err != nil {
			t.Fatalf("%v\nwritten as\n%s", err, first)
		}
		if second := encoded(t, again); string(second) != string(first) {
			t.Fatalf("%s\nthen\n%s", first, second)
		}
	})
}

// reseal returns the manifest in src with a matching sum, or nil if src is not sound.
func reseal(src []byte) *Manifest {
	m := &Manifest{}
	if json.Unmarshal(src, m) != nil {
		return nil
	}
	b, err := m.encode()
	if err != nil {
		return nil
	}
	if m, err = parse(b, "fuzz"); err != nil {
		return nil
	}
	return m
}
