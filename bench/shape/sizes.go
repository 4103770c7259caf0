package shape

import (
	"bytes"
	"fmt"
	"go/ast"
	"slices"
)

// lines returns the lines of Go that people wrote, without tests and generated files, and
// how many of them are code: neither blank nor a comment alone.
func (t *tree) lines() (all, code int) {
	for _, f := range t.files {
		if f.test || f.generated {
			continue
		}
		for line := range bytes.Lines(f.text) {
			all++
			if line = bytes.TrimSpace(line); len(line) > 0 && !bytes.HasPrefix(line, []byte("//")) {
				code++
			}
		}
	}
	return all, code
}

// typeSize is a struct type and what it has.
type typeSize struct {
	name            string // package folder, a dot, the type
	fields, methods int
}

// types returns the struct types of the tree with their fields and methods. A generated
// method counts, a test's does not.
func (t *tree) types() []typeSize {
	at := map[string]*typeSize{}
	get := func(name string) *typeSize {
		if at[name] == nil {
			at[name] = &typeSize{name: name}
		}
		return at[name]
	}
	for _, f := range t.files {
		if f.test {
			continue
		}
		ast.Inspect(f.ast, func(n ast.Node) bool {
			switch n := n.(type) {
			case *ast.TypeSpec:
				if s, ok := n.Type.(*ast.StructType); ok {
					get(f.pkg + "." + n.Name.Name).fields = fieldsOf(s)
				}
			case *ast.FuncDecl:
				if n.Recv != nil {
					get(f.pkg+"."+receiver(n.Recv.List[0].Type)).methods++
				}
				return false
			}
			return true
		})
	}
	var out []typeSize
	for _, s := range at {
		out = append(out, *s)
	}
	slices.SortFunc(out, func(a, b typeSize) int { return (b.fields + b.methods) - (a.fields + a.methods) })
	return out
}

func fieldsOf(s *ast.StructType) int {
	n := 0
	for _, f := range s.Fields.List {
		n += max(1, len(f.Names))
	}
	return n
}

func receiver(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiver(e.X)
	case *ast.IndexExpr:
		return receiver(e.X)
	case *ast.IndexListExpr:
		return receiver(e.X)
	case *ast.Ident:
		return e.Name
	}
	return "?"
}

// functionSize is a function and its lines, the braces included.
type functionSize struct {
	at    string
	lines int
}

// functions returns the functions that people wrote and that are not tests, longest
// first.
func (t *tree) functions() []functionSize {
	var out []functionSize
	for _, f := range t.files {
		if f.test || f.generated {
			continue
		}
		for _, decl := range f.ast.Decls {
			if fn, ok := decl.(*ast.FuncDecl); ok && fn.Body != nil {
				from, to := t.fset.Position(fn.Pos()).Line, t.fset.Position(fn.End()).Line
				out = append(out, functionSize{fmt.Sprintf("%s:%d %s", f.path, from, fn.Name.Name), to - from + 1})
			}
		}
	}
	slices.SortFunc(out, func(a, b functionSize) int { return b.lines - a.lines })
	return out
}
