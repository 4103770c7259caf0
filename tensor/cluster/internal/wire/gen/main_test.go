package main

import (
	"bytes"
	"go/parser"
	"os"
	"path/filepath"
	"testing"
)

// TestCurrent tests that appending.go is what the walk functions say.
func TestCurrent(t *testing.T) {
	want, err := generate("..")
	if err != nil {
		t.Fatal(err)
	}
	got, err := os.ReadFile(filepath.Join("..", file))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("%s is not what the walk functions say: go generate ./tensor/cluster/internal/wire", file)
	}
}

// TestRefuses tests that a walk function with a statement whose meaning for an appender
// is not known is refused, and not left out.
func TestRefuses(t *testing.T) {
	for _, body := range []string{
		`w.U64("A", &m.A); go f(w)`,
		`w.Sometimes("A", &m.A)`,
		`n := w.Count("A", 0, 1, 1); _ = n`,
		`if w.Parses() || m.A > 0 { w.U64("A", &m.A) }`,
		`if w.Parses() { m.A = 1 } else { w.U64("A", &m.A) }`,
		`f := w.U64; f("A", &m.A)`,
		`switch m.A { case 1: w.U64("A", &m.A); default: w.U64("B", &m.B) }`,
		`for _, x := range m.C { w.U64("C", &x) }`,
	} {
		g := newAppender()
		f, err := parser.ParseFile(g.files, "x.go", "package wire\nfunc (m *Flow) walk(w *encoding.Walk) {\n"+body+"\n}", 0)
		if err != nil {
			t.Fatal(err)
		}
		g.collect(f)
		if out, err := g.source(); err == nil {
			t.Errorf("%s became\n%s", body, out)
		}
	}
}
