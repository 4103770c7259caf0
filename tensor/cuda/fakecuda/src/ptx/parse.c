// From PTX text to a Module: directives, declarations in nested scopes, instructions.
// Everything that the text may say wrong ends in fail, which leaves parse.
#include "ptx.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_DEPTH = 32 };

typedef struct Pending { // a branch whose label has not been seen
	int instruction, depth;
	struct Pending *next;
} Pending;

typedef struct Parser {
	Module *m;
	const char *text;
	int line;
	Token t; // the next token
	Symbol *scope[MAX_DEPTH];
	int depth;
	Pending *pending;
	Function *f;
	bool external; // of the declaration that is being read
	jmp_buf failed;
	char *error;
	size_t error_size;
} Parser;

struct Chunk {
	struct Chunk *next;
	char bytes[];
};

void *keep(Module *m, size_t n) {
	struct Chunk *c = calloc(1, sizeof *c + n);
	c->next = m->chunks;
	m->chunks = c;
	return c->bytes;
}

void module_free(Module *m) {
	for (struct Chunk *c = m->chunks, *next; c; c = next) {
		next = c->next;
		free(c);
	}
	free(m->code);
	free(m->constants);
	free(m->global);
	free(m);
}

__attribute__((format(printf, 2, 3))) static _Noreturn void fail(Parser *p, const char *format, ...) {
	char why[256];
	va_list args;
	va_start(args, format);
	vsnprintf(why, sizeof why, format, args);
	va_end(args);
	if (p->error_size) snprintf(p->error, p->error_size, "line %d: %s", p->t.line, why);
	longjmp(p->failed, 1);
}

static void next(Parser *p) {
	p->t = lex(&p->text, &p->line);
	if (p->t.kind == MARK && p->t.n == 0) fail(p, "a number that can't be read");
}

static bool mark(Parser *p, const char *text) {
	if ((p->t.kind != MARK && p->t.kind != DOT) || !is(p->t, text)) return false;
	next(p);
	return true;
}

static void want(Parser *p, const char *text) {
	if (!mark(p, text)) fail(p, "want %s, not %.*s", text, p->t.n, p->t.at);
}

static const char *name(Parser *p) {
	if (p->t.kind != NAME) fail(p, "want a name, not %.*s", p->t.n, p->t.at);
	char *s = keep(p->m, p->t.n + 1);
	memcpy(s, p->t.at, p->t.n);
	next(p);
	return s;
}

static uint64_t integer(Parser *p) {
	if (p->t.kind != NUMBER || p->t.type != T_S64) fail(p, "want an integer, not %.*s", p->t.n, p->t.at);
	uint64_t v = p->t.value;
	next(p);
	return v;
}

// Scopes.

static Symbol *in_scope(Parser *p, int depth, const char *s) {
	for (Symbol *y = p->scope[depth]; y; y = y->next) {
		if (y->count == 0 && strcmp(y->name, s) == 0) return y;
	}
	for (Symbol *y = p->scope[depth]; y; y = y->next) {
		size_t n = strlen(y->name);
		if (y->count == 0 || strncmp(y->name, s, n) != 0 || s[n] < '0' || s[n] > '9') continue;
		char *end;
		long k = strtol(s + n, &end, 10);
		if (!*end && k < y->count && (s[n] != '0' || !s[n + 1])) {
			Symbol *one = keep(p->m, sizeof *one);
			*one = *y;
			one->index += (int)k;
			one->name = s;
			return one;
		}
	}
	return NULL;
}

static Symbol *lookup(Parser *p, const char *s) {
	for (int d = p->depth; d >= 0; d--) {
		Symbol *y = in_scope(p, d, s);
		if (y) return y;
	}
	return NULL;
}

static Symbol *declare(Parser *p, const char *s, SymbolKind kind, Type t) {
	for (Symbol *y = p->scope[p->depth]; y; y = y->next) {
		if (strcmp(y->name, s) == 0) fail(p, "%s is declared twice", s);
	}
	Symbol *y = keep(p->m, sizeof *y);
	*y = (Symbol){.kind = kind, .name = s, .type = t, .next = p->scope[p->depth]};
	p->scope[p->depth] = y;
	return y;
}

static void open_scope(Parser *p) {
	if (++p->depth == MAX_DEPTH) fail(p, "more than %d nested scopes", MAX_DEPTH);
	p->scope[p->depth] = NULL;
}

// close_scope gives branches their targets. One whose label isn't here may have it in the
// scope around.
static void close_scope(Parser *p) {
	for (Pending **at = &p->pending; *at;) {
		Pending *b = *at;
		Instruction *i = &p->m->code[b->instruction];
		Symbol *y = b->depth == p->depth ? in_scope(p, p->depth, i->label) : NULL;
		if (y && y->kind != S_LABEL) fail(p, "%s is not a label", i->label);
		if (y) {
			i->target = y->index;
			*at = b->next;
			continue;
		}
		if (b->depth == p->depth && --b->depth == 0) fail(p, "no label %s", i->label);
		at = &b->next;
	}
	p->depth--;
}

// Declarations.

static uint64_t aligned(uint64_t n, uint64_t to) { return (n + to - 1) / to * to; }

static int new_register(Parser *p) { return p->m->registers++; }

static void registers(Parser *p) {
	if (p->t.kind != DOT) fail(p, "want a type of registers");
	Type t = type_of(p->t.at + 1, p->t.n - 1);
	if (!t || t == T_B8 || t == T_U8 || t == T_S8 || t == T_BF16 || t == T_BF16X2 || t == T_TF32) {
		fail(p, "no registers of type %.*s", p->t.n, p->t.at);
	}
	next(p);
	do {
		const char *s = name(p);
		Symbol *y = declare(p, s, S_REGISTER, t);
		int n = 1;
		if (mark(p, "<")) {
			y->count = n = (int)integer(p);
			if (n < 1 || n > 1 << 20) fail(p, "%d registers", n);
			want(p, ">");
		}
		y->index = p->m->registers;
		p->m->registers += n;
	} while (mark(p, ","));
	want(p, ";");
}

// variable reads what follows the state space, as ".align 4 .b8 x[128]".
static Symbol *variable(Parser *p, SymbolKind kind) {
	uint64_t align = 0;
	Type t = T_NONE;
	int vector = 1;
	while (p->t.kind == DOT) {
		if (mark(p, ".align")) {
			align = integer(p);
			if (!align || align & (align - 1) || align > 128) fail(p, "an alignment of %llu", (unsigned long long)align);
		} else if (!t && mark(p, ".v2")) {
			vector = 2;
		} else if (!t && mark(p, ".v4")) {
			vector = 4;
		} else if (kind == S_PARAM && mark(p, ".ptr")) {
			if (p->t.kind == DOT && !is(p->t, ".align")) next(p); // the space that it points to
		} else if (!t && (t = type_of(p->t.at + 1, p->t.n - 1)) && t != T_PRED) {
			next(p);
		} else {
			fail(p, "%.*s in a declaration", p->t.n, p->t.at);
		}
	}
	if (!t || t == T_BF16 || t == T_BF16X2 || t == T_TF32) fail(p, "a variable without a type that it may have");
	Symbol *y = declare(p, name(p), kind, t);
	uint64_t n = vector;
	if (vector > 1 && (kind == S_PARAM || kind == S_FRAME) && !is(p->t, "[")) fail(p, "a vector in .param is an element of an array");
	while (mark(p, "[")) {
		if (is(p->t, "]")) y->dynamic = true;
		if (y->dynamic && !(p->external && kind == S_SHARED)) fail(p, "%s has no size", y->name);
		if (!y->dynamic) n *= integer(p);
		want(p, "]");
	}
	y->size = y->dynamic ? 0 : n * type_size(t);
	y->align = align ? align : (uint64_t)type_size(t) * vector;
	if (y->size > 1 << 30) fail(p, "%s has %llu bytes", y->name, (unsigned long long)y->size);
	return y;
}

static uint64_t place(Symbol *y, uint64_t *top) {
	y->offset = aligned(*top, y->align);
	*top = y->offset + y->size;
	return y->offset;
}

static void global_room(Module *m, uint64_t n) {
	if (n > m->global_room) {
		m->global = realloc(m->global, n * 2);
		memset(m->global + m->global_room, 0, n * 2 - m->global_room);
		m->global_room = n * 2;
	}
}

static uint64_t literal(Parser *p, Type t) {
	bool negative = mark(p, "-");
	if (p->t.kind != NUMBER) fail(p, "want a number, not %.*s", p->t.n, p->t.at);
	Token n = p->t;
	next(p);
	double d = n.type == T_F32 ? f32_of(n.value) : n.type == T_F64 ? f64_of(n.value) : (double)n.value;
	if (negative) d = -d;
	if (t == T_F32) return f32_bits((float)d);
	if (t == T_F64) return f64_bits(d);
	return negative ? -n.value : n.value;
}

static void initial_values(Parser *p, Symbol *y) {
	Module *m = p->m;
	bool list = mark(p, "{");
	uint64_t at = y->offset, n = type_size(y->type);
	do {
		if (at + n > y->offset + y->size) fail(p, "too many values for %s", y->name);
		uint64_t v = literal(p, y->type);
		memcpy(m->global + at, &v, n);
		at += n;
	} while (list && mark(p, ","));
	if (list) want(p, "}");
}

static void global_variable(Parser *p, SymbolKind kind) {
	Symbol *y = variable(p, kind);
	place(y, &p->m->global_bytes);
	global_room(p->m, p->m->global_bytes);
	if (mark(p, "=")) initial_values(p, y);
	p->m->globals = p->scope[0];
	want(p, ";");
}

static void shared_variable(Parser *p) {
	Symbol *y = variable(p, S_SHARED);
	if (!y->dynamic) place(y, p->f && p->f->entry ? &p->f->shared : &p->m->shared);
	want(p, ";");
}

// Instructions.

static int constant(Parser *p, int kind, uint64_t value) {
	Module *m = p->m;
	for (int i = 0; i < m->constant_count; i++) {
		if ((int)m->constants[i].kind == kind && m->constants[i].value == value) return m->constants[i].reg;
	}
	if (m->constant_count == m->constant_room) {
		m->constant_room = m->constant_room * 2 + 64;
		m->constants = realloc(m->constants, m->constant_room * sizeof *m->constants);
	}
	int reg = new_register(p);
	Constant *c = &m->constants[m->constant_count++];
	c->reg = reg;
	c->kind = kind;
	c->value = value;
	return reg;
}

#define X(name, vector) {"%" #name, vector},
static const struct {
	const char *name;
	int vector;
} specials[] = {SPECIALS(X)};
#undef X

static bool special(Parser *p, Item *it) {
	for (int s = 0; s < SPECIAL_COUNT; s++) {
		if (!is(p->t, specials[s].name)) continue;
		next(p);
		int axis = 0;
		if (specials[s].vector) {
			axis = is(p->t, ".x") ? 0 : is(p->t, ".y") ? 1 : is(p->t, ".z") ? 2 : -1;
			if (axis < 0) fail(p, "%s without .x, .y or .z", specials[s].name);
			next(p);
		}
		*it = (Item){.kind = SPECIAL, .reg = constant(p, C_SPECIAL, 4 * s + axis)};
		return true;
	}
	return false;
}

static Item *new_item(Parser *p, Instruction *i) {
	if (i->items == MAX_ITEMS) fail(p, "more than %d registers in an instruction", MAX_ITEMS);
	return &i->item[i->items++];
}

static void number_item(Parser *p, Item *it, bool negative) {
	*it = (Item){.kind = p->t.type == T_S64 ? INTEGER : FLOAT, .value = p->t.value};
	if (it->kind == FLOAT && p->t.type == T_F32) it->value = f64_bits(f32_of(p->t.value));
	if (negative) it->value = it->kind == INTEGER ? -it->value : it->value ^ 1ull << 63;
	next(p);
}

static void item(Parser *p, Instruction *i) {
	Item *it = new_item(p, i);
	bool inverted = mark(p, "!"), negative = !inverted && mark(p, "-");
	if (p->t.kind == NUMBER && !inverted) {
		number_item(p, it, negative);
	} else if (p->t.kind != NAME || negative) {
		fail(p, "want an operand, not %.*s", p->t.n, p->t.at);
	} else if (is(p->t, "_")) {
		next(p);
		*it = (Item){.kind = SINK, .reg = -1};
	} else if (is(p->t, "WARP_SZ")) {
		next(p);
		*it = (Item){.kind = INTEGER, .value = 32};
	} else if (!special(p, it)) {
		const char *s = name(p);
		Symbol *y = lookup(p, s);
		if (!y) fail(p, "%s is not declared", s);
		*it = (Item){.kind = y->kind == S_REGISTER ? REGISTER : SYMBOL, .reg = y->index, .type = y->type, .symbol = y};
	}
	it->inverted = inverted;
}

// symbol_offset reads the rest of "name+4" or "name+-4".
static int64_t symbol_offset(Parser *p) {
	int64_t offset = 0;
	while (mark(p, "+")) {
		bool minus = mark(p, "-");
		uint64_t n = integer(p);
		offset += minus ? -(int64_t)n : (int64_t)n;
	}
	return offset;
}

static void operand(Parser *p, Instruction *i) {
	if (i->operands == MAX_OPERANDS) fail(p, "more than %d operands", MAX_OPERANDS);
	Operand *o = &i->operand[i->operands++];
	*o = (Operand){.kind = VALUE, .first = i->items};
	if (mark(p, "[")) {
		o->kind = ADDRESS;
		item(p, i);
		o->offset = symbol_offset(p);
		want(p, "]");
	} else if (mark(p, "{")) {
		o->kind = VECTOR;
		do item(p, i);
		while (mark(p, ","));
		want(p, "}");
	} else {
		item(p, i);
		if (i->item[i->items - 1].kind == SYMBOL) o->offset = symbol_offset(p);
		if (mark(p, "|")) item(p, i);
	}
	o->count = i->items - o->first;
}

// symbol_register returns the register that holds a name's address.
static int symbol_register(Parser *p, const Instruction *i, const Operand *o, const Symbol *y) {
	bool generic = o->kind == ADDRESS && !has(i, W_shared) && !has(i, W_local) && i->op != O_cp && i->op != O_ldmatrix;
	uint64_t at = y->offset + (o->kind == VALUE ? o->offset : 0);
	switch (y->kind) {
	case S_PARAM: return constant(p, C_VALUE, at);
	case S_FRAME: return constant(p, C_VALUE, at + FRAME_WINDOW);
	case S_LOCAL: return constant(p, C_VALUE, at + (generic ? LOCAL_WINDOW : 0));
	case S_SHARED:
		if (y->dynamic) return constant(p, C_DYNAMIC, generic ? SHARED_WINDOW : 0);
		return constant(p, C_VALUE, at + (generic ? SHARED_WINDOW : 0));
	case S_GLOBAL: case S_CONST: return constant(p, C_GLOBAL, at);
	default: fail(p, "%s has no address", y->name);
	}
}

// settle gives constants and names their registers, once the types are known.
static void settle(Parser *p, Instruction *i) {
	Type t = i->op == O_cvt ? i->type[1] : i->type[0];
	for (int n = 0; n < i->operands; n++) {
		Operand *o = &i->operand[n];
		for (int k = o->first; k < o->first + o->count; k++) {
			Item *it = &i->item[k];
			if (it->kind == FLOAT) it->reg = constant(p, C_VALUE, type_size(t) == 8 ? it->value : f32_bits((float)f64_of(it->value)));
			if (it->kind == INTEGER) it->reg = constant(p, C_VALUE, it->value);
			if (it->kind == SYMBOL && o->kind != LABEL) it->reg = symbol_register(p, i, o, it->symbol);
		}
	}
}

static Instruction *append(Parser *p, const Instruction *i) {
	Module *m = p->m;
	if (m->code_count == m->code_room) {
		m->code_room = m->code_room * 2 + 256;
		m->code = realloc(m->code, m->code_room * sizeof *m->code);
	}
	m->code[m->code_count] = *i;
	return &m->code[m->code_count++];
}

static void call_names(Parser *p, Instruction *i) {
	if (is(p->t, ")")) return;
	do {
		item(p, i);
		if (i->item[i->items - 1].kind != SYMBOL || i->item[i->items - 1].symbol->kind != S_FRAME) {
			fail(p, "a call passes variables of .param alone");
		}
	} while (mark(p, ","));
}

static Function *function_named(Module *m, const char *s) {
	for (int k = 0; k < m->function_count; k++) {
		if (strcmp(m->functions[k]->name, s) == 0) return m->functions[k];
	}
	return NULL;
}

static void call(Parser *p, Instruction *i) {
	mark(p, ".uni");
	if (mark(p, "(")) {
		call_names(p, i);
		want(p, ")");
		want(p, ",");
	}
	i->results = i->items;
	const char *s = name(p);
	Function *f = function_named(p->m, s);
	if (!f || f->entry) fail(p, "no function %s", s);
	for (i->target = 0; p->m->functions[i->target] != f; i->target++) {
	}
	if (mark(p, ",")) {
		want(p, "(");
		call_names(p, i);
		want(p, ")");
	}
	i->arguments = i->items - i->results;
	if (i->results != (f->result != NULL) || i->arguments != f->param_count) fail(p, "%s takes %d arguments", s, f->param_count);
	for (int k = 0; k < i->items; k++) {
		const Symbol *formal = k < i->results ? f->result : f->params[k - i->results];
		if (i->item[k].symbol->size != formal->size) fail(p, "%s: sizes of arguments differ", s);
	}
	append(p, i);
}

static void branch(Parser *p, Instruction *i) {
	i->label = name(p);
	i->operand[0] = (Operand){.kind = LABEL};
	i->operands = 1;
	Pending *b = keep(p->m, sizeof *b);
	*b = (Pending){p->m->code_count, p->depth, p->pending};
	p->pending = b;
}

static void guard(Parser *p, Instruction *i) {
	i->guard = -1;
	if (!mark(p, "@")) return;
	i->guard_not = mark(p, "!");
	const char *s = name(p);
	Symbol *y = lookup(p, s);
	if (!y || y->kind != S_REGISTER || y->type != T_PRED) fail(p, "%s is not a predicate", s);
	i->guard = y->index;
}

static void instruction(Parser *p) {
	Instruction i = {.line = p->t.line};
	guard(p, &i);
	if (p->t.kind != NAME || !(i.op = op_of(p->t.at, p->t.n))) fail(p, "no instruction %.*s", p->t.n, p->t.at);
	next(p);
	if (i.op == O_call) {
		call(p, &i);
		want(p, ";");
		return;
	}
	const char *words[MAX_WORDS];
	int lengths[MAX_WORDS];
	for (; p->t.kind == DOT; next(p)) {
		if (i.words == MAX_WORDS) fail(p, "too many words after %s", op_name(i.op));
		words[i.words] = p->t.at + 1;
		lengths[i.words++] = p->t.n - 1;
	}
	if (i.op == O_bra) {
		branch(p, &i);
	} else if (!is(p->t, ";")) {
		do operand(p, &i);
		while (mark(p, ","));
	}
	const char *wrong = check(&i, words, lengths, i.words);
	if (wrong) fail(p, "%s: %s", op_name(i.op), wrong);
	settle(p, &i);
	if (i.guard >= 0 && i.op == O_call) fail(p, "a call with a predicate");
	append(p, &i);
	want(p, ";");
}

static bool label(Parser *p) {
	const char *text = p->text;
	int line = p->line;
	if (p->t.kind != NAME || !is(lex(&text, &line), ":")) return false;
	Symbol *y = declare(p, name(p), S_LABEL, T_NONE);
	y->index = p->m->code_count;
	want(p, ":");
	return true;
}

static void body(Parser *p) {
	open_scope(p);
	for (;;) {
		if (mark(p, "}")) break;
		if (p->t.kind == END) fail(p, "the text ends in a function");
		if (mark(p, "{")) body(p);
		else if (mark(p, ".reg")) registers(p);
		else if (mark(p, ".shared")) shared_variable(p);
		else if (mark(p, ".local")) place(variable(p, S_LOCAL), &p->m->local), want(p, ";");
		else if (mark(p, ".param")) place(variable(p, S_FRAME), &p->m->frame), want(p, ";");
		else if (mark(p, ".pragma")) next(p), want(p, ";");
		else if (!label(p)) instruction(p);
	}
	close_scope(p);
}

// Functions.

static void parameters(Parser *p, Function *f) {
	if (!mark(p, "(")) return;
	while (!mark(p, ")")) {
		if (f->param_count) want(p, ",");
		want(p, ".param");
		Symbol *y = variable(p, f->entry ? S_PARAM : S_FRAME);
		if (f->param_count == 64) fail(p, "more than 64 parameters");
		place(y, f->entry ? &f->param_bytes : &p->m->frame);
		f->params[f->param_count++] = y;
	}
	if (f->param_bytes > 4352) fail(p, "%llu bytes of parameters, at most 4352", (unsigned long long)f->param_bytes);
}

static void tuning(Parser *p, Function *f) {
	for (;;) {
		bool threads = is(p->t, ".maxntid") || is(p->t, ".reqntid");
		if (!threads && !is(p->t, ".minnctapersm") && !is(p->t, ".maxnreg")) return;
		if (!f->entry) fail(p, "%.*s of a function", p->t.n, p->t.at);
		next(p);
		uint64_t n = 1;
		do n *= integer(p);
		while (mark(p, ","));
		if (threads) f->max_threads = (uint32_t)n;
	}
}

static bool same_parameters(const Function *a, const Function *b) {
	bool same = a->param_count == b->param_count && !a->result == !b->result;
	for (int k = 0; same && k < a->param_count; k++) same = a->params[k]->size == b->params[k]->size;
	return same;
}

static void function(Parser *p, bool entry) {
	p->external = false;
	Function *f = keep(p->m, sizeof *f);
	*f = (Function){.entry = entry, .shared = p->m->shared};
	open_scope(p);
	if (!entry && mark(p, "(")) {
		want(p, ".param");
		f->result = variable(p, S_FRAME);
		place(f->result, &p->m->frame);
		want(p, ")");
	}
	f->name = name(p);
	parameters(p, f);
	tuning(p, f);
	Function *before = function_named(p->m, f->name);
	if (before && (before->defined || before->entry || entry || !same_parameters(before, f))) fail(p, "%s is declared twice", f->name);
	if (in_scope(p, 0, f->name)) fail(p, "%s is declared twice", f->name);
	if (before) {
		Function declared = *before;
		*before = *f;
		before->back = declared.back;
		f = before;
	} else {
		if (p->m->function_count == 128) fail(p, "more than 128 functions");
		f->back = new_register(p);
		p->m->functions[p->m->function_count++] = f;
	}
	if (!entry && mark(p, ";")) {
		p->depth--;
		return;
	}
	want(p, "{");
	p->f = f;
	f->defined = true;
	f->begin = p->m->code_count;
	body(p);
	Instruction end = {.op = entry ? O_exit : O_ret, .guard = -1, .line = p->line};
	append(p, &end);
	f->end = p->m->code_count;
	p->f = NULL;
	close_scope(p);
}

static void no_recursion(Parser *p, Function *f) {
	if (f->active) fail(p, "%s calls itself, which the stand-in can't", f->name);
	if (!f->defined) fail(p, "%s is not defined", f->name);
	if (f->visited) return;
	f->visited = f->active = true;
	for (int i = f->begin; i < f->end; i++) {
		if (p->m->code[i].op == O_call) no_recursion(p, p->m->functions[p->m->code[i].target]);
	}
	f->active = false;
}

static void header(Parser *p) {
	want(p, ".version");
	if (p->t.kind != NUMBER || p->t.type != T_F64) fail(p, "want a version, as 7.5");
	double v = f64_of(p->t.value);
	if (v < 6 || v > 8.4) fail(p, "version %.1f, want 6.0 to 8.4", v);
	next(p);
	want(p, ".target");
	const char *target = name(p);
	if (strcmp(target, "sm_80") && strcmp(target, "sm_86") && strcmp(target, "sm_89") && strcmp(target, "sm_90")) {
		fail(p, "target %s, want sm_80, sm_86, sm_89 or sm_90", target);
	}
	if (mark(p, ".address_size") && integer(p) != 64) fail(p, "addresses of another size than 64");
}

static void top(Parser *p) {
	header(p);
	while (p->t.kind != END) {
		p->external = mark(p, ".extern");
		bool linked = p->external || mark(p, ".visible") || mark(p, ".weak");
		if (mark(p, ".entry")) function(p, true);
		else if (mark(p, ".func")) function(p, false);
		else if (mark(p, ".global")) global_variable(p, S_GLOBAL);
		else if (mark(p, ".const")) global_variable(p, S_CONST);
		else if (mark(p, ".shared")) shared_variable(p);
		else fail(p, "%.*s %s", p->t.n, p->t.at, linked ? "can't be linked" : "outside of a function");
	}
	for (int k = 0; k < p->m->function_count; k++) {
		if (p->m->functions[k]->defined) no_recursion(p, p->m->functions[k]);
	}
}

Module *parse(const char *text, char *error, size_t error_size) {
	Parser *p = calloc(1, sizeof *p);
	*p = (Parser){.m = calloc(1, sizeof(Module)), .text = text, .line = 1, .error = error, .error_size = error_size};
	if (setjmp(p->failed)) {
		module_free(p->m);
		p->m = NULL;
	} else {
		next(p);
		top(p);
	}
	Module *m = p->m;
	free(p);
	return m;
}
