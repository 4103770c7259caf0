// Tokens of PTX text, and the names of types.
#include "ptx.h"

#include <ctype.h>
#include <stdlib.h>
#include <string.h>

static bool in_name(char c) { return isalnum((unsigned char)c) || c == '_' || c == '$'; }

static const char *skip(const char *p, int *line) {
	for (;;) {
		if (*p == '\n') {
			++*line;
			p++;
		} else if (isspace((unsigned char)*p)) {
			p++;
		} else if (p[0] == '/' && p[1] == '/') {
			while (*p && *p != '\n') p++;
		} else if (p[0] == '/' && p[1] == '*') {
			for (p += 2; *p && !(p[0] == '*' && p[1] == '/'); p++) {
				if (*p == '\n') ++*line;
			}
			if (*p) p += 2;
		} else {
			return p;
		}
	}
}

// number reads 12, 0x1f, 017, 0b11, 1.5, 0f3F800000 or 0d3FF0000000000000.
static const char *number(Token *t) {
	const char *p = t->at;
	char *end;
	t->kind = NUMBER;
	t->type = T_S64;
	if (p[0] == '0' && (p[1] == 'f' || p[1] == 'F' || p[1] == 'd' || p[1] == 'D')) {
		bool wide = p[1] == 'd' || p[1] == 'D';
		t->type = wide ? T_F64 : T_F32;
		t->value = strtoull(p + 2, &end, 16);
		if (end - p != (wide ? 18 : 10) || !isxdigit((unsigned char)p[2])) t->kind = MARK;
		return end;
	}
	bool hex = p[0] == '0' && (p[1] == 'x' || p[1] == 'X');
	bool binary = p[0] == '0' && (p[1] == 'b' || p[1] == 'B');
	t->value = binary ? strtoull(p + 2, &end, 2) : strtoull(p, &end, 0);
	if (!hex && !binary && (*end == '.' || *end == 'e' || *end == 'E')) {
		double d = strtod(p, &end);
		memcpy(&t->value, &d, 8);
		t->type = T_F64;
	}
	if (*end == 'U') end++;
	if (in_name(*end)) t->kind = MARK;
	return end;
}

Token lex(const char **text, int *line) {
	const char *p = skip(*text, line);
	Token t = {.kind = MARK, .at = p, .line = *line};
	if (!*p) {
		t.kind = END;
	} else if (*p == '.' && in_name(p[1])) {
		t.kind = DOT;
		for (p++; in_name(*p) || (p[0] == ':' && p[1] == ':') || (p[0] == ':' && p[-1] == ':'); p++) {
		}
	} else if (isdigit((unsigned char)*p)) {
		p = number(&t);
		if (t.kind == MARK) t.n = 0, p = t.at;
	} else if (in_name(*p) || (*p == '%' && in_name(p[1]))) {
		t.kind = NAME;
		for (p++; in_name(*p); p++) {
		}
	} else if (*p == '"') {
		t.kind = STRING;
		for (p++; *p && *p != '"'; p++) {
		}
		if (*p) p++;
	} else {
		p++;
	}
	t.n = (int)(p - t.at);
	*text = p;
	return t;
}

bool is(Token t, const char *text) { return (int)strlen(text) == t.n && memcmp(t.at, text, t.n) == 0; }

#define X(name, text, size, class) {text, size, class},
static const struct {
	const char *name;
	int size;
	char class;
} types[] = {{"", 0, 0}, TYPES(X)};
#undef X

Type type_of(const char *name, int n) {
	for (size_t i = 1; i < sizeof types / sizeof *types; i++) {
		if ((int)strlen(types[i].name) == n && memcmp(types[i].name, name, n) == 0) return (Type)i;
	}
	return T_NONE;
}

const char *type_name(Type t) { return types[t].name; }
int type_size(Type t) { return types[t].size; }
char type_class(Type t) { return types[t].class; }
bool is_signed(Type t) { return t >= T_S8 && t <= T_S64; }
