package tensor

import (
	goflag "flag"
	"fmt"
	"go/ast"
	"go/parser"
	"go/token"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
)

var writeDoc = goflag.Bool("write", false, "write docs/ops.md instead of comparing it")

// goNames returns the exported functions and methods of Tensor that name an operation's
// constant, by the lower-case name of the constant without Op.
func goNames(t *testing.T) map[string][]string {
	names := map[string][]string{}
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		if strings.HasSuffix(file, "_test.go") {
			continue
		}
		f, err := parser.ParseFile(token.NewFileSet(), file, nil, 0)
		if err != nil {
			t.Fatal(err)
		}
		for _, d := range f.Decls {
			fn, ok := d.(*ast.FuncDecl)
			if !ok || !fn.Name.IsExported() {
				continue
			}
			name := fn.Name.Name
			if fn.Recv != nil {
				star, ok := fn.Recv.List[0].Type.(*ast.StarExpr)
				if !ok || star.X.(*ast.Ident).Name != "Tensor" {
					continue
				}
				name = "." + name
			}
			ast.Inspect(fn.Body, func(n ast.Node) bool {
				if id, ok := n.(*ast.Ident); ok && strings.HasPrefix(id.Name, "Op") {
					op := strings.ToLower(id.Name[2:])
					if name := "`" + name + "`"; !slices.Contains(names[op], name) {
						names[op] = append(names[op], name)
					}
				}
				return true
			})
		}
	}
	if len(names["matmul"]) != 1 || len(names["rand"]) != 1 {
		t.Fatalf("matmul is %v, rand %v", names["matmul"], names["rand"])
	}
	return names
}

// TestOpsDoc compares docs/ops.md with the op table.
func TestOpsDoc(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Operations\n\nMade from the op table in `tensor/optable.go` by `make ops`. Scalars travel apart from a program and aren't part of its\nidentity; integer attributes are. In Go, a name with a dot is a method of `tensor.Tensor`, another a\nfunction of package `tensor`; operations without a name are recorded by gradients and optimizers.\n\n| number | name | in Go | class | tensors | scalars | attributes | gradient | what it gives |\n|---|---|---|---|---|---|---|---|---|\n")
	names := goNames(t)
	for _, o := range Ops() {
		i := o.Info()
		n := fmt.Sprint(i.MinTensors)
		if i.MaxTensors != i.MinTensors {
			n += fmt.Sprintf(" to %d", i.MaxTensors)
		}
		grad := [...]string{"", "yes", "is one"}[i.Gradient]
		fmt.Fprintf(&b, "| %d | %s | %s | %v | %s | %s | %s | %s | %s |\n", o, i.Name, strings.Join(names[strings.ReplaceAll(i.Name, "_", "")], ", "), i.Class, n, strings.Join(i.Scalars, ", "), i.Ints, grad, strings.ReplaceAll(i.Doc, "|", "\\|"))
	}
	const file = "../docs/ops.md"
	if *writeDoc {
		if err := os.WriteFile(file, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
		return
	}
	got, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if string(got) != b.String() {
		t.Errorf("%s is not what the op table says; run make ops", file)
	}
}
