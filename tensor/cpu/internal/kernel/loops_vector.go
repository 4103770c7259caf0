//go:build amd64 || arm64

package kernel

// Assembly neither checks lengths nor cuts long slices. The generated callers in
// wrap_amd64.go and table_arm64.go do both: a goroutine cannot be stopped inside
// assembly, and a garbage collection would wait for it.
const (
	// chunk is the most elements that one call of an elementwise kernel gets: some ten
	// microseconds.
	chunk = 1 << 15
	// sumChunk is the most elements that are summed in float32. The sums of chunks are
	// added in float64.
	sumChunk = 1 << 12
)
