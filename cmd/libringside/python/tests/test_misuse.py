"""Arguments that make no sense are refused with an error that says what was expected; what
NumPy and the array API standard accept is taken."""

import inspect
import math
import subprocess
import sys

import numpy as np
import pytest

import ringside as rs
from ringside import _functions

MODULES = "nn", "optim", "files", "train", "random", "dtypes", "errors", "gt", "torch", "_session", "_tensor", "_functions"


@pytest.mark.parametrize("how", ["import ringside.{0}", "from ringside import {0}", "import ringside.{0}, ringside as rs; rs.{0}, rs.ones, rs.nn.Linear"])
def test_any_module_may_be_first(how):
    children = [subprocess.Popen([sys.executable, "-B", "-c", how.format(m)], stderr=subprocess.PIPE, text=True) for m in MODULES]
    assert {m: p.communicate()[1] for m, p in zip(MODULES, children)} == dict.fromkeys(MODULES, "")


def x():
    return rs.asarray([[1.0, 2.0], [3.0, 4.0]])


def leaf(*shape):
    return rs.ones(shape or 3, requires_grad=True)


def put(t, key, value):
    t[key] = value


def loaded(path, names):
    rs.save(path, {"a": rs.ones(2)})
    return rs.load(path, names)


CALLS = [
    # numbers that a dtype lacks
    *((call, OverflowError, "uint8 has 0 to 255") for call in (
        lambda: rs.full(2, 300.0, rs.uint8), lambda: rs.full(2, math.nan, rs.uint8), lambda: rs.full_like(rs.ones(2, rs.uint8), -1),
        lambda: rs.full_like(rs.ones(2, rs.uint8), math.inf), lambda: rs.ones(2, rs.uint8).assign(256), lambda: put(rs.ones(2, rs.uint8), 0, 256),
        lambda: put(rs.ones(2, rs.uint8), 0, math.nan), lambda: rs.pad(rs.ones(2, rs.uint8), [(1, 1)], 300), lambda: rs.asarray([300], rs.uint8),
        lambda: rs.asarray([[1.0, math.nan]], rs.uint8), lambda: rs.asarray(-1, rs.uint8), lambda: rs.arange(0, 300, 1, rs.uint8))),
    (lambda: rs.asarray([1 << 40], rs.int32), OverflowError, "1099511627776: ringside.int32"), (lambda: rs.asarray(1 << 64), rs.errors.ShapeError, "64 bits"),
    (lambda: rs.full(2, 10 ** 400), OverflowError, "of 1329 bits"), (lambda: rs.arange(3) ** -1, ValueError, "power of -1: astype"),
    (lambda: rs.clip(x(), math.nan, 1.0), ValueError, "clip by NaN"), (lambda: rs.arange(0, 1, 0), ValueError, "step of 0"),
    # what is no number
    (lambda: rs.full(2, "1"), TypeError, "full of '1', expected a number"), (lambda: rs.full_like(x(), None), TypeError, "full_like of None"),
    (lambda: put(x(), (0, 0), None), rs.errors.ShapeError, "not numbers"), (lambda: x().assign(None), rs.errors.ShapeError, "not numbers"),
    (lambda: rs.asarray(["1", "2"], rs.float32), rs.errors.DTypeError, "<U1: expected numbers"), (lambda: rs.asarray(np.array([1j]), rs.float32), rs.errors.DTypeError, "complex128"),
    (lambda: rs.asarray(np.zeros(2, "M8[D]"), rs.int64), rs.errors.DTypeError, "datetime64"), (lambda: rs.asarray([None], rs.float32), rs.errors.ShapeError, "not numbers"),
    (lambda: rs.from_dlpack(5), TypeError, "int, which has no __dlpack__"), (lambda: rs.ones(1.5), TypeError, "1.5: expected an integer or several"),
    # shapes and counts
    *((call, rs.errors.ShapeError, said) for call, said in (
        (lambda: rs.chunk(x(), 0), "0 pieces"), (lambda: rs.split(x(), 0), "pieces of 0"), (lambda: rs.split(rs.arange(5), [-1, 6]), "sizes .-1, 6."),
        (lambda: rs.repeat(rs.ones(1), -3, axis=0), "repeat -3"), (lambda: rs.tile(x(), [-1]), "tile"), (lambda: rs.linspace(0, 1, -1), "linspace of -1"),
        (lambda: rs.flatten(x(), 1, 0), "dims 1 to 0"), (lambda: rs.pad(x(), [(1, 2, 3), (1,)]), "expected pairs"), (lambda: rs.outer(x(), x()), "expected vectors"),
        (lambda: rs.tensordot(x(), x(), axes=-1), "over -1 dims"), (lambda: rs.attention(x(), x(), x()), "expected .b, h, s, d."),
        (lambda: rs.moveaxis(x(), (0, 0), (0, 1)), "none twice"), (lambda: rs.roll(x(), (1, 2, 3), axis=(0, 1)), "3 shifts along 2 dims"),
        (lambda: rs.conv2d(rs.ones((1, 1, 4, 4)), rs.ones((1, 1, 2, 2)), rs.ones(5)), "bias of .5,., expected .1,."),
        (lambda: rs.max_pool2d(rs.ones((1, 1, 4, 4)), (1, 2, 3)), "or a pair"))),
    (lambda: rs.tril(x(), k=1.5), TypeError, r"tril of a tensor of float32 \(2, 2\)"), (lambda: rs.gelu(x(), approximate="erf"), ValueError, "none or tanh"),
    # gradients and optimizers
    (lambda: leaf().sum().backward(3), TypeError, "gradient is 3, expected a tensor"), (lambda: rs.grad(leaf().sum(), [3]), TypeError, "one of xs is 3"),
    (lambda: rs.grad(3.0, leaf()), TypeError, "loss is 3.0"), (lambda: rs.optim.SGD([leaf()]).step([1.0]), TypeError, "a gradient is 1.0"),
    (lambda: rs.optim.SGD([leaf()]).step({"w": rs.ones(3)}), KeyError, "gradients of w"), (lambda: rs.optim.SGD([leaf() * 2.0]), ValueError, "expected a leaf"),
    (lambda: rs.optim.SGD([rs.arange(3)]), rs.errors.DTypeError, "int64, expected floats"), (lambda: rs.optim.SGD([leaf()], lr=-1.0), ValueError, "rate of -1.0"),
    (lambda: (lambda p: rs.optim.SGD([p, p]))(leaf()), ValueError, "twice"), (lambda: rs.optim.SGD([leaf()], nesterov=True), ValueError, "nesterov needs momentum"),
    (lambda: rs.optim.Adam([leaf()], betas=(2, 0.9)), ValueError, "beta1 2.0, expected 0 or more and below 1"), (lambda: rs.optim.Adam([leaf()], eps=-1), ValueError, "eps -1.0"),
    (lambda: rs.train.Trainer(None, lambda m, x: None, rs.optim.SGD([leaf()])).fit([1]), TypeError, "loss function returned is None"),
    # sessions
    (lambda: rs.session(in_process=True, workers=1.5), TypeError, "workers is 1.5, expected an integer"), (lambda: rs.session(in_process=True, seed="a"), TypeError, "seed is 'a'"),
    (lambda: rs.session(in_process=True, threads=100000), ValueError, "100000 threads: expected at most 1024"),
    (lambda: rs.cluster(threads=100000), ValueError, "100000 threads each: expected at most 1024"),
    (lambda: rs.session(5), TypeError, "addr is 5"), (lambda: rs.cluster(workers=1.5), TypeError, "workers is 1.5"), (lambda: rs.random.seed(1.5), TypeError, "seed is 1.5"),
    (lambda: rs.signal(5), TypeError, "a signal is 5"), (lambda: rs.signal("a\0b"), ValueError, "zero character"),
    # files
    (lambda: rs.save("never\0.safetensors", {"a": x()}), ValueError, "zero character"), (lambda: rs.load("never\0.safetensors"), ValueError, "zero character"),
    (lambda: rs.save("never.safetensors", {3: x()}), TypeError, "name of a tensor is 3"), (lambda: rs.save("never.safetensors", {"a": x()}, {"k": 3}), TypeError, "a note is 3"),
    (lambda: rs.save_checkpoint("never", {"a": x()}, -5), ValueError, "-5 steps"), (lambda: rs.save_checkpoint("never", {"a": 3}), TypeError, "is 3, expected a tensor"),
]


@pytest.mark.parametrize("call, error, said", CALLS)
def test_refused(call, error, said):
    with rs.session(in_process=True), pytest.raises(error, match=said):
        call()


def test_names_with_zeros(tmp_path):
    """C would end the name at the zero and find another tensor."""
    with rs.session(in_process=True), pytest.raises(ValueError, match="zero character"):
        loaded(str(tmp_path / "a.safetensors"), ["a\0b"])


def test_errors_read_nothing():
    """An error about a tensor says its type and shape: its values would have to be computed."""
    with rs.session(in_process=True) as s:
        t = rs.ones(3) + 1.0
        with pytest.raises(TypeError, match="a tensor of float32"):
            rs.apply("reshape", t, ints=("a",))
        assert s.stats["programs"] == 0


def test_like_numpy():
    a = np.arange(24.0, dtype="f4").reshape(2, 3, 4)
    with rs.session(in_process=True):
        t = rs.asarray(a)
        for got, want in (
                (rs.roll(t, (1, -2), axis=(0, 2)), np.roll(a, (1, -2), (0, 2))), (rs.roll(t, 1, axis=(1, 2)), np.roll(a, 1, (1, 2))), (rs.roll(t, 1, axis=-1), np.roll(a, 1, -1)),
                (rs.moveaxis(t, (0, 1), (-1, 0)), np.moveaxis(a, (0, 1), (-1, 0))), (rs.moveaxis(t, 0, -1), np.moveaxis(a, 0, -1)),
                (rs.tile(t, 2), np.tile(a, 2)), (t[[]], a[[]]), (rs.clip(t, rs.asarray(a[:1] / 2), 7.5), np.clip(a, a[:1] / 2, 7.5)),
                (rs.clip(t, None, a.max(0) / 2), np.clip(a, None, a.max(0) / 2)), (rs.softmax(a, 1), np.exp(a) / np.exp(a).sum(1, keepdims=True)),
                (rs.tril(a), np.tril(a)), (rs.full(2, np.float32(1.5)), np.full(2, 1.5, "f4")), (rs.full(2, np.int64(7)), np.full(2, 7))):
            np.testing.assert_allclose(got.numpy(), want, rtol=1e-6)
            assert got.shape == want.shape


def test_arrays_are_cast_as_tensors():
    """What an integer type lacks is clamped, on every processor; NaN becomes 0."""
    a = np.array([math.nan, math.inf, -math.inf, 3e9, -3.9, 300])
    with rs.session(in_process=True):
        for d in "int32", "int64", "uint8":
            for kind in "f2", "f4", "f8", ">f8":
                with np.errstate(over="ignore"):
                    b = a.astype(kind)
                assert rs.asarray(b, d).tolist() == rs.asarray(b).astype(d).tolist(), (d, kind)
        assert rs.asarray(a, "int32").tolist() == [0, 2147483647, -2147483648, 2147483647, -3, 300]
        assert rs.asarray(np.array([300, -1]), "uint8").tolist() == [44, 255]


@pytest.mark.parametrize("d", ["float16", "bfloat16"])
def test_uniform_stays_below_1(d):
    """The nearest number of 16 bits to one close to 1 is 1."""
    with rs.session(in_process=True, seed=1):
        u = rs.random.uniform(100_000, d).astype("float32").numpy()
    assert u.min() >= 0 and 0.99 < u.max() < 1 and abs(u.mean() - 0.5) < 0.01


def test_sessions_are_told_apart():
    """Every call with tensors of two sessions says so, and changes nothing."""
    made = []
    for _ in range(2):
        with_ = rs.session(in_process=True)
        with_.__enter__()
        p = leaf()
        made.append((with_, rs.ones(3), p, (p * 2.0).sum(), rs.optim.Adam([p])))
    (a, t, p, loss, optimizer), (b, u, q, other, second) = made
    try:
        for call in (lambda: t.assign(u), lambda: setattr(p, "grad", u), lambda: loss.backward(other), lambda: rs.grad(loss, q), lambda: rs.grad(loss, p, grad_output=other),
                     lambda: optimizer.step([u]), lambda: optimizer.step({"0": u}), lambda: optimizer.load_state_dict(second.state_dict()), lambda: rs.optim.SGD([p, q]),
                     lambda: rs.save("never", {"a": t, "b": u}), lambda: rs.save_checkpoint("never", {"a": t, "b": u}), lambda: t + u, lambda: rs.softmax(t) @ u):
            with pytest.raises(rs.RingsideError, match="different sessions"):
                call()
        assert (t.tolist(), p.tolist(), optimizer.steps, p.grad) == ([1.0] * 3, [1.0] * 3, 0, None)
    finally:
        b.__exit__()
        a.__exit__()


def test_closed_session_is_not_entered():
    with rs.session(in_process=True) as s:
        pass
    with pytest.raises(rs.RingsideError, match="the session was closed"), s:
        pass
    assert rs.ones(2).tolist() == [1.0, 1.0]


def test_step_with_one_gradient():
    """grad() of one tensor returns one, which step() takes."""
    with rs.session(in_process=True):
        p = leaf()
        rs.optim.SGD([p], lr=np.float32(0.5)).step(rs.grad((p * 2.0).sum(), p))
        assert p.tolist() == [0.0, 0.0, 0.0]


def test_cluster_lives_with_its_session():
    """A session of a cluster that has no variable goes on."""
    s = rs.cluster(workers=1, processes=False).open()
    with s:
        assert rs.ones(3).sum().item() == 3


def test_lists_in_place_of_tensors():
    """Functions of tensors take lists and numbers; what is no such thing is an error that
    says so."""
    assert rs.softmax([0.0, 0.0]).tolist() == [0.5, 0.5] and rs.ones_like([1, 2]).tolist() == [1, 1]
    assert rs.cross_entropy([[0.0, 0.0]], [1]).item() == pytest.approx(math.log(2)) and rs.flip([1, 2], axis=0).tolist() == [2, 1]
    wrong = {}
    for name in _functions.__all__:
        f = getattr(rs, name)
        needed = [p for p in inspect.signature(f).parameters.values() if p.default is p.empty and p.kind is p.POSITIONAL_OR_KEYWORD]
        for first in [1.0, 2.0], 3, None, "abc", object(), {}:
            try:
                f(*(first if p is needed[0] else x() if "Tensor" in str(p.annotation) else 1 for p in needed))
            except AttributeError as e:
                wrong[name, str(first)] = str(e)
            except Exception:
                pass
    assert wrong == {}
