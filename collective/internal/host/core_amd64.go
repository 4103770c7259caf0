package host

// coreNow is a number of the core that runs this: what Linux has RDTSCP say for getcpu of the vDSO, some 18 ns where the system call
// takes 330. It needs hasCoreNow.
//
//go:noescape
func coreNow() uint64

// hasCoreNow says whether the processor has RDTSCP.
//
//go:noescape
func hasCoreNow() bool
