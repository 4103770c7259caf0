"""The process group, and what each of its calls hands to the library."""

import collections
import datetime
import os
import queue
import secrets
import threading
import weakref

import torch
import torch.distributed as dist
from torch._C._distributed_c10d import ProcessGroup

from ringside import RingsideError
from ringside import _native as native
from ringside.torch import _call
from ringside.torch._barrier import monitored
from ringside.torch._buffers import address, bytes_of, check_dense, counts_of, dense, flat_of, in_place, integer, one_type, put_back, tag_of
from ringside.torch._call import Call, named_timeout, push, settle_all
from ringside.torch._reductions import FOLDED, NAMED, OF_BOOL, PLAIN, WIDER, moved_as, reduction

# A call of so many bytes takes about as long as to hand it over to another thread and back.
INLINE = 1 << 20

groups = weakref.WeakSet()  # those of the process


class ProcessGroupRingside(ProcessGroup):
    """A process group of torch over the ranks of one group of ringside."""

    def __init__(self, store, rank, size, timeout):
        super().__init__(rank, size)
        if os.environ.get("RINGSIDE_TLS", "0") != "0":
            raise RuntimeError("ringside.torch does not encrypt what goes between hosts: unset RINGSIDE_TLS where the "
                               "network is yours, else use another back end")
        self._rank, self._size, self._handle = rank, size, 0
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
        groups.add(self)

    def __repr__(self):
        return f"ProcessGroupRingside(rank {self._rank} of {self._size}{'' if self._handle else ', closed'})"

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
            threading.Thread(target=settle_all, args=(self._watched,), name="ringside", daemon=True).start()
        self._watched.put((work, end))

    def _make(self, kind, output, dst=None, src=None, op=0, dtype=native.U8, peer=0, send=None, recv=None, finish=None,
              inline=INLINE):
        """Makes a call of buffers, which are dense tensors. One of at most inline bytes does
        not begin yet."""
        for parts in (send, recv):
            if parts is not None:
                self._for_each(parts)
        n, m = (0 if t is None else bytes_of(t) for t in (dst, src))
        request = native.pack_request(self._handle, kind, op, dtype, peer, dst.data_ptr() if n else 0, n,
                                      src.data_ptr() if m else 0, m, address(send), address(recv))
        self._calls += kind not in (native.SEND, native.RECV)
        return self._issue(request, output, (dst, src, send, recv), max(n, m) <= inline, finish)

    def _issue(self, request, output, keep, inline, finish=None):
        work = Call()
        work._group, work._request, work._output, work._keep = self, request, output, keep
        if finish is not None:
            work._finish = finish
        self._recent.append(work)
        if inline:
            push(work)
        else:
            push(None)
            work._start()
        return work

    def _fold(self, kind, output, dst, src, op, peer=0, send=None):
        """Makes a call that reduces src into dst, tensors of one type."""
        op = reduction(op)
        check_dense(dst)
        dtype = src.dtype
        if dtype == torch.bool:
            op = OF_BOOL.get(op)
        if dtype.is_complex:
            if op not in (native.SUM, native.MEAN):
                raise RingsideError(f"ringside: {dtype} is reduced by SUM and AVG alone")
            src, to = torch.view_as_real(dense(src)), dst
            if dst.is_conj():  # its memory has other numbers
                to = torch.empty(dst.shape, dtype=dtype)
            work = self._fold_dense(kind, output, torch.view_as_real(to), src, op, peer, send)
            if to is not dst and (kind != native.REDUCE or peer == self._rank):
                work._finish = lambda: dst.detach().copy_(to)
            return work
        if dtype in WIDER:
            return self._fold_dense(kind, output, dst, dense(src).to(WIDER[dtype]), op, peer, send)
        return self._fold_dense(kind, output, dst, dense(src), op, peer, send)

    def _fold_dense(self, kind, output, dst, src, op, peer, send):
        number = FOLDED.get(src.dtype)
        if number is None or op is None:
            raise RingsideError(f"ringside: {src.dtype} has no such reduction")
        if dst.dtype == src.dtype and in_place(dst):
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
            plain = PLAIN.get(t.dtype)
            if plain is None or t.layout is not torch.strided or not (t.is_cpu and t.is_contiguous()) or t.is_neg():
                return self._fold(native.ALL_REDUCE, tensors, t, t, op)
            number, size = plain
            n = t.numel() * size
            at = t.data_ptr() if n else 0
            request = native.pack_request(self._handle, native.ALL_REDUCE, reduction(op), number, 0, at, n, at, n, 0, 0)
            self._calls += 1
            return self._issue(request, tensors, t, n <= INLINE)
        one_type(tensors)
        flat = torch.cat([dense(t).reshape(-1) for t in tensors])
        work = self._fold(native.ALL_REDUCE, tensors, flat, flat, op)
        first = work._finish

        def finish():
            if first is not None:
                first()
            put_back(flat, tensors)

        work._finish = finish
        return work

    allreduce_coalesced = allreduce

    def _reduce_now(self, t, op):
        """All-reduces t on this thread, without a work, and reports whether it did: not what
        is larger than INLINE, or must be copied first."""
        plain, op = PLAIN.get(t.dtype), NAMED.get(id(op))
        if plain is None or op is None or t.layout is not torch.strided or not (t.is_cpu and t.is_contiguous()) or t.is_neg():
            return False
        number, size = plain
        n = t.numel() * size
        if n > INLINE:
            return False
        at = t.data_ptr() if n else 0
        if _call.slot is not None:
            push(None)
        with self._order:
            self._calls += 1
            text = self._library.ringside_call(
                native.pack_request(self._handle, native.ALL_REDUCE, op, number, 0, at, n, at, n, 0, 0))
        if text:
            try:
                native.check(text)
            except RingsideError as e:
                raise named_timeout(e) from None
        return True

    def _sum_sparse(self, t, op):
        """Sums tensors with indices: every rank gathers those of all."""
        if reduction(op) != native.SUM:
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
        d = dense(t)
        finish = None if d.data_ptr() == t.data_ptr() else lambda: t.detach().copy_(d)
        return self._make(native.BROADCAST, tensors, d, dtype=moved_as(tensors)[0], peer=opts.rootRank, finish=finish)

    def reduce(self, tensors, opts):
        t = tensors[0]
        return self._fold(native.REDUCE, tensors, t, t, opts.reduceOp, opts.rootRank)

    def _move(self, kind, outputs, inputs, result, peer=0, send=None, recv=None):
        """Makes a call that moves elements: it puts inputs, one after the other, into outputs.
        None stands for no buffer. send and recv have the numbers of elements by rank."""
        src = None if inputs is None else flat_of(inputs)
        for t in outputs or ():
            check_dense(t)
        dtype, _ = moved_as([*(outputs or ()), *(inputs or ())])
        if outputs is None:
            return self._make(kind, result, None, src, dtype=dtype, peer=peer, send=send, recv=recv)
        if len(outputs) == 1 and in_place(outputs[0]):
            return self._make(kind, result, outputs[0].detach(), src, dtype=dtype, peer=peer, send=send, recv=recv)
        dst = torch.empty(sum(map(bytes_of, outputs)), dtype=torch.uint8)
        return self._make(kind, result, dst, src, dtype=dtype, peer=peer, send=send, recv=recv, finish=lambda: put_back(dst, outputs))

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
        one_type(outputs + inputs[0])
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
        return self._fold(native.REDUCE_SCATTER, result, output, input, op, send=counts_of(parts))

    def alltoall(self, outputs, inputs, opts=None):
        self._for_each(inputs)
        self._for_each(outputs)
        one_type(outputs + inputs)
        _, size = moved_as(outputs + inputs)
        return self._move(native.ALL_TO_ALL, outputs, inputs, outputs,
                          send=counts_of(bytes_of(t) // size for t in inputs), recv=counts_of(bytes_of(t) // size for t in outputs))

    def alltoall_base(self, output, input, output_rows, input_rows, opts=None):
        one_type([output, input])
        _, size = moved_as([output, input])

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
            return counts_of([n * bytes_of(t) // len(t) // size if t.numel() else 0 for n in rows])

        send, recv = sizes(input, input_rows), sizes(output, output_rows)
        if send is not None or recv is not None:
            equal = lambda t: counts_of([bytes_of(t) // self._size // size] * self._size)
            send, recv = send or equal(input), recv or equal(output)
        return self._move(native.ALL_TO_ALL, [output], [input], [output], send=send, recv=recv)

    def send(self, tensors, to, tag=0):
        return self._make(native.SEND, tensors, dense(tensors[0]), op=tag_of(tag), dtype=moved_as(tensors)[0], peer=self._other(to), inline=-1)

    def recv(self, tensors, source, tag=0):
        return self._receive(tensors, self._other(source), tag)

    def recv_anysource(self, tensors, tag=0):
        return self._receive(tensors, native.ANY, tag)

    def _receive(self, tensors, source, tag):
        t = tensors[0]
        check_dense(t)
        d = t.detach() if in_place(t) else torch.empty(t.shape, dtype=t.dtype)
        finish = None if in_place(t) else lambda: t.detach().copy_(d)
        return self._make(native.RECV, tensors, d, op=tag_of(tag), dtype=moved_as(tensors)[0], peer=source, inline=-1, finish=finish)

    def _other(self, rank):
        """Returns the rank of a send or receive, which is another one of the group."""
        n = integer(rank)
        if n is None or not 0 <= n < self._size or n == self._rank:
            raise RingsideError(f"ringside: rank {self._rank} of {self._size} sends to or receives from rank {rank}, expected another "
                                f"of 0 to {self._size - 1}")
        return n

    def barrier(self, opts=None):
        return self._make(native.BARRIER, [])

    def monitored_barrier(self, timeout=None, wait_all_ranks=False):
        """A barrier through torch's store, in which rank 0 names ranks that don't come in
        time, the first one or all, and the others then fail too."""
        push(None)
        self._barriers += 1
        if isinstance(timeout, (int, float)):
            timeout = datetime.timedelta(seconds=timeout)
        if timeout is None or timeout.total_seconds() < 0:
            timeout = self._timeout
        monitored(self._store, f"ringside/barrier/{self._barriers}", self._rank, self._size, timeout, wait_all_ranks)

    def close(self):
        """Closes the group on this rank; destroy_process_group does it. Calls under way
        end before it returns. A handler of a signal can't do it during a call of the group."""
        push(None)
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
