//go:build !amd64

package kernel

// addHalves adds four binary16.
func (s Set) addHalves(x, y uint64) uint64 { return addHalvesOneByOne(x, y) }
