package kernel

// longMost is how many numbers the assembly multiplies at a time: products of their
// significands, at most 2 to the power of longMost, are far from overflow.
const longMost = 1 << 9

// longProductBy returns longProductGo by assembly, which takes whole groups of numbers.
// It returns the product of their significands, and the sum, the least and the most of
// their exponents with the bias.
func longProductBy(group int, f func(n int, x *float64) (product float64, sum, least, most int)) func(s LongProduct, x []float64) LongProduct {
	return func(s LongProduct, x []float64) LongProduct {
		for len(x) >= group {
			n := min(len(x), longMost) / group * group
			product, sum, least, most := f(n, &x[0])
			s.times(product)
			s.E += sum - 1023*n
			s.Least, s.Most = min(s.Least, least-1023), max(s.Most, most-1023)
			x = x[n:]
		}
		return longProductGo(s, x)
	}
}
