package plan

import "math/bits"

// Interleave is the order in which one rank sends another its two streams of chunks, so that both know it: first the pieces
// that are to be folded (First of them), which depend on nothing, and behind them the folded ones (Second), each Lag
// places later than the piece of the same number so that it is ready when its turn comes:
//
//	first    0 1 2   3   4   5
//	second       | 0 | 1 | 2 | 3 4 5      Lag 3
//
// A chunk depends on chunks with smaller numbers alone, whatever the two lengths: no schedule of several ranks can wait for
// itself.
type Interleave struct{ First, Second, Lag int }

// Len is the number of chunks of both streams.
func (v Interleave) Len() int { return v.First + v.Second }

// Firsts is how many of the first n chunks in the order belong to the first stream.
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

// At says of which stream the i-th chunk is and which of that stream's.
func (v Interleave) At(i int) (second bool, k int) {
	before := v.Firsts(i)
	if v.Firsts(i+1) > before {
		return false, before
	}
	return true, i - before
}

// Tree is the place of a rank in a binomial tree over n ranks: who sends to it, -1 for the root, and to whom it passes on,
// those with the largest subtrees first. The depth is the logarithm of n.
func Tree(rank, root, n int) (parent int, children []int) {
	v := (rank - root + n) % n // the tree is drawn for root 0
	parent = -1
	low := 1 << bits.Len(uint(n-1)) // the smallest power of two that is not below n
	if v != 0 {
		low = v & -v
		parent = (v - low + root) % n
	}
	for step := low >> 1; step > 0; step >>= 1 {
		if v+step < n {
			children = append(children, (v+step+root)%n)
		}
	}
	return parent, children
}

// Rounds is how many rounds of dissemination let n ranks know that all have come: in round i each tells the one 1<<i
// places further on (Hensgen, Finkel, Manber: Two algorithms for barrier synchronization, 1988).
func Rounds(n int) int { return bits.Len(uint(n - 1)) }

// Pack puts consecutive buffers of the given sizes into buckets of at most limit bytes; a buffer that is larger has one for
// itself. A bucket is a range of indices [from, to).
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
