package ringside

import (
	"go/ast"
	"go/parser"
	"go/token"
	"slices"
	"strings"
	"testing"
)

// otherSkips are functions that skip a test for another reason than its length, and why
// that is right everywhere.
var otherSkips = map[string]string{
	"collective/isa/isatest need":                 "it fails where the kernel lists the instructions",
	"ipc/ipctest needFiles":                       "a transport without files, whose error is checked",
	"tensor/cuda TestGenerated":                   "cudatest.Tool has said why",
	"tensor/cuda/blas/cublaslt TestWithoutDevice": "it is about machines without a GPU",
	"tensor/cuda/kernels tool":                    "cudatest.Tool has said why",
	" TestInstallable":                            "a copy of the sources without git's folder",
}

// TestSkips: a test is skipped for its length, by a condition that asks for -short or for
// the race detector, or by package testneeds, which fails it where the environment
// promises what is missing.
func TestSkips(t *testing.T) {
	used := map[string]bool{}
	for _, s := range sources(t) {
		if s.pkg == "shm/testneeds" || !s.test && !strings.HasSuffix(s.pkg, "test") {
			continue
		}
		for _, d := range s.ast.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || f.Body == nil {
				continue
			}
			where := s.pkg + " " + f.Name.Name
			for _, skip := range bareSkips(f) {
				if used[where] = true; otherSkips[where] == "" {
					t.Errorf("%s: %s has %s under no condition of testing.Short, testsize or raced; expected a promise of package testneeds", s.path, f.Name.Name, skip)
				}
			}
		}
	}
	for where := range otherSkips {
		if !used[where] {
			t.Errorf("%s has no such skip", where)
		}
	}
}

// bareSkips returns the calls of Skip, Skipf and SkipNow below root, but for those of
// promises and those in an if that asks how long a test may take.
func bareSkips(root ast.Node) (out []string) {
	ast.Inspect(root, func(n ast.Node) bool {
		switch n := n.(type) {
		case *ast.IfStmt:
			if asksForLength(n.Cond) {
				if n.Else != nil {
					out = append(out, bareSkips(n.Else)...)
				}
				return false
			}
		case *ast.CallExpr:
			sel, ok := n.Fun.(*ast.SelectorExpr)
			if !ok || !slices.Contains([]string{"Skip", "Skipf", "SkipNow"}, sel.Sel.Name) {
				return true
			}
			if of, ok := sel.X.(*ast.SelectorExpr); ok && isName(of.X, "testneeds") {
				return true
			}
			out = append(out, sel.Sel.Name)
		}
		return true
	})
	return out
}

// asksForLength reports whether a condition asks for -short or for the race detector: of
// a || b, both do.
func asksForLength(cond ast.Expr) (asks bool) {
	if either, ok := cond.(*ast.BinaryExpr); ok && either.Op == token.LOR {
		return asksForLength(either.X) && asksForLength(either.Y)
	}
	ast.Inspect(cond, func(n ast.Node) bool {
		if id, ok := n.(*ast.Ident); ok && slices.Contains([]string{"Short", "Sampled", "Raced", "raced"}, id.Name) {
			asks = true
		}
		return true
	})
	return asks
}

func isName(e ast.Expr, name string) bool {
	id, ok := e.(*ast.Ident)
	return ok && id.Name == name
}

// TestBareSkips plants skips of all kinds.
func TestBareSkips(t *testing.T) {
	for body, want := range map[string]int{
		"if testing.Short() || raced { t.Skip(why) }":                         0,
		"if testing.Short() || err != nil { t.Skip(err) }":                    1,
		"if testsize.Sampled() { t.Skipf(why) } else { t.SkipNow() }":         1,
		"for range 3 { if err != nil { t.Skip(err) } }":                       1,
		"t.Run(name, func(t *testing.T) { t.SkipNow() }); b.Skipf(why)":       2,
		"if err != nil { testneeds.GCC.Skipf(t, os.Getenv, why) }":            0,
		"switch { case err != nil: other.GCC.Skipf(t, os.Getenv, why) }":      1,
		"if testsize.Raced { return }; if none { t.Skip(why) }; skip(t, err)": 1,
	} {
		f, err := parser.ParseFile(token.NewFileSet(), "", "package p; func f() { "+body+" }", 0)
		if err != nil {
			t.Fatal(err)
		}
		if got := bareSkips(f.Decls[0].(*ast.FuncDecl)); len(got) != want {
			t.Errorf("%s has bare skips %q, expected %d", body, got, want)
		}
	}
}
