//go:build amd64 && !race

#include "textflag.h"

// func Goroutine() uintptr
TEXT ·Goroutine(SB), NOSPLIT, $0-8
	MOVQ (TLS), AX
	MOVQ AX, ret+0(FP)
	RET

// func leave(inside *uint64)
TEXT ·leave(SB), NOSPLIT, $0-8
	MOVQ inside+0(FP), AX
	MOVQ $0, (AX)
	RET

// func pause(n int)
TEXT ·pause(SB), NOSPLIT, $0-8
	MOVQ n+0(FP), AX

next:
	PAUSE
	DECQ AX
	JNZ  next
	RET

// Of Gate.
#define HOLDER(r) 0(r)
#define INSIDE(r) 8(r)
#define CALLS(r) 16(r)
#define BEFORE(r) 24(r)

// Of Express.
#define GATE(r) 0(r)
#define EPOCH(r) 8(r)
#define WINDOW(r) 16(r)
#define SAID(r) 24(r)
#define CALL(r) 32(r)
#define SEQS(r, parity) 40(r)(parity*8)
#define MINE(r, parity) 56(r)(parity*8)
#define THEIRS(r, parity) 72(r)(parity*8)
#define WORD(r) 88(r)
#define REST(r) 96(r)
#define BELL(r) 104(r)
#define MADE(r) 112(r)
#define SPINS(r) 120(r)

// func express(x *Express, word uint64, end bool) (theirs uint64, got Outcome)
TEXT ·express(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), AX
	MOVQ GATE(AX), BX
	MOVQ (TLS), CX
	CMPQ HOLDER(BX), CX
	JNE  closed
	MOVQ $1, INSIDE(BX)
	CMPQ HOLDER(BX), CX
	JNE  back

	MOVQ EPOCH(AX), R8
	MOVQ (R8), CX
	MOVQ WINDOW(AX), R9
	CMPQ (R9), CX
	JEQ  back
	INCQ CX
	MOVQ CX, DX
	ANDQ $1, DX              // parity
	MOVQ SAID(AX), R9
	MOVQ (R9)(DX*8), R9
	CMPQ CALL(AX), R9
	JNE  back
	MOVQ CX, (R8)

	MOVQ CALLS(BX), SI
	INCQ SI
	MOVQ SI, CALLS(BX)
	MOVQ MADE(AX), R9
	INCQ (R9)
	MOVQ BEFORE(BX), R9
	SHRQ $2, R9
	ADDQ R9, SI              // seq
	MOVQ SEQS(AX, DX), R9
	MOVQ SI, (R9)
	MOVQ $0x9e3779b97f4a7c15, R9 // golden
	IMULQ R9, SI
	ADDQ WORD(AX), SI
	SHRQ $32, SI
	SHLQ $32, CX
	ORQ  SI, CX              // mark

	MOVQ MINE(AX, DX), DI
	MOVQ THEIRS(AX, DX), SI
	MOVQ word+8(FP), R9
	MOVQ SPINS(AX), R10
	MOVQ (R10), R10
	MOVQ REST(AX), R11
	MOVQ R9, 8(DI)
	MOVQ CX, (DI)

look:
	CMPQ (SI), CX
	JEQ  here
	MOVQ R11, R9

pauses:
	PAUSE
	DECQ R9
	JNZ  pauses
	SUBQ R11, R10
	JGT  look
	MOVQ $4, got+32(FP)  // begunAlone
	RET

here:
	MOVQ 8(SI), DX
	MOVQ DX, theirs+24(FP)
	CMPB end+16(FP), $0
	JEQ  begun
	MOVQ BELL(AX), R9
	CMPL (R9), $0        // ring.Awake
	JNE  begun
	MOVQ $0, INSIDE(BX)
	MOVQ (TLS), CX
	CMPQ HOLDER(BX), CX
	JNE  overdue
	MOVQ $1, got+32(FP)  // Made
	RET

begun:
	MOVQ $3, got+32(FP)
	RET

overdue:
	MOVQ $2, got+32(FP)
	RET

back:
	MOVQ $0, INSIDE(BX)

closed:
	MOVQ $0, got+32(FP)  // NotMade
	RET
