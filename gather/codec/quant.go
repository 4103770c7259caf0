package codec

import "math"

// book is the codebook of one parameter in one payload: code b stands for
// Lookup[b]+Shift.
type book struct {
	Shift, Scale float32
	Lookup       []float32
	uniform      bool
	mean, scale  float64   // as they were before they were rounded
	edges        []float64 // of Lloyd: level b is left of edges[b]
}

// newBook chooses the levels for vals, all values of a parameter that are sent. All sums
// are in float64 in the order of vals.
func newBook(kind Codebook, bins int, reach float64, vals []float32) *book {
	k := &book{uniform: kind == Uniform, Lookup: make([]float32, bins)}
	for _, v := range vals {
		k.mean += float64(v)
	}
	k.mean /= float64(len(vals))
	k.Shift = float32(k.mean)
	k.scale = 1
	if k.uniform {
		var sq float64
		for _, v := range vals {
			d := float64(v) - k.mean
			sq += float64(d * d)
		}
		k.scale = reach * math.Sqrt(sq/float64(len(vals)-1)) / float64(bins)
		if k.scale == 0 || math.IsNaN(k.scale) || math.IsInf(k.scale, 0) {
			k.scale = 1
		}
		k.scale = min(max(k.scale, minScale), maxScale)
	} else {
		k.lloyd(vals, bins)
	}
	k.Scale = float32(k.scale)
	sum, n := make([]float64, bins), make([]float64, bins)
	for _, v := range vals {
		b := k.code(v)
		sum[b] += float64(v) - k.mean
		n[b]++
	}
	for b := range sum {
		if n[b] > 0 {
			k.Lookup[b] = float32(sum[b] / n[b])
		}
	}
	return k
}

// code returns the code that stands for v.
func (k *book) code(v float32) uint8 {
	c := float64(v) - k.mean
	if k.uniform {
		bins := float64(len(k.Lookup))
		return uint8(min(max(math.RoundToEven(c/k.scale+bins/2), 0), bins-1))
	}
	b := 0
	for b < len(k.edges) && c > k.edges[b] {
		b++
	}
	return uint8(b)
}

const (
	lloydCells  = 4096 // of the histogram that the levels are fitted to
	lloydRounds = 64
)

// lloyd fits the edges between levels to a histogram of the values: each edge lies in the
// middle between two levels, and each level is the mean of the cells between two edges.
func (k *book) lloyd(vals []float32, bins int) {
	lo, hi := math.Inf(1), math.Inf(-1)
	for _, v := range vals {
		c := float64(v) - k.mean
		lo, hi = min(lo, c), max(hi, c)
	}
	width := (hi - lo) / lloydCells
	var count, sum [lloydCells]float64
	for _, v := range vals {
		c := float64(v) - k.mean
		cell := 0
		if width > 0 {
			cell = min(int((c-lo)/width), lloydCells-1)
		}
		count[cell]++
		sum[cell] += c
	}
	k.edges = make([]float64, bins-1)
	// The first edges have as many values between each two.
	seen, e := 0.0, 0
	for cell := 0; cell < lloydCells && e < len(k.edges); cell++ {
		seen += count[cell]
		for e < len(k.edges) && seen >= float64(len(vals)*(e+1))/float64(bins) {
			k.edges[e] = lo + float64(width*float64(cell+1))
			e++
		}
	}
	for range lloydRounds {
		levels := make([]float64, bins)
		cell := 0
		for b := range levels {
			var n, s float64
			for ; cell < lloydCells && (b == bins-1 || lo+float64(width*(float64(cell)+0.5)) <= k.edges[b]); cell++ {
				n += count[cell]
				s += sum[cell]
			}
			if n > 0 {
				levels[b] = s / n
			} else if b > 0 {
				levels[b] = levels[b-1]
			} else {
				levels[b] = lo
			}
		}
		for e := range k.edges {
			k.edges[e] = (levels[e] + levels[e+1]) / 2
		}
	}
}
