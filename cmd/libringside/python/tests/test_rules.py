"""Rules of the array API standard, beside NumPy or torch: numbers of Python beside tensors,
quotients and remainders at their corners, indices that are bools, axes."""

import numpy as np
import pytest
import torch

import ringside as rs

INTS = (rs.int32, rs.int64, rs.uint8)
ARITHMETIC = {"add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "pow": lambda a, b: a ** b}


@pytest.fixture(scope="module", autouse=True)
def session():
    with rs.session(in_process=True) as s:
        yield s


def torchs(t):
    return str(t.dtype).removeprefix("torch.")


@pytest.mark.parametrize("name", ARITHMETIC)
@pytest.mark.parametrize("d", [*INTS, rs.bool], ids=str)
def test_number_beside_integers(name, d):
    """The dtype depends on the kind of the number, not on its value, as torch's."""
    f = ARITHMETIC[name]
    values = [0, 1, 1] if d is rs.bool else [1, 2, 3]
    mine, theirs = rs.asarray(values, d), torch.tensor(values, dtype=getattr(torch, d.name))
    for _ in range(2):  # what is known of the first changes nothing
        for x in (2.0, 2.5, 1e9, float("inf"), 3, 2):
            for turned in (False, True):
                if d is rs.bool and name == "sub":
                    continue  # torch refuses it
                got, want = (f(x, mine), f(x, theirs)) if turned else (f(mine, x), f(theirs, x))
                assert got.dtype.name == torchs(want), (x, turned)
                np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-6, err_msg=str((x, turned)))


def test_numbers_in_functions():
    i, c = rs.asarray([1, 2, 3]), rs.asarray([True, False, True])
    ti, tc = torch.tensor([1, 2, 3]), torch.tensor([True, False, True])
    for got, want in ((rs.where(c, i, 2.0), torch.where(tc, ti.float(), 2.0)), (rs.where(c, 2.5, i), torch.where(tc, 2.5, ti.float())),
                      (rs.where(c, i, 7), torch.where(tc, ti, 7)), (rs.maximum(i, 2.0), torch.maximum(ti.float(), torch.tensor(2.0))),
                      (rs.clip(i, 1.5, 2.5), torch.clamp(ti, 1.5, 2.5)), (i / 2, ti / 2), (c + True, tc | True), (c * False, tc & False)):
        assert (got.dtype.name, got.tolist()) == (torchs(want), want.tolist())
    assert (i == 2.0).tolist() == (i == 2).tolist() == [False, True, False] and (i < 2.5).tolist() == [True, True, False]
    for d, x in ((rs.uint8, 256), (rs.uint8, -1), (rs.int32, 1 << 31)):
        with pytest.raises(OverflowError, match=d.name):
            rs.zeros(2, d) + x
        assert not (rs.zeros(2, d) == x).any()


FLOATS = [0.0, -0.0, 1.0, -1.0, 2.5, -2.5, 3.0, 0.1, 7.0, 1e30, float("inf"), float("-inf"), float("nan")]


@pytest.mark.parametrize("d", [np.float32, np.float64])
def test_floats_divided(d):
    """At negative zeros, infinities and NaN; the sign of a zero counts."""
    a, b = (x.reshape(-1) for x in np.meshgrid(np.array(FLOATS, d), np.array(FLOATS, d)))
    large = np.abs(a) == d(1e30)  # the quotient has more digits than the result
    keep = ~(large & (np.abs(b) < 1e30) & (b != 0))
    a, b = a[keep], b[keep]
    with np.errstate(all="ignore"):
        q, r = a // b, a % b
    x, y = rs.asarray(a), rs.asarray(b)
    for _ in range(2):
        for got, want in ((x // y, q), (x % y, r), (rs.floor_divide(x, y), q), (rs.remainder(x, y), r)):
            got = got.numpy()
            assert got.dtype == d
            np.testing.assert_array_equal(got, want, err_msg=f"{a[~np.isclose(got, want, equal_nan=True)]} by {b[~np.isclose(got, want, equal_nan=True)]}")
            zero = want == 0
            np.testing.assert_array_equal(np.signbit(got[zero]), np.signbit(want[zero]), err_msg=f"{a[zero]} by {b[zero]}")
    many = np.random.default_rng(3).uniform(-100, 100, (2, 10000)).astype(d)
    np.testing.assert_array_equal((rs.asarray(many[0]) // rs.asarray(many[1])).numpy(), many[0] // many[1])
    np.testing.assert_allclose((rs.asarray(many[0]) % rs.asarray(many[1])).numpy(), many[0] % many[1], rtol=1e-6, atol=1e-12)
    tenths = np.arange(-2000, 2000).astype(d) / d(10)  # their quotients are often rounded to an integer
    for by in (d(0.1), d(-0.3), d(0.7)):
        np.testing.assert_array_equal((rs.asarray(tenths) // rs.asarray(by)).numpy(), tenths // by, err_msg=str(by))
        if d is np.float64:
            np.testing.assert_array_equal((rs.asarray(tenths) % rs.asarray(by)).numpy(), tenths % by, err_msg=str(by))


@pytest.mark.parametrize("d", [np.int32, np.int64, np.uint8])
def test_integers_divided(d):
    """Also by 0, which gives 0, and at the ends of the range."""
    low, high = np.iinfo(d).min, np.iinfo(d).max
    some = [low, low + 1, high, high - 1, 0, 1, 2, 3, 7, 100, *([] if low == 0 else [-1, -2, -3, -7, -100])]
    a, b = (x.reshape(-1) for x in np.meshgrid(np.array(some, d), np.array(some, d)))
    with np.errstate(all="ignore"):
        q, r = a // b, a % b
    np.testing.assert_array_equal((rs.asarray(a) // rs.asarray(b)).numpy(), q)
    np.testing.assert_array_equal((rs.asarray(a) % rs.asarray(b)).numpy(), r)
    x = rs.asarray(a)
    with np.errstate(all="ignore"):
        assert (x // 3).tolist() == (a // d(3)).tolist() and (100 % x).tolist() == (d(100) % a).tolist() and (x // 0).tolist() == [0] * len(a)
    assert (x // 3).dtype == x.dtype and (x % 2.0).dtype is rs.float32


def test_remainder_has_gradients():
    a, b = [5.5, -5.5, 4.0, 7.0], [2.0, 2.0, 2.0, -3.0]
    x, y = (rs.asarray(v, requires_grad=True) for v in (a, b))
    tx, ty = (torch.tensor(v, requires_grad=True) for v in (a, b))
    torch.remainder(tx, ty).sum().backward()
    (x % y).sum().backward()
    assert x.grad.tolist() == tx.grad.tolist() and y.grad.tolist() == ty.grad.tolist()


def test_bool_indices():
    a = np.arange(12.0, dtype=np.float32).reshape(3, 4)
    x = rs.asarray(a)
    for key in (True, False, np.True_, np.False_, (True, ...), (..., True), (slice(1, 3), True), (True, slice(0, 2), None), (..., False, slice(2)), (None, False)):
        got, want = x[key].numpy(), a[key]
        assert got.shape == want.shape, (key, got.shape, want.shape)
        np.testing.assert_array_equal(got, want, err_msg=str(key))
    assert rs.asarray(5.0)[True].tolist() == [5] and rs.asarray(5.0)[False].shape == (0,)
    for key in (True, False):
        y, b = x.copy(), a.copy()
        y[key], b[key] = -1, -1
        np.testing.assert_array_equal(y.numpy(), b)
    for key in ((True, 0), (True, True)):
        with pytest.raises(IndexError, match="bool"):
            x[key]
    with pytest.raises(TypeError):
        x[rs.asarray(True)]


@pytest.mark.parametrize("d", [np.float32, np.int32, np.int64, np.uint8, np.bool_])
def test_over_no_dims(d):
    a = np.array([[1, 0], [1, 1]], d)
    x = rs.asarray(a)
    for name in ("sum", "prod", "mean", "max", "min"):
        got = getattr(rs, name)(x, axis=())
        wide = {"sum": x.sum, "prod": x.prod, "mean": x.mean, "max": x.max, "min": x.min}[name](axis=0).dtype if d is not np.bool_ or name not in ("max", "min") else rs.bool
        assert got.dtype is wide and got.tolist() == a.tolist(), name
    if d is np.bool_:
        assert rs.any(x, axis=()).tolist() == rs.all(x, axis=()).tolist() == a.tolist()
    with pytest.raises(ValueError):
        rs.argmax(x, axis=())


def test_integers_of_numpy():
    """Axes, sizes and shapes may be NumPy's integers."""
    a = np.arange(24.0, dtype=np.float32).reshape(2, 3, 4)
    x = rs.asarray(a)
    one, two, last = np.int64(1), np.int32(2), np.int64(-1)
    for got, want in ((x.sum(axis=one), a.sum(1)), (x.sum(axis=(np.int64(0), last)), a.sum((0, -1))), (rs.softmax(x, last).sum(), np.float32(6)),
                      (x.reshape(np.int64(6), last), a.reshape(6, -1)), (rs.zeros(two), np.zeros(2)), (rs.ones((one, two)), np.ones((1, 2))),
                      (rs.squeeze(x[:1], np.int64(0)), a[0]), (rs.expand_dims(x, axis=one), a[:, None]), (rs.concat([x, x], axis=one), np.concatenate([a, a], 1)),
                      (rs.split(x, two, axis=last)[0], a[..., :2]), (rs.flip(x, axis=one), a[:, ::-1]), (x.argmax(one), a.argmax(1)),
                      (x.permute_dims(two, np.int64(0), one), a.transpose(2, 0, 1)), (x[one, two], a[1, 2]), (rs.tensordot(x, x, axes=np.int64(3)), np.tensordot(a, a, 3))):
        np.testing.assert_allclose(got.numpy(), want)
    assert rs.random.normal(two).shape == (2,)
    with pytest.raises(TypeError):
        x.sum(axis=1.0)
    with pytest.raises(ValueError, match="axis 3 of 3 dims"):
        rs.squeeze(x, np.int64(3))
