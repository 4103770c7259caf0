/* ringside.h is the C interface of ringside, in libringside.so.
 *
 * Version. RINGSIDE_VERSION counts the changes that break callers; ringside_version
 * returns that of the library. Callers compare the two before any other call.
 *
 *     1   groups of ranks and their calls
 *     2   sessions and tensors
 *     3   ringside_record, and checkpoints
 *     4   ringside_call and ringside_start take a ringside_request; ringside_record reads
 *     5   ringside_record computes gradients and steps, in place of functions of their own
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

#define RINGSIDE_VERSION 5

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

/* ringside_request is a call of a group. Fields that a call does not use are 0. */
typedef struct {
	ringside_handle group;
	int32_t kind;
	int32_t op;   /* of reductions; of sends and receives the tag */
	int32_t dtype;
	int32_t peer; /* the root, or the other rank */
	void *dst;
	int64_t dst_bytes;
	const void *src;
	int64_t src_bytes;
	const int64_t *send; /* elements by rank of src, where parts differ; NULL: one length */
	const int64_t *recv; /* the same of dst */
} ringside_request;

/* ringside_memory returns memory of a group, zeroed, that its ranks on this host read and
 * write in place: large calls on it copy less than on other memory. The group owns it: it
 * is gone after ringside_forget, and after ringside_close. No call may be using it. */
char *ringside_memory(ringside_handle group, int64_t bytes, void **memory);
char *ringside_forget(ringside_handle group, void *memory);

/* ringside_call makes a call of a group on this thread and returns when it is done. A signal
 * handler that runs meanwhile (see ringside_on_wait) can make no call of the group, nor
 * close it. */
#define RINGSIDE_NESTED_TEXT "ringside: a signal handler used the group whose call it interrupts: " \
	"raise an exception there, and use the group where that arrives"
char *ringside_call(const ringside_request *request);

/* ringside_start starts a call and returns its handle. Calls that are issued later wait
 * for it, unless it is a send or receive. */
char *ringside_start(const ringside_request *request, ringside_handle *work);

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

/* ---- Sessions and tensors
 *
 * These functions return a number, or a negative one for a failure, whose text
 * ringside_failure returns. Options are a text in JSON, whose keys are in session.go,
 * optimizer.go, file.go and cluster.go beside this header; "{}" is the defaults.
 *
 * A session is a handle; ringside_close closes it, also while another thread waits in a
 * call of it. Tensors are numbers greater than 0, each of one session, used once, until
 * ringside_drop. Any thread may use a session: calls run one after another. An operation
 * does no I/O; read, view and flush wait, until a signal ends that (see ringside_on_wait):
 * what they wait for goes on, and the session's next call waits for a program of this
 * process. Closing the session stops it.
 *
 * A tensor that was dropped keeps its value as long as the graph of a result needs it. */

#define RINGSIDE_FORKED_TEXT "ringside: this process was forked from one that uses ringside, whose threads it lacks: " \
	"start it by spawn, or use ringside after the fork alone"

/* What every function returns in a forked child. */
#define RINGSIDE_IN_CHILD INT64_MIN

/* What they return in a handler of a signal that interrupts a wait. */
#define RINGSIDE_NESTED (INT64_MIN + 1)

/* What ringside_lend returns without memory for a copy. */
#define RINGSIDE_NO_MEMORY (INT64_MIN + 2)

/* What ringside_record returns when a signal ends its wait for the session, before it has
 * recorded anything. */
#define RINGSIDE_NOT_BEGUN (INT64_MIN + 3)

/* ringside_failure returns the text of a failure, once, for ringside_free: a line with
 * its kind (shape, dtype, index, memory, released, grad, lost, closed, interrupted,
 * handle, refused, missing, or none), and what it says. */
char *ringside_failure(int64_t failure);

/* ringside_table returns the op table and the element types, ringside_about what a
 * session, cluster, optimizer or file is, as JSON in a text for ringside_free. */
int64_t ringside_table(char **json);
int64_t ringside_about(ringside_handle handle, char **json);

/* ringside_tape returns the instructions that the next read runs, and ringside_config what
 * a config of placements says, as ringside_table. file is its name in errors. */
int64_t ringside_tape(ringside_handle session, char **json);
int64_t ringside_config(const char *file, const char *text, char **json);

/* ringside_session opens a session and returns its handle; ringside_cluster starts a
 * dispatcher and workers, which end with this process or by ringside_close. */
int64_t ringside_session(const char *options);
int64_t ringside_cluster(const char *options);

/* ringside_signal returns the number of a signal of that name, for a call's head. */
int64_t ringside_signal(const char *name);

/* ringside_line returns the number of a line of the caller's program, FILE:LINE, for
 * RINGSIDE_LINE. It is 0, which names none, when there are more than 65,536. */
int64_t ringside_line(const char *text);

/* ringside_apply records an operation and returns its result. A call is these words:
 *
 *     session      its handle
 *     head         from the lowest bit: 12 bits operation, 13 number of arguments,
 *                  8 number of attributes, 8 one for each of the first arguments: it is
 *                  a number; 1 no graph; 16 the signal
 *     arguments    tensors, or the bits of a double
 *     attributes   the integers of the op table; of random operations without offset */
int64_t ringside_apply(const int64_t *call);

/* ringside_record makes many calls, one after the other, and then drops n tensors as
 * ringside_drop does, but waits. In a call the head is followed by the number of the
 * result, which the caller chooses: at least RINGSIDE_CHOSEN, and used once. The session
 * is given apart. words counts those of all calls. It returns the first error; the other
 * calls are made, but none after one that says it has more words than there are. Without an error, and with a tensor in item that is not 0, it does what
 * ringside_item does.
 *
 * Three calls are of no operation. Their head is a number below, without the fields of
 * others, and the number of the words that follow is in the place of the result:
 *
 *     RINGSIDE_LINE        the line that errors of the next operation name, by its number
 *                          of ringside_line; else it is that of the caller
 *     RINGSIDE_GRADIENTS   a loss; the gradient of that, 0 for 1; flags; and tensors,
 *                          each with the number of the gradient with respect to it.
 *                          flags: 1 keeps the graph, 2 gives the gradients one, 4 gives
 *                          zeros for tensors that the loss does not depend on
 *     RINGSIDE_STEP        an optimizer; the bits of a double, the learning rate; those
 *                          of the norm that gradients are clipped to, 0 for none; and a
 *                          gradient of each parameter, 0 for none. Without gradients:
 *                          those that ringside_backward left */
enum { RINGSIDE_LINE = 4093, RINGSIDE_GRADIENTS = 4094, RINGSIDE_STEP = 4095 };
#define RINGSIDE_CHOSEN (INT64_C(1) << 62)
int64_t ringside_record(ringside_handle session, const int64_t *calls, int64_t words, const int64_t *dead, int64_t n,
	int64_t item, void *element);

/* ringside_upload copies a memory image, row-major and little endian, and returns the
 * tensor. Of head the last two fields count. */
int64_t ringside_upload(ringside_handle session, int64_t head, int32_t dtype, const void *data,
	int64_t bytes, const int64_t *shape, int64_t rank);

/* ringside_drop drops tensors. Unknown numbers are left out. It never waits: it returns 1,
 * with nothing dropped, while another call of the session is under way. */
int64_t ringside_drop(ringside_handle session, const int64_t *tensors, int64_t n);

/* ringside_describe writes a tensor's element type, 1 if it is a leaf that requires a
 * gradient or 2 if it has a graph, its number of dims, and the dims. */
#define RINGSIDE_MAX_RANK 8
#define RINGSIDE_DESCRIPTION 11
int64_t ringside_describe(ringside_handle session, int64_t tensor, int64_t *description);

/* ringside_scope returns a mark, for mark 0; else it drops the tensors made since the
 * mark, but those to be kept. */
int64_t ringside_scope(ringside_handle session, int64_t mark, const int64_t *keep, int64_t n);

/* ringside_item writes the one element of a tensor, at most 8 bytes, and returns its
 * type. */
int64_t ringside_item(ringside_handle session, int64_t tensor, void *element);

/* ringside_read copies a tensor's memory image. ringside_view returns where it lies, and a
 * handle: the memory is to be read only, and stays as it is until ringside_close. */
int64_t ringside_read(ringside_handle session, int64_t tensor, void *dst, int64_t bytes);
int64_t ringside_view(ringside_handle session, int64_t tensor, void **data, int64_t *bytes);

/* ringside_flush submits what is recorded and, with wait, waits until it has run. */
int64_t ringside_flush(ringside_handle session, int32_t wait);

/* ringside_seed restarts the session's random numbers. */
int64_t ringside_seed(ringside_handle session, int64_t seed);

/* ringside_backward adds the gradients of loss to those of its leaves; output and flags
 * are as in RINGSIDE_GRADIENTS. */
int64_t ringside_backward(ringside_handle session, int64_t loss, int64_t output, int32_t flags);

/* ringside_tensor does something with a tensor, and another. */
enum {
	RINGSIDE_GRADIENT = 1,     /* returns the gradient that backward left, 0 for none */
	RINGSIDE_SET_GRADIENT = 2, /* replaces it; other 0 removes it */
	RINGSIDE_DETACH = 3,       /* returns the same value without a graph */
	RINGSIDE_REQUIRE_GRAD = 4, /* makes it a leaf that requires a gradient */
	RINGSIDE_ASSIGN = 5,       /* gives it the value of other, with its graph */
	RINGSIDE_ASSIGN_VALUE = 6, /* the same without the graph */
	RINGSIDE_SET_SIGNAL = 7    /* gives it the signal of the number other */
};
int64_t ringside_tensor(ringside_handle session, int32_t what, int64_t tensor, int64_t other);

/* ringside_optimizer makes an optimizer of tensors and returns its handle. RINGSIDE_STEP
 * updates them. ringside_state returns its tensors, ringside_restore takes those of another. */
int64_t ringside_optimizer(ringside_handle session, const char *options, const int64_t *params, int64_t n);
int64_t ringside_state(ringside_handle optimizer, int64_t *tensors, int64_t n);
int64_t ringside_restore(ringside_handle optimizer, int64_t steps, const int64_t *tensors, int64_t n);

/* ringside_save writes tensors to a safetensors file, as a whole or not at all.
 * ringside_file opens one and returns its handle; ringside_load makes a tensor of one in
 * it. */
int64_t ringside_save(ringside_handle session, const char *path, const char *options,
	const int64_t *tensors, int64_t n);
int64_t ringside_file(const char *path);
int64_t ringside_load(ringside_handle session, ringside_handle file, const char *name);

/* ringside_checkpoint writes tensors, and the state of the session's random numbers, to a
 * folder (tensor/checkpoint), as a whole or not at all, and replaces the checkpoint there.
 * ringside_resume gives tensors and random numbers the values of one, and returns its step
 * and notes as ringside_table. The tensors have no graph. options are names and, of the
 * first, step, notes and random, as ringside_about told of it, else as it is now. */
int64_t ringside_checkpoint(ringside_handle session, const char *dir, const char *options,
	const int64_t *tensors, int64_t n);
int64_t ringside_resume(ringside_handle session, const char *dir, const char *options,
	const int64_t *tensors, int64_t n, char **json);

/* ringside_lend makes the structures of DLPack of a tensor: out[0] is version 0, out[1]
 * version 1.0; the deleter of either frees both. code and bits are the element type in
 * DLPack. Without a copy the memory is to be read only. ringside_unused is the destructor
 * of a capsule of Python with one of them. */
int64_t ringside_lend(ringside_handle session, int64_t tensor, int32_t copy, int32_t code, int32_t bits, void **out);
void ringside_unused(void *capsule);

/* ringside_on_site has errors name the line of Python that recorded an operation. The
 * functions are PyGILState_Ensure, PyGILState_Release, PyEval_GetFrame, PyFrame_GetBack,
 * PyFrame_GetCode, PyFrame_GetLineNumber, PyObject_GetAttrString, PyUnicode_AsUTF8,
 * Py_IncRef, Py_DecRef, PyErr_Clear, PyCapsule_IsValid and PyCapsule_GetPointer; frames of files in folder are left out. */
void ringside_on_site(void **functions, int32_t n, const char *folder);

#ifdef __cplusplus
}
#endif
#endif
