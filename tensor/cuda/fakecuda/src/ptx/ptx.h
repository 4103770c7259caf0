// Types and functions of the PTX interpreter. The files use each other in this order:
// lex.c and forms.c, then check.c, parse.c, then the files that run: number.c, approx.c,
// watch.c, access.c, arith.c, convert.c, atomic.c, async.c, matrix.c, warp.c, block.c.
// module.c is the interpreter's face to the driver's calls.
#ifndef PTX_H
#define PTX_H
#include <setjmp.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

// Types of values, with the size in bytes and the class: p predicate, b bits, i integer,
// f float.
#define TYPES(X)                                                                          \
	X(PRED, "pred", 1, 'p')                                                               \
	X(B8, "b8", 1, 'b') X(B16, "b16", 2, 'b') X(B32, "b32", 4, 'b') X(B64, "b64", 8, 'b') \
	X(U8, "u8", 1, 'i') X(U16, "u16", 2, 'i') X(U32, "u32", 4, 'i') X(U64, "u64", 8, 'i') \
	X(S8, "s8", 1, 'i') X(S16, "s16", 2, 'i') X(S32, "s32", 4, 'i') X(S64, "s64", 8, 'i') \
	X(F16, "f16", 2, 'f') X(F16X2, "f16x2", 4, 'f') X(BF16, "bf16", 2, 'b')               \
	X(BF16X2, "bf16x2", 4, 'b') X(TF32, "tf32", 4, 'b') X(F32, "f32", 4, 'f')             \
	X(F64, "f64", 8, 'f')
#define X(name, text, size, class) T_##name,
typedef enum Type { T_NONE, TYPES(X) } Type;
#undef X

// Instructions, by their first word.
#define OPS(X)                                                                                \
	X(add) X(sub) X(mul) X(mad) X(fma) X(div) X(rem) X(abs) X(neg) X(min) X(max) X(popc)      \
	X(clz) X(brev) X(bfe) X(bfi) X(prmt) X(and) X(or) X(xor) X(not) X(shl) X(shr) X(shf)      \
	X(lop3) X(rcp) X(sqrt) X(rsqrt) X(sin) X(cos) X(lg2) X(ex2) X(tanh) X(copysign) X(testp)  \
	X(setp) X(selp) X(mov) X(cvta) X(cvt) X(ld) X(st) X(atom) X(red) X(cp) X(ldmatrix) X(mma) \
	X(bra) X(call) X(ret) X(exit) X(trap) X(bar) X(barrier) X(membar) X(fence) X(shfl)        \
	X(vote) X(activemask) X(redux)
#define X(name) O_##name,
typedef enum Opcode { O_NONE, OPS(X) OP_COUNT } Opcode;
#undef X

// Words after the first, other than types.
#define WORDS(X)                                                                               \
	X(sat) X(rn) X(rz) X(rm) X(rp) X(ftz) X(hi) X(lo) X(wide) X(approx) X(full) X(NaN)         \
	X(relu) X(l) X(r) X(clamp) X(wrap) X(finite) X(infinite) X(number) X(notanumber) X(normal) \
	X(subnormal) X(eq) X(ne) X(lt) X(le) X(gt) X(ge) X(ls) X(hs) X(equ) X(neu) X(ltu) X(leu)   \
	X(gtu) X(geu) X(num) X(nan) X(and) X(or) X(xor) X(to) X(param) X(global) X(shared)         \
	X(local) X(const) X(rni) X(rzi) X(rmi) X(rpi) X(rna) X(volatile) X(relaxed) X(acquire)     \
	X(release) X(acq_rel) X(sc) X(cta) X(gpu) X(sys) X(gl) X(ca) X(cg) X(cs) X(lu) X(cv)       \
	X(wb) X(wt) X(nc) X(v2) X(v4) X(add) X(min) X(max) X(exch) X(cas) X(inc) X(dec) X(noftz)   \
	X(async) X(commit_group) X(wait_group) X(wait_all) X(sync) X(aligned) X(m8n8) X(x1) X(x2)  \
	X(x4) X(trans) X(m16n8k16) X(m16n8k8) X(m16n8k4) X(row) X(col) X(uni) X(red) X(popc)       \
	X(warp) X(up) X(down) X(bfly) X(idx) X(all) X(any) X(ballot)
#define X(name) W_##name,
typedef enum Word { W_NONE, WORDS(X) WORD_COUNT } Word;
#undef X

// lex.c: tokens of PTX text.
typedef enum { END, NAME, DOT, NUMBER, STRING, MARK } TokenKind;
typedef struct Token {
	TokenKind kind;
	int n, line;
	const char *at;
	Type type;      // of a number: T_S64 for an integer, T_F32 or T_F64 for bits of a float
	uint64_t value; // of a number
} Token;
Token lex(const char **text, int *line); // a MARK of no character is an error
bool is(Token t, const char *text);

// Tables of names: types by lex.c.
Type type_of(const char *name, int n);
const char *type_name(Type t);
int type_size(Type t);
char type_class(Type t);
bool is_signed(Type t);

enum { MAX_WORDS = 12, MAX_ITEMS = 16, MAX_OPERANDS = 6 };

// Item is one register or constant of an operand. Constants, special registers and
// addresses are registers that are set before a warp begins.
typedef struct Item {
	int reg;
	Type type; // of a register as declared; T_NONE for a constant
	enum { REGISTER, INTEGER, FLOAT, SPECIAL, SYMBOL, SINK } kind;
	uint64_t value;
	struct Symbol *symbol;
	bool inverted; // !%p
} Item;

// Operand is a value, a vector of values in braces, or an address in brackets.
typedef struct Operand {
	enum { VALUE, VECTOR, ADDRESS, LABEL } kind;
	int first, count; // of the instruction's items
	int64_t offset;   // of an address
} Operand;

typedef struct Instruction {
	Opcode op;
	int line, words, operands, items;
	Type type[4];
	int types;
	uint64_t has[2]; // a bit for each Word
	int guard;       // a register or -1
	bool guard_not;
	int target;      // of a branch; the function of a call
	int results, arguments; // of a call: how many items are which
	Operand operand[MAX_OPERANDS];
	Item item[MAX_ITEMS];
	const char *label;
} Instruction;
static inline bool has(const Instruction *i, Word w) { return i->has[w >> 6] >> (w & 63) & 1; }
static inline int item_reg(const Instruction *i, int operand) { return i->item[i->operand[operand].first].reg; }

// Symbol is a declared name.
typedef enum { S_REGISTER, S_PARAM, S_FRAME, S_SHARED, S_LOCAL, S_GLOBAL, S_CONST, S_FUNCTION, S_LABEL } SymbolKind;
typedef struct Symbol {
	SymbolKind kind;
	const char *name;
	Type type;
	int index, count; // registers: the first, and how many if the name has a number, else 0
	uint64_t offset, size, align;
	bool dynamic; // shared memory whose size a launch gives
	struct Symbol *next;
} Symbol;

// Special registers.
#define SPECIALS(X)                                                               \
	X(tid, 1) X(ntid, 1) X(ctaid, 1) X(nctaid, 1) X(laneid, 0) X(warpid, 0)       \
	X(nwarpid, 0) X(smid, 0) X(nsmid, 0) X(lanemask_eq, 0) X(lanemask_le, 0)      \
	X(lanemask_lt, 0) X(lanemask_ge, 0) X(lanemask_gt, 0) X(dynamic_smem_size, 0)
#define X(name, vector) R_##name,
typedef enum Special { SPECIALS(X) SPECIAL_COUNT } Special;
#undef X

// Constant is a register that is set before a warp begins.
typedef struct Constant {
	int reg;
	enum { C_VALUE, C_SPECIAL, C_DYNAMIC, C_GLOBAL } kind;
	uint64_t value; // C_SPECIAL: 4*Special + axis; C_GLOBAL: an offset in the module's memory
} Constant;

typedef struct Function {
	const char *name;
	bool entry, defined;
	int begin, end;          // instructions
	Symbol *params[64], *result;
	int param_count;
	uint64_t param_bytes;    // of an entry
	uint64_t shared;         // static bytes
	uint32_t max_threads;    // 0 if not declared
	int back;                // the register that holds where a call returns to
	bool visited, active;    // the search for recursion
} Function;

typedef struct Module {
	Function *functions[128];
	int function_count;
	Instruction *code;
	int code_count, code_room;
	Constant *constants;
	int constant_count, constant_room;
	int registers;
	uint64_t frame;  // bytes of the parameters of calls
	uint64_t local;  // bytes of local memory of a thread
	uint64_t shared; // bytes of shared variables outside of functions
	char *global;    // the first values of global and constant variables
	uint64_t global_bytes, global_room;
	uint64_t global_at; // where they lie on the device
	Symbol *globals;
	struct Chunk *chunks; // memory that lives as long as the module
} Module;

// parse.c
Module *parse(const char *text, char *error, size_t error_size);
void module_free(Module *m);
void *keep(Module *m, size_t n);

// check.c: the types of operands, against forms.c. check returns NULL or what is wrong.
typedef struct Form {
	Opcode op;
	const char *words, *operands;
} Form;
extern const Form forms[];
extern const int form_count;
Opcode op_of(const char *name, int n);
const char *op_name(Opcode op);
Word word_of(const char *name, int n);
const char *check(Instruction *i, const char *words[], const int lengths[], int count);

// watch.c: what a launch did, and what it did wrong.
typedef struct Report {
	uint64_t instructions, sectors, fewest_sectors, conflicts, global_bytes;
	char findings[8][192];
	int finding_count, found;
} Report;

typedef struct Shade { // who touched a byte last
	uint32_t write_phase, write_by, read_phase, read_by;
} Shade;

// View is a range of device memory as a launch sees it.
typedef struct View {
	uint64_t at, size;
	char *bytes;
	int access;
	Shade *shades;
	char *written; // NULL where it isn't known what was written
} View;

typedef struct Copy { // of cp.async, not done yet
	int lane;
	uint32_t group;
	uint64_t to, from, n, zeros;
	struct Copy *next;
} Copy;

typedef struct Warp {
	struct Block *block;
	uint64_t *regs;  // [register][lane]
	uint32_t *known; // the lanes in which a register has a value
	char *frame, *local;
	int index, pc[32];
	uint32_t live, at_barrier, at_sync; // lanes
	uint32_t phase;  // bar.warp.sync so far
	int barrier;     // its number
	uint32_t barrier_threads;
	Copy *copies, **last_copy;
	uint32_t groups[32];
} Warp;

typedef struct Launch {
	const Module *module;
	const Function *function;
	uint32_t grid[3], block[3], shared;
	const char *params;
	uint64_t seed;
	View views[64];
	int view_count, last_view;
	Report *report;
	int result; // 0 or the code of cuda.h
	jmp_buf stop;
} Launch;

typedef struct Block {
	Launch *launch;
	uint32_t at[3];
	char *shared;
	uint64_t shared_bytes;
	Shade *shades;
	uint32_t phase, first_phase; // a phase ends at a barrier; phases of a launch differ
	Warp *warps;
	int warp_count, threads;
} Block;

enum { ILLEGAL_ADDRESS = 700, MISALIGNED = 716, LAUNCH_FAILED = 719 };
// Addresses of shared and local memory as generic addresses, and of parameters of calls.
#define SHARED_WINDOW (1ull << 56)
#define LOCAL_WINDOW (2ull << 56)
#define FRAME_WINDOW (3ull << 56)

_Noreturn void stop(Warp *w, int line, int code, const char *format, ...) __attribute__((format(printf, 4, 5)));
void found(Warp *w, int line, const char *format, ...) __attribute__((format(printf, 3, 4)));
typedef enum { TOUCH_READ, TOUCH_WRITE, TOUCH_ATOMIC } Touch;
void touch(Warp *w, int lane, int line, Shade *s, uint64_t n, Touch how, bool shared, uint64_t address);
void fill(Warp *w, int line, char *written, uint64_t n, Touch how, uint64_t address);
void watch_global(Warp *w, uint32_t mask, const uint64_t address[32], int size);
void watch_shared(Warp *w, uint32_t mask, const uint64_t address[32], int size);

// Lane loops. get checks that the register has a value.
#define LANES(mask) \
	for (uint32_t m_ = (mask), lane; m_ && (lane = (uint32_t)__builtin_ctz(m_), 1); m_ &= m_ - 1)
const uint64_t *get(Warp *w, const Instruction *i, int item, uint32_t mask);
void put(Warp *w, const Item *to, uint32_t mask, const uint64_t value[32]);

// number.c: formats of floats.
float f32_of(uint64_t bits);
uint64_t f32_bits(float f);
double f64_of(uint64_t bits);
uint64_t f64_bits(double d);
double half_of(uint64_t bits, Type t); // F16 or BF16
uint64_t round_to(double d, Type t, Word mode); // to F16, BF16, TF32, F32 or F64
double float_of(uint64_t bits, Type t);
uint64_t extend(uint64_t bits, Type t); // by the sign of a signed type
uint64_t narrow(uint64_t bits, int size);
void rounding(const Instruction *i);
float flush(float f);

// approx.c
double approximate(const Instruction *i, double x, double y, uint64_t seed);

// module.c: the memory of devices. view_of fills in the range of an address; other_bytes
// finds memory of the host that the device may use.
bool view_of(uint64_t address, View *v);
char *other_bytes(uint64_t address, uint64_t n, int access);

// access.c
typedef enum { A_GENERIC, A_GLOBAL, A_SHARED, A_LOCAL, A_PARAM } Space;
Space space_of(const Instruction *i);
// locate returns the bytes at an address, or stops the launch. It reports the touch.
char *locate(Warp *w, const Instruction *i, int lane, Space s, uint64_t address, uint64_t n, Touch how);
void addresses(Warp *w, const Instruction *i, int operand, uint32_t mask, uint64_t out[32]);
void run_ld(Warp *w, const Instruction *i, uint32_t mask);
void run_st(Warp *w, const Instruction *i, uint32_t mask);

// The rest that runs instructions.
void run_arithmetic(Warp *w, const Instruction *i, uint32_t mask);
void run_cvt(Warp *w, const Instruction *i, uint32_t mask);
void run_atomic(Warp *w, const Instruction *i, uint32_t mask);
void run_async(Warp *w, const Instruction *i, uint32_t mask);
void finish_copies(Warp *w, const Instruction *i, uint32_t mask, uint32_t pending);
void run_ldmatrix(Warp *w, const Instruction *i);
void run_mma(Warp *w, const Instruction *i);
bool compare(const Instruction *i, uint64_t a, uint64_t b);

// warp.c: run_warp runs lanes until all of them wait at a barrier or have exited.
void run_warp(Warp *w);

// block.c: returns 0 or the code of cuda.h.
int run(Launch *l);
#endif
