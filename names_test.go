package ringside

import (
	"go/ast"
	"strings"
	"testing"
)

// TestExportedNames: every exported name of a package that others may import has a doc
// comment, as have the packages. Constants and variables of a group, and methods of an
// interface, may share the comment above the first of them.
func TestExportedNames(t *testing.T) {
	names, missing, packages := 0, 0, map[string]bool{}
	for _, s := range sources(t) {
		if s.test || s.ast.Name.Name == "main" || strings.Contains("/"+s.pkg+"/", "/internal/") {
			continue
		}
		packages[s.pkg] = packages[s.pkg] || s.ast.Doc != nil
		for _, n := range exportedNames(s.ast) {
			if names++; !n.doc {
				missing++
				t.Errorf("%s: %s has no doc comment", s.path, n.name)
			}
		}
	}
	for pkg, doc := range packages {
		if names++; !doc {
			missing++
			t.Errorf("%s: the package has no doc comment", pkg)
		}
	}
	t.Logf("%d missing: %d names of %d packages", missing, names, len(packages))
	if names < 1000 {
		t.Errorf("%d names found: is this the root?", names)
	}
}

// exportedName is an exported name, and whether it has a comment.
type exportedName struct {
	name string
	doc  bool
}

// exportedNames returns the exported names of a file, with methods of exported types.
func exportedNames(f *ast.File) (out []exportedName) {
	add := func(prefix string, id *ast.Ident, docs ...*ast.CommentGroup) {
		doc := false
		for _, d := range docs {
			doc = doc || d != nil
		}
		if id.IsExported() {
			out = append(out, exportedName{prefix + id.Name, doc})
		}
	}
	for _, d := range f.Decls {
		switch d := d.(type) {
		case *ast.FuncDecl:
			of := ""
			if d.Recv != nil {
				of = receiverName(d.Recv.List[0].Type)
			}
			if of == "" || ast.IsExported(of) {
				add(strings.TrimPrefix(of+".", "."), d.Name, d.Doc)
			}
		case *ast.GenDecl:
			for _, spec := range d.Specs {
				switch spec := spec.(type) {
				case *ast.ValueSpec:
					for _, id := range spec.Names {
						add("", id, d.Doc, spec.Doc, spec.Comment)
					}
				case *ast.TypeSpec:
					add("", spec.Name, d.Doc, spec.Doc, spec.Comment)
					if i, ok := spec.Type.(*ast.InterfaceType); ok && spec.Name.IsExported() {
						above := false
						for _, m := range i.Methods.List {
							above = above || m.Doc != nil || m.Comment != nil
							for _, id := range m.Names {
								out = append(out, exportedName{spec.Name.Name + "." + id.Name, above || !id.IsExported()})
							}
						}
					}
				}
			}
		}
	}
	return out
}

// receiverName returns the type of a method, without pointer and type parameters.
func receiverName(e ast.Expr) string {
	switch e := e.(type) {
	case *ast.StarExpr:
		return receiverName(e.X)
	case *ast.IndexExpr:
		return receiverName(e.X)
	case *ast.IndexListExpr:
		return receiverName(e.X)
	case *ast.Ident:
		return e.Name
	}
	return ""
}
