#include "textflag.h"

// func addHalvesF16C(x, y uint64) uint64
TEXT ·addHalvesF16C(SB), NOSPLIT, $0-24
	VMOVQ      x+0(FP), X0
	VMOVQ      y+8(FP), X1
	VCVTPH2PS  X0, X0
	VCVTPH2PS  X1, X1
	VADDPS     X1, X0, X0
	VCVTPS2PH  $0, X0, X0
	VMOVQ      X0, ret+16(FP)
	RET
