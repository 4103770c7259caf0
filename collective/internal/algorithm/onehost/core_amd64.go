package onehost

// coreNow returns a number of the core that runs this: what the vDSO's getcpu reads by
// RDTSCP, without its call. It needs hasCoreNow.
//
//go:noescape
func coreNow() uint64

// hasCoreNow reports whether the processor has RDTSCP.
//
//go:noescape
func hasCoreNow() bool
