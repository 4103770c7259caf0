"""The back end "ringside" of torch.distributed, for tensors in the memory of the host:

    import ringside.torch
    torch.distributed.init_process_group("ringside")

Ranks find each other through torch's own store. A call of at most INLINE bytes that is
waited for at once runs on its caller's thread; the others run beside it, so that
async_op=True and DDP's buckets overlap with what the caller does meanwhile."""

import collections
import queue
import secrets
import threading

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup, Work

from ringside import RingsideError
from ringside import _native as native

INLINE = 64 << 10

_FOLDED = {
    torch.float32: native.F32, torch.float64: native.F64, torch.float16: native.F16, torch.bfloat16: native.BF16,
    torch.int32: native.I32, torch.int64: native.I64, torch.uint8: native.U8, torch.bool: native.U8,
}
_WIDER = {torch.int8: torch.int32, torch.int16: torch.int32}  # integers wrap alike in both
_OPS = {
    dist.ReduceOp.SUM: native.SUM, dist.ReduceOp.PRODUCT: native.PROD, dist.ReduceOp.MIN: native.MIN,
    dist.ReduceOp.MAX: native.MAX, dist.ReduceOp.BAND: native.AND, dist.ReduceOp.BOR: native.OR,
    dist.ReduceOp.BXOR: native.XOR, dist.ReduceOp.AVG: native.MEAN,
}
# Of bytes that are 0 or 1, so that a result is 0 or 1 too.
_OF_BOOL = {native.SUM: native.MAX, native.OR: native.MAX, native.PROD: native.MIN, native.AND: native.MIN,
            native.MIN: native.MIN, native.MAX: native.MAX, native.XOR: native.XOR}

# The last work of the process that has not begun. It runs when it is waited for, and begins
# when another call is made: so calls run in the order in which they were made.
_slot = None
_slot_lock = threading.Lock()


def _push(work):
    """Makes work the one in the slot, and begins the one before it."""
    global _slot
    with _slot_lock:
        last, _slot = _slot, work
    if last is not None:
        last._start()


class _Work(Work):
    """A call. finish is called once it has succeeded; keep holds its buffers."""

    def __init__(self, group, arguments, output, finish, keep):
        super().__init__()
        self._group, self._arguments, self._output = group, arguments, output
        self._finish, self._keep = finish, keep
        self._lock = threading.Lock()
        self._handle = None  # of the started call
        self._done, self._error, self._future = False, None, None

    def _start(self):
        """Begins the call, unless it has begun."""
        with self._group._order, self._lock:
            if self._handle is None and not self._done:
                try:
                    self._handle = native.start(self._arguments)
                except RingsideError as e:
                    self._end(e)

    def _end(self, error):
        """Ends the work; _lock is held."""
        try:
            if error is None and self._finish is not None:
                self._finish()
        except Exception as e:  # of a copy of the result
            error = e
        self._error, self._done = error, True
        self._finish = self._arguments = self._keep = None
        self._group._live.discard(self)

    def _run(self):
        """Makes the call on this thread, unless it has begun."""
        group = self._group
        with group._order, self._lock:
            if self._handle is not None or self._done:
                return
            error = None
            try:
                native.check(native.library().ringside_call(*self._arguments))
            except RingsideError as e:
                error = e
            except BaseException as e:  # of a signal's handler
                self._end(RingsideError(f"ringside: the call was interrupted: {e!r}"))
                raise
            self._end(error)

    def _poll(self, milliseconds):
        """Waits for a call that has begun, at most so long, and reports whether it is done."""
        with self._lock:
            if self._done:
                return True
            error = None
            try:
                if not native.wait(self._handle, milliseconds):
                    return False
            except RingsideError as e:
                error = e
            self._end(error)
            return True

    def wait(self, timeout=None):
        self._run() if self._inline() else self._start()
        while not self._poll(native.POLL):
            pass
        if self._error is not None:
            raise self._error
        return True

    def _inline(self):
        """Takes the work out of the slot, and reports whether it was there."""
        global _slot
        with _slot_lock:
            if _slot is not self:
                return False
            _slot = None
            return True

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
        self._start()
        with self._lock:
            if self._future is None:
                self._future = torch.futures.Future()
                self._group._watch(self)
            return self._future

    def _settle(self):
        """Waits for the call and completes the future."""
        while not self._poll(native.POLL):
            pass
        if self._error is None:
            self._future.set_result(self._output)
        else:
            self._future.set_exception(self._error)


def _dense(t):
    """Returns t, or a copy of it, with its elements in order in memory."""
    if t.is_sparse or t.device.type != "cpu":
        raise RingsideError(f"ringside: a tensor of layout {t.layout} on {t.device}, expected a dense one on cpu")
    return t.detach().contiguous()


def _bytes(t):
    return t.numel() * t.element_size()


class ProcessGroupRingside(ProcessGroup):
    """A process group of torch over the ranks of one group of ringside."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        self._rank, self._size = rank, size
        self._order = threading.Lock()  # held while a call begins
        self._live, self._recent = set(), collections.deque(maxlen=64)  # torch keeps only the C++ half of a work
        self._watched = None

        def exchange(step, value):
            store.set(f"ringside/{step}/{rank}", value)
            return [store.get(f"ringside/{step}/{other}") for other in range(size)]

        if rank == 0:
            store.set("ringside/secret", secrets.token_hex(32))
        self._handle = native.open_group(rank, size, int(timeout.total_seconds() * 1000), "world",
                                         store.get("ringside/secret"), exchange)

    def getBackendName(self):
        return "ringside"

    def _get_backend_name(self):
        return "ringside"

    def _watch(self, work):
        """Has the group's thread complete the future of work."""
        if self._watched is None:
            self._watched = queue.SimpleQueue()
            threading.Thread(target=_settle_all, args=(self._watched,), name="ringside", daemon=True).start()
        self._watched.put(work)

    def _make(self, kind, output, dst=None, src=None, op=0, dtype=native.U8, peer=0, send=None, recv=None, finish=None):
        """Makes a call of buffers, which are dense tensors."""
        n, m = (0 if t is None else _bytes(t) for t in (dst, src))
        arguments = (self._handle, kind, op, dtype, peer, dst.data_ptr() if n else None, n,
                     src.data_ptr() if m else None, m, send, recv)
        work = _Work(self, arguments, output, finish, (dst, src, send, recv))
        self._live.add(work)
        self._recent.append(work)
        if max(n, m) <= INLINE:
            _push(work)
        else:
            _push(None)
            work._start()
        return work

    def _fold(self, kind, output, dst, src, op, peer=0):
        """Makes a call that reduces src into dst, tensors of one type."""
        op = _OPS.get(getattr(op, "op", op))
        dtype = src.dtype
        if op is None:
            raise RingsideError("ringside: a premultiplied sum, expected another reduction")
        if dtype == torch.bool:
            op = _OF_BOOL.get(op)
        if dtype.is_complex:
            if op not in (native.SUM, native.MEAN):
                raise RingsideError(f"ringside: {dtype} is reduced by SUM and AVG alone")
            return self._fold_dense(kind, output, torch.view_as_real(dst), torch.view_as_real(_dense(src)), op, peer)
        if dtype in _WIDER:
            return self._fold_dense(kind, output, dst, _dense(src).to(_WIDER[dtype]), op, peer)
        return self._fold_dense(kind, output, dst, _dense(src), op, peer)

    def _fold_dense(self, kind, output, dst, src, op, peer):
        number = _FOLDED.get(src.dtype)
        if number is None or op is None:
            raise RingsideError(f"ringside: {src.dtype} has no such reduction")
        if dst.dtype == src.dtype and dst.is_contiguous():
            return self._make(kind, output, dst.detach(), src, op, number, peer)
        to = torch.empty(dst.shape, dtype=src.dtype)
        used = kind != native.REDUCE or peer == self._rank
        finish = (lambda: dst.detach().copy_(to)) if used else None
        return self._make(kind, output, to, src, op, number, peer, finish=finish)

    def allreduce(self, tensors, opts=None):
        op = dist.ReduceOp.SUM if opts is None else opts.reduceOp
        if len(tensors) == 1:
            t = tensors[0]
            return self._fold(native.ALL_REDUCE, tensors, t, t, op)
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

    def broadcast(self, tensors, opts):
        t = tensors[0]
        d = _dense(t)
        finish = None if d.data_ptr() == t.data_ptr() else lambda: t.detach().copy_(d)
        return self._make(native.BROADCAST, tensors, d, peer=opts.rootRank, finish=finish)

    def allgather(self, outputs, inputs, opts=None):
        src = _dense(inputs[0])
        flat = torch.empty((self._size * src.numel(),), dtype=src.dtype)
        return self._make(native.ALL_GATHER, outputs, flat, src, finish=lambda: _part(flat, outputs[0]))

    def barrier(self, opts=None):
        return self._make(native.BARRIER, [])

    def close(self):
        """Closes the group on this rank, which torch's destroy_process_group does not do."""
        _push(None)
        handle, self._handle = self._handle, 0
        if handle:
            native.check(native.library().ringside_close(handle))


def _part(flat, tensors):
    """Copies flat into tensors, one after the other."""
    at = 0
    for t in tensors:
        t.detach().copy_(flat[at:at + t.numel()].view(t.shape))
        at += t.numel()


def _settle_all(works):
    while True:
        works.get()._settle()


def _create(store, rank, size, timeout):
    return ProcessGroupRingside(store, rank, size, timeout)


if not hasattr(dist.Backend, "RINGSIDE"):
    dist.Backend.register_backend("ringside", _create)
