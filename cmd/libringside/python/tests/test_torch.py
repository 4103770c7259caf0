"""The back end of torch.distributed, beside gloo where both have a call."""

import functools
import multiprocessing
import os
import signal
import sys
import threading
import time
import traceback

import pytest

import torch
PATIENCE = 60  # seconds, only against hangs


def _rank(body, rank, size, folder, results):
    import datetime

    import torch.distributed as dist

    import ringside.torch  # noqa: F401  registers the back end

    try:
        torch.set_num_threads(1)
        store = dist.FileStore(os.path.join(folder, "store"), size)
        dist.init_process_group("ringside", store=store, rank=rank, world_size=size,
                                timeout=datetime.timedelta(seconds=PATIENCE))
        gloo = dist.new_group(backend="gloo")
        results.put((rank, body(dist, rank, size, gloo)))
    except BaseException:
        results.put((rank, traceback.format_exc()))
    results.close()
    results.join_thread()
    os._exit(0)


def run(body, size, folder, survivors=None):
    """Runs body on every rank, each a new process, and returns what it returns by rank. Of
    survivors of the ranks a result is expected, if that is given, else of all."""
    # Forked from a process that has torch, whose import takes seconds, and no library.
    fork = multiprocessing.get_context("forkserver")
    fork.set_forkserver_preload(["torch.distributed", "torch.utils.data"])
    results = fork.Queue()
    ranks = [fork.Process(target=_rank, args=(body, r, size, str(folder), results)) for r in range(size)]
    for p in ranks:
        p.start()
    try:
        out = dict(results.get(timeout=2 * PATIENCE) for _ in range(survivors or size))
    finally:
        for p in ranks:
            p.join(PATIENCE)
            p.kill()
    return out


def _same_as_gloo(dist, rank, size, gloo):
    generator = torch.Generator().manual_seed(rank)
    types = (torch.float32, torch.float64, torch.int8, torch.int32, torch.int64, torch.uint8)
    bad = []
    for dtype in types:
        for n in (1, 1000, 300000):  # on both sides of INLINE
            x = (torch.rand(n, generator=generator) * 20 - 10 * dtype.is_floating_point).to(dtype)
            for op in (dist.ReduceOp.SUM, dist.ReduceOp.MAX):
                for apart in (False, True):
                    a, b = x.clone(), x.clone()
                    work = dist.all_reduce(a, op=op, async_op=apart)
                    if apart:
                        work.wait()
                    dist.all_reduce(b, op=op, group=gloo)
                    if not torch.equal(a, b):
                        bad.append((str(dtype), n, str(op), apart))
            a, b = x.clone(), x.clone()
            dist.broadcast(a, 0)
            dist.broadcast(b, 0, group=gloo)
            outs = [torch.empty_like(x) for _ in range(size)]
            want = [torch.empty_like(x) for _ in range(size)]
            dist.all_gather(outs, x)
            dist.all_gather(want, x, group=gloo)
            if not torch.equal(a, b) or not all(map(torch.equal, outs, want)):
                bad.append((str(dtype), n, "moved"))
    t = torch.tensor([True, rank == 0])
    dist.all_reduce(t)
    z = torch.tensor([1 + 2j]) * (rank + 1)
    dist.all_reduce(z)
    total = size * (size + 1) // 2
    if t.view(torch.uint8).tolist() != [1, 1] or z[0] != total * (1 + 2j):
        bad.append(("bool or complex", t, z))
    dist.barrier()
    return bad


def test_same_as_gloo(tmp_path):
    """Two ranks have gloo's bits; calls may be started, and come back in order."""
    assert run(_same_as_gloo, 2, tmp_path) == {0: [], 1: []}


TYPES = (torch.float32, torch.float64, torch.float16, torch.bfloat16, torch.int8, torch.int16, torch.int32,
         torch.int64, torch.uint8, torch.bool, torch.complex64)
GLOOS = (torch.float32, torch.float64, torch.int8, torch.int32, torch.int64, torch.uint8)  # it reduces no others


def _values(dtype, n, seed):
    """Returns n small whole numbers, whose sums are exact in any order."""
    generator = torch.Generator().manual_seed(seed)
    return torch.randint(0, 2 if dtype == torch.bool else 9, (n,), generator=generator).to(dtype)


def _others(dist, rank, size, gloo):
    bad = []

    def same(name, dtype, n, got, want):
        if len(got) != len(want) or not all(map(torch.equal, got, want)):
            bad.append((name, str(dtype), n))

    for dtype in TYPES:
        for n in (1, 3, 30000):
            of = [_values(dtype, n, other) for other in range(size)]
            x, empty = of[rank], lambda k=size: [torch.zeros_like(of[0]) for _ in range(k)]
            whole = [_values(dtype, n, 100 * rank + to) for to in range(size)]  # a part for each rank
            parts = [_values(dtype, n, 100 * other + rank) for other in range(size)]  # one from each
            for root in range(size):
                if dtype in GLOOS:
                    for op in (dist.ReduceOp.SUM, dist.ReduceOp.MIN, dist.ReduceOp.PRODUCT):
                        a, b = x.clone(), x.clone()
                        dist.reduce(a, root, op=op)
                        dist.reduce(b, root, op=op, group=gloo)
                        same(f"reduce by {op} to {root}", dtype, n, [a], [b if rank == root else x])
                a = empty() if rank == root else None
                dist.gather(x, a, dst=root)
                same(f"gather to {root}", dtype, n, a or [], of if rank == root else [])
                a = empty(1)
                dist.scatter(a[0], whole if rank == root else None, src=root)
                same(f"scatter from {root}", dtype, n, a, [_values(dtype, n, 100 * root + rank)])
            flat = torch.zeros(size * n, dtype=dtype)
            dist.all_gather_into_tensor(flat, x)
            same("all_gather_into_tensor", dtype, n, [flat], [torch.cat(of)])
            lists = [[torch.zeros_like(x), torch.zeros(2, dtype=dtype)] for _ in range(size)]
            dist.all_gather_coalesced(lists, [x, _values(dtype, 2, rank)])
            same("all_gather_coalesced", dtype, n, [t for pair in lists for t in pair],
                 [t for other in range(size) for t in (of[other], _values(dtype, 2, other))])
            a = empty()
            dist.all_to_all(a, whole)
            same("all_to_all", dtype, n, a, parts)
            if dtype not in (torch.bool, torch.int16):
                total = torch.stack(parts).sum(0).to(dtype)
                if dtype in GLOOS:
                    b = torch.cat(whole)
                    dist.all_reduce(b, group=gloo)
                    same("gloo's sum", dtype, n, [b[rank * n:(rank + 1) * n]], [total])
                a = empty(1)
                dist.reduce_scatter(a[0], whole)
                same("reduce_scatter", dtype, n, a, [total])
                a = empty(1)
                dist.reduce_scatter_tensor(a[0], torch.cat(whole))
                same("reduce_scatter_tensor", dtype, n, a, [total])
            rows = [rank + to for to in range(size)]  # to each rank, so that as many come from it
            for splits in (rows, None):
                k = sum(rows) if splits else size
                source = _values(dtype, k * 5, rank).reshape(k, 5)
                a, b = torch.zeros_like(source), torch.zeros_like(source)
                dist.all_to_all_single(a, source, splits, splits)
                if dtype in GLOOS:
                    dist.all_to_all_single(b, source, splits, splits, group=gloo)
                    same(f"all_to_all_single of {splits}", dtype, n, [a], [b])
    return bad


@pytest.mark.parametrize("size", (2, 3))
def test_others(tmp_path, size):
    """The calls that move, and those that reduce to some, have gloo's results, or those that
    their definition says where gloo lacks the call."""
    assert run(_others, size, tmp_path) == {rank: [] for rank in range(size)}


def _uneven(dist, rank, size, gloo):
    """Lists of parts of several lengths, a strided tensor, and an object."""
    lengths = [1 + to for to in range(size)]
    out = torch.zeros(lengths[rank])
    dist.reduce_scatter(out, [torch.full((n,), float(n)) for n in lengths])
    came = [torch.zeros(1 + rank) for _ in range(size)]
    dist.all_to_all(came, [torch.full((n,), float(rank)) for n in lengths])
    strided = torch.zeros(4, 6).t()
    dist.broadcast(strided if rank else strided.add_(3), 0)
    objects = [None] * size
    dist.all_gather_object(objects, {"rank": rank})
    return (out.tolist() == [float(size * lengths[rank])] * lengths[rank] and
            [t.tolist() for t in came] == [[float(other)] * (1 + rank) for other in range(size)] and
            strided.unique().tolist() == [3] and objects == [{"rank": other} for other in range(size)])


def _too_few(dist, rank, size, gloo):
    """Fewer parts than ranks, of each call that takes parts: what is said of them."""
    one, said = [torch.ones(1)], []
    for call in (lambda: dist.reduce_scatter(torch.zeros(1), one), lambda: dist.all_to_all([torch.zeros(1)], one),
                 lambda: dist.all_to_all_single(torch.zeros(2), torch.ones(2), [2], [2])):
        try:
            call()
        except RuntimeError as e:
            said.append("1 tensors or sizes for 2 ranks" in str(e))
    dist.all_reduce(one[0])
    return said + one[0].tolist()


def test_too_few_parts(tmp_path):
    assert run(_too_few, 2, tmp_path) == dict.fromkeys(range(2), [True, True, True, 2.0])


def _wrong(dist, rank, size, gloo):
    """Calls with parts, types, tags and ranks that do not fit: those that said something else
    than expected. Each is refused on the rank that makes it, and the group works on."""
    x, two, ints = torch.ones(3), [torch.zeros(3), torch.zeros(3)], torch.zeros(3, dtype=torch.int32)
    parts, kinds, rows = "has 4 elements of torch.float32, expected 3", "torch.int32", "parts of 2, 2 rows of a tensor of 3"
    longer, tag, other = [torch.zeros(3), torch.zeros(4)], "expected an integer of 0 to 2147483647", "expected another of 0 to 1"
    wrong = []
    for call, want in (
            (lambda: dist.all_gather(longer, x), parts), (lambda: dist.all_gather([ints, ints], x), kinds),
            (lambda: dist.all_gather([torch.zeros(6)], x), "1 tensors for 2 ranks"),
            (lambda: dist.all_gather_into_tensor(torch.zeros(7), x), "7 elements of torch.float32, expected 3"),
            (lambda: dist.all_gather_into_tensor(torch.zeros(6).int(), x), kinds),
            (lambda: dist.gather(x, longer if rank == 0 else None, dst=rank), parts if rank == 0 else ""),
            (lambda: dist.scatter(x, [ints, ints], src=rank), kinds),
            (lambda: dist.reduce_scatter(x, [ints, ints]), kinds), (lambda: dist.reduce_scatter_tensor(x, torch.zeros(7)), "7 elements"),
            (lambda: dist.all_to_all(two, [x, ints]), kinds), (lambda: dist.all_to_all_single(ints, x), kinds),
            (lambda: dist.all_to_all_single(x.clone(), x, [2, 2], [2, 2]), rows), (lambda: dist.all_to_all_single(x.clone(), x, [-1, 4], [-1, 4]), "of -1, 4 rows"),
            (lambda: dist.all_to_all_single(x.clone(), x), "3 rows for 2 ranks"),
            (lambda: dist.all_reduce_coalesced([x, ints]), kinds), (lambda: dist.all_reduce_coalesced([]), "a call of no tensors"),
            (lambda: dist.reduce_scatter(x, []), "0 tensors or sizes for 2 ranks"), (lambda: dist.all_to_all([], []), "0 tensors or sizes for 2 ranks"),
            (lambda: dist.all_gather([], x), "0 tensors for 2 ranks"), (lambda: dist.all_to_all_single(x[0], x[0]), "a tensor of no dims for 2 ranks"),
            *((lambda t=t: dist.all_reduce(t), f"a tensor of layout {t.layout} on {t.device}, expected a dense one on cpu")
              for t in (torch.ones(3, 3).to_sparse_csr(), torch.ones(3, device="meta"))),
            (lambda: dist.recv(x.to("meta"), 1 - rank), "on meta, expected a dense one on cpu"), (lambda: dist.recv(x.to_sparse(), 1 - rank), "layout torch.sparse_coo on cpu"),
            (lambda: dist.all_gather([x.to("meta"), x.to("meta")], x), "on meta"), (lambda: dist.all_gather_into_tensor(x.repeat(2).to("meta"), x), "on meta"),
            (lambda: dist.reduce_scatter_tensor(x.to("meta"), x.repeat(2)), "on meta"), (lambda: dist.all_to_all_single(x.repeat(2).to("meta"), x.repeat(2)), "on meta"),
            (lambda: dist.broadcast(x.to_sparse(), 0), "layout torch.sparse_coo on cpu"), (lambda: dist.broadcast(x, 2), "root 2, expected 0 to 1"),
            (lambda: dist.all_reduce(x, dist.ReduceOp.BOR), "or of f32"), (lambda: dist.all_reduce(ints, dist.ReduceOp.AVG), "mean of i32, expected a float type"),
            (lambda: dist.all_reduce(x > 0, dist.ReduceOp.AVG), "torch.bool has no such reduction"),
            (lambda: dist.send(x, 1 - rank, tag=1 << 31), "tag 2147483648, " + tag), (lambda: dist.recv(x, 1 - rank, tag=-1), "tag -1, " + tag),
            (lambda: dist.send(x, 1 - rank, tag=1.5), "tag 1.5, " + tag), (lambda: dist.recv(x, tag=1 << 63), tag),
            (lambda: dist.send(x, 2), other), (lambda: dist.recv(x, 1 << 31), other), (lambda: dist.recv(x, -1), other), (lambda: dist.isend(x, rank), other)):
        said = "nothing"
        try:
            if want:
                call()
        except RuntimeError as e:
            said = str(e)
        if want and want not in said:
            wrong.append((want, said))
    works = [dist.irecv(x, 1 - rank, tag=(1 << 31) - 1), dist.isend(torch.full((3,), 5.0), 1 - rank, tag=(1 << 31) - 1)]
    for w in works:
        w.wait()
    dist.all_reduce(x)
    return wrong, x.tolist()


def test_wrong_arguments(tmp_path):
    assert run(_wrong, 2, tmp_path) == dict.fromkeys(range(2), ([], [10.0] * 3))


def _differ(dist, rank, size, gloo):
    """Calls whose arguments differ among the ranks, each of a group of its own: what they say
    that does not name both calls."""
    R, f, i, wrong = dist.ReduceOp, torch.ones(4), torch.ones(4, dtype=torch.int32), []
    for calls, names in (
            ((lambda g: dist.all_reduce(f[:3], group=g), lambda g: dist.all_reduce(f, group=g)), ("sum f32 x 3", "sum f32 x 4")),
            ((lambda g: dist.all_reduce(f, group=g), lambda g: dist.all_reduce(i, group=g)), ("sum f32 x 4", "sum i32 x 4")),
            ((lambda g: dist.all_reduce(f, R.SUM, g), lambda g: dist.all_reduce(f, R.MAX, g)), ("sum f32 x 4", "max f32 x 4")),
            ((lambda g: dist.all_reduce(f, group=g), lambda g: dist.barrier(group=g)), ("all-reduce", "barrier")),
            ((lambda g: dist.reduce(f, 0, group=g), lambda g: dist.reduce(f, 1, group=g)), ("x 4 to 0", "x 4 to 1")),
            ((lambda g: dist.all_gather([f, f.clone()], f, group=g), lambda g: dist.all_gather([f[:3], f[:3].clone()], f[:3], group=g)), ("f32 x 8", "f32 x 6")),
            ((lambda g: dist.all_gather([f, f.clone()], f, group=g), lambda g: dist.all_gather([i, i.clone()], i, group=g)), ("f32 x 8", "i32 x 8")),
            ((lambda g: dist.all_to_all_single(f.clone(), f, group=g), lambda g: dist.all_to_all_single(i.clone(), i, group=g)), ("f32 x 4", "i32 x 4")),
            ((lambda g: (dist.broadcast(f, 0, group=g), dist.barrier(group=g)), lambda g: dist.broadcast(i, 0, group=g)), (("broadcast #1 f32 x 4", "barrier #2"), "broadcast #1 i32 x 4")),
            ((lambda g: (dist.send(f, 1, group=g), dist.barrier(group=g)), lambda g: dist.recv(i, 0, group=g)), (("send #1 f32 x 4", "barrier #2"), "recv #1 i32 x 4"))):
        said = "nothing"
        try:
            calls[rank](dist.new_group())
        except RuntimeError as e:
            said = str(e)
        # Rank 0 may have gone on to its barrier when it hears of the other call.
        if not all(any(way in said for way in ((name,) if isinstance(name, str) else name)) for name in names):
            wrong.append((names, said))
    return wrong


def test_calls_that_differ(tmp_path):
    assert run(_differ, 2, tmp_path) == {0: [], 1: []}


def _reduced(dist, rank, size, gloo):
    """All-reduces of every type, reduction and layout, which are waited for at once and which
    are started: those that differ from their definition."""
    R, bad = dist.ReduceOp, []
    whole = {R.SUM: "sum", R.PRODUCT: "prod", R.MIN: "amin", R.MAX: "amax", R.AVG: "mean", R.BAND: 0, R.BOR: 1, R.BXOR: 2}
    bitwise = (torch.bitwise_and, torch.bitwise_or, torch.bitwise_xor)
    layouts = (("plain", lambda t: t), ("no dims", lambda t: t[0, 0]), ("empty", lambda t: t[:0]), ("transposed", lambda t: t.t()),
               ("steps", lambda t: t[:, ::2]), ("part", lambda t: t[1:, :]), ("parameter", lambda t: torch.nn.Parameter(t, requires_grad=False)))
    for dtype in TYPES:
        for op, name in whole.items():
            if dtype.is_complex and op not in (R.SUM, R.AVG) or dtype == torch.bool and op == R.AVG or \
                    not dtype.is_floating_point and not dtype.is_complex and op == R.AVG or \
                    (dtype.is_floating_point or dtype.is_complex) and not isinstance(name, str):
                continue
            for layout, view in layouts:
                of = [view(_values(dtype, 20, other).reshape(4, 5)) for other in range(size)]
                if isinstance(name, int):
                    want = bitwise[name](*of)
                elif dtype == torch.bool:
                    want = of[0] & of[1] if op in (R.PRODUCT, R.MIN) else of[0] | of[1]
                else:
                    wide = torch.stack(of).to(dtype if dtype.is_complex else torch.float64)
                    want = getattr(wide, name)(0).to(dtype)
                for apart in (False, True):
                    t = view(_values(dtype, 20, rank).reshape(4, 5))
                    work = dist.all_reduce(t, op, async_op=apart)
                    if apart:
                        work.wait()
                    if not torch.equal(t.detach(), want):
                        bad.append((str(dtype), name, layout, apart, t, want))
    return bad


def test_every_type_reduction_and_layout(tmp_path):
    assert run(_reduced, 2, tmp_path) == {0: [], 1: []}


def _views(dist, rank, size, gloo):
    """Results into conjugated and negated views, whose memory has other bits than they show."""
    value, got = torch.tensor([1 + 2j, 3 - 4j]), torch.zeros(2, dtype=torch.complex64).conj()
    if rank == 0:
        dist.recv(got, 1)
        dist.send(value, 1)
    else:
        dist.send(value, 0)
        dist.recv(got, 0)
    sent = torch.zeros(2, dtype=torch.complex64).conj() if rank else value
    dist.broadcast(sent, 0)
    negated = torch.tensor([1 + 2j]).conj().imag
    assert negated.is_neg()
    dist.all_reduce(negated)
    return got.resolve_conj().tolist() == sent.resolve_conj().tolist() == value.tolist(), negated.item()


def test_views(tmp_path):
    assert run(_views, 2, tmp_path) == dict.fromkeys(range(2), (True, -4.0))


def test_uneven(tmp_path):
    """Parts may have several lengths, tensors any strides, and objects go as they do."""
    assert run(_uneven, 3, tmp_path) == {0: True, 1: True, 2: True}


def _subgroup(dist, rank, size, gloo):
    some = dist.new_group([0, 2])
    x, y = torch.tensor([1 + rank]), torch.tensor([rank])
    if rank != 1:
        dist.all_reduce(x, group=some)
        dist.broadcast(y, 2, group=some)
    out = [x.item(), y.item()]
    dist.monitored_barrier()
    dist.monitored_barrier(gloo)
    if rank != 1:
        dist.destroy_process_group(some)
        with pytest.raises(RuntimeError, match="no such handle"):
            some.allreduce([x]).wait()
    dist.all_reduce(y)  # the others work on
    world = dist.group.WORLD
    dist.barrier(group=gloo)
    dist.destroy_process_group()
    with pytest.raises(RuntimeError, match="no such handle"):
        world.barrier().wait()
    return out + [y.item()]


def test_subgroup(tmp_path):
    """A group of some ranks, and destroy_process_group, which closes one group or all."""
    assert run(_subgroup, 3, tmp_path) == {0: [4, 2, 5], 1: [2, 1, 5], 2: [4, 2, 5]}


def _pairs(dist, rank, size, gloo):
    """Sends and receives that cross, in several lanes at a time, beside other calls."""
    bad = []
    others = [r for r in range(size) if r != rank]
    value = lambda sender, to, tag: sender * 100 + to * 10 + tag
    for dtype in TYPES:
        for n in (0, 1, 5000, 300000):
            ins = {(o, tag): torch.zeros(n, dtype=dtype) for o in others for tag in (0, 7)}
            of = lambda sender, to, tag: (torch.arange(n) % 2 + value(sender, to, tag) % 50).to(dtype)
            works = [dist.irecv(t, o, tag=tag) for (o, tag), t in ins.items()]
            total = torch.ones(1)
            late = dist.all_reduce(total, async_op=True)
            works += [dist.isend(of(rank, o, tag), o, tag=tag) for o, tag in reversed(ins)]
            for w in works + [late]:
                w.wait()
            if total.item() != size or not all(torch.equal(t, of(o, rank, tag)) for (o, tag), t in ins.items()):
                bad.append((str(dtype), n))
    strided = torch.zeros(4, 6)
    works = [dist.irecv(strided[:, ::2], (rank - 1) % size, tag=1),
             dist.isend(torch.full((3, 4), 5.0).t(), (rank + 1) % size, tag=1)]
    for w in works:
        w.wait()
    if strided.sum() != 60 or strided[:, 1].any():
        bad.append(strided)
    got = torch.zeros(1)
    if rank == 0:
        senders = [dist.recv(got) for _ in others] + [dist.recv(got) for _ in others]
        if sorted(senders) != sorted(others + others):
            bad.append(senders)
    else:
        dist.send(torch.tensor([float(rank)]), 0)
        dist.send(torch.tensor([float(rank)]), 0)
    # Of another tag: rank 0 may still receive those before, from any rank.
    ops = [dist.P2POp(dist.isend, torch.tensor([rank]), (rank + 1) % size, tag=2),
           dist.P2POp(dist.irecv, torch.tensor([-1]), (rank - 1) % size, tag=2)]
    for w in dist.batch_isend_irecv(ops):
        w.wait()
    if ops[1].tensor.item() != (rank - 1) % size:
        bad.append(ops[1].tensor)
    dist.barrier()
    return bad


@pytest.mark.parametrize("size", (2, 3))
def test_pairs(tmp_path, size):
    """Sends and receives: any type, several lanes, from any rank, in batches."""
    assert run(_pairs, size, tmp_path) == {rank: [] for rank in range(size)}


def _absent(dist, rank, size, gloo):
    import datetime
    text = ""
    if rank != 1:
        # Rank 2 waits longer, so that it hears what rank 0 found.
        limit = datetime.timedelta(seconds=PATIENCE if rank else 5)
        with pytest.raises(RuntimeError) as e:
            dist.monitored_barrier(timeout=limit, wait_all_ranks=True)
        text = str(e.value)
    dist.barrier(group=gloo)
    return text


def test_absent(tmp_path):
    """A monitored barrier names a rank that does not come."""
    out = run(_absent, 3, tmp_path)
    assert all("Ranks 1 failed to pass monitoredBarrier in 5000 ms" in out[r] for r in (0, 2)), out


class _Squares(torch.utils.data.Dataset):
    def __len__(self):
        return 64

    def __getitem__(self, i):
        return torch.tensor(float(i * i))


def _loader(dist, rank, size, gloo):
    total = torch.zeros(1)
    dist.all_reduce(total)
    loader = torch.utils.data.DataLoader(_Squares(), batch_size=8, num_workers=2, multiprocessing_context="fork")
    for batch in loader:
        part = batch.sum().reshape(1)
        dist.all_reduce(part)  # while the workers live
        total += part
    return total.item() == size * sum(i * i for i in range(64))


def test_loader(tmp_path):
    """A DataLoader forks workers while a group is open."""
    assert run(_loader, 2, tmp_path) == {0: True, 1: True}


def _ddp(dist, rank, size, gloo):
    """Returns how many parameters differ between DDP over ringside and over gloo."""
    out = []
    for group in (None, gloo):
        torch.manual_seed(1)
        model = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10))
        model = torch.nn.parallel.DistributedDataParallel(model, process_group=group)
        optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
        generator = torch.Generator().manual_seed(rank)
        for _ in range(5):
            optimizer.zero_grad()
            model(torch.rand(32, 784, generator=generator)).square().mean().backward()
            optimizer.step()
        out.append([p.detach().clone() for p in model.parameters()])
    # A bucket of at most INLINE bytes needs no thread that completes its future.
    assert "ringside" not in [t.name for t in threading.enumerate()]
    dist.barrier(group=gloo)
    return sum(not torch.equal(a, b) for a, b in zip(*out))


def test_ddp(tmp_path):
    """DDP over two ranks has gloo's parameters bit for bit."""
    assert run(_ddp, 2, tmp_path) == {0: 0, 1: 0}


def _shared(dist, rank, size, gloo):
    """Gradients of DDP by shared buckets and without: whether they have the same bits; and what
    is said of groups that can't."""
    from ringside import torch as back_end

    group, alike, kept = dist.new_group(), [], []
    for view in (False, True):
        sides = []
        for shared in (False, True):
            torch.manual_seed(3)
            layers = torch.nn.Embedding(50, 700, sparse=not view), torch.nn.Linear(700, 700), torch.nn.Linear(700, 3)  # a large bucket, and a small one
            model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(*layers), process_group=group, gradient_as_bucket_view=view)
            if shared:
                back_end.share_buckets(model)
            for step in range(3):  # torch makes other buckets after the first
                model.zero_grad()
                generator = torch.Generator().manual_seed(10 * rank + step)
                model(torch.randint(0, 50, (8,), generator=generator)).square().mean().backward()
            sides.append([p.grad.to_dense() if p.grad.is_sparse else p.grad.clone() for p in model.parameters()])
            kept.append(model)
        exact = size == 2 or not view  # torch divides gradients that are views, and else multiplies
        alike.append(all(torch.equal(a, b) if exact else torch.allclose(a, b, rtol=1e-5, atol=1e-7) for a, b in zip(*sides)))
    del model
    kept.pop()  # whose memory goes to the next
    dist.barrier(group)
    dist.destroy_process_group(group)
    with pytest.raises(RuntimeError, match="group"):
        kept[1](torch.zeros(1, dtype=torch.int64)).mean().backward()
    with pytest.raises(RuntimeError, match="over gloo, expected one over ringside"):
        back_end.share_buckets(torch.nn.parallel.DistributedDataParallel(torch.nn.Linear(2, 2), process_group=gloo))
    return alike


@pytest.mark.parametrize("size", [2, 3])
def test_shared_buckets(tmp_path, size):
    """Buckets in shared memory have the same bits, and outlive neither model nor group."""
    assert run(_shared, size, tmp_path) == dict.fromkeys(range(size), [True, True])


def _in_flight(dist, rank, size, gloo):
    """The result of a call on memory of buckets that are gone before it ends, as after an
    exception in a backward pass, while others are filled."""
    from ringside.torch import _buckets

    class Bucket:
        def __init__(self, tensor):
            self.buffer, self.index = lambda: tensor, lambda: 0

    group, n = dist.new_group(), 1 << 20
    if rank == 0:
        buckets = _buckets.Buckets(group)
        x = buckets.fill(Bucket(torch.full((n,), 4.0)))
        work = group.allreduce([x])
        del buckets
        others = _buckets.Buckets(group)
        others.fill(Bucket(torch.zeros(n)))
        dist.barrier(group=gloo)
    else:
        dist.barrier(group=gloo)
        x = torch.ones(n)
        work = group.allreduce([x])
    work.wait()
    return x.min().item(), x.max().item()


def test_buckets_in_flight(tmp_path):
    assert run(_in_flight, 2, tmp_path) == dict.fromkeys(range(2), (3.0, 3.0))


def _futures(dist, rank, size, gloo):
    """Futures of small and large calls, asked for before and after their end."""
    bad = []
    for n in (1, 1 << 20):
        x = torch.full((n,), float(rank + 1))
        work = dist.all_reduce(x, async_op=True)
        doubled = work.get_future().then(lambda f: f.value()[0] * 2)
        if not torch.equal(doubled.wait(), torch.full((n,), 6.0)):
            bad.append(n)
        work = dist.all_reduce(x, async_op=True)
        work.wait()
        if not work.get_future().done() or work.result()[0][0] != 6:
            bad.append((n, "after its end"))
    return bad


def test_futures(tmp_path):
    assert run(_futures, 2, tmp_path) == {0: [], 1: []}


def _interrupted(wait, dist, rank, size, gloo):
    if rank == 1:
        dist.barrier(group=gloo)
        return 0
    from ringside import _native as native
    library, waits, sent = native.library(), threading.Event(), []

    def announced(call, *arguments):
        waits.set()
        return call(*arguments)

    def interrupt():
        waits.wait()
        sent.append(time.perf_counter())
        os.kill(os.getpid(), signal.SIGINT)

    for name in "ringside_call", "ringside_wait_from":
        setattr(library, name, functools.partial(announced, getattr(library, name)))
    try:
        threading.Thread(target=interrupt).start()
        wait(dist)  # rank 1 never comes
    except KeyboardInterrupt:
        return time.perf_counter() - sent[0]
    finally:
        dist.barrier(group=gloo)


def _all_reduce(dist):
    dist.all_reduce(torch.ones(1))


def _large(dist):
    dist.all_reduce(torch.ones(1 << 20))


def _receive(dist):
    dist.recv(torch.ones(1), 1)


def _later(dist):
    dist.all_reduce(torch.ones(1 << 20), async_op=True).wait()


@pytest.mark.parametrize("wait", [_all_reduce, _large, _receive, _later])
def test_interrupt(tmp_path, wait):
    """Ctrl-C ends a call that waits for another rank, which the timeout would end later."""
    took = run(functools.partial(_interrupted, wait), 2, tmp_path)[0]
    print(f"{1e3 * took:.1f} ms")
    assert took < PATIENCE / 2


def _handled(dist, rank, size, gloo):
    """What runs in a wait, as handlers of signals do, uses the group of the call that waits:
    what it is told, and then the call."""
    x = torch.ones(1)
    if rank == 1:
        dist.barrier(group=gloo)  # once that has run
        dist.all_reduce(x)
        return x.item()
    import ctypes

    from ringside import _native as native
    said, python = [], ctypes.pythonapi

    @ctypes.CFUNCTYPE(ctypes.c_int)
    def check():
        if said:
            return 0
        for use in lambda: dist.all_reduce(torch.ones(1)), lambda: dist.all_reduce(torch.ones(1 << 20)), dist.destroy_process_group:
            try:
                use()
                said.append("nothing")
            except RuntimeError as e:
                said.append("signal handler" in str(e))
        dist.barrier(group=gloo)
        return 0

    functions = python.PyGILState_Ensure, python.PyGILState_Release, check, python.PyErr_Fetch
    native.library().ringside_on_wait(*(ctypes.cast(f, ctypes.c_void_p) for f in functions))
    dist.all_reduce(x)
    return said, x.item()


def test_handlers_may_not_nest(tmp_path):
    """A handler of a signal can neither make a call of the group whose call it interrupts, nor
    destroy the group; the call goes on."""
    assert run(_handled, 2, tmp_path) == {0: ([True, True, True], 2.0), 1: 2.0}


def _threads(dist, rank, size, gloo):
    """Groups that complete futures, and are destroyed, leave no threads."""
    before = threading.active_count()
    for _ in range(3):
        group = dist.new_group()
        dist.all_reduce(torch.ones(1 << 20), group=group, async_op=True).get_future().wait()
        (watcher,) = [t for t in threading.enumerate() if t.name == "ringside"]
        dist.destroy_process_group(group)
        watcher.join(PATIENCE)
    return threading.active_count() - before


def test_no_threads_are_left(tmp_path):
    assert run(_threads, 2, tmp_path) == {0: 0, 1: 0}


def _killed(dist, rank, size, gloo):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.all_reduce(torch.ones(100000))
    except RuntimeError as e:
        return str(e)


def test_killed(tmp_path):
    """The others raise when a rank is killed, and name it."""
    out = run(_killed, 3, tmp_path, survivors=2)
    assert sorted(out) == [0, 2]
    for text in out.values():
        assert "rank 1 " in text and "lost" in text, text


def _killed_in_ddp(dist, rank, size, gloo):
    model = torch.nn.parallel.DistributedDataParallel(torch.nn.Sequential(torch.nn.Linear(600, 600), torch.nn.Linear(600, 1)))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.01)
    passes = []

    def die(_):
        passes.append(None)
        if rank == 1 and len(passes) == 3:
            os.kill(os.getpid(), signal.SIGKILL)

    model.module[0].weight.register_hook(die)
    try:
        while True:
            optimizer.zero_grad()
            model(torch.ones(4, 600)).mean().backward()
            optimizer.step()
    except RuntimeError as e:
        return str(e)


def test_killed_in_ddp(tmp_path):
    """Under DistributedDataParallel too: an exception of the step, not of a timeout."""
    out = run(_killed_in_ddp, 3, tmp_path, survivors=2)
    assert sorted(out) == [0, 2]
    for text in out.values():
        assert "rank 1 " in text and "lost" in text and "timed out" not in text, text


def _killed_in_lane(dist, rank, size, gloo):
    dist.all_reduce(torch.ones(1))
    if rank == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    try:
        dist.recv(torch.ones(1), 1)
    except RuntimeError as e:
        return str(e)


def test_killed_in_lane(tmp_path):
    """A receive from a rank that is killed raises, and names it."""
    out = run(_killed_in_lane, 3, tmp_path, survivors=2)
    assert sorted(out) == [0, 2]
    for text in out.values():
        assert "rank 1 " in text and "lost" in text, text


def _forked(dist, rank, size, gloo):
    dist.all_reduce(torch.ones(1))
    read, write = os.pipe()
    pid = os.fork()
    if pid == 0:
        try:
            dist.all_reduce(torch.ones(1))
            text = "no error"
        except RuntimeError as e:
            text = str(e)
        os.write(write, text.encode())
        os._exit(0)
    os.waitpid(pid, 0)
    x = torch.ones(1)
    dist.all_reduce(x)
    dist.barrier(group=gloo)
    return "forked" in os.read(read, 4096).decode() and x.item() == size


def _sparse(dist, rank, size, gloo):
    for shape, dims, n in (((6,), 1, 2), ((5, 4), 2, 3), ((6, 3), 1, 2), ((4, 4, 2), 2, 0)):
        generator = torch.Generator().manual_seed(100 * rank + n)
        n += rank if n or rank == 1 else 0  # none on a rank, or on all but one
        indices = torch.stack([torch.randint(0, d, (n,), generator=generator) for d in shape[:dims]])
        a = torch.sparse_coo_tensor(indices, torch.rand(n, *shape[dims:], generator=generator), shape)
        b = a.clone()
        work = dist.all_reduce(a, async_op=n % 2 == 0)
        if work is not None:
            work.wait()
        dist.all_reduce(b, group=gloo)
        assert a.is_sparse and a.to_dense().allclose(b.to_dense()), (a, b)
    assert not dist.distributed_c10d._get_default_group()._live  # no call that is not ended
    try:
        dist.all_reduce(a, op=dist.ReduceOp.MAX)
    except RuntimeError as e:
        return "SUM alone" in str(e)


@pytest.mark.parametrize("size", [2, 3])
def test_sparse(tmp_path, size):
    """Sparse tensors are summed as gloo sums them."""
    assert run(_sparse, size, tmp_path) == dict.fromkeys(range(size), True)


def _late(dist, rank, size, gloo):
    import datetime
    few = dist.new_group(timeout=datetime.timedelta(seconds=1))
    said = ""
    if rank == 0:
        try:
            dist.barrier(few)
        except RuntimeError as e:
            said = str(e)
    dist.barrier(gloo)
    return said


def test_late(tmp_path):
    """A call that is not joined in time says which rank is late, and whose time it was."""
    said = run(_late, 2, tmp_path)
    assert "rank 1" in said[0] and "timed out after 1s" in said[0] and " timeout is that of" in said[0] and said[1] == "", said


def test_forked(tmp_path):
    """A forked child is refused, and the group of its parent works on."""
    assert run(_forked, 2, tmp_path) == {0: True, 1: True}


def test_import_is_light():
    """import ringside loads neither torch nor the library."""
    import subprocess
    code = "import sys, ringside; sys.exit('torch' in sys.modules or 'ctypes' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)


def test_refuses_to_go_on_in_plain_text(monkeypatch):
    """Where the environment asks for encryption, no group is made without it."""
    from ringside.torch import ProcessGroupRingside

    monkeypatch.setenv("RINGSIDE_TLS", "1")
    with pytest.raises(RuntimeError, match="does not encrypt"):
        ProcessGroupRingside(None, 0, 1, None)
