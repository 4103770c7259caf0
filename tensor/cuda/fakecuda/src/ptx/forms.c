// The forms of instructions, after the PTX manual: the words that may follow the first,
// in order, and the operands. A word with ? may be absent. Types are words too. Code for
// sm_80 and PTX 7.5 is all that the table has.
//
// Operands:
//
//	D S  destination and source of the first type     d w  the same, of twice its size
//	U u  a 32-bit destination and source               i    an integer constant
//	P p  a predicate destination and source            Q    one or two (p|q) predicates
//	R    D, or D|p                                     X    S, a special register or a name
//	K k  a vector of source and destination parts      M    an address
//	V v  destination and source as wide as v2, v4 say  L    a label
//	Z z  destination of the first, source of the       N    b32 vector as long as x1, x2, x4
//	     second type, in registers that may be wider   A B  4 and 2 b32 sources
//	C c  4 f32 destinations and sources                H h  2 b32 destinations and sources
//	T    2 b32, or 4 as f32 sources                    s    f32 source
//	?    what follows may be absent
#include "ptx.h"

#define RN "rn|rz|rm|rp"
#define INT "u16|u32|u64|s16|s32|s64"
#define CACHE "ca|cg|cs|lu|cv?"
#define MEM_TYPE "b8|b16|b32|b64|u8|u16|u32|u64|s8|s16|s32|s64|f32|f64"
#define SCOPE "cta|gpu|sys"
#define ORDER "relaxed|acquire|release|acq_rel?"

const Form forms[] = {
	{O_add, INT, "DSS"}, {O_add, "sat s32", "DSS"}, {O_add, RN "? ftz? sat? f32", "DSS"},
	{O_add, RN "? f64", "DSS"}, {O_add, "rn? ftz? sat? f16|f16x2", "DSS"},
	{O_sub, INT, "DSS"}, {O_sub, "sat s32", "DSS"}, {O_sub, RN "? ftz? sat? f32", "DSS"},
	{O_sub, RN "? f64", "DSS"}, {O_sub, "rn? ftz? sat? f16|f16x2", "DSS"},
	{O_mul, "hi|lo " INT, "DSS"}, {O_mul, "wide u16|u32|s16|s32", "dSS"},
	{O_mul, RN "? ftz? sat? f32", "DSS"}, {O_mul, RN "? f64", "DSS"}, {O_mul, "rn? ftz? sat? f16|f16x2", "DSS"},
	{O_mad, "hi|lo " INT, "DSSS"}, {O_mad, "wide u16|u32|s16|s32", "dSSw"}, {O_mad, "hi sat s32", "DSSS"},
	{O_mad, RN " ftz? sat? f32", "DSSS"}, {O_mad, RN " f64", "DSSS"},
	{O_fma, RN " ftz? sat? f32", "DSSS"}, {O_fma, RN " f64", "DSSS"}, {O_fma, "rn ftz? sat? f16|f16x2", "DSSS"},
	{O_fma, "rn ftz? relu f16|f16x2", "DSSS"}, {O_fma, "rn relu? bf16|bf16x2", "DSSS"},
	{O_div, INT, "DSS"}, {O_div, "approx|full|" RN " ftz? f32", "DSS"}, {O_div, RN " f64", "DSS"},
	{O_rem, INT, "DSS"},
	{O_abs, "s16|s32|s64", "DS"}, {O_abs, "ftz? f32", "DS"}, {O_abs, "f64|bf16|bf16x2", "DS"},
	{O_abs, "ftz? f16|f16x2", "DS"},
	{O_neg, "s16|s32|s64", "DS"}, {O_neg, "ftz? f32", "DS"}, {O_neg, "f64|bf16|bf16x2", "DS"},
	{O_neg, "ftz? f16|f16x2", "DS"},
	{O_min, INT, "DSS"}, {O_min, "ftz? NaN? f32", "DSS"}, {O_min, "f64", "DSS"},
	{O_min, "ftz? NaN? f16|f16x2", "DSS"}, {O_min, "NaN? bf16|bf16x2", "DSS"},
	{O_max, INT, "DSS"}, {O_max, "ftz? NaN? f32", "DSS"}, {O_max, "f64", "DSS"},
	{O_max, "ftz? NaN? f16|f16x2", "DSS"}, {O_max, "NaN? bf16|bf16x2", "DSS"},
	{O_popc, "b32|b64", "US"}, {O_clz, "b32|b64", "US"}, {O_brev, "b32|b64", "DS"},
	{O_bfe, "u32|u64|s32|s64", "DSuu"}, {O_bfi, "b32|b64", "DSSuu"}, {O_prmt, "b32", "DSSS"},
	{O_and, "pred|b16|b32|b64", "DSS"}, {O_or, "pred|b16|b32|b64", "DSS"}, {O_xor, "pred|b16|b32|b64", "DSS"},
	{O_not, "pred|b16|b32|b64", "DS"},
	{O_shl, "b16|b32|b64", "DSu"}, {O_shr, "b16|b32|b64|" INT, "DSu"},
	{O_shf, "l|r clamp|wrap b32", "DSSu"}, {O_lop3, "b32", "DSSSi"},
	{O_rcp, "approx|" RN " ftz? f32", "DS"}, {O_rcp, RN " f64", "DS"}, {O_rcp, "approx ftz f64", "DS"},
	{O_sqrt, "approx|" RN " ftz? f32", "DS"}, {O_sqrt, RN " f64", "DS"},
	{O_rsqrt, "approx ftz? f32", "DS"}, {O_rsqrt, "approx f64", "DS"},
	{O_sin, "approx ftz? f32", "DS"}, {O_cos, "approx ftz? f32", "DS"}, {O_lg2, "approx ftz? f32", "DS"},
	{O_ex2, "approx ftz? f32", "DS"}, {O_tanh, "approx f32", "DS"},
	{O_copysign, "f32|f64", "DSS"},
	{O_testp, "finite|infinite|number|notanumber|normal|subnormal f32|f64", "PS"},

	{O_setp, "eq|ne b16|b32|b64", "QSS"}, {O_setp, "eq|ne|lt|le|gt|ge|lo|ls|hi|hs u16|u32|u64", "QSS"},
	{O_setp, "eq|ne|lt|le|gt|ge s16|s32|s64", "QSS"},
	{O_setp, "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan ftz? f32", "QSS"},
	{O_setp, "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan f64", "QSS"},
	{O_setp, "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan ftz? f16", "QSS"},
	{O_setp, "eq|ne and|or|xor b16|b32|b64", "QSSp"},
	{O_setp, "eq|ne|lt|le|gt|ge|lo|ls|hi|hs and|or|xor u16|u32|u64", "QSSp"},
	{O_setp, "eq|ne|lt|le|gt|ge and|or|xor s16|s32|s64", "QSSp"},
	{O_setp, "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan and|or|xor ftz? f32", "QSSp"},
	{O_setp, "eq|ne|lt|le|gt|ge|equ|neu|ltu|leu|gtu|geu|num|nan and|or|xor f64", "QSSp"},
	{O_selp, "b16|b32|b64|" INT "|f32|f64", "DSSp"},

	{O_mov, "pred|b16|b32|b64|" INT "|f32|f64", "DX"}, {O_mov, "b32|b64", "DK"}, {O_mov, "b32|b64", "kS"},
	{O_cvta, "to? global|shared|local|const u64", "DX"},
	{O_cvt, "u8|u16|u32|u64|s8|s16|s32|s64 u8|u16|u32|u64|s8|s16|s32|s64", "Zz"},
	{O_cvt, "sat u8|u16|u32|u64|s8|s16|s32|s64 u8|u16|u32|u64|s8|s16|s32|s64", "Zz"},
	{O_cvt, "rni|rzi|rmi|rpi ftz? sat? u8|u16|u32|u64|s8|s16|s32|s64 f16|f32|f64", "Zz"},
	{O_cvt, RN " sat? f16|f32|f64 u8|u16|u32|u64|s8|s16|s32|s64", "Zz"},
	{O_cvt, "rni|rzi|rmi|rpi ftz? sat? f32 f32", "Zz"}, {O_cvt, "rni|rzi|rmi|rpi sat? f64 f64", "Zz"},
	{O_cvt, "rni|rzi|rmi|rpi sat? f16 f16", "Zz"}, {O_cvt, "ftz? sat? f32 f32", "Zz"},
	{O_cvt, "sat? f64 f64", "Zz"}, {O_cvt, "ftz? sat? f32 f16", "Zz"}, {O_cvt, "sat? f64 f16", "Zz"},
	{O_cvt, "ftz? sat? f64 f32", "Zz"}, {O_cvt, RN " ftz? sat? f32 f64", "Zz"},
	{O_cvt, RN " ftz? sat? f16 f32", "Zz"}, {O_cvt, RN " sat? f16 f64", "Zz"},
	{O_cvt, "rn|rz relu? bf16 f32", "Zz"}, {O_cvt, "rn|rz relu? bf16x2|f16x2 f32", "Dss"},
	{O_cvt, "rna tf32 f32", "Zz"},

	{O_ld, "volatile? global|shared|local|const|param? " CACHE " v2|v4? " MEM_TYPE, "VM"},
	{O_ld, "global ca|cg|cs? nc v2|v4? " MEM_TYPE, "VM"},
	{O_ld, "relaxed|acquire " SCOPE " global|shared? v2|v4? " MEM_TYPE, "VM"},
	{O_st, "volatile? global|shared|local|param? wb|cg|cs|wt? v2|v4? " MEM_TYPE, "Mv"},
	{O_st, "relaxed|release " SCOPE " global|shared? v2|v4? " MEM_TYPE, "Mv"},
	{O_atom, ORDER " " SCOPE "? global|shared? add u32|s32|u64|f32|f64", "DMS"},
	{O_atom, ORDER " " SCOPE "? global|shared? min|max u32|s32|u64|s64", "DMS"},
	{O_atom, ORDER " " SCOPE "? global|shared? exch|and|or|xor b32|b64", "DMS"},
	{O_atom, ORDER " " SCOPE "? global|shared? inc|dec u32", "DMS"},
	{O_atom, ORDER " " SCOPE "? global|shared? cas b32|b64|b16", "DMSS"},
	{O_red, "relaxed|release? " SCOPE "? global|shared? add u32|s32|u64|f32|f64", "MS"},
	{O_red, "relaxed|release? " SCOPE "? global|shared? min|max u32|s32|u64|s64", "MS"},
	{O_red, "relaxed|release? " SCOPE "? global|shared? and|or|xor b32|b64", "MS"},
	{O_red, "relaxed|release? " SCOPE "? global|shared? inc|dec u32", "MS"},
	{O_cp, "async ca|cg shared global", "MMi?u"}, {O_cp, "async commit_group", ""},
	{O_cp, "async wait_group", "i"}, {O_cp, "async wait_all", ""},
	{O_ldmatrix, "sync aligned m8n8 x1|x2|x4 trans? shared? b16", "NM"},
	{O_mma, "sync aligned m16n8k16 row col f32 bf16 bf16 f32", "CABc"},
	{O_mma, "sync aligned m16n8k16 row col f32 f16 f16 f32", "CABc"},
	{O_mma, "sync aligned m16n8k16 row col f16 f16 f16 f16", "HABh"},
	{O_mma, "sync aligned m16n8k8 row col f32 tf32 tf32 f32", "CABc"},

	{O_bra, "uni?", "L"}, {O_ret, "uni?", ""}, {O_exit, "", ""}, {O_trap, "", ""},
	{O_bar, "sync", "u?u"}, {O_bar, "warp sync", "u"}, {O_bar, "red popc u32", "Uup"},
	{O_bar, "red and|or pred", "Pup"}, {O_barrier, "sync aligned", "u?u"},
	{O_membar, "cta|gl|sys", ""}, {O_fence, "sc|acq_rel? " SCOPE, ""},
	{O_shfl, "sync up|down|bfly|idx b32", "RSuuu"}, {O_vote, "sync all|any|uni pred", "Ppu"},
	{O_vote, "sync ballot b32", "Dpu"}, {O_activemask, "b32", "D"},
	{O_redux, "sync add|min|max u32|s32", "DSu"}, {O_redux, "sync and|or|xor b32", "DSu"},
};
const int form_count = sizeof forms / sizeof *forms;
