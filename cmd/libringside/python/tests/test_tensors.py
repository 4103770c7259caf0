"""Sessions, tensors, gradients, views, DLPack, forks, threads, signals, reprs and errors."""

import copy
import ctypes
import itertools
import math
import operator
import os
import pickle
import re
import signal
import subprocess
import sys
import textwrap
import threading
import warnings

import numpy as np
import pytest

import ringside as rs

PATIENCE = 60  # seconds, only against hangs


@pytest.fixture(params=["in process", "cluster of 1", "cluster of 2"])
def session(request):
    if request.param == "in process":
        with rs.session(in_process=True, seed=1) as s:
            yield s
    else:
        with rs.cluster(workers=int(request.param[-1]), seed=1) as c:
            assert all(c.processes.values())
            yield c.session


# stop suspends a process, and returns once none of its threads runs any more.
STOP = """
def stop(pid):
    import os, signal
    os.kill(pid, signal.SIGSTOP)
    def running():
        for thread in os.listdir(f"/proc/{pid}/task"):
            with open(f"/proc/{pid}/task/{thread}/stat") as f:
                if f.read().rpartition(")")[2].split()[0] != "T":
                    return True
    while running():
        pass
"""


def run(program, *args, timeout=PATIENCE, check=True):
    """Runs a program of Python as a process and returns it."""
    p = subprocess.run([sys.executable, "-B", "-c", STOP + textwrap.dedent(program), *args], capture_output=True, text=True, timeout=timeout)
    if check:
        assert p.returncode == 0, p.stdout + p.stderr
    return p


def test_import_is_light():
    run("""
        import sys, ringside as rs
        assert "numpy" not in sys.modules and "torch" not in sys.modules
        with open("/proc/self/maps") as f:
            assert "libringside" not in f.read()
        with rs.no_grad():
            rs.zeros(3).numpy()
        with open("/proc/self/maps") as f:
            assert "libringside" in f.read()
        """)


def test_arithmetic(session):
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    b = np.array([[1.0], [2.0]], np.float32)
    x, y = rs.asarray(a), rs.asarray(b)
    for got, want in ((x + y, a + b), (x - 1, a - 1), (2 - x, 2 - a), (x * y, a * b), (x / y, a / b), (1 / (x + 1), 1 / (a + 1)),
                      (x ** 2, a ** 2), (2 ** x, 2 ** a), (x // 2, a // 2), (x % 2, a % 2), (-x, -a), (abs(-x), a),
                      (x @ x.T, a @ a.T), (x > y, a > b), (x == a, a == a), ((x > 1) & (x < 4), (a > 1) & (a < 4)),
                      (~(x > 1), ~(a > 1)), (a * x, a * a), ([1.0, 2.0, 3.0] + x, a + [1, 2, 3]), (x + np.float32(2), a + 2)):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
    i = rs.asarray([7, -7])
    assert i.dtype is rs.int64 and (i // 2).tolist() == [3, -4] and (i % 3).tolist() == [1, 2] and (i + 1).dtype is rs.int64
    assert (i / 2).dtype is rs.float32 and (rs.ones(2, rs.float64) + 1).dtype is rs.float64
    assert (rs.ones(2, rs.bfloat16) * 3).tolist() == [3, 3]


def test_vectors():
    with rs.session(in_process=True):
        v, m = rs.arange(3, dtype=rs.float32), rs.ones((3, 2))
        assert (v @ v).item() == 5 and (v @ m).tolist() == [3, 3] and (m.T @ v).tolist() == [3, 3]
        assert ([1.0, 2.0, 3.0] @ m).tolist() == [6, 6]
        with pytest.raises(rs.errors.ShapeError):
            v @ rs.ones((2, 2))
        with pytest.raises(rs.errors.ShapeError):
            rs.ones(()) @ v


def test_indexing(session):
    a = np.arange(60, dtype=np.int64).reshape(3, 4, 5)
    x = rs.asarray(a)
    for key in (0, -1, (1, 2), (slice(None), 2), (slice(0, 3, 2), slice(None, None, -1)), (..., 1), (1, ..., None), (None, 2), slice(5, 1),
                (slice(None), slice(-3, -1), 4), ..., (slice(2, None, -2), None, ..., slice(1, 4)), (2, 3, 4)):
        got, want = x[key].numpy(), a[key]
        assert got.shape == want.shape and (got == want).all(), key
    for key in ([0, 2], np.array([[1, 0], [2, 2]]), (slice(None), [3, 0])):
        np.testing.assert_array_equal(x[key].numpy(), a[key])
    np.testing.assert_array_equal(x[rs.asarray([2, 1])].numpy(), a[[2, 1]])
    assert [t.tolist() for t in x[0, :2]] == a[0, :2].tolist() and len(x) == 3
    for key in (3, (0, 0, 0, 0), (0, 4), (..., ...)):
        with pytest.raises(IndexError):
            x[key]
    with pytest.raises(TypeError):
        x[x > 3]
    x[1, 1:3] = -1
    a[1, 1:3] = -1
    x[:, 0, 0] = rs.asarray([7, 8, 9])
    a[:, 0, 0] = [7, 8, 9]
    np.testing.assert_array_equal(x.numpy(), a)


def test_copies(session):
    """What is to be a copy is not changed with its origin, and has its gradient."""
    for copy in (lambda x: x.astype(rs.float32), lambda x: rs.asarray(x, copy=True), lambda x: +x, lambda x: rs.roll(x, 0)):
        x = rs.asarray([1.0, 2.0], requires_grad=True)
        y = copy(x)
        assert rs.grad((y * y).sum(), [x])[0].tolist() == [2.0, 4.0]
        with rs.no_grad():
            y += 1
        assert (x.tolist(), y.tolist()) == ([1.0, 2.0], [2.0, 3.0])
    assert x.astype(rs.float32, copy=False) is x and rs.asarray(x) is x
    assert rs.where(rs.asarray([True, False]), 1, 2).tolist() == [1, 2]


def test_creation():
    with rs.session(in_process=True):
        assert rs.zeros((2, 3)).tolist() == [[0] * 3] * 2 and rs.ones(2).tolist() == [1, 1]
        assert rs.full((), 7).item() == 7 and rs.full(2, True).dtype is rs.bool and rs.full(1, 2.5).dtype is rs.float32
        assert rs.arange(5).tolist() == [0, 1, 2, 3, 4] and rs.arange(5, 0, -2).tolist() == [5, 3, 1] and rs.arange(3, 1).shape == (0,)
        np.testing.assert_allclose(rs.linspace(0, 1, 5).numpy(), np.linspace(0, 1, 5))
        np.testing.assert_array_equal(rs.eye(3, 4, k=1).numpy(), np.eye(3, 4, 1))
        for d in (np.float32, np.float64, np.int32, np.int64, np.uint8, np.bool_, np.float16):
            a = np.array([[0, 1], [2, 3]]).astype(d)
            x = rs.asarray(a)
            assert x.numpy().dtype == a.dtype and (x.numpy() == a).all() and x.nbytes == a.nbytes
        assert rs.asarray(np.arange(6).reshape(2, 3).T[:, ::-1]).tolist() == np.arange(6).reshape(2, 3).T[:, ::-1].tolist()
        assert rs.asarray(1.5).dtype is rs.float32 and rs.asarray(np.float64(1.5)).dtype is rs.float64
        assert rs.asarray(np.array([1, 2], ">i4")).tolist() == [1, 2]
        assert rs.asarray([[]]).shape == (1, 0) and rs.asarray([[]]).numpy().shape == (1, 0)
        with pytest.raises(TypeError):
            rs.asarray(np.array([1 + 2j]))
        with pytest.raises(TypeError), warnings.catch_warnings():
            warnings.simplefilter("error")
            rs.asarray(np.array([1], np.uint16))
        with pytest.raises(OverflowError):
            rs.zeros(2, rs.int64) + (1 << 60)
        assert rs.asarray([1 << 60]).item() == 1 << 60


def test_reads_are_views(session):
    x = rs.arange(1 << 16, dtype=rs.float32) * 2
    a = x.numpy()
    assert not a.flags.writeable and not a.flags.owndata and a[-1] == 2 * 65535
    with pytest.raises(ValueError):
        a[0] = 1
    b = a[100:200]
    x += 1
    del a
    for _ in range(5):
        (x * 3).numpy()
    assert b[0] == 200 and x.numpy()[100] == 201
    c = x.numpy(copy=True)
    c[0] = -1
    assert x.numpy()[0] == 1 and np.asarray(x, dtype=np.float64).dtype == np.float64
    small = (rs.ones(3) + 1).numpy()
    for _ in range(100):
        rs.ones(3).numpy()
    assert small.tolist() == [2, 2, 2]


def test_view_outlives_session():
    with rs.session(in_process=True):
        a = (rs.ones(1 << 16) + 1).numpy()
        small = (rs.ones(2) + 1).numpy()
    assert (a == 2).all() and (small == 2).all()


def test_item():
    with rs.session(in_process=True):
        assert rs.full(1, 3).item() == 3 and rs.full((), True).item() is True and isinstance(rs.full((), 3).item(), int)
        assert rs.full((), 1.5, rs.bfloat16).item() == 1.5 and rs.full((), 1.5, rs.float16).item() == 1.5
        assert float(rs.full((), 2.5)) == 2.5 and int(rs.full((), 2)) == 2 and [10, 20][rs.full((), 1)] == 20
        assert bool(rs.full((), 1)) and f"{rs.full((), 1.25):.1f}" == "1.2"
        with pytest.raises(ValueError):
            rs.ones(2).item()
        with pytest.raises(ValueError):
            bool(rs.ones(2))


def test_gradients(session):
    x = rs.asarray([1.0, 2.0, 3.0], requires_grad=True)
    loss = ((x * x).exp() * x).sum()  # intermediates are gone at once
    g = rs.grad(loss, x, retain_graph=True)
    v = np.array([1.0, 2.0, 3.0])
    np.testing.assert_allclose(g.numpy(), np.exp(v * v) * (1 + 2 * v * v), rtol=1e-5)
    loss.backward()
    loss2 = (x ** 2).sum()
    loss2.backward()
    np.testing.assert_allclose(x.grad.numpy(), np.exp(v * v) * (1 + 2 * v * v) + 2 * v, rtol=1e-5)
    x.grad.zero_()
    assert x.grad.tolist() == [0, 0, 0] and x.data.tolist() == [1, 2, 3]
    x.grad = None
    assert x.grad is None
    with pytest.raises(rs.errors.Released):
        rs.grad(loss, x)
    with rs.no_grad():
        assert not (x * 2).requires_grad
        with rs.enable_grad():
            assert (x * 2).requires_grad
    assert (x * 2).requires_grad and not x.detach().requires_grad
    with pytest.raises(rs.errors.NoGradient):
        rs.grad((x.detach() * 2).sum(), x)
    y = rs.ones(3, requires_grad=True)
    assert rs.grad((x * 2).sum(), [x, y], allow_unused=True)[1].tolist() == [0, 0, 0]
    g = rs.grad((x ** 3).sum(), x, create_graph=True)
    assert rs.grad(g.sum(), x).tolist() == [6, 12, 18]


def test_graph_is_freed():
    with rs.session(in_process=True) as s:
        x = rs.ones(1000, requires_grad=True)
        live = []
        for _ in range(5):
            loss = (x * 2).exp().tanh().sum()
            (g,) = rs.grad(loss, [x])
            g.numpy()
            del loss, g
            live.append(s.stats["live"])
        assert live[0] == live[-1], live


def test_updates(session):
    p = rs.asarray([1.0, 2.0], requires_grad=True)
    before = p * 10
    with rs.no_grad():
        p -= rs.asarray([0.5, 0.5])
        p *= 2
    assert p.tolist() == [1, 3] and before.tolist() == [10, 20] and p.requires_grad
    with pytest.raises(rs.RingsideError, match="NoGrad"):
        p += 1
    alias = q = rs.zeros(2)
    q += 1
    assert alias.tolist() == [1, 1] and q.copy().zero_().tolist() == [0, 0] and q.tolist() == [1, 1]
    with pytest.raises(ValueError):
        q.assign(rs.ones(3))
    with pytest.raises(TypeError):
        q.assign(rs.ones(2, rs.float64))


@pytest.mark.parametrize("kind", ["SGD", "momentum", "Adam", "AdamW"])
def test_optimizers(session, kind):
    import torch
    start, target = np.linspace(-1, 1, 12).astype(np.float32).reshape(3, 4), np.ones((3, 4), np.float32)
    options = {"SGD": {"lr": 0.1}, "momentum": {"lr": 0.1, "momentum": 0.9, "nesterov": True}, "Adam": {"lr": 0.1},
               "AdamW": {"lr": 0.1, "weight_decay": 0.1}}[kind]
    name = "SGD" if kind == "momentum" else kind
    theirs = torch.nn.Parameter(torch.tensor(start))
    mine = rs.asarray(start, requires_grad=True)
    their_opt, opt = getattr(torch.optim, name)([theirs], **options), getattr(rs.optim, name)([mine], **options)
    for step in range(6):
        if step == 3:  # another one goes on
            state = opt.state_dict()
            opt = getattr(rs.optim, name)([mine], **options)
            opt.load_state_dict(state)
            assert opt.steps == 3
        their_opt.zero_grad()
        ((theirs - torch.tensor(target)) ** 2).sum().backward()
        their_opt.step()
        loss = ((mine - target) ** 2).sum()
        if step % 2:
            opt.step(rs.grad(loss, [mine]))
        else:
            loss.backward()
            opt.step()
            opt.zero_grad()
    np.testing.assert_allclose(mine.numpy(), theirs.detach().numpy(), rtol=1e-5, atol=1e-6)


def test_module(session, tmp_path):
    import torch
    model = rs.nn.Sequential(rs.nn.Conv2d(1, 4, 3, padding=1), rs.nn.ReLU(), rs.nn.MaxPool2d(2), rs.nn.Flatten(), rs.nn.Linear(64, 10))
    theirs = torch.nn.Sequential(torch.nn.Conv2d(1, 4, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2), torch.nn.Flatten(), torch.nn.Linear(64, 10))
    assert list(model.state_dict()) == list(theirs.state_dict())
    model.load_state_dict(theirs.state_dict())
    x, y = np.random.default_rng(1).standard_normal((5, 1, 8, 8)).astype(np.float32), np.array([1, 2, 3, 4, 5])
    np.testing.assert_allclose(model(rs.asarray(x)).numpy(), theirs(torch.tensor(x)).detach().numpy(), rtol=1e-4, atol=1e-5)
    loss = rs.nn.cross_entropy(model(rs.asarray(x)), y)
    theirs_loss = torch.nn.functional.cross_entropy(theirs(torch.tensor(x)), torch.tensor(y))
    theirs_loss.backward()
    grads = rs.grad(loss, model.parameters())
    assert abs(loss.item() - theirs_loss.item()) < 1e-5
    for (name, p), g in zip(theirs.named_parameters(), grads):
        np.testing.assert_allclose(g.numpy(), p.grad.numpy(), rtol=1e-3, atol=1e-5, err_msg=name)
    path = tmp_path / "model.safetensors"
    rs.save(path, model, {"step": "7"})
    loaded = rs.load(path)
    assert list(sorted(loaded)) == sorted(model.state_dict()) and rs.files.load_notes(path) == {"step": "7"}
    other = rs.nn.Sequential(*copy.copy(model.layers[:-1]), rs.nn.Linear(64, 10))
    other.load_state_dict(loaded)
    np.testing.assert_array_equal(other.layers[-1].weight.numpy(), model.layers[-1].weight.numpy())
    with pytest.raises(ValueError, match="missing: 4.bias"):
        other.load_state_dict({k: v for k, v in loaded.items() if k != "4.bias"})
    with pytest.raises(rs.RingsideError, match="no-such-file"):
        rs.load(tmp_path / "no-such-file")


def test_attention_trains(session):
    class Block(rs.nn.Module):
        def __init__(self):
            self.norm, self.attention = rs.nn.LayerNorm(16), rs.nn.MultiheadAttention(16, 4, 2, causal=True)
            self.layers = [rs.nn.Linear(16, 32), rs.nn.Linear(32, 16)]
            self.drop, self.out = rs.nn.Dropout(0.1), rs.nn.RMSNorm(16)

        def forward(self, x):
            x = x + self.attention(self.norm(x))
            return self.out(x + self.drop(self.layers[1](rs.gelu(self.layers[0](x)))))

    block = Block()
    assert len(block.parameters()) == 2 + 8 + 4 + 1 and "layers.1.bias" in block.state_dict()
    assert block.eval().drop.training is False and block.train().drop.training
    opt = rs.optim.AdamW(block, lr=1e-2)
    x = rs.random.normal((2, 6, 16))
    losses = []
    for _ in range(30):
        loss = rs.mse(block(x), 0.5)
        opt.step(rs.grad(loss, block.parameters()), clip=1.0)
        losses.append(loss.item())
    assert losses[-1] < losses[0] / 2


def test_random(session):
    rs.random.seed(5)
    a, b = rs.random.normal((1000,)).numpy(copy=True), rs.random.uniform(1000).numpy(copy=True)
    rs.random.seed(5)
    assert (rs.random.normal((1000,)).numpy() == a).all() and (rs.random.uniform(1000).numpy() == b).all()
    assert abs(a.mean()) < 0.15 and 0.9 < a.std() < 1.1 and 0 <= b.min() and b.max() < 1
    with rs.session(in_process=True, seed=5):
        assert (rs.random.normal((1000,)).numpy() == a).all()
    x = rs.ones(1000)
    y = rs.dropout(x, 0.5).numpy()
    assert set(y.tolist()) == {0.0, 2.0} and rs.dropout(x, 0.5, training=False) is x


def test_repr():
    with rs.session(in_process=True):
        for a in (np.arange(6, dtype=np.float32).reshape(2, 3), np.array([1.5, 1e-9], np.float64), np.array([True, False]),
                  np.arange(3), np.arange(2000, dtype=np.int32), np.zeros((2, 2, 2), np.uint8)):
            x = rs.asarray(a)
            text = repr(x)
            inner = np.array2string(a, separator=", ", prefix="Tensor(")
            assert text.startswith("Tensor(" + inner) and text.endswith(f"dtype={a.dtype.name})"), text
            assert str(x) == str(a)
        assert repr(rs.ones(2, requires_grad=True)) == "Tensor([1., 1.], dtype=float32, requires_grad=True)"
        assert repr(rs.ones(2, rs.bfloat16)) == "Tensor([1., 1.], dtype=bfloat16)"
        assert repr(rs.float32) == "ringside.float32" and "Linear(2, 3, bias=True)" in repr(rs.nn.Sequential(rs.nn.Linear(2, 3)))


def test_dlpack():
    import torch
    with rs.session(in_process=True):
        x = rs.arange(6, dtype=rs.float32).reshape(2, 3)
        t = torch.from_dlpack(x)  # of a version without the flag: a copy, which it may write
        t[0, 0] = 100
        assert x.tolist() == [[0, 1, 2], [3, 4, 5]] and t.tolist()[0][0] == 100
        assert np.from_dlpack(x).tolist() == x.tolist()
        del t
        # A consumer of version 1.0 reads the worker's memory, and is told not to write.
        capsule = x.__dlpack__(max_version=(1, 0))
        get = ctypes.pythonapi.PyCapsule_GetPointer
        get.restype, get.argtypes = ctypes.c_void_p, (ctypes.py_object, ctypes.c_char_p)
        m = rs._tensor._Versioned.from_address(get(capsule, b"dltensor_versioned"))
        assert (m.major, m.flags, m.tensor.ndim, list(m.tensor.shape[:2])) == (1, 1, 2, [2, 3])
        view = x.numpy()
        assert m.tensor.data == view.ctypes.data
        del capsule  # unused: its destructor gives the memory back
        capsule = x.__dlpack__(max_version=(1, 0), copy=True)
        m = rs._tensor._Versioned.from_address(get(capsule, b"dltensor_versioned"))
        assert m.flags == 2 and m.tensor.data != view.ctypes.data
        del capsule
        for bad in ({"copy": False}, {"dl_device": (2, 0)}):
            with pytest.raises(BufferError):
                x.__dlpack__(**bad)
        # In: of torch and of ringside, with strides and of every type.
        big = torch.arange(24).reshape(2, 3, 4)
        for source in (big, big.permute(2, 0, 1), big[:, ::2], big.to(torch.float16), big[0, 0, 0], big[:0]):
            got = rs.from_dlpack(source)
            assert got.tolist() == source.tolist() and got.shape == tuple(source.shape)
        assert rs.asarray(big > 3).tolist() == (big > 3).tolist()
        half = torch.tensor([1.5, 2.5], dtype=torch.bfloat16)
        assert rs.asarray(half).dtype is rs.bfloat16 and rs.asarray(half).tolist() == [1.5, 2.5]
        with rs.session(in_process=True):
            other = rs.from_dlpack(x)
            assert other.tolist() == x.tolist() and other.session is not x.session
        with pytest.raises(TypeError):
            rs.from_dlpack(torch.ones(1, dtype=torch.int8))


def test_dlpack_outlives_python():
    run("""
        import torch, ringside as rs
        kept = torch.from_dlpack(rs.ones(1000))  # freed after the interpreter's end
        """)


def test_sessions_apart():
    with rs.session(in_process=True) as s:
        x = rs.ones(2)
        with rs.session(in_process=True) as other:
            y = rs.ones(2)
            with pytest.raises(rs.RingsideError, match="different sessions") as e:
                x + y
            assert repr(s) != repr(other) and f"{s!r} and {other!r}" in str(e.value)
        assert (x + 1).tolist() == [2, 2]
        with pytest.raises(rs.errors.SessionClosed):
            y + 1
    with pytest.raises(rs.errors.SessionClosed):
        x.numpy()
    assert s.close() is None and repr(s) == "Session(closed)"
    for use in (lambda: s.stats, s.tape, s.flush, lambda: s.seed(1), lambda: rs.scope(s).__enter__()):
        with pytest.raises(rs.errors.SessionClosed):
            use()


def test_arrays_outlive_sessions():
    """An array stays as it is when its session is closed, whatever another one then computes."""
    with rs.cluster(workers=1) as c:
        with rs.session(c.addr):
            arrays = [(rs.ones(100_000) * k).numpy() for k in range(8)]
        with rs.session(c.addr):
            for k in range(20):
                assert float((rs.ones(100_000) * -k).numpy()[0]) == -k
        assert [(float(a.min()), float(a.max())) for a in arrays] == [(k, k) for k in range(8)]


def test_closed_by_a_handler():
    """A handler of a signal may close the session in whose call it runs: the call ends."""
    p = run("""
        import os, signal, threading, ringside as rs
        with rs.cluster(workers=1) as c:
            s = rs.session(c.addr)
            signal.signal(signal.SIGALRM, lambda *_: s.close())
            worker = c.processes["w0"]
            with s:
                x = rs.ones(2)
                x.numpy()
                stop(worker)
                signal.setitimer(signal.ITIMER_REAL, 0.2)
                try:
                    (x + 1).numpy()
                except rs.errors.SessionClosed:
                    print("closed")
                os.kill(worker, signal.SIGCONT)
        """)
    assert p.stdout == "closed\n"


def test_scope(session):
    x = rs.ones(4)
    with rs.scope() as sc:
        gone, kept = x + 1, sc.keep(x + 2)
    assert kept.tolist() == [3] * 4 and x.tolist() == [1] * 4
    with pytest.raises(rs.errors.Released):
        gone.numpy()


def test_recorded_ahead_in_scopes():
    """A scope refuses what it freed at once, and operations are recorded ahead in it and
    after it."""
    with rs.session(in_process=True) as s:
        x = rs.ones(4)
        rs.exp(x + 1.0).numpy()  # known now
        with rs.scope() as outer:
            with rs.scope() as inner:
                y = x + 1.0
                gone = rs.exp(y)
                assert len(s._calls) >= 2
                inner.keep(y)
            z, late = y + 1.0, outer.keep(y + 1.0)
            assert len(s._calls) >= 2
            for use in (lambda: gone + 1.0, lambda: rs.exp(gone), lambda: x * gone, lambda: gone.T):
                with pytest.raises(rs.errors.Released):
                    use()
        for use in (lambda: y + 1.0, lambda: rs.exp(z)):
            with pytest.raises(rs.errors.Released):
                use()
        w = rs.exp(late + 1.0)
        assert len(s._calls) >= 2 and s._plain
        np.testing.assert_allclose(w.numpy(), np.exp(np.full(4, 4.0)), rtol=1e-6)


def test_scope_ends_by_an_error():
    """An operation that fails when a scope's end hands it over does not keep the scope open."""
    with rs.session(in_process=True) as s:
        x = rs.ones(4)
        rs.exp(x).numpy()  # known now
        with pytest.raises(rs.errors.RingsideError, match="no such handle"):
            with rs.scope():
                gone = rs.exp(x)
                exp = rs._ops.op("exp").t
                s._calls.append(rs._ops.pack_t(exp, s._next(), 12345))
        assert s._plain
        with pytest.raises(rs.errors.Released):
            gone.numpy()


def test_errors_name_the_line():
    with rs.session(in_process=True):
        x = rs.ones((2, 3))
        with pytest.raises(ValueError, match=r"\[2 3\] and \[4\].*test_tensors.py:\d+\)"):
            x + rs.ones(4)
        idx = rs.asarray([0, 9])
        line = sys._getframe().f_lineno + 1
        y = rs.take(x, idx, axis=0)
        z = rs.ones(3)
        with pytest.raises(IndexError, match=f"test_tensors.py:{line}\\)"):
            y.numpy()
        with pytest.raises(IndexError, match=f"test_tensors.py:{line}\\)"):
            (y + 1).numpy()  # what depends on it
        assert z.tolist() == [1, 1, 1]  # what was computed beside it
        assert (x + 1).tolist() == [[2, 2, 2]] * 2  # the session goes on
        with pytest.raises(rs.RingsideError, match="no operation 'nonsense'"):
            rs.apply("nonsense", x)
        with pytest.raises(TypeError):
            x + "text"
        with pytest.raises(TypeError):
            rs.zeros(2, "complex64")


def test_pickling_refused(session):
    for x, advice in ((rs.ones(2), "numpy"), (session, "ringside.connect")):
        with pytest.raises(TypeError, match=advice):
            pickle.dumps(x)
    assert pickle.loads(pickle.dumps(rs.float32)) is rs.float32
    t = copy.deepcopy(rs.ones(2, requires_grad=True))
    assert t.requires_grad and t.tolist() == [1, 1]


def test_not_copied(session):
    """What lies in a session or a process is neither copied nor pickled: two would end one."""
    optimizer = rs.optim.SGD([rs.ones(2, requires_grad=True)])
    with rs.cluster(workers=1, processes=False) as c:
        for x, advice in ((optimizer, "state_dict"), (c, "addr")):
            for f in (pickle.dumps, copy.copy, copy.deepcopy):
                with pytest.raises(TypeError, match=advice):
                    f(x)
    optimizer.step([rs.ones(2)])
    assert optimizer.steps == 1


@pytest.mark.parametrize("call, error, said", [
    (lambda: rs.zeros((1 << 64,)), TypeError, "full of.*18446744073709551616.*expected"),
    (lambda: rs.apply("reshape", rs.ones(1), ints=("a",)), TypeError, "reshape of.*'a'"),
    (lambda: rs.apply("exp", None), TypeError, "exp of.*None"),
    (lambda: setattr(rs.ones(1, requires_grad=True), "grad", 3), TypeError, "tensor or None, not 3"),
    (lambda: rs.optim.SGD([1.0]), TypeError, "parameter 0 of an optimizer is 1.0"),
    (lambda: rs.full(2, 256, rs.uint8), OverflowError, "full of 256: ringside.uint8 has 0 to 255"),
    (lambda: rs.full(2, -(1 << 31) - 1, rs.int32), OverflowError, "int32"),
    (lambda: rs.save("never.safetensors", {"a": rs.ones(1), "b": 2}), TypeError, "save of b, which is 2"),
    (lambda: rs.cluster(workers=0), ValueError, "0 workers"), (lambda: rs.session(in_process=True, workers=-1), ValueError, "-1 workers"),
    (lambda: rs.session(in_process=True, threads=-2), ValueError, "-2 threads"),
])
def test_bad_arguments(call, error, said):
    with rs.session(in_process=True), pytest.raises(error, match=said):
        call()


def test_made_directly():
    """It is of no use, and says nothing when it is freed."""
    p = run("""
        import ringside as rs
        try:
            rs.Tensor()
        except TypeError:
            pass
        """)
    assert not p.stderr, p.stderr


def test_threads(session):
    wrong = []

    def work(k):
        try:
            with session_of(session):
                w = rs.full(8, k + 1.0, requires_grad=True)
                for i in range(25):
                    if k % 2:
                        with rs.no_grad():
                            (w * 2).numpy()
                    g = rs.grad((w * w * (k + 1)).sum(), w)
                    if not (g.numpy() == 2 * (k + 1) ** 2).all():
                        wrong.append((k, i, g.tolist()))
        except BaseException as e:
            wrong.append((k, e))

    threads = [threading.Thread(target=work, args=(k,)) for k in range(4)]
    for t in threads:
        t.start()
    for t in threads:
        t.join(PATIENCE)
        assert not t.is_alive()
    assert not wrong


def test_flags_are_each_threads_own():
    """Threads that are in one with statement, as those that call one decorated function, leave
    it as they came."""
    with rs.session(in_process=True) as s:
        x, shared, entered, leave, seen = rs.ones(2, requires_grad=True), rs.no_grad(), threading.Event(), threading.Event(), []

        def other():
            with session_of(s):
                with shared:
                    entered.set()
                    leave.wait(PATIENCE)
                seen.append((x * 2).requires_grad)

        thread = threading.Thread(target=other)
        with rs.no_grad():
            with shared:
                thread.start()
                assert entered.wait(PATIENCE)
            seen.append((x * 2).requires_grad)
        leave.set()
        thread.join(PATIENCE)
        assert seen == [False, True] and (x * 2).requires_grad


class session_of:
    """Makes a session the thread's, without closing it."""

    def __init__(self, s):
        self.s = s

    def __enter__(self):
        rs._ops.state.sessions.append(self.s)

    def __exit__(self, *_):
        rs._ops.state.sessions.remove(self.s)


def test_forked_child_is_refused():
    run("""
        import os, ringside as rs
        x = rs.ones(4) + 1
        assert x.tolist() == [2] * 4
        child = os.fork()
        if child == 0:
            code = 1
            try:
                x.numpy()
            except rs.RingsideError as e:
                code = 0 if "forked" in str(e) else 2
            del x
            os._exit(code)
        assert os.waitpid(child, 0)[1] == 0
        assert (x * 2).tolist() == [4] * 4
        """)


def test_fork_before_use():
    run("""
        import multiprocessing, ringside as rs
        def work(k):
            return (rs.ones(2) * k).tolist()
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map(work, range(3)) == [[0, 0], [1, 1], [2, 2]]
        """)


INTERRUPTED = """
    import os, signal, threading, time, ringside as rs
    with rs.cluster(workers=1, processes=True) as c:
        x = rs.ones(4) + 1
        x.numpy()
        worker = c.processes["w0"]
        stop(worker)
        threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            (x * 2).numpy()
            raise SystemExit("it did not wait")
        except KeyboardInterrupt:
            pass
        os.kill(worker, signal.SIGCONT)
        assert (x * 3).tolist() == [6] * 4, "the session did not go on"
    """


def test_interrupt():
    run(INTERRUPTED)


LONG = """
    import os, signal, threading, ringside as rs
    def long(n):
        x = rs.asarray([[float(i == j) for j in range(1024)] for i in range(1024)])
        y = x * 2
        for _ in range(n):
            y = y @ x
        return y
    def interrupted(f):
        threading.Timer(0.05, lambda: os.kill(os.getpid(), signal.SIGINT)).start()
        try:
            f()
        except KeyboardInterrupt:
            return
        raise SystemExit("it did not wait")
    """


def test_interrupt_in_process():
    """Ctrl-C ends the wait for a program of this process. The next call waits for that
    program, until Ctrl-C ends that wait, too; nothing that was recorded is lost."""
    run(LONG + """
    for read in (lambda y: y.numpy(copy=True), lambda y: y.numpy(), lambda y: y[0, 0].item(), lambda y: rs.flush()):
        with rs.session(in_process=True):
            y = long(40)
            y + y[0, 0]  # now it is known and need not be seen by the library at once
            interrupted(lambda: read(y))
            z = y + y[0, 0]
            for _ in range(2):
                interrupted(lambda: z.numpy())
            assert y[1, :2].tolist() == [0, 2] and z[1, :2].tolist() == [2, 4]
            assert rs.current_session().stats["held"] == 2, rs.current_session().stats
    """)


def test_interrupts_lose_no_tensor():
    """Wherever a handler raises, the exception arrives, and what the interrupted code made
    is freed."""
    run("""
        import gc, random, signal, numpy as np, ringside as rs
        rng, fired, caught = random.Random(1), 0, 0
        def handler(*_):
            global fired
            fired += 1
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, handler)
        with rs.session(in_process=True) as s:
            model, x, y = rs.nn.Linear(8, 1), rs.ones((4, 8)), np.ones((4, 1), np.float32)
            optimizer, first = rs.optim.AdamW(model), rs.asarray(np.zeros(4, np.int64))
            def step(own):
                loss = ((model(x) - rs.asarray(y) * 2.0) ** 2.0).mean() + rs.nn.cross_entropy(x, first)
                if own:
                    optimizer.step(rs.grad(loss, list(optimizer.params.values())))
                else:
                    loss.backward()
                    model.weight.grad.sum().item()
                    optimizer.step()
                    optimizer.zero_grad()
                return loss.detach().item(), x.numpy()[0, 0]
            def held():
                optimizer.zero_grad()
                gc.collect()
                return s.stats["held"]
            for i in range(4):
                step(i % 2)
            before = held()
            for i in range(600):
                try:
                    try:
                        signal.setitimer(signal.ITIMER_REAL, rng.uniform(2e-5, 8e-4))
                        step(i % 2)
                    finally:
                        signal.setitimer(signal.ITIMER_REAL, 0)
                except KeyboardInterrupt:
                    caught += 1
            assert held() == before and caught == fired > 50, (before, held(), caught, fired)
        """)


def test_end_after_interrupt():
    """A session that is closed, and the end of the interpreter, wait for no program."""
    run(LONG + """
    with rs.session(in_process=True):
        y = long(4000)  # minutes
        interrupted(lambda: y.numpy())
    rs.connect(in_process=True)
    z = long(4000)
    interrupted(lambda: z.numpy())
    interrupted(lambda: z.numpy())
    """, timeout=PATIENCE / 2)


def test_handlers_may_not_nest():
    run("""
        import os, signal, threading, ringside as rs
        said = []
        with rs.cluster(workers=1, processes=True) as c:
            x = rs.ones(4) + 1
            x.numpy()
            def handler(*_):
                try:
                    x.numpy()
                except rs.RingsideError as e:
                    said.append(str(e))
                os.kill(c_worker, signal.SIGCONT)
            c_worker = c.processes["w0"]
            signal.signal(signal.SIGUSR1, handler)
            stop(c_worker)
            threading.Timer(0.3, lambda: os.kill(os.getpid(), signal.SIGUSR1)).start()
            assert (x * 2).tolist() == [4] * 4
        assert said and "signal handler" in said[0], said
        """)


def test_worker_killed():
    with rs.cluster(workers=1, processes=True) as c:
        x = rs.ones(4) + 1
        x.numpy()
        os.kill(c.processes["w0"], signal.SIGKILL)
        with pytest.raises(rs.errors.SessionLost, match="w0"):
            (x * 2).numpy()


def test_signals_and_config(tmp_path):
    config = tmp_path / "placement.yaml"
    config.write_text("workers: 2\nrows:\n  shard: {axis: 0}\n")
    a = np.arange(40, dtype=np.float32).reshape(10, 4)
    with rs.cluster(workers=2, config=config):
        with rs.signal("rows"):
            x = rs.asarray(a)
        y = rs.ones((10, 4)).signal("rows")
        np.testing.assert_array_equal((x + y).sum(axis=0).numpy(), (a + 1).sum(axis=0))
    config.write_text("rows:\n  shard: {axis: 0}\n")  # for all workers of the cluster
    with rs.cluster(workers=2, config=config) as c, rs.signal("rows"):
        assert "w1" in rs.asarray(a).device
        with pytest.raises(rs.RingsideError, match="workers: 2"):
            rs.session(c.addr, config=config)
    with pytest.raises(rs.RingsideError, match="placement.yaml"):
        config.write_text("workers: no\n")
        rs.session(in_process=True, config=config)


def test_recorded_ahead():
    """What is known not to fail is handed over with others: by reads, errors, and in numbers."""
    with rs.session(in_process=True) as s:
        x = rs.ones(4)
        (x + 1.0).numpy()
        y = x + 1.0
        assert len(s._calls) == 1 and y.shape == (4,) and y.dtype is rs.float32 and len(s._calls) == 1
        with pytest.raises(ValueError):  # is found at its line
            y + rs.ones(3)
        assert not s._calls and (y * 1).tolist() == [2] * 4
        for _ in range(800):
            y = y + 1.0
            assert len(s._calls) < 256
        assert y.tolist() == [802] * 4
        z = y + 1.0
        with rs.no_grad():
            w = y + 1.0
        leaf = rs.ones(4, requires_grad=True)
        (leaf + 1.0).numpy()
        with rs.no_grad():
            off = leaf + 1.0
        on = leaf + 1.0
        assert len(s._calls) >= 2 and on.requires_grad and not off.requires_grad and z.tolist() == w.tolist()
        with rs.session(in_process=True) as other:
            theirs = rs.ones(4)
            (theirs + theirs).numpy()
            with pytest.raises(rs.RingsideError, match="different sessions"):
                theirs + x
            assert (theirs + theirs).tolist() == [2] * 4
            late = theirs + 1.0
        assert not other._calls or other._id == 0
        with pytest.raises(rs.errors.SessionClosed):
            late.numpy()
        with rs.scope():
            gone = x + 1.0
        with pytest.raises(rs.errors.Released):
            gone + 1.0
        assert s.tape() is not None and s.stats["held"] > 0


@pytest.mark.parametrize("name, value", [("version_info", (3, 9, 18)), ("_is_gil_enabled", lambda: False)])
def test_recorded_at_once(monkeypatch, name, value):
    """A Python whose threads may come between any two instructions records nothing ahead."""
    monkeypatch.setattr(sys, name, value, raising=False)
    with rs.session(in_process=True) as s:
        x = rs.ones(4)
        for _ in range(3):
            y = x @ x + x * 2.0 + rs.exp(x).T
            assert not s._calls
        assert y.shape == (4,)


def test_recorded_ahead_by_threads():
    """A thread uses what another recorded and did not hand over."""
    with rs.session(in_process=True) as s:
        x = rs.ones(8)
        (x + 1.0).numpy()
        wrong, steps = [], 300
        turns = [threading.Semaphore(1), threading.Semaphore(0)]
        value = [x]

        def work(k):
            with session_of(s):
                for _ in range(steps):
                    turns[k].acquire()
                    value[0] = value[0] + 1.0
                    if len(s._calls) == 7 and (value[0] * 1).sum().item() % 8:
                        wrong.append(k)
                    turns[1 - k].release()

        threads = [threading.Thread(target=work, args=(k,)) for k in range(2)]
        for t in threads:
            t.start()
        for t in threads:
            t.join(PATIENCE)
            assert not t.is_alive()
        assert not wrong and value[0].tolist() == [2 * steps + 1] * 8


def test_handlers_may_record():
    """A signal's handler that comes between two lines records and reads, also while what is
    recorded is handed over; neither loses anything."""
    run("""
        import signal, ringside as rs
        with rs.session(in_process=True) as s:
            x = rs.ones(4)
            (x + 1.0).numpy()
            seen, bad = 0, []
            def handler(*_):
                global seen
                seen += 1
                k = seen % 70  # another signal may come here, too
                try:
                    y = x
                    for _ in range(k):
                        y = y + 1.0
                    if y.tolist() != [1 + k] * 4:
                        bad.append((k, y.tolist()))
                except rs.RingsideError as e:
                    if "signal handler" not in str(e):  # it interrupts a call of the library
                        bad.append(e)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.001, 0.0007)
            n, z = 0, x
            while seen < 400:
                z = z + 1.0
                n += 1
                if n % 1000 == 0:
                    assert z.tolist() == [n + 1] * 4, (n, z.tolist())
            signal.setitimer(signal.ITIMER_REAL, 0)
            assert z.tolist() == [n + 1] * 4, (n, z.tolist())
            assert not bad, bad
            del z
            s.flush(wait=True)
            assert s.stats["held"] < 20, s.stats
        """)


def test_uploads_free():
    """A program that only uploads holds few of the large tensors that it let go."""
    with rs.session(in_process=True) as s:
        a = np.zeros(1 << 16, np.float32)
        for _ in range(50):
            x = rs.asarray(a)
            assert len(s._dead) < 3
        assert x.shape == a.shape and s.stats["held"] < 3


def test_many_drops():
    with rs.session(in_process=True) as s:
        y = x = rs.ones(4)
        for _ in range(20000):
            y = y + 1.0
        assert y.tolist() == [20001.0] * 4
        s.flush(wait=True)
        assert s.stats["live"] < 1000 and s.stats["held"] == 2, s.stats


def test_layers_as_by_operators():
    """A linear layer has the bits and the gradients of x @ w.T + b, the first time and when
    its result is known, and keeps nothing in between."""
    with rs.session(in_process=True) as s:
        for dtype in (rs.float32, rs.float64, rs.bfloat16):
            for shape in ((8,), (4, 8), (2, 3, 8)):
                layer = rs.nn.Linear(8, 5)
                w, b = (rs.astype(p, dtype).detach().requires_grad_() for p in (layer.weight, layer.bias))
                layer.weight, layer.bias = w, b
                x = rs.astype(rs.random.normal(shape), dtype)
                held = []
                for _ in range(4):
                    y, z = layer(x), x @ w.T + b
                    assert y.shape == z.shape == (*shape[:-1], 5) and y.dtype == z.dtype == dtype
                    assert y.tolist() == z.tolist()
                    for g, h in zip(rs.grad(y.sum(), [w, b]), rs.grad(z.sum(), [w, b])):
                        assert g.tolist() == h.tolist()
                    with rs.no_grad():
                        assert not layer(x).requires_grad
                    with rs.scope():
                        assert layer(x).tolist() == z.tolist()
                    del y, z, g, h
                    held.append(s.stats["held"])
                assert held[1] == held[-1], held
        with pytest.raises(rs.RingsideError, match="matmul"):
            layer(rs.ones((4, 7)))
        with rs.session(in_process=True), pytest.raises(rs.RingsideError, match="different sessions"):
            layer(rs.astype(rs.ones((2, 3, 8)), dtype))


def test_lines_of_known_operations():
    """An operation whose operands are as before names the line that recorded it, when it
    fails, not that of the first one."""
    with rs.session(in_process=True) as s:
        x = rs.ones((3, 4))
        for at in (1, 2, 0):
            assert rs.take(x, rs.asarray(np.array([at])), axis=0).shape == (1, 4)
        wrong = rs.asarray(np.array([7]))
        s.flush()
        y = rs.take(x, wrong, axis=0)
        line = sys._getframe().f_lineno - 1
        assert len(s._calls) == 1  # it is recorded ahead
        z = y + 1.0
        with pytest.raises(IndexError, match=f"test_tensors.py:{line}\\)"):
            z.numpy()
        exec(compile("def far(x, i, take):\n\n\n    return take(x, i, axis=0)", "far.py", "exec"), names := {})
        with pytest.raises(IndexError, match=r"far.py:4\)"):
            names["far"](x, wrong, rs.take).numpy()


OPERATORS = [operator.add, operator.sub, operator.mul, operator.truediv, operator.floordiv, operator.mod, operator.pow, operator.eq,
             operator.ne, operator.lt, operator.le, operator.gt, operator.ge]


@pytest.mark.parametrize("f", OPERATORS, ids=lambda f: f.__name__)
@pytest.mark.parametrize("left", [np.array([3.0, 5.0], np.float32), np.float32(3)], ids=["array", "number"])
def test_operators_of_numpy(f, left):
    """An operator between an array or number of NumPy and a tensor results in a tensor."""
    with rs.session(in_process=True):
        right = np.array([2.0, 5.0], np.float32)
        got = f(left.copy(), rs.asarray(right))
        assert type(got) is rs.Tensor
        np.testing.assert_allclose(got.numpy(), f(left.copy(), right), rtol=1e-6)


def test_functions_of_numpy():
    """A function of NumPy takes no tensor, and says what does the same."""
    with rs.session(in_process=True):
        x, a = rs.ones(2), np.ones(2, np.float32)
        mask = np.array([True, False])
        assert (mask & rs.asarray(mask)).tolist() == [True, False] and (mask | rs.asarray(~mask)).tolist() == [True, True]
        assert (np.ones((2, 2), np.float32) @ rs.ones((2, 2))).shape == (2, 2)
        for call, text in (
            (lambda: np.sin(x), "np.sin of a ringside tensor: use ringside.sin(x), or the tensor's numpy()"),
            (lambda: np.arctan(x), "np.arctan of a ringside tensor: use the tensor's numpy()"),
            (lambda: np.absolute(x), "use ringside.abs(x), or"),
            (lambda: np.add(x, a), "np.add of a ringside tensor: use ringside.add(a, b), or"),
            (lambda: np.maximum(x, 0), "use ringside.maximum(a, b), or"),
            (lambda: np.power(x, a), "use ringside.pow(a, b), or"),
            (lambda: np.add.reduce(x), "np.add.reduce of a ringside tensor: use ringside.sum(x), or"),
            (lambda: np.add(a, x, out=a), "np.add of a ringside tensor into an array: use the tensor's numpy()"),
            (lambda: operator.iadd(a, x), "np.add of a ringside tensor into an array"),
        ):
            with pytest.raises(TypeError, match=re.escape(text)):
                call()
        assert a.tolist() == [1, 1]


def test_lines_of_equal_functions():
    """Functions of different files that are the same otherwise have lines of their own."""
    with rs.session(in_process=True):
        x, wrong = rs.ones((3, 4)), rs.asarray(np.array([7]))
        for _ in range(2):
            for file in "one.py", "two.py":
                exec(compile("def far(x, i, take):\n    return take(x, i, axis=0)", file, "exec"), names := {})
                with pytest.raises(IndexError, match=f"{file}:2"):
                    names["far"](x, wrong, rs.take).numpy()


def test_attributes_that_equal_integers():
    """A call that is known takes no floats as attributes, though they equal its integers."""
    with rs.session(in_process=True):
        x = rs.ones((2, 3))
        for _ in range(2):
            assert rs.apply("reshape", x, ints=(3, 2)).shape == (3, 2)
        with pytest.raises(TypeError, match="reshape"):
            rs.apply("reshape", x, ints=(3.0, 2))


def test_numbers_after_many_sessions(monkeypatch):
    """Numbers of results stay below 2**63, however many sessions a program opens."""
    for n in (1 << 21) - 1, 1 << 22, 1 << 40:
        monkeypatch.setattr(rs._session, "_made", itertools.count(n))
        with rs.session(in_process=True):
            x = rs.ones(2)
            for _ in range(3):
                x = x + 1.0
            assert x.tolist() == [4, 4]


def test_step_beside_a_wait():
    """A step is taken once though a handler of a signal uses the session, or raises, while
    the call that hands the step over waits for another thread's; gradients that end so can
    be asked for again."""
    run("""
        import signal, sys, threading, time, ringside as rs

        class Stop(Exception):
            pass

        def reads(*_):
            seen.item()
        def catches(*_):
            try:
                seen.item()
            except rs.RingsideError:
                pass
        def catches_and_raises(*_):
            catches()
            raise Stop
        def raises(*_):
            raise Stop

        with rs.session(in_process=True) as s:
            seen = rs.asarray(5.0)
            p, q = (rs.asarray([x], requires_grad=True) for x in (8.0, 3.0))
            one, a = rs.asarray([1.0]), rs.random.normal((1200, 1200))
            opt, want = rs.optim.SGD([p], lr=1.0), 8
            for t in seen, p, q, one, a:
                t.numpy()
            for handler in reads, catches, catches_and_raises, raises:
                signal.signal(signal.SIGALRM, handler)
                loss = (q * q).sum()
                for ends in (lambda: p.detach().sum().item()), (lambda: rs.grad(loss, q).item()):
                    b = a
                    for _ in range(8):
                        b = b @ a * 0.03
                    t = threading.Thread(target=b.numpy)
                    t.start()
                    time.sleep(0.02)
                    opt.step([one])
                    want -= 1
                    signal.setitimer(signal.ITIMER_REAL, 0.05)
                    again = False
                    try:
                        ends()
                    except (Stop, rs.RingsideError) as e:
                        again = True
                        assert "Stop" in repr(e) or "signal handler" in str(e), e
                    signal.setitimer(signal.ITIMER_REAL, 0)
                    t.join()
                    assert not again or ends() in (want, 6)
                    assert p.detach().tolist() == [want], (handler, p.detach().tolist(), want)
            assert opt.steps == 8
        """)


def test_optimizer_dropped_beside_a_hand_over(monkeypatch):
    """An optimizer that is dropped after its step, while another one is being closed, is
    closed after the step was handed over."""
    with rs.session(in_process=True) as s:
        p, one = rs.asarray([5.0], requires_grad=True), rs.asarray([1.0])
        p.numpy(), one.numpy()
        first, others, end = rs.optim.SGD([p], lr=1.0), [rs.optim.SGD([p], lr=2.0)], s._close_handle

        def ended(handle):
            end(handle)
            if others:
                others.pop().step([one])

        monkeypatch.setattr(s, "_close_handle", ended)
        first.step([one])
        del first
        s._hand()
        assert p.detach().tolist() == [2] and not s._ended and not others


def test_errors_come_to_their_thread():
    """An error of gradients comes to the thread that asked for them."""
    with rs.session(in_process=True):
        x, c = rs.asarray([1.0], requires_grad=True), rs.asarray([1.0])
        stop, wrong = threading.Event(), []

        def other():
            while not stop.is_set():
                try:
                    (c * 2.0).sum().item()
                except Exception as e:
                    wrong.append(e)

        interval = sys.getswitchinterval()
        sys.setswitchinterval(1e-5)
        try:
            thread = threading.Thread(target=other)
            thread.start()
            for _ in range(1000):
                with pytest.raises(rs.errors.NoGradient):
                    rs.grad(c.sum(), [x])
        finally:
            stop.set()
            thread.join()
            sys.setswitchinterval(interval)
        assert not wrong, wrong


def test_more_lines_than_numbers(monkeypatch):
    """Where the library has no number for a line, its operation is handed over at once."""
    monkeypatch.setattr(rs._ops, "_lines", type("Full", (dict,), {"get": lambda *_: (b"", None)})())
    with rs.session(in_process=True) as s:
        x = rs.ones((3, 4))
        for at in (1, 7):
            y = rs.take(x, rs.asarray(np.array([at])), axis=0)
            line = sys._getframe().f_lineno - 1
            assert not s._calls
        with pytest.raises(IndexError, match=f"test_tensors.py:{line}\\)"):
            y.numpy()


def test_steps_ahead():
    """A step that cannot fail is handed over with the next read, also of an optimizer that
    has no variable any more; one that may fail does so at its line."""
    with rs.session(in_process=True) as s:
        x = rs.asarray([3.0]).requires_grad_()
        opt = rs.optim.SGD([x], lr=0.5)

        def gradient():
            return rs.grad((x * x).sum(), [x])

        opt.step(gradient())
        assert len(s._calls) == 1 and x.tolist() == [0] and not s._calls
        with rs.no_grad():
            x.assign(rs.asarray([2.0]))
        (x * x).sum().backward()
        opt.step()
        assert len(s._calls) == 1 and opt.steps == 2 and x.tolist() == [0] and opt.state_dict()["steps"] == 2
        opt.step([None])
        assert len(s._calls) == 1 and opt.steps == 3
        g = gradient()
        with rs.scope():
            opt.step(g)
            assert not s._calls
        for lr, grads, match in (math.nan, g, "rate of NaN"), (0.5, [rs.ones((1, 1))], "do not fit"), (0.5, [rs.ones(1), None], "2 gradients of 1"), (0.5, [], "0 gradients of 1"):
            opt.lr = lr
            with pytest.raises(rs.RingsideError, match=match):
                opt.step(grads)
        opt.lr = 0.5
        with pytest.raises(rs.RingsideError, match="norm of -1"):
            opt.step(g, clip=-1)
        with rs.session(in_process=True), pytest.raises(rs.RingsideError, match="different sessions"):
            opt.step([rs.ones(1)])
        with rs.no_grad():
            x.assign(rs.asarray([4.0]))
        opt.step(gradient())
        del opt
        assert len(s._ended) == 1 and x.tolist() == [0] and not s._ended
        opt = rs.optim.SGD([x], lr=0.5)
        opt.step(gradient())
        s.close()
        with pytest.raises(rs.errors.SessionClosed):
            opt.step([g[0]])
        del opt
        assert not s._ended


def test_gradients_in_a_handler():
    """Gradients that a handler of a signal asks for while a call of the library waits are an
    error, and the graph stays for who catches it."""
    run("""
        import signal, time, numpy as np, ringside as rs
        with rs.session(in_process=True) as s:
            x = rs.ones(4, requires_grad=True)
            loss, errors = (x * 3.0).sum(), []
            def handler(*_):
                try:
                    rs.grad(loss, x)
                except rs.RingsideError as e:
                    errors.append(str(e))
                    signal.setitimer(signal.ITIMER_REAL, 0)
            signal.signal(signal.SIGALRM, handler)
            signal.setitimer(signal.ITIMER_REAL, 0.05, 0.05)
            big = rs.ones((3000, 3000))
            y = big
            for _ in range(6):
                y = y @ big * 1e-4
            y.sum().item()
            signal.setitimer(signal.ITIMER_REAL, 0)
            if errors:
                assert "signal handler" in errors[0], errors
                assert rs.grad(loss, x).tolist() == [3] * 4
        """)


@pytest.mark.parametrize("module", ["random", "files", "optim", "nn", "train", "gt", "errors", "dtypes"])
def test_any_module_first(module):
    """Tensors have their methods whichever module of the package is imported first."""
    run(f"""
        import ringside.{module}
        import ringside as rs
        x = rs.random.normal((2, 3))
        assert x.sum().shape == () and x.reshape((6,)).mean().shape == ()
    """)
    run(f"""
        from ringside import {module}, random
        assert random.uniform((2, 3)).sum().shape == ()
    """)


def test_gradients_twice(session):
    """The graph of a loss is gone after its gradients, whether something was read since or
    not, and the error says what keeps it."""
    for read in (False, True):
        w = rs.ones(3).requires_grad_()
        def twice(first, second, **keep):
            loss = (w * w).sum()
            first(loss, **keep)
            if read:
                loss.item()
            second(loss)
        ways = [lambda l, **keep: l.backward(**keep), lambda l, **keep: rs.grad(l, w, **keep)]
        for first, second in itertools.product(ways, ways):
            with pytest.raises(rs.errors.Released, match="retain_graph=True"):
                twice(first, second)
            twice(first, second, retain_graph=True)
        leaf = rs.ones(()).requires_grad_()
        leaf.backward()
        leaf.backward()
        assert leaf.grad.item() == 2
        h = w * 2.0
        one, two = h.sum(), (h * h).sum()
        one.backward()
        two.backward()  # which has a graph of its own


def test_numbers_beside_tensors_again():
    """A call with a number gives the same when it is recorded ahead, which it is from the
    second time on: value, dtype, gradient and error."""
    calls = [lambda x, n: x + n, lambda x, n: n + x, lambda x, n: x - n, lambda x, n: n - x, lambda x, n: x * n, lambda x, n: n * x,
             lambda x, n: x / n, lambda x, n: n / x, lambda x, n: x > n, lambda x, n: n > x]
    with rs.session(in_process=True) as s:
        for dtype in (rs.float32, rs.float64, rs.int32, rs.int64):
            x = rs.asarray([1, 2, 4], dtype=dtype)
            for call in calls:
                for n in (2, 2.5, -3):
                    first, again = call(x, n), call(x, n)
                    assert (first.dtype, first.tolist()) == (again.dtype, again.tolist()), (dtype, n)
                    if dtype.is_float:
                        assert again.tolist() == pytest.approx([call(v, n) for v in (1, 2, 4)], rel=1e-6)
        x = rs.asarray([1.0, 2.0], requires_grad=True)
        for _ in range(2):
            assert rs.grad((3 - 2 * x + 1 / x).sum(), x).tolist() == [-3.0, -2.25]
        s.flush(wait=True)
        y = x.detach()
        for call in calls[:6]:
            call(y, 2)
            with pytest.raises(OverflowError, match="2\\*\\*53"):
                call(y, 2**53 + 1)
        while (y * 1.0)._h & 255 > 252:  # the library gets what was recorded at each 256th number
            pass
        s.flush()
        kept = [2 * y, y + 2, 2 - y]
        assert len(s._calls) == len(kept)
