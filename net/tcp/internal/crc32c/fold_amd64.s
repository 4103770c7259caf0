#include "textflag.h"

// ADVANCE multiplies the vector x by the constants in k and adds it to the vector at y.
// It destroys t and x, which becomes the sum. HALF does so with vectors of 32 bytes and
// without AVX-512.
#define ADVANCE(k, x, t, y) \
	VPCLMULQDQ $0x00, k, x, t; \
	VPCLMULQDQ $0x11, k, x, x; \
	VPTERNLOGQ $0x96, y, t, x

#define HALF(k, x, t, y) \
	VPCLMULQDQ $0x00, k, x, t; \
	VPCLMULQDQ $0x11, k, x, x; \
	VPXOR      y, t, t; \
	VPXOR      t, x, x

// func fold512(crc uint32, p *byte, n int, k *[4]constants) uint32
TEXT ·fold512(SB), NOSPLIT, $0-36
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

	VBROADCASTI32X4 48(DX), Z8
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

// func fold256(crc uint32, p *byte, n int, k *[4]constants) uint32
TEXT ·fold256(SB), NOSPLIT, $0-36
	MOVL crc+0(FP), AX
	MOVQ p+8(FP), SI
	MOVQ n+16(FP), CX
	MOVQ k+24(FP), DX

	VBROADCASTI128 (DX), Y15
	VMOVDQU        (SI), Y0
	VMOVDQU        32(SI), Y1
	VMOVDQU        64(SI), Y2
	VMOVDQU        96(SI), Y3
	VMOVDQU        128(SI), Y4
	VMOVDQU        160(SI), Y5
	VMOVDQU        192(SI), Y6
	VMOVDQU        224(SI), Y7
	VMOVD          AX, X8 // the rest of Y8 becomes 0
	VPXOR          Y8, Y0, Y0
	SUBQ           $256, CX
	JZ             vectors

strides:
	ADDQ $256, SI
	HALF(Y15, Y0, Y8, (SI))
	HALF(Y15, Y1, Y9, 32(SI))
	HALF(Y15, Y2, Y10, 64(SI))
	HALF(Y15, Y3, Y11, 96(SI))
	HALF(Y15, Y4, Y8, 128(SI))
	HALF(Y15, Y5, Y9, 160(SI))
	HALF(Y15, Y6, Y10, 192(SI))
	HALF(Y15, Y7, Y11, 224(SI))
	SUBQ $256, CX
	JNZ  strides

vectors:
	VBROADCASTI128 32(DX), Y15
	HALF(Y15, Y0, Y8, Y1)
	HALF(Y15, Y0, Y8, Y2)
	HALF(Y15, Y0, Y8, Y3)
	HALF(Y15, Y0, Y8, Y4)
	HALF(Y15, Y0, Y8, Y5)
	HALF(Y15, Y0, Y8, Y6)
	HALF(Y15, Y0, Y8, Y7)

	VBROADCASTI128 48(DX), Y15
	VEXTRACTI128   $1, Y0, X1
	HALF(Y15, Y0, Y8, Y1)

	VMOVQ   X0, R8
	VPEXTRQ $1, X0, R9
	XORL    AX, AX
	CRC32Q  R8, AX
	CRC32Q  R9, AX
	VZEROUPPER
	MOVL    AX, ret+32(FP)
	RET

// func multiplies() bool
TEXT ·multiplies(SB), NOSPLIT, $0-1
	MOVL $7, AX
	XORL CX, CX
	CPUID
	SHRL $10, CX
	ANDL $1, CX
	MOVB CX, ret+0(FP)
	RET
