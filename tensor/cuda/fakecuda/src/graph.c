// Captures and graphs. A stream in a capture adds what it is given to a graph, as a node
// behind the nodes that it stands after. A launch is one operation of a stream: it runs
// the nodes one by one, in an order that the seed gives and the graph allows.
#include "graph.h"

#include <stdlib.h>
#include <string.h>

#include "order.h"

enum { GLOBAL = 0, RELAXED = 2 }; // between them lies thread-local
enum { ACTIVE = 1, INVALIDATED = 2 };
enum { TOPOLOGY_CHANGED = 2, TYPE_CHANGED = 3 };

typedef struct Node {
	Op op;
	Set after; // nodes with lower numbers
} Node;

// Nodes never change once their capture has ended. Graphs, instances and launches share
// them.
typedef struct Nodes {
	int refs, count;
	Node *node;
} Nodes;

// A capture that ended stays in the list, for events that were recorded in it.
struct Capture {
	Nodes *nodes;
	Stream *origin, *streams[16];
	int stream_count, mode, state; // state 0: it has ended
	pthread_t thread;
	Capture *next;
};

typedef struct Graph {
	Nodes *nodes;
	bool instance;
	struct Graph *next;
} Graph;

static Capture *captures;
static Graph *graphs; // and their instances
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static void set_add(Set *s, int node) {
	for (int k = 0; k < s->count; k++) {
		if (s->node[k] == node) return;
	}
	s->node = realloc(s->node, (s->count + 1) * sizeof *s->node);
	s->node[s->count++] = node;
}

static Set set_copy(const Set *s) {
	Set c = {.count = s->count, .node = malloc(s->count * sizeof *s->node + 1)};
	memcpy(c.node, s->node, s->count * sizeof *s->node);
	return c;
}

static void leave(Place *p) {
	free(p->after.node);
	*p = (Place){0};
}

static void release(Nodes *n) {
	if (__atomic_sub_fetch(&n->refs, 1, __ATOMIC_ACQ_REL)) return;
	for (int k = 0; k < n->count; k++) {
		free(n->node[k].op.staged);
		free(n->node[k].after.node);
	}
	free(n->node);
	free(n);
}

// Refusals. Each invalidates the captures that it concerns.

static bool concerns(const Capture *c, Concern how) {
	if (!c->state) return false;
	if (how == LEGACY) {
		for (int k = 0; k < c->stream_count; k++) {
			if (stream_blocks(c->streams[k])) return true;
		}
		return false;
	}
	return how == ALL || (c->mode != RELAXED && (c->mode == GLOBAL || pthread_equal(c->thread, pthread_self())));
}

Result capture_refuses(Concern how) {
	Result r = OK;
	pthread_mutex_lock(&lock);
	for (Capture *c = captures; c; c = c->next) {
		if (!concerns(c, how)) continue;
		c->state = INVALIDATED;
		r = how == LEGACY ? CAPTURE_IMPLICIT : CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

Result capture_refuses_unsafe(void) { return capture_refuses(UNSAFE); }

Result capture_refuses_stream(Stream *s) {
	if (!s) return capture_refuses(LEGACY);
	Result r = OK;
	pthread_mutex_lock(&lock);
	Capture *c = stream_place(s)->capture;
	if (c) {
		c->state = INVALIDATED;
		r = CAPTURE_UNSUPPORTED;
	}
	pthread_mutex_unlock(&lock);
	return r;
}

Result capture_refuses_event(Event *e) {
	if (!event_captured(e)) return capture_refuses(UNSAFE);
	pthread_mutex_lock(&lock);
	Capture *c = event_place(e)->capture;
	if (c->state) c->state = INVALIDATED;
	pthread_mutex_unlock(&lock);
	return CAPTURED_EVENT;
}

// Captures.

bool capture_takes(Stream *s, const Op *op, Result *r) {
	if (!s) {
		*r = capture_refuses(LEGACY);
		if (*r) free(op->staged);
		return *r != OK;
	}
	pthread_mutex_lock(&lock);
	Place *p = stream_place(s);
	bool takes = p->capture != NULL;
	if (takes && p->capture->state == INVALIDATED) {
		free(op->staged);
		*r = CAPTURE_INVALIDATED;
	} else if (takes) {
		Nodes *n = p->capture->nodes;
		n->node = realloc(n->node, (n->count + 1) * sizeof *n->node);
		n->node[n->count] = (Node){*op, p->after};
		p->after = (Set){0};
		set_add(&p->after, n->count++);
		*r = OK;
	}
	pthread_mutex_unlock(&lock);
	return takes;
}

bool capture_records(Stream *s, Event *e) {
	pthread_mutex_lock(&lock);
	leave(event_place(e));
	Place *p = s ? stream_place(s) : NULL;
	bool records = p && p->capture;
	if (records) *event_place(e) = (Place){p->capture, set_copy(&p->after)};
	pthread_mutex_unlock(&lock);
	return records;
}

bool event_captured(Event *e) {
	pthread_mutex_lock(&lock);
	bool is = event_place(e)->capture != NULL;
	pthread_mutex_unlock(&lock);
	return is;
}

// joined puts the stream s behind an event of the capture c.
static Result joined(Stream *s, Capture *c, const Place *event) {
	Place *p = stream_place(s);
	if (c->state == INVALIDATED) return CAPTURE_INVALIDATED;
	if (!c->state) return CAPTURED_EVENT;
	if (p->capture && p->capture != c) {
		p->capture->state = c->state = INVALIDATED;
		return CAPTURE_MERGE;
	}
	if (!p->capture) {
		if (c->stream_count == (int)(sizeof c->streams / sizeof *c->streams)) return NOT_SUPPORTED;
		c->streams[c->stream_count++] = s;
		p->capture = c;
	}
	for (int k = 0; k < event->after.count; k++) set_add(&p->after, event->after.node[k]);
	return OK;
}

bool capture_waits(Stream *s, Event *e, Result *r) {
	pthread_mutex_lock(&lock);
	const Place *event = event_place(e);
	Place *p = s ? stream_place(s) : NULL;
	bool waits = event->capture || (p && p->capture);
	if (waits) {
		if (!event->capture) {
			p->capture->state = INVALIDATED;
			*r = CAPTURE_ISOLATION;
		} else {
			*r = s ? joined(s, event->capture, event) : CAPTURE_IMPLICIT;
		}
	}
	pthread_mutex_unlock(&lock);
	return waits;
}

API Result cuStreamBeginCapture_v2(Stream *s, int mode) {
	ENTER_CONTEXT;
	if (mode < GLOBAL || mode > RELAXED) return INVALID_VALUE;
	if (!valid_stream(s)) return INVALID_HANDLE;
	if (!s) return CAPTURE_UNSUPPORTED;
	pthread_mutex_lock(&lock);
	Place *p = stream_place(s);
	bool free_now = !p->capture;
	if (free_now) {
		Capture *c = calloc(1, sizeof *c);
		*c = (Capture){.nodes = calloc(1, sizeof(Nodes)), .origin = s, .streams = {s}, .stream_count = 1,
			.mode = mode, .state = ACTIVE, .thread = pthread_self(), .next = captures};
		c->nodes->refs = 1;
		captures = c;
		p->capture = c;
	}
	pthread_mutex_unlock(&lock);
	return free_now ? OK : ILLEGAL_STATE;
}

// all_joined reports whether the origin stands behind all nodes that other streams stand
// after.
static bool all_joined(const Capture *c) {
	bool *before = calloc(c->nodes->count + 1, 1), all = true;
	const Set *end = &stream_place(c->origin)->after;
	for (int k = 0; k < end->count; k++) before[end->node[k]] = true;
	for (int n = c->nodes->count - 1; n >= 0; n--) {
		const Set *after = &c->nodes->node[n].after;
		for (int k = 0; k < after->count && before[n]; k++) before[after->node[k]] = true;
	}
	for (int s = 0; s < c->stream_count; s++) {
		const Set *after = &stream_place(c->streams[s])->after;
		for (int k = 0; k < after->count; k++) all &= before[after->node[k]];
	}
	free(before);
	return all;
}

static Graph *add(Nodes *n, bool instance) {
	Graph *g = calloc(1, sizeof *g);
	*g = (Graph){n, instance, graphs};
	graphs = g;
	count(GRAPHS, 1);
	return g;
}

// end ends a capture and returns its graph; NULL if it is invalid. The caller holds the
// lock.
static Result end(Capture *c, Graph **out) {
	Result r = c->state == INVALIDATED ? CAPTURE_INVALIDATED : all_joined(c) ? OK : CAPTURE_UNJOINED;
	for (int k = 0; k < c->stream_count; k++) leave(stream_place(c->streams[k]));
	c->state = 0;
	if (r) release(c->nodes);
	*out = r ? NULL : add(c->nodes, false);
	c->nodes = NULL;
	return r;
}

API Result cuStreamEndCapture(Stream *s, Graph **out) {
	ENTER_CONTEXT;
	if (!valid_stream(s)) return INVALID_HANDLE;
	if (!s) return ILLEGAL_STATE;
	Result r;
	pthread_mutex_lock(&lock);
	Capture *c = stream_place(s)->capture;
	if (!c) r = ILLEGAL_STATE;
	else if (c->origin != s) r = CAPTURE_UNMATCHED;
	else if (c->mode != RELAXED && !pthread_equal(c->thread, pthread_self())) r = CAPTURE_WRONG_THREAD;
	else r = end(c, out);
	pthread_mutex_unlock(&lock);
	return r;
}

API Result cuStreamIsCapturing(Stream *s, int *status) {
	ENTER_CONTEXT;
	if (!valid_stream(s)) return INVALID_HANDLE;
	*status = 0;
	if (!s) return capture_refuses(LEGACY);
	pthread_mutex_lock(&lock);
	Capture *c = stream_place(s)->capture;
	if (c) *status = c->state;
	pthread_mutex_unlock(&lock);
	return OK;
}

// Graphs.

// taken returns the nodes of a graph or an instance with one more reference; NULL if it
// does not exist.
static Nodes *taken(const Graph *g, bool instance) {
	Nodes *n = NULL;
	pthread_mutex_lock(&lock);
	const Graph *x = graphs;
	while (x && x != g) x = x->next;
	if (x && x->instance == instance) {
		n = x->nodes;
		__atomic_add_fetch(&n->refs, 1, __ATOMIC_ACQ_REL);
	}
	pthread_mutex_unlock(&lock);
	return n;
}

API Result cuGraphGetNodes(Graph *g, void **nodes, size_t *n) {
	ENTER;
	if (nodes) return NOT_SUPPORTED; // nodes have no handles here
	Nodes *all = taken(g, false);
	if (!all) return INVALID_VALUE;
	*n = all->count;
	release(all);
	return OK;
}

API Result cuGraphInstantiateWithFlags(Graph **out, Graph *g, unsigned long long flags) {
	ENTER_CONTEXT;
	if (flags) return NOT_SUPPORTED;
	Nodes *n = taken(g, false);
	if (!n) return INVALID_VALUE;
	pthread_mutex_lock(&lock);
	*out = add(n, true);
	pthread_mutex_unlock(&lock);
	return OK;
}

// UpdateResult is CUgraphExecUpdateResultInfo.
typedef struct {
	int result;
	void *node, *from;
} UpdateResult;

static int changed(const Nodes *a, const Nodes *b) {
	if (a->count != b->count) return TOPOLOGY_CHANGED;
	for (int k = 0; k < a->count; k++) {
		const Node *x = &a->node[k], *y = &b->node[k];
		if (x->op.run != y->op.run) return TYPE_CHANGED;
		if (x->after.count != y->after.count || memcmp(x->after.node, y->after.node, x->after.count * sizeof(int))) return TOPOLOGY_CHANGED;
	}
	return 0;
}

API Result cuGraphExecUpdate_v2(Graph *instance, Graph *g, UpdateResult *info) {
	ENTER_CONTEXT;
	Nodes *n = taken(g, false), *old = taken(instance, true);
	Result r = !n || !old ? INVALID_VALUE : OK;
	if (r == OK && (info->result = changed(old, n))) r = UPDATE_FAILED;
	if (r == OK) {
		pthread_mutex_lock(&lock);
		instance->nodes = n;
		pthread_mutex_unlock(&lock);
		release(old);
		n = NULL;
	}
	if (n) release(n);
	if (old) release(old);
	return r;
}

static void run_graph(Op *op) {
	Nodes *n = op->object;
	uint64_t seed = order_seed();
	int *order = malloc(n->count * sizeof *order + 1), left = n->count;
	bool *done = calloc(n->count + 1, 1);
	shuffle(order, n->count, &seed);
	while (left) {
		for (int k = 0; k < n->count; k++) {
			const Node *x = &n->node[order[k]];
			bool ready = !done[order[k]];
			for (int j = 0; j < x->after.count; j++) ready &= done[x->after.node[j]];
			if (!ready) continue;
			Op one = x->op;
			one.run(&one);
			done[order[k]] = true;
			left--;
		}
	}
	free(order);
	free(done);
	release(n);
}

API Result cuGraphUpload(Graph *instance, Stream *s) {
	ENTER_CONTEXT;
	if (!valid_stream(s)) return INVALID_HANDLE;
	Nodes *n = taken(instance, true);
	if (!n) return INVALID_VALUE;
	release(n);
	return capture_refuses_stream(s);
}

API Result cuGraphLaunch(Graph *instance, Stream *s) {
	ENTER_CONTEXT;
	if (!valid_stream(s)) return INVALID_HANDLE;
	Result r = capture_refuses_stream(s); // a graph within a graph
	if (r) return r;
	Nodes *n = taken(instance, true);
	if (!n) return INVALID_VALUE;
	return submit(s, &(Op){.run = run_graph, .object = n});
}

static Result destroy(Graph *g, bool instance) {
	pthread_mutex_lock(&lock);
	Graph **at = &graphs;
	while (*at && *at != g) at = &(*at)->next;
	bool found = *at && g->instance == instance;
	if (found) *at = g->next;
	pthread_mutex_unlock(&lock);
	if (!found) return INVALID_VALUE;
	release(g->nodes);
	free(g);
	count(GRAPHS, -1);
	return OK;
}

API Result cuGraphExecDestroy(Graph *instance) {
	ENTER;
	return destroy(instance, true);
}

API Result cuGraphDestroy(Graph *g) {
	ENTER;
	return destroy(g, false);
}
