// What a launch did (sectors, bank conflicts) and what it did wrong (races, reads of
// values that nothing wrote).
#include "ptx.h"

#include <stdarg.h>
#include <stdio.h>
#include <string.h>

// describe adds a finding to the report, unless it has it.
static void describe(Warp *w, int line, const char *format, va_list args) {
	Report *r = w->block->launch->report;
	char text[160], full[sizeof r->findings[0]];
	vsnprintf(text, sizeof text, format, args);
	snprintf(full, sizeof full, "line %d: %s", line, text);
	r->found++;
	for (int k = 0; k < r->finding_count; k++) {
		if (strncmp(r->findings[k], full, strcspn(full, ",")) == 0) return;
	}
	if (r->finding_count < (int)(sizeof r->findings / sizeof *r->findings)) {
		memcpy(r->findings[r->finding_count++], full, sizeof full);
	}
}

void found(Warp *w, int line, const char *format, ...) {
	va_list args;
	va_start(args, format);
	describe(w, line, format, args);
	va_end(args);
}

void stop(Warp *w, int line, int code, const char *format, ...) {
	va_list args;
	va_start(args, format);
	describe(w, line, format, args);
	va_end(args);
	w->block->launch->result = code;
	longjmp(w->block->launch->stop, 1);
}

// by packs who touched a byte: 10 bits the thread, 21 bits the phase of its warp, 1 bit
// whether several threads of the warp did.
#define MANY_OF_WARP (1u << 31)
enum { ATOMICS = 0xffffffff, MANY = 0xfffffffe };

static uint32_t by(const Warp *w, int lane) { return (uint32_t)(w->index * 32 + lane) | (w->phase & 0x1fffff) << 10; }

// unordered reports whether nothing orders a touch by a before one by b of the same phase.
static bool unordered(uint32_t a, uint32_t b) {
	if (a == MANY || a == ATOMICS) return true;
	if ((a & 0x3e0) != (b & 0x3e0)) return true; // another warp
	if ((a >> 10 & 0x1fffff) != (b >> 10 & 0x1fffff)) return false;
	return a & MANY_OF_WARP || (a & 31) != (b & 31);
}

static bool races(const Block *b, uint32_t phase, uint32_t who, uint32_t me) {
	if (!phase) return false;
	return phase < b->first_phase || (phase == b->phase && unordered(who, me));
}

static void reads(const Block *b, Shade *s, uint32_t me) {
	if (s->read_phase < b->first_phase && s->read_phase) {
		s->read_by = MANY; // blocks before
	} else if (s->read_phase != b->phase) {
		s->read_by = me;
	} else if (s->read_by != MANY && (s->read_by & ~MANY_OF_WARP) != me) {
		uint32_t other = s->read_by ^ me;
		if (other & 0x3e0) s->read_by = MANY;
		else s->read_by = other & 0x7ffffc00 ? me : me | MANY_OF_WARP;
	}
	s->read_phase = b->phase;
}

void touch(Warp *w, int lane, int line, Shade *s, uint64_t n, Touch how, bool shared, uint64_t address) {
	const Block *b = w->block;
	uint32_t me = by(w, lane);
	const char *where = shared ? "shared" : "global";
	for (uint64_t k = 0; k < n; k++, s++) {
		if (shared && how != TOUCH_WRITE && !s->write_phase) {
			found(w, line, "read of shared memory that nothing wrote, at %#llx", (unsigned long long)(address + k));
		}
		bool both = how == TOUCH_ATOMIC && s->write_by == ATOMICS;
		if (!both && races(b, s->write_phase, s->write_by, me)) {
			found(w, line, "race in %s memory with a write, at %#llx", where, (unsigned long long)(address + k));
		}
		if (how != TOUCH_READ && races(b, s->read_phase, s->read_by, me)) {
			found(w, line, "race in %s memory with a read, at %#llx", where, (unsigned long long)(address + k));
		}
		if (how == TOUCH_READ) {
			reads(b, s, me);
		} else {
			s->write_phase = b->phase;
			s->write_by = how == TOUCH_ATOMIC ? ATOMICS : me;
		}
	}
}

// fill checks that what is read of global memory was written, and notes what is written.
void fill(Warp *w, int line, char *written, uint64_t n, Touch how, uint64_t address) {
	for (uint64_t k = 0; k < n; k++) {
		if (how != TOUCH_WRITE && !written[k]) {
			found(w, line, "read of global memory that nothing wrote, at %#llx", (unsigned long long)(address + k));
		}
		if (how != TOUCH_READ) written[k] = 1;
	}
}

static int distinct(uint64_t v[], int n) {
	for (int i = 1; i < n; i++) {
		uint64_t x = v[i];
		int k = i;
		for (; k && v[k - 1] > x; k--) v[k] = v[k - 1];
		v[k] = x;
	}
	int m = 0;
	for (int i = 0; i < n; i++) {
		if (!i || v[i] != v[i - 1]) v[m++] = v[i];
	}
	return m;
}

// watch_global counts the 32-byte sectors of one access of a warp, and the fewest that
// could have held its bytes. Accesses are aligned, so each lies in one sector.
void watch_global(Warp *w, uint32_t mask, const uint64_t address[32], int size) {
	Report *r = w->block->launch->report;
	uint64_t v[32];
	int n = 0;
	LANES(mask) v[n++] = address[lane];
	n = distinct(v, n);
	uint64_t bytes = (uint64_t)n * size;
	for (int k = 0; k < n; k++) v[k] /= 32;
	r->sectors += distinct(v, n);
	r->fewest_sectors += (bytes + 31) / 32;
	r->global_bytes += bytes;
}

// watch_shared counts how many more turns than one the 32 banks of 4 bytes need. An access
// of 8 or 16 bytes is made by half or a quarter of the warp at a time.
void watch_shared(Warp *w, uint32_t mask, const uint64_t address[32], int size) {
	int lanes = size <= 4 ? 32 : 128 / size;
	for (int first = 0; first < 32; first += lanes) {
		uint64_t v[64];
		int n = 0, banks[32] = {0}, most = 0;
		uint32_t part = mask & (lanes == 32 ? ~0u : ((1u << lanes) - 1) << first);
		LANES(part) {
			for (int at = 0; at < size; at += 4) v[n++] = (address[lane] + at) / 4;
		}
		n = distinct(v, n);
		for (int k = 0; k < n; k++) {
			if (++banks[v[k] % 32] > most) most = banks[v[k] % 32];
		}
		if (most > 1) w->block->launch->report->conflicts += most - 1;
	}
}
