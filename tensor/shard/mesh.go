package shard

import (
	"fmt"
	"strconv"
	"strings"
)

// MaxDims bounds the dims of a mesh.
const MaxDims = 2

// MaxRanks bounds the ranks of a mesh, because a plan has a list of steps for each.
const MaxRanks = 1024

// Dim is a dim of a mesh: its name in messages ("data", "model") and its number of ranks.
type Dim struct {
	Name string
	Size int
}

// Mesh is an arrangement of workers, row-major: with dims data 2 and model 3, rank 4 is
// (1, 1).
//
//	          model 0   1   2
//	data 0          0   1   2
//	     1          3   4   5
type Mesh []Dim

// Line returns a mesh with the single dim data.
func Line(n int) Mesh { return Mesh{{"data", n}} }

// Grid returns a mesh of data x model.
func Grid(data, model int) Mesh { return Mesh{{"data", data}, {"model", model}} }

// ParseMesh parses 4, a line, or 2x2, a grid.
func ParseMesh(text string) (Mesh, error) {
	first, second, grid := strings.Cut(text, "x")
	n, err := strconv.Atoi(first)
	m := Line(n)
	if grid && err == nil {
		var k int
		k, err = strconv.Atoi(second)
		m = Grid(n, k)
	}
	if err != nil {
		return nil, fmt.Errorf("%w: %q, expected a number such as 4 or two such as 2x2", ErrMesh, text)
	}
	return m, m.Check()
}

// Check returns an error for a mesh without dims, with too many, or with a dim without
// ranks.
func (m Mesh) Check() error {
	if len(m) < 1 || len(m) > MaxDims {
		return fmt.Errorf("%w: %d dims, expected 1 to %d", ErrMesh, len(m), MaxDims)
	}
	n := 1
	for _, d := range m {
		if d.Size < 1 || d.Size > MaxRanks {
			return fmt.Errorf("%w: dim %s has %d ranks, expected 1 to %d", ErrMesh, d.Name, d.Size, MaxRanks)
		}
		n *= d.Size
	}
	if n > MaxRanks {
		return fmt.Errorf("%w: %v has %d ranks, at most %d", ErrMesh, m, n, MaxRanks)
	}
	return nil
}

// Size returns the number of ranks.
func (m Mesh) Size() int {
	n := 1
	for _, d := range m {
		n *= d.Size
	}
	return n
}

// String returns the names and sizes of the dims, as "data 2 x model 2".
func (m Mesh) String() string {
	var s []string
	for _, d := range m {
		s = append(s, fmt.Sprintf("%s %d", d.Name, d.Size))
	}
	return strings.Join(s, " x ")
}

// Coord returns rank's coordinate along dim k.
func (m Mesh) Coord(rank, k int) int {
	for j := len(m) - 1; j > k; j-- {
		rank /= m[j].Size
	}
	return rank % m[k].Size
}

// Group returns the ranks that differ from rank only along dim k, and rank itself, in the
// order of their coordinates.
func (m Mesh) Group(rank, k int) []int {
	stride := 1
	for j := k + 1; j < len(m); j++ {
		stride *= m[j].Size
	}
	first := rank - m.Coord(rank, k)*stride
	out := make([]int, m[k].Size)
	for i := range out {
		out[i] = first + i*stride
	}
	return out
}
