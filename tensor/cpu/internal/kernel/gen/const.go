package main

import (
	"fmt"
	"math"
	"math/big"
	"slices"
	"strings"

	"github.com/mmcloughlin/avo/operand"
	"github.com/mmcloughlin/avo/reg"
)

// constant is a number of 32 bits that lies in memory in all lanes of the widest vector:
// AVX2 has no other form of memory operand.
type constant struct {
	name string
	bits uint32
}

// numbers returns the constants that are no coefficients.
func numbers() []constant {
	const root = 0.79788456080286535588 // √(2/π)
	const halfPi1 = 0x1.921fb6p+0
	const halfPi2 = -0x1.777a5cp-25
	const halfPi3 = math.Pi/2 - halfPi1 - halfPi2
	return []constant{
		{"zero", 0}, {"half", bits(0.5)}, {"one", bits(1)}, {"two", bits(2)}, {"minusHalf", bits(-0.5)},
		{"sign", 0x80000000}, {"abs", 0x7fffffff}, {"inf", 0x7f800000}, {"minusInf", 0xff800000},
		{"log2e", bits(math.Log2E)},
		// ln2 in two parts, negated: the first has few enough bits that its multiples are
		// exact.
		{"ln2hi", bits(-0.693359375)}, {"ln2lo", bits(0.693359375 - math.Ln2)},
		// Beyond these eˣ is +Inf or 0 in float32, and 2ⁿ is still easy to make.
		{"expMax", bits(89)}, {"expMin", bits(-104)}, {"bias", 127},
		{"tanhSplit", bits(0.6)}, {"four", bits(4)},
		{"rootHalf", bits(math.Sqrt(0.5))}, {"pdf", bits(1 / math.Sqrt(2*math.Pi))},
		// 2√(2/π)(x+0.044715x³) and its derivative.
		{"gelu1", bits(2 * root)}, {"gelu3", bits(2 * root * 0.044715)}, {"gelu9", bits(6 * root * 0.044715)},
		{"squareMax", bits(1e30)},
		{"rootMin", bits(0x1p-96)}, {"rootSpan", bits(0x1p96) - bits(0x1p-96)},
		// Of log and its kin: the least normal number, and the bits after the exponent.
		{"minNormal", 0x00800000}, {"two23", bits(1 << 23)}, {"twentyThree", bits(23)}, {"mantissa", 0x007fffff},
		{"nan", 0x7fc00000}, {"integerOne", 1},
		// Below this a number cut toward zero fits 32 bits.
		{"two31", bits(1 << 31)},
		// π/2 in three parts.
		{"twoOverPi", bits(2 / math.Pi)}, {"halfPi1", bits(halfPi1)}, {"halfPi2", bits(halfPi2)}, {"halfPi3", bits(halfPi3)},
		// Of Philox: the multipliers, and what is added to the keys; the last place of 24
		// bits below 1.
		{"philoxM0", 0xd2511f53}, {"philoxM1", 0xcd9e8d57}, {"philoxW0", 0x9e3779b9}, {"philoxW1", 0xbb67ae85}, {"unit", bits(0x1p-24)},
		// Rounding to bfloat16: the last bit that stays, the number that rounds up, and
		// the bit that makes a NaN quiet.
		{"bfOne", 1}, {"bfAlmost", 0x7fff}, {"bfQuiet", 0x40},
		// Of bytes and words: bytes of 1, the lower bytes of words of 16 and 32 bits, all
		// bits of an f16 or bf16 but the sign, and the largest byte.
		{"byteOne", 0x01010101}, {"lowByte", 0x00ff00ff}, {"wordByte", 0xff}, {"halfAbs", 0x7fff7fff}, {"byteMost", bits(255)},
	}
}

// double is a constant of 64 bits. Its name in the assembly ends in 64.
type double struct {
	name string
	bits uint64
}

// doubles returns those that are no coefficients.
func doubles() []double {
	num := math.Float64bits
	const root = 0.79788456080286535588 // √(2/π)
	// upper is x without its last bits, so that products with small integers are exact.
	upper := func(x float64) float64 { return math.Float64frombits(num(x) &^ (1<<20 - 1)) }
	halfPi1 := upper(math.Pi / 2)
	halfPi2 := upper(piRest(halfPi1))
	halfPi3 := piRest(halfPi1, halfPi2)
	const twoThirds = float64(2) / 3
	return []double{
		{"zero", 0}, {"half", num(0.5)}, {"one", num(1)}, {"inf", num(math.Inf(1))}, {"minusInf", num(math.Inf(-1))},
		{"sign", 1 << 63}, {"abs", math.MaxInt64}, {"rootHalf", num(math.Sqrt(0.5))}, {"mantissa", 1<<52 - 1},
		{"signAndMantissa", 1<<63 | 1<<52 - 1},
		// The logarithm's exponents are made of bits, and integers of the last bits of
		// sums.
		{"logBias", 1024<<52 - num(math.Sqrt(0.5))}, {"two52", num(1 << 52)}, {"two52And1024", num(1<<52 + 1024)},
		// Of conversions of integers.
		{"two84And63", num(1<<84 + 1<<63)}, {"two84And63And52", num(1<<84 + 1<<63 + 1<<52)},
		{"roundBits", num(3 << 51)}, {"exp2Max", num(1000)}, {"exp2Min", num(-1000)},
		// Of exp, log and their kin: ln2 in two parts, negated. Beyond the bounds eˣ is
		// +Inf or 0; tanh is 1 beyond half of its own.
		{"log2e", num(math.Log2E)}, {"ln2hi", num(-upper(math.Ln2))}, {"ln2lo", num(-ln2Rest(upper(math.Ln2)))},
		{"expMax", num(710)}, {"expMin", num(-746)}, {"tanhMax", num(60)}, {"bias", 1023},
		{"byteMost", num(255)}, {"two", num(2)}, {"minusHalf", num(-0.5)}, {"nan", num(math.NaN())}, {"integerOne", 1},
		{"two31", num(1 << 31)}, {"minNormal", 1 << 52}, {"two54", num(1 << 54)}, {"fiftyFour", num(54)},
		{"gelu1", num(2 * root)}, {"gelu3", num(2 * root * 0.044715)}, {"gelu9", num(6 * root * 0.044715)},
		{"twoThirds", num(twoThirds)}, {"twoThirdsRest", num(rest("0.666666666666666666666666666666666666666666666666666666", []float64{twoThirds}))},
		// π/2 in three parts.
		{"twoOverPi", num(2 / math.Pi)}, {"halfPi1", num(halfPi1)}, {"halfPi2", num(halfPi2)}, {"halfPi3", num(halfPi3)},
	}
}

// ln2Rest and piRest return what is left of ln2 and π/2 without the parts.
func ln2Rest(parts ...float64) float64 {
	return rest("0.693147180559945309417232121458176568075500134360255254", parts)
}
func piRest(parts ...float64) float64 {
	return rest("1.570796326794896619231321691639751442098584699687552910487472296153908", parts)
}

func rest(digits string, parts []float64) float64 {
	x, _, err := big.ParseFloat(digits, 10, 200, big.ToNearestEven)
	if err != nil {
		panic(err)
	}
	for _, part := range parts {
		x.Sub(x, big.NewFloat(part))
	}
	f, _ := x.Float64()
	return f
}

// doublePolynomials are the coefficients of all series of float64.
var doublePolynomials []double

// doubleSeries names n coefficients, of which c returns number i, highest first.
func doubleSeries(name string, n int, c func(i int) float64) (names []string) {
	for i := n - 1; i >= 0; i-- {
		d := double{fmt.Sprint(name, "c", i), math.Float64bits(c(i))}
		doublePolynomials = append(doublePolynomials, d)
		names = append(names, d.name)
	}
	return names
}

// bits returns the encoding of a float32.
func bits(x float64) uint32 { return math.Float32bits(float32(x)) }

// addresses are the addresses of constants by name.
var addresses = map[string]operand.Mem{}

// constants returns the assembly that defines the constants of all files, once, and sets
// addresses.
func constants() string {
	var b strings.Builder
	b.WriteString("#include \"textflag.h\"\n")
	symbol := func(name string, words ...uint64) {
		s := operand.Symbol{Name: "·const_" + name}
		addresses[name] = operand.Mem{Symbol: s, Base: reg.StaticBase}
		b.WriteByte('\n')
		for i, w := range words {
			fmt.Fprintf(&b, "DATA %s+%d(SB)/8, $%#016x\n", s, 8*i, w)
		}
		fmt.Fprintf(&b, "GLOBL %s(SB), RODATA|NOPTR, $%d\n", s, 8*len(words))
	}
	all := func(w uint64) []uint64 { return []uint64{w, w, w, w, w, w, w, w} }
	for _, c := range append(numbers(), polynomials...) {
		symbol(c.name, all(uint64(c.bits)<<32|uint64(c.bits))...)
	}
	for _, c := range slices.Concat(doubles(), normalNumbers(), doublePolynomials) {
		symbol(c.name+"64", all(c.bits)...)
	}
	// Which block of a group a lane of 64 bits computes, and how many a group has.
	symbol("philoxLanes8", 0, 4, 1, 5, 2, 6, 3, 7)
	symbol("philoxLanes4", 0, 2, 1, 3)
	symbol("philoxStep8", all(8)...)
	symbol("philoxStep4", all(4)...)
	symbol("lowerHalf", all(math.MaxUint32)...)
	// Packed twice, the four numbers of each half of a vector lie one after another.
	symbol("packed", 4<<32, 1|5<<32, 2|6<<32, 3|7<<32)
	symbol("oneDouble", math.Float64bits(1))
	// The places of the pairs of two vectors of 16-bit numbers: one of the first, which
	// number 0 to 31, and that of the second under it.
	for half, name := range []string{"pairsLow", "pairsHigh"} {
		words := make([]uint64, 8)
		for i := range 16 {
			at := uint64(16*half + i)
			words[i/2] |= (at | (at+32)<<16) << (32 * (i % 2))
		}
		symbol(name, words...)
	}
	// 16 lanes that are set and 16 that are not: the vector at lane 16-n has its first n
	// set.
	symbol("lanes", append(all(math.MaxUint64), all(0)...)...)
	return b.String()
}

// at returns the address of a constant.
func at(name string) operand.Mem {
	m, ok := addresses[name]
	if !ok {
		panic("no constant " + name)
	}
	return m
}
