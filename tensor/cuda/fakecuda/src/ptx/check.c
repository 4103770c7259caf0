// The check of an instruction: its words and the types of its operands have one of the
// forms of forms.c.
#include "ptx.h"

#include <string.h>

#define X(name) #name,
static const char *op_names[] = {"", OPS(X)};
static const char *word_names[] = {"", WORDS(X)};
#undef X

static int find(const char *const table[], int count, const char *name, int n) {
	for (int i = 1; i < count; i++) {
		if ((int)strlen(table[i]) == n && memcmp(table[i], name, n) == 0) return i;
	}
	return 0;
}

Opcode op_of(const char *name, int n) { return (Opcode)find(op_names, OP_COUNT, name, n); }
const char *op_name(Opcode op) { return op_names[op]; }
Word word_of(const char *name, int n) { return (Word)find(word_names, WORD_COUNT, name, n); }

static bool one_of(const char *slot, int length, const char *word, int n) {
	for (const char *end = slot + length; slot < end;) {
		const char *bar = memchr(slot, '|', end - slot);
		int m = (int)((bar ? bar : end) - slot);
		if (m == n && memcmp(slot, word, n) == 0) return true;
		slot += m + 1;
	}
	return false;
}

// match compares words with a form's and sets the types and words of the instruction.
static bool match(Instruction *i, const char *form, const char *words[], const int lengths[], int count) {
	int next = 0;
	i->types = 0;
	i->has[0] = i->has[1] = 0;
	while (*form) {
		int n = (int)strcspn(form, " ");
		bool optional = form[n - 1] == '?';
		if (next < count && one_of(form, n - optional, words[next], lengths[next])) {
			Type t = type_of(words[next], lengths[next]);
			Word w = word_of(words[next], lengths[next]);
			if (t) i->type[i->types++] = t;
			else i->has[w >> 6] |= 1ull << (w & 63);
			next++;
		} else if (!optional) {
			return false;
		}
		form += n + (form[n] == ' ');
	}
	return next == count;
}

static bool same_class(Type a, Type b) {
	char x = type_class(a), y = type_class(b);
	return x == 'b' || y == 'b' ? x != 'p' && y != 'p' : x == y;
}

static bool constant_fits(const Item *c, Type t) {
	switch (type_class(t)) {
	case 'f': return c->kind == FLOAT && t != T_F16 && t != T_F16X2;
	case 'i': return c->kind == INTEGER;
	case 'p': return c->kind == INTEGER;
	}
	return t != T_BF16 && t != T_BF16X2;
}

// fits reports whether an item may be an operand of type t. A wide register may hold a
// narrow value of ld, st and cvt, but not of a float.
static bool fits(const Item *it, Type t, bool destination, bool wider) {
	if (it->kind == SINK) return destination && !wider;
	if (it->inverted) return false;
	if (it->kind == INTEGER || it->kind == FLOAT) return !destination && constant_fits(it, t);
	if (it->kind != REGISTER) return false;
	if (!same_class(it->type, t)) return false;
	int have = type_size(it->type), want = type_size(t);
	if (!wider) return have == want;
	return type_class(it->type) == 'f' ? have == want : have >= want;
}

static bool is_predicate(const Item *it, bool destination) {
	if (it->kind == SINK) return destination;
	return it->kind == REGISTER && it->type == T_PRED && !(destination && it->inverted);
}

static Type doubled(Type t) {
	switch (t) {
	case T_U16: return T_U32;
	case T_S16: return T_S32;
	case T_U32: return T_U64;
	default: return T_S64;
	}
}

static bool vector(const Instruction *i, const Operand *o, int count, Type t, bool destination, bool wider) {
	if (o->kind != (count == 1 ? VALUE : VECTOR) && !(count == 1 && o->kind == VECTOR && i->op != O_ld && i->op != O_st)) return false;
	if (o->count != count) return false;
	for (int k = 0; k < count; k++) {
		if (!fits(&i->item[o->first + k], t, destination, wider)) return false;
	}
	return true;
}

// parts checks a vector whose items together have the size of the type.
static bool parts(const Instruction *i, const Operand *o, bool destination) {
	if (o->kind != VECTOR || (o->count != 2 && o->count != 4)) return false;
	int part = type_size(i->type[0]) / o->count;
	for (int k = 0; k < o->count; k++) {
		const Item *it = &i->item[o->first + k];
		if (it->kind == SINK && destination) continue;
		if (it->kind != REGISTER || type_class(it->type) == 'p' || type_size(it->type) != part) return false;
	}
	return part > 1;
}

static bool address(const Instruction *i, const Operand *o) {
	if (o->kind != ADDRESS) return false;
	const Item *it = &i->item[o->first];
	bool param = has(i, W_param);
	if (it->kind == SYMBOL) {
		SymbolKind k = it->symbol->kind;
		if (param) return k == S_PARAM || k == S_FRAME;
		if (has(i, W_global)) return k == S_GLOBAL || (i->op == O_cp && k == S_SHARED);
		if (has(i, W_shared)) return k == S_SHARED;
		if (has(i, W_local)) return k == S_LOCAL;
		if (has(i, W_const)) return k == S_CONST;
		return k == S_GLOBAL || k == S_SHARED || k == S_LOCAL || k == S_CONST;
	}
	if (param) return false; // ptxas wants a name
	if (it->kind == REGISTER) { // addresses of shared and local memory fit 32 bits
		int least = has(i, W_shared) || has(i, W_local) || i->op == O_ldmatrix ? 4 : 8;
		return type_size(it->type) >= least && same_class(it->type, T_U64) && type_class(it->type) != 'f';
	}
	return it->kind == INTEGER;
}

// operand_fits checks one operand against its letter in a form.
static bool operand_fits(const Instruction *i, const Operand *o, char letter) {
	const Item *it = &i->item[o->first];
	bool value = o->kind == VALUE && o->count == 1;
	Type t = i->type[0];
	int width = has(i, W_v4) ? 4 : has(i, W_v2) ? 2 : 1;
	switch (letter) {
	case 'D': return value && fits(it, t, true, false);
	case 'S': return value && (t == T_PRED ? is_predicate(it, false) && !it->inverted : fits(it, t, false, false));
	case 'd': return value && fits(it, doubled(t), true, false);
	case 'w': return value && fits(it, doubled(t), false, false);
	case 'U': return value && fits(it, T_U32, true, false);
	case 'u': return value && fits(it, T_U32, false, false);
	case 's': return value && fits(it, T_F32, false, false);
	case 'i': return value && it->kind == INTEGER;
	case 'P': return value && is_predicate(it, true);
	case 'p': return value && is_predicate(it, false);
	case 'Q':
		return o->kind == VALUE && o->count <= 2 && is_predicate(it, true) && (o->count == 1 || is_predicate(it + 1, true));
	case 'R':
		return o->kind == VALUE && o->count <= 2 && fits(it, t, true, false) && (o->count == 1 || is_predicate(it + 1, true));
	case 'X':
		if (value && it->kind == SYMBOL) return (t == T_U64 || t == T_B64 || t == T_S64 || t == T_U32 || t == T_B32) && it->symbol->kind != S_FUNCTION;
		if (value && it->kind == SPECIAL) return i->op == O_mov && (t == T_U32 || t == T_B32 || t == T_S32);
		if (value && t == T_PRED) return it->kind == INTEGER || (is_predicate(it, false) && !it->inverted);
		return value && fits(it, t, false, false);
	case 'K': return parts(i, o, false);
	case 'k': return parts(i, o, true);
	case 'M': return address(i, o);
	case 'V': return vector(i, o, width, t, true, true);
	case 'v': return vector(i, o, width, t, false, true);
	case 'L': return o->kind == LABEL;
	case 'Z': return value && fits(it, t, true, true);
	case 'z': return value && fits(it, i->type[1], false, true);
	case 'N': return vector(i, o, has(i, W_x4) ? 4 : has(i, W_x2) ? 2 : 1, T_B32, true, false) && o->kind == VECTOR;
	case 'A': return vector(i, o, 4, T_B32, false, false);
	case 'B': case 'h': return vector(i, o, 2, T_B32, false, false);
	case 'H': return vector(i, o, 2, T_B32, true, false);
	case 'C': return vector(i, o, 4, T_F32, true, false);
	case 'c': return vector(i, o, 4, T_F32, false, false);
	}
	return false;
}

static const char *operands(const Instruction *i, const char *letters) {
	int next = 0;
	bool optional = false;
	for (; *letters; letters++) {
		if (*letters == '?') {
			optional = true;
			continue;
		}
		if (next == i->operands) return optional ? NULL : "too few operands";
		if (!operand_fits(i, &i->operand[next], *letters)) return "an operand of the wrong kind or type";
		next++;
	}
	return next == i->operands ? NULL : "too many operands";
}

// sizes checks the constants and widths that the words don't say.
static const char *limits(const Instruction *i) {
	if (i->op == O_ld || i->op == O_st) {
		int width = has(i, W_v4) ? 4 : has(i, W_v2) ? 2 : 1;
		if (width * type_size(i->type[0]) > 16) return "a vector of more than 16 bytes";
	}
	if (i->op == O_cp && i->operands >= 3) {
		uint64_t n = i->item[i->operand[2].first].value;
		if (has(i, W_cg) ? n != 16 : n != 4 && n != 8 && n != 16) return "cp.async of another size than 4, 8 or 16, or 16 with .cg";
	}
	if (i->op == O_lop3 && i->item[i->operand[4].first].value > 255) return "a table of lop3 above 255";
	if ((i->op == O_bar && !has(i, W_warp)) || i->op == O_barrier) {
		const Operand *o = &i->operand[has(i, W_red) ? 1 : 0];
		if (i->item[o->first].kind == INTEGER && i->item[o->first].value > 15) return "a barrier above 15";
	}
	return NULL;
}

const char *check(Instruction *i, const char *words[], const int lengths[], int count) {
	const char *wrong = NULL;
	for (int f = 0; f < form_count; f++) {
		if (forms[f].op != i->op || !match(i, forms[f].words, words, lengths, count)) continue;
		wrong = operands(i, forms[f].operands);
		if (!wrong) return limits(i);
	}
	return wrong ? wrong : "no such combination of modifiers and types";
}
