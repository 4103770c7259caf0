"""The back end of torch.distributed, beside gloo where both have a call."""

import multiprocessing
import os
import signal
import sys
import threading
import traceback

import pytest

torch = pytest.importorskip("torch")
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
        for n in (1, 1000, 40000):  # on both sides of INLINE
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
    dist.distributed_c10d._get_default_group().close()
    with pytest.raises(RuntimeError, match="no such handle"):
        dist.all_reduce(torch.ones(1))
    return bad


def test_same_as_gloo(tmp_path):
    """Two ranks have gloo's bits; calls may be started, and come back in order."""
    assert run(_same_as_gloo, 2, tmp_path) == {0: [], 1: []}


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
    dist.barrier(group=gloo)
    return sum(not torch.equal(a, b) for a, b in zip(*out))


def test_ddp(tmp_path):
    """DDP over two ranks has gloo's parameters bit for bit."""
    assert run(_ddp, 2, tmp_path) == {0: 0, 1: 0}


def _interrupted(dist, rank, size, gloo):
    if rank == 1:
        dist.barrier(group=gloo)
        return True
    from ringside import _native as native
    library, waits = native.library(), threading.Event()
    call = library.ringside_call

    def announced(*arguments):
        waits.set()
        return call(*arguments)

    def interrupt():
        waits.wait()
        os.kill(os.getpid(), signal.SIGINT)

    library.ringside_call = announced
    try:
        threading.Thread(target=interrupt).start()
        dist.all_reduce(torch.ones(1))  # rank 1 never comes
    except KeyboardInterrupt:
        return True
    finally:
        dist.barrier(group=gloo)
    return False


def test_interrupt(tmp_path):
    """Ctrl-C ends a call that waits for another rank."""
    assert run(_interrupted, 2, tmp_path) == {0: True, 1: True}


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


def test_forked(tmp_path):
    """A forked child is refused, and the group of its parent works on."""
    assert run(_forked, 2, tmp_path) == {0: True, 1: True}


def test_import_is_light():
    """import ringside loads neither torch nor the library."""
    import subprocess
    code = "import sys, ringside; sys.exit('torch' in sys.modules or 'ctypes' in sys.modules)"
    subprocess.run([sys.executable, "-c", code], check=True)
