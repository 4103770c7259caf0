package shape

import (
	"go/ast"
	"slices"
)

// definitions of a package: where its names and methods are declared.
type definitions struct {
	names   map[string]string          // package-level name to file
	methods map[string]map[string]bool // method name to the files that declare one
}

func (d *definitions) collect(f *file) {
	for _, decl := range f.ast.Decls {
		switch decl := decl.(type) {
		case *ast.FuncDecl:
			if decl.Recv == nil {
				d.names[decl.Name.Name] = f.base()
				continue
			}
			if d.methods[decl.Name.Name] == nil {
				d.methods[decl.Name.Name] = map[string]bool{}
			}
			d.methods[decl.Name.Name][f.base()] = true
		case *ast.GenDecl:
			for _, spec := range decl.Specs {
				switch spec := spec.(type) {
				case *ast.TypeSpec:
					d.names[spec.Name.Name] = f.base()
				case *ast.ValueSpec:
					for _, name := range spec.Names {
						d.names[name.Name] = f.base()
					}
				}
			}
		}
	}
}

// arrow is one use, by a file, of a definition in another file of its package.
type arrow struct{ from, to, name string }

// arrowsOf returns the distinct arrows between files. Without type information a selector
// counts as a method if exactly one file of the package declares a method of that name,
// and a name that a local variable hides does not count.
func arrowsOf(files []*file) map[arrow]bool {
	d := definitions{map[string]string{}, map[string]map[string]bool{}}
	for _, f := range files {
		d.collect(f)
	}
	out := map[arrow]bool{}
	for _, f := range files {
		ast.Inspect(f.ast, func(n ast.Node) bool { return d.use(f, n, out) })
	}
	return out
}

// use adds the arrow of an identifier that refers to another file. It reports true: the
// walk goes on below n.
func (d *definitions) use(f *file, n ast.Node, out map[arrow]bool) bool {
	switch n := n.(type) {
	case *ast.SelectorExpr:
		if in := d.methods[n.Sel.Name]; len(in) == 1 {
			for to := range in {
				if to != f.base() {
					out[arrow{f.base(), to, n.Sel.Name}] = true
				}
			}
		}
		ast.Inspect(n.X, func(n ast.Node) bool { return d.use(f, n, out) })
		return false
	case *ast.KeyValueExpr:
		// A key is a field's name, or a constant that indexes an array.
		ast.Inspect(n.Key, func(n ast.Node) bool {
			if id, ok := n.(*ast.Ident); !ok || ast.IsExported(id.Name) {
				return d.use(f, n, out)
			}
			return true
		})
		ast.Inspect(n.Value, func(n ast.Node) bool { return d.use(f, n, out) })
		return false
	case *ast.Ident:
		if to, ok := d.names[n.Name]; ok && to != f.base() && !local(n) {
			out[arrow{f.base(), to, n.Name}] = true
		}
	}
	return true
}

// local reports whether the parser resolved the identifier to something declared in a
// function.
func local(id *ast.Ident) bool {
	if id.Obj == nil {
		return false
	}
	switch id.Obj.Decl.(type) {
	case *ast.Field, *ast.AssignStmt, *ast.LabeledStmt:
		return true
	}
	return id.Obj.Kind == ast.Var
}

// up returns how many of the arrows point up in the best order of the files, and how many
// there are. In that order, which a local search finds, a file uses as little as possible
// of the files above it; a package without cycles between its files has no arrow up.
func up(arrows map[arrow]bool) (bad, all int) {
	weight := map[[2]string]int{}
	var order []string
	for a := range arrows {
		weight[[2]string{a.from, a.to}]++
		for _, name := range []string{a.from, a.to} {
			if !slices.Contains(order, name) {
				order = append(order, name)
			}
		}
	}
	slices.Sort(order)
	// net[i][j] is what placing i above j costs less than placing it below.
	cost := func(above, below string) int { return weight[[2]string{below, above}] }
	for improved := true; improved; {
		improved = false
		for i := range order {
			if j, gain := bestPlace(order, i, cost); gain > 0 {
				name := order[i]
				order = slices.Insert(slices.Delete(order, i, i+1), j, name)
				improved = true
			}
		}
	}
	for i, above := range order {
		for _, below := range order[i+1:] {
			bad += cost(above, below)
		}
	}
	return bad, len(arrows)
}

// bestPlace returns the index to which the i-th file is moved with the largest gain.
func bestPlace(order []string, i int, cost func(above, below string) int) (place, gain int) {
	place = i
	for sum, j := 0, i-1; j >= 0; j-- { // up, past the files above
		sum += cost(order[j], order[i]) - cost(order[i], order[j])
		if sum > gain {
			place, gain = j, sum
		}
	}
	for sum, j := 0, i+1; j < len(order); j++ { // down
		sum += cost(order[i], order[j]) - cost(order[j], order[i])
		if sum > gain {
			place, gain = j, sum
		}
	}
	return place, gain
}
