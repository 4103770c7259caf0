package kernel

// addHalves adds four binary16.
func (s Set) addHalves(x, y uint64) uint64 {
	if s.level == Go {
		return addHalvesOneByOne(x, y)
	}
	return addHalvesF16C(x, y)
}

// addHalvesF16C is addHalvesOneByOne by the conversions that every processor with AVX2
// has.
//
//go:noescape
func addHalvesF16C(x, y uint64) uint64
