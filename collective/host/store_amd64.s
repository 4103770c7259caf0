//go:build amd64 && !race

#include "textflag.h"

// func storeRelease(addr *uint64, v uint64)
TEXT ·storeRelease(SB), NOSPLIT, $0-16
	MOVQ addr+0(FP), AX
	MOVQ v+8(FP), CX
	MOVQ CX, (AX)
	RET
