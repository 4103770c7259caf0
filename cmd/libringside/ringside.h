/* ringside.h is the C interface of ringside, in libringside.so.
 *
 * Version. RINGSIDE_VERSION counts the changes that break callers; ringside_version
 * returns that of the library. Callers compare the two before any other call.
 *
 *     1   groups of ranks and their calls
 *
 * Errors. A function that can fail returns NULL, or a text for people: what failed, its
 * value, what was expected. The caller frees it by ringside_free. Results are then not
 * written.
 *
 * Handles. Groups, openings and started calls are numbers, never pointers. A handle is
 * used once: after its object is closed or done it is refused.
 *
 * Ownership. Buffers and arrays are the caller's. A call may read and write them until
 * it is done: for ringside_call that is its return, for ringside_start the moment when
 * ringside_wait reports RINGSIDE_DONE, whatever happens to the handle. Other arguments
 * are copied.
 *
 * Threads. Any thread may call any function, several at a time. The calls of one group
 * run in the order in which they were issued, one after the other: threads must agree on
 * an order that is the same on all ranks. Sends and receives are apart from that order.
 *
 * Processes. The library starts threads at its first use. A process that is forked after
 * that has none of them: there every function returns an error. Fork before the first use,
 * or start a new program.
 *
 * Signals. The library handles none. ringside_call returns an error soon after a signal
 * if the program gave a function by ringside_on_wait; ringside_wait and
 * ringside_open_step return after the time that the caller gives.
 */
#ifndef RINGSIDE_H
#define RINGSIDE_H

#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define RINGSIDE_VERSION 1

typedef uint64_t ringside_handle; /* 0 is none */

/* How far something is. */
enum { RINGSIDE_PENDING = 0, RINGSIDE_EXCHANGE = 1, RINGSIDE_DONE = 2 };

/* Kinds of calls, with their buffers: whole is a part for each rank, in rank order. */
enum {
	RINGSIDE_ALL_REDUCE = 1,     /* dst: the result; src: an operand; may be the same */
	RINGSIDE_REDUCE = 2,         /* the same; dst is used on the root alone */
	RINGSIDE_REDUCE_SCATTER = 3, /* dst: this rank's part; src: the whole */
	RINGSIDE_ALL_GATHER = 4,     /* dst: the whole; src: this rank's part */
	RINGSIDE_BROADCAST = 5,      /* dst: the values, of the root; no src */
	RINGSIDE_SCATTER = 6,        /* dst: this rank's part; src: the root's whole */
	RINGSIDE_GATHER = 7,         /* dst: the root's whole; src: this rank's part */
	RINGSIDE_ALL_TO_ALL = 8,     /* dst: a part from each rank; src: a part for each rank */
	RINGSIDE_BARRIER = 9,        /* no buffers */
	/* These two run beside the other calls, and those of one peer and tag in their order. op
	 * is the tag. */
	RINGSIDE_SEND = 10,          /* dst: the values; peer: the receiver */
	RINGSIDE_RECV = 11           /* dst: the values; peer: the sender, -1 for any */
};

/* Reductions. The bitwise ones are for integers, the mean is for floats. */
enum {
	RINGSIDE_SUM = 1, RINGSIDE_PROD = 2, RINGSIDE_MIN = 3, RINGSIDE_MAX = 4,
	RINGSIDE_AND = 5, RINGSIDE_OR = 6, RINGSIDE_XOR = 7, RINGSIDE_MEAN = 8
};

/* Element types. BOOL cannot be reduced. */
enum {
	RINGSIDE_F32 = 1, RINGSIDE_F64 = 2, RINGSIDE_I32 = 3, RINGSIDE_I64 = 4,
	RINGSIDE_U8 = 5, RINGSIDE_BOOL = 6, RINGSIDE_F16 = 7, RINGSIDE_BF16 = 8
};

/* ringside_version returns the library's RINGSIDE_VERSION. */
uint32_t ringside_version(void);

/* ringside_free frees a text. NULL is allowed. */
void ringside_free(char *text);

/* ringside_open begins to make the group of size ranks, of which this process is rank.
 * Every rank calls it. A rank that keeps the others waiting in a call for longer than
 * timeout_ms fails it; 0 is the default, 30 s. name is what errors call the group. The
 * secret, of secret_bytes, is the same on all ranks and known to no others; without one
 * all ranks must be on one host. The ranks then exchange values: see ringside_open_step. */
char *ringside_open(int32_t rank, int32_t size, int64_t timeout_ms, const char *name,
	const void *secret, int64_t secret_bytes, ringside_handle *opening);

/* ringside_open_step waits, at most wait_ms, and says what is to be done:
 *
 *     RINGSIDE_PENDING   call it again
 *     RINGSIDE_EXCHANGE  *bytes of value are to be given to every rank, this one too:
 *                        collect those of all ranks and call ringside_open_give
 *     RINGSIDE_DONE      *group is the group, and the opening is gone
 *
 * value has room for RINGSIDE_VALUE bytes. After an error the opening is gone. */
#define RINGSIDE_VALUE 4096
char *ringside_open_step(ringside_handle opening, int64_t wait_ms, int32_t *state,
	void *value, int64_t *bytes, ringside_handle *group);

/* ringside_open_give gives the values of all ranks, one after the other in rank order;
 * bytes has the length of each. */
char *ringside_open_give(ringside_handle opening, const void *values, const int64_t *bytes,
	int32_t ranks);

/* ringside_close closes a group, an opening, or forgets a started call, which goes on. */
char *ringside_close(ringside_handle handle);

/* ringside_call makes a call of a group on this thread and returns when it is done. op is
 * for reductions, or a tag, else 0; peer is the root or the other rank, else 0. send has elements
 * by rank of src, recv of dst, where parts differ; NULL: parts of one length. */
char *ringside_call(ringside_handle group, int32_t kind, int32_t op, int32_t dtype,
	int32_t peer, void *dst, int64_t dst_bytes, const void *src, int64_t src_bytes,
	const int64_t *send, const int64_t *recv);

/* ringside_start starts a call and returns its handle. Calls that are issued later wait
 * for it, unless it is a send or receive. */
char *ringside_start(ringside_handle group, int32_t kind, int32_t op, int32_t dtype,
	int32_t peer, void *dst, int64_t dst_bytes, const void *src, int64_t src_bytes,
	const int64_t *send, const int64_t *recv, ringside_handle *work);

/* ringside_wait waits for a started call, at most wait_ms; negative: until its end. It
 * returns RINGSIDE_PENDING or RINGSIDE_DONE in *state, or the call's error. In both of
 * the latter cases the handle is gone. */
char *ringside_wait(ringside_handle work, int64_t wait_ms, int32_t *state);

/* ringside_wait_from is ringside_wait that with RINGSIDE_DONE returns the other rank of a
 * send or receive in *from: of a receive from any rank the sender. */
char *ringside_wait_from(ringside_handle work, int64_t wait_ms, int32_t *state, int32_t *from);

/* ringside_on_wait gives the functions of an interpreter of Python, which a ringside_call
 * on the process's first thread then calls about every 20 ms while it waits:
 * PyGILState_Ensure, PyGILState_Release, PyErr_CheckSignals and PyErr_Fetch. When a
 * handler raises, the call ends with an error, its group fails on all ranks, and
 * ringside_raised returns what was raised, once, as PyErr_Fetch does: references that
 * PyErr_Restore takes. It returns 0 if nothing was raised. */
void ringside_on_wait(int (*ensure)(void), void (*release)(int), int (*check)(void),
	void (*fetch)(void **, void **, void **));
int32_t ringside_raised(void **type, void **value, void **traceback);

#ifdef __cplusplus
}
#endif
#endif
