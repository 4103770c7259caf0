package data

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// TestFormulaAgreesWithPython compares the formulas with examples that formula.py made.
func TestFormulaAgreesWithPython(t *testing.T) {
	raw, err := os.ReadFile(filepath.Join("..", "testdata", "formula.json"))
	if err != nil {
		t.Fatal(err)
	}
	var file struct {
		Cases []struct {
			Name    string   `json:"name"`
			Key     uint64   `json:"key,string"`
			I       uint64   `json:"i,string"`
			Hash    uint64   `json:"hash,string"`
			Unit    float64  `json:"unit"`
			N       uint64   `json:"n"`
			Index   uint64   `json:"index"`
			Offset  float32  `json:"offset"`
			Scale   float32  `json:"scale"`
			Uniform *float64 `json:"uniform"`
		} `json:"cases"`
	}
	if err := json.Unmarshal(raw, &file); err != nil {
		t.Fatal(err)
	}
	if len(file.Cases) < 20 {
		t.Fatalf("formula.json holds %d cases, expected at least 20", len(file.Cases))
	}
	for _, c := range file.Cases {
		if got := Key(c.Name); got != c.Key {
			t.Errorf("Key(%q) = %d, want %d", c.Name, got, c.Key)
		}
		if got := Hash(c.Key, c.I); got != c.Hash {
			t.Errorf("Hash(%d, %d) = %d, want %d", c.Key, c.I, got, c.Hash)
		}
		if got := Unit(c.Key, c.I); float64(got) != c.Unit {
			t.Errorf("Unit(%q, %d) = %v, want %v", c.Name, c.I, got, c.Unit)
		}
		if got := Index(c.Key, c.I, c.N); got != c.Index {
			t.Errorf("Index(%q, %d, %d) = %d, want %d", c.Name, c.I, c.N, got, c.Index)
		}
		if c.Uniform != nil {
			dst := make([]float32, c.I+1)
			FillUniform(dst, c.Name, c.Offset, c.Scale)
			if got := dst[c.I]; float64(got) != *c.Uniform {
				t.Errorf("FillUniform(%q, %v, %v)[%d] = %v, want %v", c.Name, c.Offset, c.Scale, c.I, got, *c.Uniform)
			}
		}
	}
}

func TestUnitIsBoundedAndBalanced(t *testing.T) {
	const n = 1 << 16
	var sum, sq float64
	key := Key("balance")
	for i := range uint64(n) {
		u := float64(Unit(key, i))
		if u < -1 || u >= 1 {
			t.Fatalf("Unit(%d) = %v outside [-1, 1)", i, u)
		}
		sum += u
		sq += u * u
	}
	// Mean 0 and variance 1/3; six standard errors of each.
	if mean := sum / n; math.Abs(mean) > 6*math.Sqrt(1.0/3/n) {
		t.Errorf("mean %v, expected about 0", mean)
	}
	if v := sq / n; math.Abs(v-1.0/3) > 6*math.Sqrt(4.0/45/n) {
		t.Errorf("mean square %v, expected about 1/3", v)
	}
}

func TestFillIndices(t *testing.T) {
	a := make([]int32, 5000)
	b := make([]int64, 5000)
	FillIndices(a, "tokens", 7)
	FillIndices(b, "tokens", 7)
	var seen [7]int
	for i := range a {
		if int64(a[i]) != b[i] {
			t.Fatalf("element %d: int32 gives %d, int64 gives %d", i, a[i], b[i])
		}
		if a[i] < 0 || a[i] >= 7 {
			t.Fatalf("element %d = %d outside [0, 7)", i, a[i])
		}
		seen[a[i]]++
	}
	for v, n := range seen {
		if n < 550 || n > 900 {
			t.Errorf("value %d came %d times of 5000, expected about 714", v, n)
		}
	}
}

func TestIndexOfNothingPanics(t *testing.T) {
	defer func() {
		if recover() == nil {
			t.Error("Index with n = 0 did not panic")
		}
	}()
	Index(1, 2, 0)
}
