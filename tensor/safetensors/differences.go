package safetensors

import (
	"fmt"
	"strings"

	"github.com/ringside-go/ringside/shm/plain"
)

// Differences lists how the tensors of a file differ from those that a reader wants.
type Differences struct {
	Missing    []string // names that the file lacks
	Unexpected []string // names that only the file has
	Wrong      []string // tensors of another type or shape, in words
}

// String returns the first few of each kind, or "" if there are none.
func (d *Differences) String() string {
	var all []string
	for _, x := range []struct {
		what  string
		names []string
	}{{"missing ", d.Missing}, {"unexpected ", d.Unexpected}, {"", d.Wrong}} {
		if len(x.names) > 0 {
			all = append(all, x.what+some(x.names))
		}
	}
	return strings.Join(all, "; ")
}

func some(names []string) string {
	const most = 8
	shown := make([]string, 0, most)
	for _, name := range names[:min(len(names), most)] {
		shown = append(shown, plain.Name(name))
	}
	text := strings.Join(shown, ", ")
	if n := len(names); n > most {
		text += fmt.Sprintf(" and %d more", n-most)
	}
	return text
}
