package shard

import (
	"iter"

	"github.com/ringside-go/ringside/tensor"
)

// CopyOut copies a part out of a whole tensor of the given shape: the box of shape local
// that begins at start, as Mesh.Local returns them. Elements have size bytes, and both
// tensors are row-major.
func CopyOut(part, whole []byte, size int, shape tensor.Shape, start []int, local tensor.Shape) {
	for r := range Spans(size, shape, start, local) {
		copy(part[r.Part:r.Part+r.Bytes], whole[r.Whole:r.Whole+r.Bytes])
	}
}

// CopyIn copies a part to its place in a whole tensor. It is the inverse of CopyOut.
func CopyIn(whole, part []byte, size int, shape tensor.Shape, start []int, local tensor.Shape) {
	for r := range Spans(size, shape, start, local) {
		copy(whole[r.Whole:r.Whole+r.Bytes], part[r.Part:r.Part+r.Bytes])
	}
}

// Together reports whether a part is contiguous in the whole, and returns the byte where
// it begins.
func Together(size int, shape tensor.Shape, start []int, local tensor.Shape) (at int, ok bool) {
	runs := 0
	for r := range Spans(size, shape, start, local) {
		if runs == 0 {
			at = r.Whole
		}
		runs++
	}
	return at, runs == 1
}

// Span is a run of bytes that is contiguous in a part and in the whole: where it begins
// in each, and its length.
type Span struct{ Part, Whole, Bytes int }

// Spans returns the runs of a part, in its order; see CopyOut.
func Spans(size int, shape tensor.Shape, start []int, local tensor.Shape) iter.Seq[Span] {
	return func(yield func(Span) bool) { eachRun(size, shape, start, local, yield) }
}

func eachRun(size int, shape tensor.Shape, start []int, local tensor.Shape, yield func(Span) bool) {
	if local.Elems() == 0 {
		return
	}
	// The last dims that are not cut, and the dim before them, make one run.
	inner, run := len(shape), size
	for inner > 0 && local[inner-1] == shape[inner-1] {
		inner--
		run *= shape[inner]
	}
	// first is where the first run begins, stride the distance in the whole between two
	// elements of dim inner-1, in bytes.
	first, stride := 0, run
	if inner > 0 {
		inner--
		first = start[inner] * stride
		stride *= shape[inner]
		run *= local[inner]
	}
	at := make([]int, inner)
	for p := 0; ; p += run {
		w, s := first, stride
		for d := inner - 1; d >= 0; d-- {
			w += (start[d] + at[d]) * s
			s *= shape[d]
		}
		if !yield(Span{p, w, run}) {
			return
		}
		d := inner - 1
		for ; d >= 0; d-- {
			if at[d]++; at[d] < local[d] {
				break
			}
			at[d] = 0
		}
		if d < 0 {
			return
		}
	}
}
