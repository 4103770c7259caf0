package main

import (
	"go/ast"
	"go/parser"
	"go/token"
	"strings"
	"testing"
)

// TestExportedFunctionsRecover: every function that C calls makes a panic an error before
// it does anything.
func TestExportedFunctionsRecover(t *testing.T) {
	found := 0
	for _, name := range []string{"cgo_unsafe.go", "session_unsafe.go"} {
		file, err := parser.ParseFile(token.NewFileSet(), name, nil, parser.ParseComments)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range file.Decls {
			f, ok := d.(*ast.FuncDecl)
			if !ok || !strings.HasPrefix(f.Name.Name, "go") {
				continue
			}
			found++
			first, deferred := f.Body.List[0].(*ast.DeferStmt)
			if !deferred {
				t.Errorf("%s: %s does not begin with a defer of caught, caughtAs or printed", name, f.Name.Name)
				continue
			}
			switch callee, _ := first.Call.Fun.(*ast.Ident); callee.String() {
			case "caught", "caughtAs", "printed":
			default:
				t.Errorf("%s: %s begins with a defer of %v, expected caught, caughtAs or printed", name, f.Name.Name, callee)
			}
		}
	}
	if found < 30 {
		t.Errorf("%d functions found, expected all that C calls", found)
	}
}
