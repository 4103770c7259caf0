#include "textflag.h"

// ADVANCE multiplies the vector x by the constants in k and adds it to the vector at y.
// It destroys t and x, which becomes the sum.
#define ADVANCE(k, x, t, y) \
	VPCLMULQDQ $0x00, k, x, t; \
	VPCLMULQDQ $0x11, k, x, x; \
	VPTERNLOGQ $0x96, y, t, x

// func fold(crc uint32, p *byte, n int, k *[3]constants) uint32
TEXT ·fold(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DX

	VBROADCASTI32X4 (DX), Z8
	VMOVDQU64       (SI), Z0
	VMOVDQU64       64(SI), Z1
	VMOVDQU64       128(SI), Z2
	VMOVDQU64       192(SI), Z3
	VMOVD           AX, X4 // the rest of Z4 becomes 0
	VPXORQ          Z4, Z0, Z0
	SUBQ            $256, CX
	JZ              vectors

strides:
	ADDQ $256, SI
	ADVANCE(Z8, Z0, Z4, (SI))
	ADVANCE(Z8, Z1, Z5, 64(SI))
	ADVANCE(Z8, Z2, Z6, 128(SI))
	ADVANCE(Z8, Z3, Z7, 192(SI))
	SUBQ $256, CX
	JNZ  strides

vectors:
	VBROADCASTI32X4 16(DX), Z8
	ADVANCE(Z8, Z0, Z4, Z1)
	ADVANCE(Z8, Z0, Z4, Z2)
	ADVANCE(Z8, Z0, Z4, Z3)

	VBROADCASTI32X4 32(DX), Z8
	VEXTRACTI32X4   $1, Z0, X1
	VEXTRACTI32X4   $2, Z0, X2
	VEXTRACTI32X4   $3, Z0, X3
	ADVANCE(Z8, Z0, Z4, Z1)
	ADVANCE(Z8, Z0, Z4, Z2)
	ADVANCE(Z8, Z0, Z4, Z3)

	VMOVQ   X0, R8
	VPEXTRQ $1, X0, R9
	XORL    AX, AX
	CRC32Q  R8, AX
	CRC32Q  R9, AX
	VZEROUPPER
	MOVL    AX, ret+32(FP)
	RET
