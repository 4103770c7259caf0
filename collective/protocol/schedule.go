package protocol

// Interleave is the order in which one rank sends another its two streams of chunks, so
// that both know it. First chunks are still to be folded and depend on nothing. Second
// chunks are folded; each follows Lag places after the first chunk of the same number, so
// that it is ready in time:
//
//	first    0 1 2   3   4   5
//	second       | 0 | 1 | 2 | 3 4 5      Lag 3
//
// For all lengths of the two streams a chunk depends only on chunks with smaller numbers.
// So no schedule of several ranks can wait for itself.
type Interleave struct{ First, Second, Lag int }

// Len returns the number of chunks of both streams.
func (v Interleave) Len() int { return v.First + v.Second }

// Firsts returns how many of the first n chunks in the order belong to the first stream.
func (v Interleave) Firsts(n int) int {
	head := min(v.Lag, v.First)
	if n <= head {
		return n
	}
	n -= head
	pairs := min(v.First-head, v.Second)
	if n <= 2*pairs {
		return head + n/2
	}
	if v.First-head > pairs { // the second stream has ended
		return head + n - pairs
	}
	return v.First
}

// At returns which stream the i-th chunk belongs to, and its number in that stream.
func (v Interleave) At(i int) (second bool, k int) {
	before := v.Firsts(i)
	if v.Firsts(i+1) > before {
		return false, before
	}
	return true, i - before
}

// Pack puts consecutive buffers of the given sizes into buckets of at most limit bytes. A
// larger buffer has a bucket of its own. A bucket is a range of indices [from, to).
func Pack(sizes []int, limit int) (buckets [][2]int) {
	from, total := 0, 0
	for i, n := range sizes {
		if i > from && total+n > limit {
			buckets = append(buckets, [2]int{from, i})
			from, total = i, 0
		}
		total += n
	}
	if from < len(sizes) {
		buckets = append(buckets, [2]int{from, len(sizes)})
	}
	return buckets
}
