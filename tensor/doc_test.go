package tensor

import (
	goflag "flag"
	"fmt"
	"os"
	"strings"
	"testing"
)

var writeDoc = goflag.Bool("write", false, "write docs/ops.md instead of comparing it")

// TestOpsDoc compares docs/ops.md with the op table.
func TestOpsDoc(t *testing.T) {
	var b strings.Builder
	b.WriteString("# Operations\n\nMade from the op table in `tensor/optable.go` by `make ops`. Scalars travel apart from a program and aren't part of its\nidentity; integer attributes are.\n\n| number | name | class | tensors | scalars | attributes | gradient | what it gives |\n|---|---|---|---|---|---|---|---|\n")
	for _, o := range Ops() {
		i := o.Info()
		n := fmt.Sprint(i.MinTensors)
		if i.MaxTensors != i.MinTensors {
			n += fmt.Sprintf(" to %d", i.MaxTensors)
		}
		grad := [...]string{"", "yes", "is one"}[i.Gradient]
		fmt.Fprintf(&b, "| %d | %s | %v | %s | %s | %s | %s | %s |\n", o, i.Name, i.Class, n, strings.Join(i.Scalars, ", "), i.Ints, grad, strings.ReplaceAll(i.Doc, "|", "\\|"))
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
