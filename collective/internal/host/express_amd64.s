//go:build amd64 && !race

#include "go_asm.h"
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

// func express(x *Express, word uint64, end bool) (theirs uint64, got Outcome)
TEXT ·express(SB), NOSPLIT, $0-40
	MOVQ x+0(FP), AX
	MOVQ Express_gate(AX), BX
	MOVQ (TLS), CX
	MOVQ Gate_Opened(BX), R12
	LEAQ Gate_Inside(BX)(R12*8), R12 // of this opening, if the goroutine is the Holder
	CMPQ Gate_Holder(BX), CX
	JNE  closed
	CMPQ (R12), $0
	JNE  closed
	MOVQ $1, (R12)
	CMPQ Gate_Holder(BX), CX
	JNE  back

	MOVQ Express_epoch(AX), R8
	MOVQ (R8), CX
	MOVQ Express_window(AX), R9
	CMPQ (R9), CX
	JEQ  back
	INCQ CX
	MOVQ CX, DX
	ANDQ $1, DX              // parity
	MOVQ Express_said(AX), R9
	MOVQ (R9)(DX*8), R9
	CMPQ Express_call(AX), R9
	JNE  back
	MOVQ CX, (R8)

	MOVQ Gate_Calls(BX), SI
	INCQ SI
	MOVQ SI, Gate_Calls(BX)
	MOVQ Express_calls(AX), R9
	INCQ (R9)
	MOVQ Gate_Before(BX), R9
	SHRQ $2, R9
	ADDQ R9, SI              // seq
	MOVQ Express_seqs(AX)(DX*8), R9
	MOVQ SI, (R9)
	MOVQ $const_golden, R9
	IMULQ R9, SI
	ADDQ Express_word(AX), SI
	SHRQ $32, SI
	SHLQ $32, CX
	ORQ  SI, CX              // mark

	MOVQ Express_mine(AX)(DX*8), DI
	MOVQ Express_theirs(AX)(DX*8), SI
	MOVQ word+8(FP), R9
	MOVQ Express_spins(AX), R10
	MOVQ (R10), R10
	MOVQ Express_rest(AX), R11
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
	MOVQ $const_begunAlone, got+32(FP)
	RET

here:
	MOVQ 8(SI), DX
	MOVQ DX, theirs+24(FP)
	CMPB end+16(FP), $0
	JEQ  begun
	MOVQ Express_bell(AX), R9
	CMPL (R9), $0        // ring.Awake
	JNE  begun
	MOVQ $0, (R12)
	MOVQ (TLS), CX
	CMPQ Gate_Holder(BX), CX
	JNE  overdue
	MOVQ $const_Made, got+32(FP)
	RET

begun:
	MOVQ $const_Begun, got+32(FP)
	RET

overdue:
	MOVQ $const_Overdue, got+32(FP)
	RET

back:
	MOVQ $0, (R12)
	MOVQ (TLS), CX
	CMPQ Gate_Holder(BX), CX
	JEQ  closed
	MOVQ $const_Turned, got+32(FP)
	RET

closed:
	MOVQ $const_NotMade, got+32(FP)
	RET
