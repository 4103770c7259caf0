package turns

import (
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"os/exec"
	"path/filepath"
	"strconv"

	"github.com/ringside-go/ringside/bench"
)

// Side is one of the two trees.
type Side struct {
	Name string
	Tree string // folder of its sources
	Bin  string // folder for its programs
}

// Build makes the program of a turn. Turns have programs that differ in where the linker
// puts functions; both sides of a turn have the same seed for it.
func (s *Side) Build(ctx context.Context, turn int) error {
	c := exec.CommandContext(ctx, "go", "build", "-trimpath", "-ldflags=-randlayout="+strconv.Itoa(turn), "-o", s.program(turn), "./cmd/ringside")
	c.Dir = s.Tree
	if out, err := c.CombinedOutput(); err != nil {
		return fmt.Errorf("%s: %v: %w: %s", s.Name, c.Args, err, out)
	}
	return nil
}

func (s *Side) program(turn int) string { return filepath.Join(s.Bin, "ringside"+strconv.Itoa(turn)) }

// Run runs the program of a turn with the arguments of `ringside bench` and returns what
// it measured.
func (s *Side) Run(ctx context.Context, turn int, args []string) ([]bench.Measurement, error) {
	c := exec.CommandContext(ctx, s.program(turn), append(append([]string{"bench"}, args...), "--json")...)
	c.Dir = s.Tree
	var said bytes.Buffer
	c.Stderr = &said
	out, err := c.Output()
	if err != nil {
		return nil, fmt.Errorf("%s: %v: %w: %s", s.Name, c.Args, err, said.Bytes())
	}
	return parse(out)
}

// parse takes the measurements from the lines of `ringside bench --json`, whose other
// lines are bars.
func parse(out []byte) ([]bench.Measurement, error) {
	var all []bench.Measurement
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var m bench.Measurement
		if err := d.Decode(&m); err == io.EOF {
			return all, nil
		} else if err != nil {
			return nil, fmt.Errorf("the output of bench --json: %w", err)
		}
		if m.Case != "" {
			all = append(all, m)
		}
	}
}
