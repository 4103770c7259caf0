"""The back end "ringside" of torch.distributed, for tensors in the memory of the host:

    import ringside.torch
    torch.distributed.init_process_group("ringside")

Ranks find each other through torch's own store. A call of at most INLINE bytes that is
waited for at once runs on its caller's thread, as do buckets of DDP of that size; the
others run beside it, so that async_op=True and DDP's larger buckets overlap with what the
caller does meanwhile."""

import collections
import ctypes
import datetime
import functools
import operator
import os
import queue
import secrets
import sys
import threading
import time
import weakref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from ringside import RingsideError
from ringside import _native as native

# A call of so many bytes takes about as long as to hand it over to another thread and back.
INLINE = 1 << 20

_FOLDED = {
    torch.float32: native.F32, torch.float64: native.F64, torch.float16: native.F16, torch.bfloat16: native.BF16,
    torch.int32: native.I32, torch.int64: native.I64, torch.uint8: native.U8, torch.bool: native.U8,
}
# Types that are reduced as they are: the library's number, and bytes.
_PLAIN = {dtype: (number, torch.empty(0, dtype=dtype).element_size()) for dtype, number in _FOLDED.items() if dtype != torch.bool}
_WIDER = {torch.int8: torch.int32, torch.int16: torch.int32}  # integers wrap alike in both
_REDUCTIONS = (
    (dist.ReduceOp.SUM, native.SUM), (dist.ReduceOp.PRODUCT, native.PROD), (dist.ReduceOp.MIN, native.MIN),
    (dist.ReduceOp.MAX, native.MAX), (dist.ReduceOp.BAND, native.AND), (dist.ReduceOp.BOR, native.OR),
    (dist.ReduceOp.BXOR, native.XOR), (dist.ReduceOp.AVG, native.MEAN))
# By hash, which is torch's own number of a reduction: to compare two takes much longer. And by
# identity, which takes less: callers name the objects that the class has.
_OPS = {hash(op): number for op, number in _REDUCTIONS}
_NAMED = {id(op): number for op, number in _REDUCTIONS}
# Of bytes that are 0 or 1, so that a result is 0 or 1 too.
_OF_BOOL = {native.SUM: native.MAX, native.OR: native.MAX, native.PROD: native.MIN, native.AND: native.MIN,
            native.MIN: native.MIN, native.MAX: native.MAX, native.XOR: native.XOR}

# The last work of the process that has not begun. It runs when it is waited for, and begins
# when another call is made: so calls run in the order in which they were made.
_slot = None
_slot_lock = threading.Lock()


_groups = weakref.WeakSet()  # those of the process


def _push(work):
    """Makes work the one in the slot, and begins the one before it."""
    global _slot
    with _slot_lock:
        last, _slot = _slot, work
    if last is not None:
        last._start()


class _Work(Work):
    """A call. Its maker sets _group, _request, _output and _keep, which holds the buffers. The
    class has what most calls never set, so that making one is cheap."""

    _finish = None  # is called once the call has succeeded
    _lock = None  # of a started call: held by the thread that waits for it
    _handle = None  # of a started call
    _peer = native.ANY  # the sender, once a started receive is done
    _done = False
    _error = _future = None

    def _start(self):
        """Begins the call, unless it has begun."""
        if self._done:
            return
        group = self._group
        with group._order:
            if self._handle is None and not self._done:
                self._lock = threading.Lock()
                group._live.add(self)
                try:
                    self._handle = native.start(self._request)
                except RingsideError as e:
                    self._end(e)

    def _end(self, error):
        """Ends the work. The thread that calls it is the only one that can."""
        try:
            if error is None and self._finish is not None:
                self._finish()
        except Exception as e:  # of a copy of the result
            error = e
        if error is not None:
            self._error = _named_timeout(error)
        self._finish = self._request = self._keep = None
        self._done = True
        if self._lock is not None:
            self._group._live.discard(self)

    def _run(self):
        """Makes the call on this thread, unless it has begun."""
        group = self._group
        with group._order:
            if self._handle is not None or self._done:
                return
            error = None
            try:
                text = group._library.ringside_call(self._request)
                if text:
                    native.check(text)
            except RingsideError as e:
                error = e
            except BaseException as e:  # of a signal's handler
                self._end(RingsideError(f"ringside: the call was interrupted: {e!r}"))
                raise
            self._end(error)

    def _poll(self, milliseconds):
        """Waits for a call that has begun, at most so long, and reports whether it is done."""
        if self._done:
            return True
        with self._lock:
            if self._done:
                return True
            error = None
            try:
                done, self._peer = native.wait(self._handle, milliseconds)
                if not done:
                    return False
            except RingsideError as e:
                error = e
            self._end(error)
            return True

    def wait(self, timeout=None):
        self._run() if self._taken() else self._start()
        while not self._done:
            self._poll(native.POLL)
        if self._error is not None:
            raise self._error
        return True

    def _taken(self):
        """Takes the work out of the slot, and reports whether it was there."""
        global _slot
        with _slot_lock:
            if _slot is not self:
                return False
            _slot = None
            return True

    def _source_rank(self):
        return self._peer

    source_rank = _source_rank

    def synchronize(self):
        self.wait()

    def is_completed(self):
        self._start()
        return self._poll(0)

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        self.wait()
        return self._output

    def get_future(self):
        # DDP's reducer asks from C++ and has little to do meanwhile: another thread would cost
        # more than a small call takes.
        if _called_by_backward() and self._taken():
            self._run()
        else:
            self._start()
        with self._group._order:
            if self._future is None:
                end = torch.futures.Future()
                if self._done and self._error is None:
                    self._future = end
                    end.set_result(self._output)
                else:
                    self._future = end.then(self._outcome)
                    if self._done:
                        end.set_result(None)
                    else:
                        self._group._watch(self, end)
            return self._future

    def _outcome(self, _):
        """Returns the result of the call, or raises its error. Code of C++, as DDP's, takes an
        exception that set_exception gave for a list of tensors, and reads beyond it; one of
        a callback is an error there too."""
        if self._error is not None:
            raise self._error
        return self._output

    def _settle(self, end):
        """Waits for the call and completes a future."""
        while not self._poll(native.POLL):
            pass
        end.set_result(None)


def _named_timeout(error):
    """Returns an error of a call; of one that took too long it says whose timeout that is."""
    if isinstance(error, RingsideError) and "timed out after" in str(error):
        return RingsideError(f"{error}; the timeout is that of init_process_group or new_group")
    return error


def _called_by_backward():
    """Reports whether the caller of the caller is a backward pass itself, not a function of
    Python in it."""
    try:
        frame = sys._getframe(2)
    except ValueError:  # a thread of C++
        return False
    return frame.f_globals.get("__name__", "").startswith("torch.autograd")


def _check_dense(t):
    """Checks that t is a dense tensor in the memory of the host."""
    if t.layout is not torch.strided or not t.is_cpu:
        raise RingsideError(f"ringside: a tensor of layout {t.layout} on {t.device}, expected a dense one on cpu")


def _dense(t):
    """Returns t, or a copy of it, with its elements in order in memory."""
    _check_dense(t)
    t = t.detach()
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    return t.contiguous()


def _in_place(t):
    """Reports whether a result can be written to t's memory: its elements lie there in order
    and as they are."""
    return t.is_contiguous() and not (t.is_conj() or t.is_neg())


def _bytes(t):
    return t.numel() * t.element_size()


def _moved_as(tensors):
    """Returns the library's number and the bytes of the elements that a call moves, so that
    ranks whose types differ get an error. Of types that the library lacks it is bytes."""
    kinds = {t.dtype for t in tensors}
    return _PLAIN.get(kinds.pop(), (native.U8, 1)) if len(kinds) == 1 else (native.U8, 1)


def _one_type(tensors):
    """Checks that a call has tensors, and that their elements are of one type."""
    if not tensors:
        raise RingsideError("ringside: a call of no tensors, expected at least one")
    for i, t in enumerate(tensors):
        if t.dtype != tensors[0].dtype:
            raise RingsideError(f"ringside: tensor {i} of the call is of {t.dtype}, expected {tensors[0].dtype} as the first")


def _tag(tag):
    """Returns a tag of a send or receive, which torch has as a C int."""
    n = _integer(tag)
    if n is None or not 0 <= n < 1 << 31:
        raise RingsideError(f"ringside: tag {tag!r}, expected an integer of 0 to 2147483647 (2**31 - 1)")
    return n


def _integer(x):
    """Returns an integer, of Python or NumPy; None for another value."""
    try:
        return operator.index(x)
    except TypeError:
        return None


class ProcessGroupRingside(ProcessGroup):
    """A process group of torch over the ranks of one group of ringside."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        if os.environ.get("RINGSIDE_TLS", "0") != "0":
            raise RuntimeError("ringside.torch does not encrypt what goes between hosts: unset RINGSIDE_TLS where the "
                               "network is yours, else use another back end")
        self._rank, self._size = rank, size
        self._store, self._timeout, self._barriers, self._calls = store, timeout, 0, 0
        self._order = threading.RLock()  # held while a call begins; handlers of signals get an error
        # Torch keeps only the C++ half of a work: those that run, and the last ones.
        self._live, self._recent = set(), collections.deque(maxlen=8)
        self._watched = None
        self._memory, self._filling = threading.RLock(), False  # whether buckets of DDP are being filled

        def of(other, key):
            try:
                return store.get(key)
            except RuntimeError as e:
                raise RingsideError(f"ringside: rank {other} of {size} did not join the group within {timeout.total_seconds():g} s: {e}") from e

        def exchange(step, value):
            store.set(f"ringside/{step}/{rank}", value)
            return [of(other, f"ringside/{step}/{other}") for other in range(size)]

        if rank == 0:
            store.set("ringside/secret", secrets.token_hex(32))
        self._library = native.library()
        self._handle = native.open_group(rank, size, int(timeout.total_seconds() * 1000), "world",
                                         of(0, "ringside/secret"), exchange)
        _groups.add(self)

    def getBackendName(self):
        return "ringside"

    def _get_backend_name(self):
        return "ringside"

    def _set_sequence_number_for_group(self):
        self._calls = 0

    def _get_sequence_number_for_group(self):
        return self._calls

    def _watch(self, work, end):
        """Has the group's thread complete a future at the end of work."""
        if self._watched is None:
            self._watched = queue.SimpleQueue()
            threading.Thread(target=_settle_all, args=(self._watched,), name="ringside", daemon=True).start()
        self._watched.put((work, end))

    def _make(self, kind, output, dst=None, src=None, op=0, dtype=native.U8, peer=0, send=None, recv=None, finish=None,
              inline=INLINE):
        """Makes a call of buffers, which are dense tensors. One of at most inline bytes does
        not begin yet."""
        for parts in (send, recv):
            if parts is not None:
                self._for_each(parts)
        n, m = (0 if t is None else _bytes(t) for t in (dst, src))
        request = native.pack_request(self._handle, kind, op, dtype, peer, dst.data_ptr() if n else 0, n,
                                      src.data_ptr() if m else 0, m, _address(send), _address(recv))
        self._calls += kind not in (native.SEND, native.RECV)
        return self._issue(request, output, (dst, src, send, recv), max(n, m) <= inline, finish)

    def _issue(self, request, output, keep, inline, finish=None):
        work = _Work()
        work._group, work._request, work._output, work._keep = self, request, output, keep
        if finish is not None:
            work._finish = finish
        self._recent.append(work)
        if inline:
            _push(work)
        else:
            _push(None)
            work._start()
        return work

    def _fold(self, kind, output, dst, src, op, peer=0, send=None):
        """Makes a call that reduces src into dst, tensors of one type."""
        op = _reduction(op)
        _check_dense(dst)
        dtype = src.dtype
        if dtype == torch.bool:
            op = _OF_BOOL.get(op)
        if dtype.is_complex:
            if op not in (native.SUM, native.MEAN):
                raise RingsideError(f"ringside: {dtype} is reduced by SUM and AVG alone")
            src, to = torch.view_as_real(_dense(src)), dst
            if dst.is_conj():  # its memory has other numbers
                to = torch.empty(dst.shape, dtype=dtype)
            work = self._fold_dense(kind, output, torch.view_as_real(to), src, op, peer, send)
            if to is not dst and (kind != native.REDUCE or peer == self._rank):
                work._finish = lambda: dst.detach().copy_(to)
            return work
        if dtype in _WIDER:
            return self._fold_dense(kind, output, dst, _dense(src).to(_WIDER[dtype]), op, peer, send)
        return self._fold_dense(kind, output, dst, _dense(src), op, peer, send)

    def _fold_dense(self, kind, output, dst, src, op, peer, send):
        number = _FOLDED.get(src.dtype)
        if number is None or op is None:
            raise RingsideError(f"ringside: {src.dtype} has no such reduction")
        if dst.dtype == src.dtype and _in_place(dst):
            return self._make(kind, output, dst.detach(), src, op, number, peer, send)
        to = torch.empty(dst.shape, dtype=src.dtype)
        used = kind != native.REDUCE or peer == self._rank
        finish = (lambda: dst.detach().copy_(to)) if used else None
        return self._make(kind, output, to, src, op, number, peer, send, finish=finish)

    def allreduce(self, tensors, opts=None):
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        if len(tensors) == 1:
            t = tensors[0]
            if t.is_sparse:
                return self._sum_sparse(t, op)
            plain = _PLAIN.get(t.dtype)
            if plain is None or t.layout is not torch.strided or not (t.is_cpu and t.is_contiguous()) or t.is_neg():
                return self._fold(native.ALL_REDUCE, tensors, t, t, op)
            number, size = plain
            n = t.numel() * size
            at = t.data_ptr() if n else 0
            request = native.pack_request(self._handle, native.ALL_REDUCE, _reduction(op), number, 0, at, n, at, n, 0, 0)
            self._calls += 1
            return self._issue(request, tensors, t, n <= INLINE)
        _one_type(tensors)
        flat = torch.cat([_dense(t).reshape(-1) for t in tensors])
        work = self._fold(native.ALL_REDUCE, tensors, flat, flat, op)
        first = work._finish

        def finish():
            if first is not None:
                first()
            _part(flat, tensors)

        work._finish = finish
        return work

    allreduce_coalesced = allreduce

    def _reduce_now(self, t, op):
        """All-reduces t on this thread, without a work, and reports whether it did: not what
        is larger than INLINE, or must be copied first."""
        plain, op = _PLAIN.get(t.dtype), _NAMED.get(id(op))
        if plain is None or op is None or t.layout is not torch.strided or not (t.is_cpu and t.is_contiguous()) or t.is_neg():
            return False
        number, size = plain
        n = t.numel() * size
        if n > INLINE:
            return False
        at = t.data_ptr() if n else 0
        if _slot is not None:
            _push(None)
        with self._order:
            self._calls += 1
            text = self._library.ringside_call(
                native.pack_request(self._handle, native.ALL_REDUCE, op, number, 0, at, n, at, n, 0, 0))
        if text:
            try:
                native.check(text)
            except RingsideError as e:
                raise _named_timeout(e) from None
        return True

    def _sum_sparse(self, t, op):
        """Sums tensors with indices: every rank gathers those of all."""
        if _reduction(op) != native.SUM:
            raise RingsideError("ringside: a sparse tensor is reduced by SUM alone")
        mine = t.detach().coalesce()
        counts = torch.empty(self._size, dtype=torch.int64)
        self._allgather_base(counts, torch.tensor([mine._nnz()])).wait()
        most = max(int(counts.max()), 1)

        def gather(x, finish=None):  # rows of all ranks, after as many of each
            here = x.new_zeros((most, *x.shape[1:]))
            here[:len(x)] = x
            out = x.new_empty((self._size * most, *x.shape[1:]))
            return out, self._make(native.ALL_GATHER, [t], out, here, finish=finish)

        def finish():
            while not places._poll(native.POLL):
                pass
            if places._error is not None:
                raise places._error
            rows = torch.cat([torch.arange(r * most, r * most + n) for r, n in enumerate(counts.tolist())])
            total = torch.sparse_coo_tensor(indices[rows].t(), values[rows], t.shape)
            with torch.no_grad():
                t.copy_(total.coalesce())

        indices, places = gather(mine.indices().t())
        values, work = gather(mine.values(), finish)
        return work

    def broadcast(self, tensors, opts):
        t = tensors[0]
        d = _dense(t)
        finish = None if d.data_ptr() == t.data_ptr() else lambda: t.detach().copy_(d)
        return self._make(native.BROADCAST, tensors, d, dtype=_moved_as(tensors)[0], peer=opts.rootRank, finish=finish)

    def reduce(self, tensors, opts):
        t = tensors[0]
        return self._fold(native.REDUCE, tensors, t, t, opts.reduceOp, opts.rootRank)

    def _move(self, kind, outputs, inputs, result, peer=0, send=None, recv=None):
        """Makes a call that moves elements: it puts inputs, one after the other, into outputs.
        None stands for no buffer. send and recv have the numbers of elements by rank."""
        src = None if inputs is None else _flat(inputs)
        for t in outputs or ():
            _check_dense(t)
        dtype, _ = _moved_as([*(outputs or ()), *(inputs or ())])
        if outputs is None:
            return self._make(kind, result, None, src, dtype=dtype, peer=peer, send=send, recv=recv)
        if len(outputs) == 1 and _in_place(outputs[0]):
            return self._make(kind, result, outputs[0].detach(), src, dtype=dtype, peer=peer, send=send, recv=recv)
        dst = torch.empty(sum(map(_bytes, outputs)), dtype=torch.uint8)
        return self._make(kind, result, dst, src, dtype=dtype, peer=peer, send=send, recv=recv, finish=lambda: _part(dst, outputs))

    def allgather(self, outputs, inputs, opts=None):
        self._alike(outputs[0], inputs)
        return self._move(native.ALL_GATHER, outputs[0], inputs, outputs)

    def allgather_coalesced(self, outputs, inputs, opts=None):
        flat = [t for of_rank in outputs for t in of_rank]
        self._alike(flat, inputs)
        return self._move(native.ALL_GATHER, flat, inputs, outputs)

    def _allgather_base(self, output, input, opts=None):
        self._whole(output, input)
        return self._move(native.ALL_GATHER, [output], [input], [output])

    def gather(self, outputs, inputs, opts):
        here = outputs[0] if opts.rootRank == self._rank else None
        if here is not None:
            self._alike(here, inputs)
        return self._move(native.GATHER, here, inputs, outputs, opts.rootRank)

    def scatter(self, outputs, inputs, opts):
        here = inputs[0] if opts.rootRank == self._rank else None
        if here is not None:
            self._alike(here, outputs)
        return self._move(native.SCATTER, outputs, here, outputs, opts.rootRank)

    def _alike(self, parts, one):
        """Checks that parts are those of every rank, of the types and sizes of those of one."""
        if len(parts) != len(one) * self._size:
            raise RingsideError(f"ringside: {len(parts)} tensors for {self._size} ranks, expected {len(one)} for each")
        for i, t in enumerate(parts):
            like = one[i % len(one)]
            if t.dtype != like.dtype or t.numel() != like.numel():
                raise RingsideError(f"ringside: tensor {i} of the list has {t.numel()} elements of {t.dtype}, expected {like.numel()} of {like.dtype}")

    def _for_each(self, parts):
        """Checks that there are as many parts, tensors or sizes, as ranks."""
        if len(parts) != self._size:
            raise RingsideError(f"ringside: {len(parts)} tensors or sizes for {self._size} ranks, expected one for each")

    def _whole(self, whole, part):
        """Checks that whole has a part for each rank."""
        if whole.dtype != part.dtype or whole.numel() != part.numel() * self._size:
            raise RingsideError(f"ringside: the whole has {whole.numel()} elements of {whole.dtype}, expected {part.numel()} of {part.dtype} "
                                f"for each of {self._size} ranks")

    def reduce_scatter(self, outputs, inputs, opts=None):
        self._for_each(inputs[0])
        _one_type(outputs + inputs[0])
        flat = torch.cat([t.detach().reshape(-1) for t in inputs[0]])
        parts = [t.numel() for t in inputs[0]]
        return self._reduce_parts(outputs[0], flat, outputs, opts, parts)

    def _reduce_scatter_base(self, output, input, opts=None):
        self._whole(input, output)
        return self._reduce_parts(output, input, [output], opts)

    def _reduce_parts(self, output, input, result, opts, parts=None):
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        if parts is not None and input.is_complex():
            parts = [2 * n for n in parts]  # elements of their real view
        return self._fold(native.REDUCE_SCATTER, result, output, input, op, send=_counts(parts))

    def alltoall(self, outputs, inputs, opts=None):
        self._for_each(inputs)
        self._for_each(outputs)
        _one_type(outputs + inputs)
        _, size = _moved_as(outputs + inputs)
        return self._move(native.ALL_TO_ALL, outputs, inputs, outputs,
                          send=_counts(_bytes(t) // size for t in inputs), recv=_counts(_bytes(t) // size for t in outputs))

    def alltoall_base(self, output, input, output_rows, input_rows, opts=None):
        _one_type([output, input])
        _, size = _moved_as([output, input])

        for t in output, input:
            if not t.ndim:
                raise RingsideError(f"ringside: a tensor of no dims for {self._size} ranks, expected rows for each")

        def sizes(t, rows):  # of the parts of t, which has so many rows for each rank
            if not rows:
                if len(t) % self._size:
                    raise RingsideError(f"ringside: a tensor of {len(t)} rows for {self._size} ranks, expected as many for each, or how many for each")
                return None
            if min(rows) < 0 or sum(rows) != len(t):
                raise RingsideError(f"ringside: parts of {', '.join(map(str, rows))} rows of a tensor of {len(t)}")
            return _counts([n * _bytes(t) // len(t) // size if t.numel() else 0 for n in rows])

        send, recv = sizes(input, input_rows), sizes(output, output_rows)
        if send is not None or recv is not None:
            equal = lambda t: _counts([_bytes(t) // self._size // size] * self._size)
            send, recv = send or equal(input), recv or equal(output)
        return self._move(native.ALL_TO_ALL, [output], [input], [output], send=send, recv=recv)

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier through torch's store, in which rank 0 names ranks that don't come in
        time, the first one or all, and the others then fail too."""
        _push(None)
        self._barriers += 1
        key = f"ringside/barrier/{self._barriers}"
        if isinstance(timeout, (int, float)):
            timeout = datetime.timedelta(seconds=timeout)
        if timeout is None or timeout.total_seconds() < 0:
            timeout = self._timeout
        within = f"{round(timeout.total_seconds() * 1000)} ms"
        if self._rank > 0:  # texts as torch's own
            self._store.set(f"{key}/{self._rank}", "")
            failed = f"said nothing in {within}"
            if self._came(f"{key}/all", timeout):
                failed = self._store.get(f"{key}/all").decode()
            if failed:
                raise RingsideError(f"ringside: Rank {self._rank} successfully reached monitoredBarrier, but received errors "
                                    f"while waiting for send/recv from rank 0: {failed}")
            return
        deadline, late, failed = time.monotonic() + timeout.total_seconds(), [], ""
        for other in range(1, self._size):
            left = max(deadline - time.monotonic(), 0.001)
            if not self._came(f"{key}/{other}", datetime.timedelta(seconds=left)):
                late.append(str(other))
                if not wait_all_ranks:
                    break
        if late:
            failed = f"Rank{'s' if wait_all_ranks else ''} {', '.join(late)} failed to pass monitoredBarrier in {within}"
        if not timeout:
            failed = f"Rank 0 timed out in monitoredBarrier after {within}"
        self._store.set(f"{key}/all", failed)
        if failed:
            raise RingsideError(f"ringside: {failed}")

    def _came(self, key, timeout):
        """Waits for a key of the store and reports whether it came in time."""
        try:
            self._store.wait([key], timeout)
        except RuntimeError:
            return False
        return True

    def send(self, tensors, to, tag=0):
        return self._make(native.SEND, tensors, _dense(tensors[0]), op=_tag(tag), dtype=_moved_as(tensors)[0], peer=self._other(to), inline=-1)

    def recv(self, tensors, source, tag=0):
        return self._receive(tensors, self._other(source), tag)

    def recv_anysource(self, tensors, tag=0):
        return self._receive(tensors, native.ANY, tag)

    def _receive(self, tensors, source, tag):
        t = tensors[0]
        _check_dense(t)
        d = t.detach() if _in_place(t) else torch.empty(t.shape, dtype=t.dtype)
        finish = None if _in_place(t) else lambda: t.detach().copy_(d)
        return self._make(native.RECV, tensors, d, op=_tag(tag), dtype=_moved_as(tensors)[0], peer=source, inline=-1, finish=finish)

    def _other(self, rank):
        """Returns the rank of a send or receive, which is another one of the group."""
        n = _integer(rank)
        if n is None or not 0 <= n < self._size or n == self._rank:
            raise RingsideError(f"ringside: rank {self._rank} of {self._size} sends to or receives from rank {rank}, expected another "
                                f"of 0 to {self._size - 1}")
        return n

    def barrier(self, opts=None):
        return self._make(native.BARRIER, [])

    def close(self):
        """Closes the group on this rank; destroy_process_group does it. Calls under way
        end before it returns. A handler of a signal can't do it during a call of the group."""
        _push(None)
        error = None
        with self._memory:
            if self._filling:
                raise RingsideError("ringside: a signal handler closed a group whose memory is being filled: raise an exception there")
            if not self._handle:
                return
            try:
                native.check(native.library().ringside_close(self._handle))
            except RingsideError as e:
                if "signal handler" in str(e):
                    raise
                error = e
            self._handle = 0
        with self._order:
            watched, self._watched = self._watched, None
            if watched is not None:
                watched.put(None)
        if error is not None:
            raise error


class _Buckets:
    """Memory of a group for the buckets of a model."""

    def __init__(self, group):
        self._group, self._pid, self._at = group, os.getpid(), {}

    def fill(self, bucket):
        """Returns a bucket's share of the mean, in memory of the group."""
        group, t, i = self._group, bucket.buffer(), bucket.index()
        with group._memory:
            group._filling = True
            try:
                if not group._handle:
                    raise RingsideError("ringside: the group of these buckets was closed")
                shared = self._at.get(i)
                if shared is None or shared.numel() != t.numel() or shared.dtype != t.dtype:
                    self._forget(i)
                    shared = self._at[i] = self._made(t)
                return torch.mul(t, 1 / group.size(), out=shared)  # as DDP without a hook
            finally:
                group._filling = False

    def _made(self, like):
        memory, n = ctypes.c_void_p(), _bytes(like)
        native.check(self._group._library.ringside_memory(self._group._handle, n, ctypes.byref(memory)))
        return torch.frombuffer((ctypes.c_char * n).from_address(memory.value), dtype=like.dtype)

    def _forget(self, i):
        shared = self._at.pop(i, None)
        if shared is not None:
            native.check(self._group._library.ringside_forget(self._group._handle, shared.data_ptr()))

    def __del__(self):
        group = self._group
        if sys.is_finalizing() or os.getpid() != self._pid:
            return
        with group._memory:  # that of a call under way, after an exception, goes with the group
            for i in list(self._at) if group._handle and not group._live else ():
                self._forget(i)


def _sum_shared(buckets, bucket):
    """Is the hook of share_buckets."""
    group, t = buckets._group, bucket.buffer()
    t = t / group.size() if t.is_sparse else buckets.fill(bucket)
    work = group.allreduce([t])
    work._output = t
    if work._taken():
        work._run()
    return work.get_future()


def share_buckets(model):
    """Has a DistributedDataParallel sum its buckets in memory that the ranks of this host
    share, so that less is copied: call it once, on all ranks, before the first step. It takes
    the place of a communication hook, and as much memory as the gradients. Gradients have the
    bits that they have without it, but where torch divides by a number of ranks that is no
    power of 2: it multiplies by the inverse, unless gradients are views of buckets."""
    group = model.process_group
    if not isinstance(group, ProcessGroupRingside):
        raise RingsideError(f"ringside: buckets of a model over {dist.get_backend(group)}, expected one over ringside")
    model.register_comm_hook(_Buckets(group), _sum_shared)


def _flat(tensors):
    """Returns a dense tensor of the bytes of tensors, one after the other."""
    if len(tensors) == 1:
        return _dense(tensors[0])
    return torch.cat([_dense(t).reshape(-1).view(torch.uint8) for t in tensors])


def _part(flat, tensors):
    """Copies the bytes of flat into tensors, one after the other."""
    at, flat = 0, flat.view(torch.uint8)
    for t in tensors:
        n = _bytes(t)
        part = flat[at:at + n]
        if at % t.element_size():
            part = part.clone()  # where elements of t are aligned
        t.detach().copy_(part.view(t.dtype).view(t.shape))
        at += n


def _reduction(op):
    """Returns the library's number of a reduction of torch."""
    number = _OPS.get(hash(op))
    if number is None:
        raise RingsideError("ringside: a premultiplied sum, expected another reduction")
    return number


def _address(numbers):
    return 0 if numbers is None else ctypes.addressof(numbers)


def _counts(numbers):
    """Returns numbers by rank for the library; None for None."""
    numbers = None if numbers is None else list(numbers)
    return None if numbers is None else (ctypes.c_int64 * len(numbers))(*numbers)


def _settle_all(works):
    """Completes futures of works, one after the other, until it gets None."""
    while (pair := works.get()) is not None:
        work, end = pair
        work._settle(end)


def _create(store, rank, size, timeout):
    return ProcessGroupRingside(store, rank, size, timeout)


def _replace(name):
    """Makes the function that it decorates, whose first argument is torch's, take the place
    of one of torch.distributed that knows torch's own back ends alone."""
    def decorate(f):
        torchs = getattr(dist.distributed_c10d, name)
        new = functools.wraps(torchs)(functools.partial(f, torchs))
        setattr(dist.distributed_c10d, name, new)
        setattr(dist, name, new)
    return decorate


@_replace("all_reduce")
def _all_reduce(torchs, tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
    """All-reduces as torch's, which makes options and a work: of a small call that is waited
    for they take longer than the call."""
    g = dist.GroupMember.WORLD if group is None else group
    if async_op or g.__class__ is not ProcessGroupRingside or not isinstance(tensor, torch.Tensor) or not g._reduce_now(tensor, op):
        return torchs(tensor, op, group, async_op)


@_replace("destroy_process_group")
def _destroy(torchs, group=None):
    everything = group is None or group is dist.GroupMember.WORLD
    for g in list(_groups) if everything else [group]:
        if isinstance(g, ProcessGroupRingside):
            g.close()
    torchs(group)


@_replace("monitored_barrier")
def _monitored_barrier(torchs, group=dist.GroupMember.WORLD, timeout=None, wait_all_ranks=False):
    g = dist.GroupMember.WORLD if group is None else group
    if isinstance(g, ProcessGroupRingside):
        g.monitored_barrier(timeout, wait_all_ranks)
    else:
        torchs(group, timeout, wait_all_ranks)


if not hasattr(dist.Backend, "RINGSIDE"):
    dist.Backend.register_backend("ringside", _create)
