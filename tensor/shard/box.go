package shard

import "github.com/ringside-go/ringside/tensor"

// CopyOut copies a part out of a whole tensor of the given shape: the box of shape local
// that begins at start, as Mesh.Local returns them. Elements have size bytes, and both
// tensors are row-major.
func CopyOut(part, whole []byte, size int, shape tensor.Shape, start []int, local tensor.Shape) {
	eachRun(size, shape, start, local, func(p, w, n int) { copy(part[p:p+n], whole[w:w+n]) })
}

// CopyIn copies a part to its place in a whole tensor. It is the inverse of CopyOut.
func CopyIn(whole, part []byte, size int, shape tensor.Shape, start []int, local tensor.Shape) {
	eachRun(size, shape, start, local, func(p, w, n int) { copy(whole[w:w+n], part[p:p+n]) })
}

// Together reports whether a part is contiguous in the whole, and returns the byte where
// it begins.
func Together(size int, shape tensor.Shape, start []int, local tensor.Shape) (at int, ok bool) {
	runs := 0
	eachRun(size, shape, start, local, func(_, w, _ int) {
		if runs == 0 {
			at = w
		}
		runs++
	})
	return at, runs == 1
}

// eachRun calls f for each run of bytes that is contiguous in the part and in the whole,
// with its start in each and its length.
func eachRun(size int, shape tensor.Shape, start []int, local tensor.Shape, f func(part, whole, n int)) {
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
		f(p, w, run)
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
