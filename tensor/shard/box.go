package shard

import "github.com/ringside-go/ringside/tensor"

// CopyOut copies a part out of a whole tensor of the given shape: the box of shape local that begins at start. Elements have
// size bytes, both are row-major. start and local are as Mesh.Local gives them.
func CopyOut(part, whole []byte, size int, shape tensor.Shape, start []int, local tensor.Shape) {
	eachRun(size, shape, start, local, func(p, w, n int) { copy(part[p:p+n], whole[w:w+n]) })
}

// CopyIn copies a part to where it belongs in a whole tensor: CopyOut the other way.
func CopyIn(whole, part []byte, size int, shape tensor.Shape, start []int, local tensor.Shape) {
	eachRun(size, shape, start, local, func(p, w, n int) { copy(whole[w:w+n], part[p:p+n]) })
}

// Together says where in the whole a part begins that lies there in one piece.
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

// eachRun calls f for every stretch of bytes that lies together in the part and in the whole: where it begins in each, and how
// long it is.
func eachRun(size int, shape tensor.Shape, start []int, local tensor.Shape, f func(part, whole, n int)) {
	if local.Elems() == 0 {
		return
	}
	// The dims that are not cut at the end, and the one before them, make one run.
	inner, run := len(shape), size
	for inner > 0 && local[inner-1] == shape[inner-1] {
		inner--
		run *= shape[inner]
	}
	first, stride := 0, run // where the first run begins, and the bytes of the whole between two elements of dim inner-1
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
