package isa

// ofProcessor are the levels of the processor's kind but Go, lowest first.
var ofProcessor = [...]Level{NEON}

// Best returns the highest level that this machine runs.
func Best() Level { return NEON }

// NearWays returns the ways of the first-level data cache: four or more in all processors
// of the kind.
func NearWays() int { return 4 }
