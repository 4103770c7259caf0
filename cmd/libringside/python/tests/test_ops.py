"""Every operation of the op table, called from Python and compared with NumPy or torch. The
list is the library's own: an operation without a case here fails."""

import inspect
import math

import numpy as np
import pytest

import ringside as rs
import ringside.gt as gt

import torch
F = torch.nn.functional

rng = np.random.default_rng(7)
X = rng.standard_normal((3, 4, 5))
Y = rng.standard_normal((4, 5))
POSITIVE = np.abs(X) + 0.5
IMAGE, KERNEL = rng.standard_normal((2, 4, 7, 6)), rng.standard_normal((6, 2, 3, 3))
W, B = rng.standard_normal(5), rng.standard_normal(5)
BOOLS, OTHERS = X > 0, np.broadcast_to(Y > 0.3, X.shape).copy()
IDX = np.array([2, -1, 0, 2])
CLASSES = np.array([1, 0, 4, -100])
COS, SIN = np.cos(Y[:, :2]), np.sin(Y[:, :2])
SQUARE = rng.standard_normal((3, 4, 6))  # [.., s, t]
LOGITS = Y

erf = np.vectorize(math.erf)


def torch_grad(f, *inputs, dy=None, of=0):
    """Returns torch's gradient of f with respect to one of its inputs."""
    ts = [torch.tensor(x, requires_grad=x.dtype.kind == "f") for x in inputs]
    y = f(*ts)
    return torch.autograd.grad(y, ts[of], torch.ones_like(y) if dy is None else torch.tensor(dy))[0].numpy()


def t(f):
    """Makes a function of torch one of arrays."""
    return lambda *xs: f(*(torch.tensor(x) for x in xs)).numpy()


def softmax(x, axis=-1):
    e = np.exp(x - x.max(axis, keepdims=True))
    return e / e.sum(axis, keepdims=True)


def norm(x, eps=1e-5):
    return (x - x.mean(-1, keepdims=True)) / np.sqrt(x.var(-1, keepdims=True) + eps)


def rms(x, eps=1e-6):
    return x / np.sqrt((x * x).mean(-1, keepdims=True) + eps)


def rotate(x, cos, sin):
    a, b = np.split(x, 2, axis=-1)
    return np.concatenate([a * cos - b * sin, b * cos + a * sin], axis=-1)


def causal(x, scale):
    s, n = x.shape[-2:]
    seen = np.arange(n) <= np.arange(s)[:, None] + n - s
    return softmax(np.where(seen, x * scale, -np.inf))


def index_add(x, idx, src):
    out = x.copy()
    np.add.at(out, idx, src)
    return out


def scatter_add(x, idx, src):
    return torch.tensor(x).scatter_add(1, torch.tensor(idx), torch.tensor(src)).numpy()


def binary(f, g, x=X, y=Y):
    """Cases of two tensors that broadcast, and of a number on either side."""
    return [(f, g, x, y), (lambda a: f(a, 1.5), lambda a: g(a, 1.5), x), (lambda a: f(2.0, a), lambda a: g(2.0, a), x)]


def pool(f, **options):
    return lambda x: f(x, 3, stride=2, padding=1, **options)


DIMS = [None, 0, -1, (0, 2)]


def reduction(f, g, x=X):
    return [(lambda a, d=d, k=k: f(a, d, keepdims=k), lambda a, d=d, k=k: g(a, axis=d, keepdims=k), x) for d in DIMS for k in (False, True)]


CONV = {"stride": (2, 1), "padding": (1, 0), "dilation": (1, 2), "groups": 2}
CONV_INTS = (2, 1, 1, 0, 1, 2, 2)
POOL_INTS = (3, 3, 2, 2, 1, 1)
conv = lambda x, w: F.conv2d(x, w, **CONV)
CONV_DY = rng.standard_normal(F.conv2d(torch.tensor(IMAGE), torch.tensor(KERNEL), **CONV).shape)
POOL_DY = rng.standard_normal(F.max_pool2d(torch.tensor(IMAGE), 3, 2, 1).shape)
DY = rng.standard_normal(X.shape)
ZERO = np.zeros(())
INTS = np.arange(-5, 7).reshape(3, 4)


def grad_case(name, f, saved):
    """The gradient of an elementwise function from what is saved of it, and by autograd."""
    through = getattr(rs, name.removesuffix("_grad").replace("gelu_tanh", "gelu"))
    options = {"approximate": "tanh"} if name == "gelu_tanh_grad" else {}

    def by_autograd(x, dy):
        x = x.detach().requires_grad_()
        return rs.grad(through(x, **options), x, grad_output=dy)

    want = lambda x, dy: torch_grad(f, x, dy=dy)
    return [(lambda x, dy: rs.apply(name, through(x, **options) if saved == "y" else x, dy), want, X, DY), (by_autograd, want, X, DY)]


# By operation: how to call it, what it should return, and its arguments.
CASES = {
    "full": [(lambda x: rs.full((2, 3), 1.5) + x, lambda x: np.full((2, 3), 1.5), ZERO)],
    "arange": [(lambda x: rs.arange(3, 9, 2, rs.float32) + x, lambda x: np.arange(3, 9, 2.0), ZERO)],
    "neg": [(lambda x: -x, np.negative, X), (rs.negative, np.negative, INTS)],
    "abs": [(abs, np.abs, X), (rs.abs, np.abs, INTS)],
    "sign": [(rs.sign, np.sign, X)],
    "exp": [(rs.exp, np.exp, X), (rs.exp, np.exp, INTS)],
    "log": [(rs.log, np.log, POSITIVE)],
    "sqrt": [(rs.sqrt, np.sqrt, POSITIVE)],
    "rsqrt": [(rs.rsqrt, lambda x: x ** -0.5, POSITIVE)],
    "recip": [(rs.reciprocal, lambda x: 1 / x, POSITIVE)],
    "square": [(rs.square, np.square, X), (rs.square, np.square, INTS)],
    "sin": [(rs.sin, np.sin, X)],
    "cos": [(rs.cos, np.cos, X)],
    "tanh": [(rs.tanh, np.tanh, X)],
    "sigmoid": [(rs.sigmoid, lambda x: 1 / (1 + np.exp(-x)), X)],
    "relu": [(rs.relu, lambda x: np.maximum(x, 0), X)],
    "gelu": [(rs.gelu, t(F.gelu), X)],
    "gelu_tanh": [(lambda x: rs.gelu(x, approximate="tanh"), t(lambda x: F.gelu(x, approximate="tanh")), X)],
    "silu": [(rs.silu, t(F.silu), X)],
    "erf": [(rs.erf, erf, X)],
    "floor": [(rs.floor, np.floor, X)],
    "ceil": [(rs.ceil, np.ceil, X)],
    "not": [(lambda x: ~x, np.logical_not, BOOLS), (rs.logical_not, np.logical_not, BOOLS)],
    "cast": [(lambda x, d=d: x.astype(d), lambda x, d=d: x.astype(d.typestr), v)
             for d in (rs.float64, rs.int32, rs.int64, rs.bool) for v in (X * 10, INTS, BOOLS)],
    "clamp": [(lambda x: rs.clip(x, -0.5, 0.5), lambda x: np.clip(x, -0.5, 0.5), X), (lambda x: rs.clip(x, min=0), lambda x: np.clip(x, 0, None), X)],
    "add": binary(rs.add, np.add) + [(lambda x: x + 3, lambda x: x + 3, INTS)],
    "sub": binary(rs.subtract, np.subtract),
    "mul": binary(rs.multiply, np.multiply),
    "div": binary(rs.divide, np.divide, POSITIVE, np.abs(Y) + 0.5) + [(lambda x: x / 4, lambda x: x / 4, INTS)],
    "pow": binary(rs.pow, np.power, POSITIVE),
    "max": binary(rs.maximum, np.maximum),
    "min": binary(rs.minimum, np.minimum),
    "eq": binary(rs.equal, np.equal, INTS, INTS[::-1].copy()),
    "ne": binary(rs.not_equal, np.not_equal, INTS, INTS[::-1].copy()),
    "lt": binary(rs.less, np.less),
    "le": binary(rs.less_equal, np.less_equal),
    "gt": binary(rs.greater, np.greater),
    "ge": binary(rs.greater_equal, np.greater_equal),
    "and": [(rs.logical_and, np.logical_and, BOOLS, OTHERS), (lambda a, b: a & b, np.logical_and, BOOLS, OTHERS)],
    "or": [(rs.logical_or, np.logical_or, BOOLS, OTHERS), (lambda a, b: a | b, np.logical_or, BOOLS, OTHERS)],
    "xor": [(rs.logical_xor, np.logical_xor, BOOLS, OTHERS), (lambda a, b: a ^ b, np.logical_xor, BOOLS, OTHERS)],
    "where": [(rs.where, np.where, BOOLS, X, Y), (lambda c, x: rs.where(c, x, 0.0), lambda c, x: np.where(c, x, 0), BOOLS, X)],
    "tanh_grad": grad_case("tanh_grad", torch.tanh, "y"),
    "sigmoid_grad": grad_case("sigmoid_grad", torch.sigmoid, "y"),
    "relu_grad": grad_case("relu_grad", torch.relu, "x"),
    "gelu_grad": grad_case("gelu_grad", F.gelu, "x"),
    "gelu_tanh_grad": grad_case("gelu_tanh_grad", lambda x: F.gelu(x, approximate="tanh"), "x"),
    "silu_grad": grad_case("silu_grad", F.silu, "x"),
    "adam_m": [(lambda m, g: rs.apply("adam_m", m, g, 0.9), lambda m, g: m * 0.9 + g * 0.1, X, DY)],
    "adam_v": [(lambda v, g: rs.apply("adam_v", v, g, 0.99), lambda v, g: v * 0.99 + g * g * 0.01, POSITIVE, DY)],
    "adamw": [(lambda p, m, v: rs.apply("adamw", p, m, v, 0.01, 0.1, 1e-8, 0.19, 0.02),
               lambda p, m, v: p * (1 - 0.001) - 0.01 / 0.19 * m / (np.sqrt(v) / np.sqrt(0.02) + 1e-8), X, DY, POSITIVE)],
    "sgd": [(lambda p, g: rs.apply("sgd", p, g, 0.1, 0.01), lambda p, g: p - 0.1 * (g + 0.01 * p), X, DY)],
    "sgd_momentum": [(lambda b, g, p: rs.apply("sgd_momentum", b, g, p, 0.9, 0.1, 0.01), lambda b, g, p: b * 0.9 + (g + 0.01 * p) * 0.9, X, DY, POSITIVE)],
    "sum": reduction(rs.sum, np.sum) + reduction(rs.sum, np.sum, BOOLS.astype(np.int64)),
    "mean": reduction(rs.mean, np.mean),
    "amax": reduction(rs.max, np.amax),
    "amin": reduction(rs.min, np.amin),
    "prod": reduction(rs.prod, np.prod),
    "argmax": [(lambda x, d=d: rs.argmax(x, d), lambda x, d=d: x.argmax(d), X) for d in (None, 0, -1)],
    "argmin": [(lambda x, d=d: rs.argmin(x, d), lambda x, d=d: x.argmin(d), X) for d in (None, 0, -1)],
    "any": reduction(rs.any, np.any, BOOLS),
    "all": reduction(rs.all, np.all, BOOLS),
    "cumsum": [(lambda x: rs.cumulative_sum(x, axis=1), lambda x: x.cumsum(1), X),
               (lambda x: rs.cumulative_sum(x, axis=-1, reverse=True), lambda x: x[..., ::-1].cumsum(-1)[..., ::-1], X)],
    "prod_grad": [(lambda x, dy: rs.apply("prod_grad", x, dy, ints=(1,)), lambda x, dy: torch_grad(lambda a: a.prod(1, keepdim=True), x, dy=dy), X, DY[:, :1].copy())],
    "reshape": [(lambda x: x.reshape(5, -1), lambda x: x.reshape(5, -1), X), (rs.flatten, np.ravel, X)],
    "permute": [(lambda x: rs.permute_dims(x, (2, 0, 1)), lambda x: x.transpose(2, 0, 1), X), (lambda x: x.mT, lambda x: x.swapaxes(-1, -2), X)],
    "expand": [(lambda x: rs.broadcast_to(x, (3, 4, 5)), lambda x: np.broadcast_to(x, (3, 4, 5)), Y)],
    "slice": [(lambda x: x[::-1, 1:3, 4:0:-2], lambda x: x[::-1, 1:3, 4:0:-2], X), (rs.flip, np.flip, X)],
    "barrier": [(rs.barrier, lambda x: x, X)],
    "concat": [(lambda x, y, d=d: rs.concat([x, y, x], axis=d), lambda x, y, d=d: np.concatenate([x, y, x], d), X, X * 2) for d in (0, -1)],
    "pad": [(lambda x: rs.pad(x, [(0, 1), (2, 0), (1, 1)], 3.0), lambda x: np.pad(x, [(0, 1), (2, 0), (1, 1)], constant_values=3), X)],
    "tril": [(lambda x: rs.tril(x, k=1), lambda x: np.tril(x, 1), X)],
    "triu": [(lambda x: rs.triu(x, k=-1), lambda x: np.triu(x, -1), X)],
    "index_select": [(lambda x, i: rs.take(x, i, axis=1), lambda x, i: np.take(x, i, axis=1), X, IDX)],
    "index_add": [(lambda x, i, s: rs.index_add(x, i, s), index_add, X, IDX, rng.standard_normal((4, 4, 5)))],
    "gather": [(lambda x, i: rs.take_along_axis(x, i, axis=1), lambda x, i: np.take_along_axis(x, i, 1), Y, np.array([[0, 4], [1, 1], [2, 0], [3, 3]]))],
    "scatter_add": [(lambda x, i, s: rs.scatter_add(x, i, s, axis=1), scatter_add, Y, np.array([[0, 4], [1, 1], [2, 0], [3, 3]]), Y[:, :2].copy())],
    "one_hot": [(lambda i: rs.one_hot(i, 5), lambda i: np.eye(5)[i], np.array([[0, 4], [2, 2]]))],
    "matmul": [(rs.matmul, np.matmul, X, Y.T.copy()), (lambda a, b: a @ b, np.matmul, X, X.swapaxes(1, 2).copy()), (rs.matmul, np.matmul, Y[0].copy(), Y[1].copy()),
               (rs.tensordot, np.tensordot, X, Y)],
    "softmax": [(rs.softmax, softmax, X), (lambda x: rs.softmax(x, 0), lambda x: softmax(x, 0), X)],
    "softmax_grad": [(lambda x, dy: rs.apply("softmax_grad", rs.softmax(x), dy, ints=(2,)), lambda x, dy: torch_grad(lambda a: a.softmax(-1), x, dy=dy), X, DY)],
    "log_softmax": [(rs.log_softmax, lambda x: np.log(softmax(x)), X)],
    "log_softmax_grad": [(lambda x, dy: rs.apply("log_softmax_grad", rs.log_softmax(x), dy, ints=(2,)), lambda x, dy: torch_grad(lambda a: a.log_softmax(-1), x, dy=dy), X, DY)],
    "causal_softmax": [(lambda x: rs.causal_softmax(x, 0.5), lambda x: causal(x, 0.5), SQUARE)],
    "layer_norm": [(rs.layer_norm, norm, X), (rs.layer_norm, lambda x, w, b: norm(x) * w + b, X, W, B)],
    "layer_norm_grad_x": [(lambda x, dy, w: rs.apply("layer_norm_grad_x", x, dy, w, 1e-5, ints=(1,)),
                           lambda x, dy, w: torch_grad(lambda a, w: F.layer_norm(a, (5,), w), x, w, dy=dy), X, DY, W)],
    "layer_norm_grad_w": [(lambda x, dy: rs.apply("layer_norm_grad_w", x, dy, 1e-5, ints=(1,)), lambda x, dy: (norm(x) * dy).sum((0, 1)), X, DY)],
    "rms_norm": [(rs.rms_norm, rms, X), (rs.rms_norm, lambda x, w: rms(x) * w, X, W)],
    "rms_norm_grad_x": [(lambda x, dy, w: rs.apply("rms_norm_grad_x", x, dy, w, 1e-6, ints=(1,)),
                         lambda x, dy, w: torch_grad(lambda a, w: a * (a * a).mean(-1, keepdim=True).add(1e-6).rsqrt() * w, x, w, dy=dy), X, DY, W)],
    "rms_norm_grad_w": [(lambda x, dy: rs.apply("rms_norm_grad_w", x, dy, 1e-6, ints=(1,)), lambda x, dy: (rms(x) * dy).sum((0, 1)), X, DY)],
    "rope": [(rs.rope, rotate, X[..., :4].copy(), COS, SIN), (lambda x, c, s: rs.rope(x, c, s, back=True), lambda x, c, s: rotate(x, c, -s), X[..., :4].copy(), COS, SIN)],
    "cross_entropy": [(rs.cross_entropy, t(F.cross_entropy), LOGITS, CLASSES)],
    "cross_entropy_grad": [(lambda x, y: rs.apply("cross_entropy_grad", x, y, rs.asarray(np.float64(2)).astype(x.dtype), ints=(-100,)),
                            lambda x, y: 2 * torch_grad(F.cross_entropy, x, y), LOGITS, CLASSES)],
    "conv2d": [(lambda x, w: rs.conv2d(x, w, **CONV), t(conv), IMAGE, KERNEL)],
    "conv2d_grad_x": [(lambda dy, w: rs.apply("conv2d_grad_x", dy, w, ints=(*CONV_INTS, 7, 6)), lambda dy, w: torch_grad(conv, IMAGE, w, dy=dy), CONV_DY, KERNEL)],
    "conv2d_grad_w": [(lambda x, dy: rs.apply("conv2d_grad_w", x, dy, ints=(*CONV_INTS, 3, 3)), lambda x, dy: torch_grad(conv, x, KERNEL, dy=dy, of=1), IMAGE, CONV_DY)],
    "max_pool2d": [(pool(rs.max_pool2d), t(pool(F.max_pool2d)), IMAGE)],
    "max_pool2d_grad": [(lambda x, dy: rs.apply("max_pool2d_grad", x, dy, ints=POOL_INTS), lambda x, dy: torch_grad(pool(F.max_pool2d), x, dy=dy), IMAGE, POOL_DY)],
    "avg_pool2d": [(pool(rs.avg_pool2d), t(pool(F.avg_pool2d)), IMAGE)],
    "avg_pool2d_grad": [(lambda dy: rs.apply("avg_pool2d_grad", dy, ints=(*POOL_INTS, 7, 6)), lambda dy: torch_grad(pool(F.avg_pool2d), IMAGE, dy=dy), POOL_DY)],
}


def moments(f, mean, deviation):
    """Numbers of the right distribution, and the same after the same seed."""
    rs.random.seed(3)
    x = f().numpy(copy=True)
    rs.random.seed(3)
    assert (f().numpy() == x).all() and abs(x.mean() - mean) < 0.02 and abs(x.std() - deviation) < 0.02


RANDOM = {
    "rand": lambda: moments(lambda: rs.random.uniform((100, 100)), 0.5, 12 ** -0.5),
    "randn": lambda: moments(lambda: rs.random.normal((100, 100)), 0, 1),
    "dropout": lambda: moments(lambda: rs.dropout(rs.ones((100, 100)), 0.2), 1, 0.5),
}


@pytest.fixture(scope="module")
def recorded():
    """A session, and the numbers of the operations that are recorded in it: each at once, or
    with others."""
    with rs.session(in_process=True) as s:
        seen, apply, record = set(), s._apply, s._record

        def spy(call):
            seen.add(int.from_bytes(call[8:16], "little") & 0xFFF)
            return apply(call)

        def spy_on_many(session, calls, *rest):
            words = np.frombuffer(calls, np.int64)
            while len(words):
                head = int(words[0])
                seen.add(head & 0xFFF)
                words = words[2 + (head >> 12 & 0x1FFF) + (head >> 25 & 0xFF):]
            return record(session, calls, *rest)

        s._apply, s._record = spy, spy_on_many
        yield seen


TABLE = {row["name"]: row for row in rs._ops.table()["ops"]}


def test_every_operation_has_a_case():
    assert set(CASES) | set(RANDOM) == set(TABLE)
    print(f"\n{len(TABLE)} operations, {sum(map(len, CASES.values())) + len(RANDOM)} cases")


def test_every_dtype_is_known():
    names = {"f32": rs.float32, "f64": rs.float64, "i32": rs.int32, "i64": rs.int64, "u8": rs.uint8, "bool": rs.bool, "f16": rs.float16, "bf16": rs.bfloat16}
    assert {name: d.number for name, d in names.items()} == rs._ops.table()["dtypes"]


@pytest.mark.parametrize("name", TABLE)
def test_operation(recorded, name):
    recorded.clear()
    if name in RANDOM:
        RANDOM[name]()
    for width in () if name in RANDOM else (np.float32, np.float64):
        for call, reference, *arguments in CASES[name]:
            given = [x.astype(width) if x.dtype.kind == "f" else x for x in arguments]
            got = call(*map(rs.asarray, given)).numpy()
            again = call(*map(rs.asarray, given))  # what is known of the first call may have it recorded ahead
            assert again._describe() is rs._tensor.describe(*again._describe()) and again.numpy().dtype == got.dtype
            np.testing.assert_array_equal(again.numpy(), got)
            want = np.asarray(reference(*(x.astype(np.float64) if x.dtype.kind == "f" else x for x in given)))
            assert got.shape == want.shape
            tolerance = 3e-5 if got.dtype == np.float32 else 1e-10
            if width is np.float32 and got.dtype.kind == "f":
                tolerance = 3e-5
            np.testing.assert_allclose(got, want, rtol=tolerance, atol=tolerance)
            if want.dtype.kind != "f":
                assert got.dtype.kind == want.dtype.kind
    assert TABLE[name]["number"] in recorded, f"{name} was not recorded"


DIFFERENTIABLE = [name for name, row in TABLE.items() if row["gradient"] == 1 and name in CASES]


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_gradient(recorded, name):
    """Gradients through Python are those of finite differences."""
    call, _, *arguments = CASES[name][0]
    weights = None

    def loss(*xs):
        nonlocal weights
        y = call(*xs)
        if weights is None:
            weights = rs.asarray(np.cos(np.arange(y.size)).reshape(y.shape))
        return (y * weights).sum()

    for i, x in enumerate(arguments):
        if x.dtype.kind != "f":
            continue
        xs = [rs.asarray(a) for a in arguments]
        leaf = xs[i].detach().requires_grad_()
        g = rs.grad(loss(*xs[:i], leaf, *xs[i + 1:]), leaf).numpy()
        for at in rng.choice(x.size, min(x.size, 5), replace=False):
            step = np.zeros(x.size)
            step[at] = 1e-6
            step = step.reshape(x.shape)
            ends = [loss(*xs[:i], rs.asarray(x + k * step), *xs[i + 1:]).item() for k in (1, -1)]
            np.testing.assert_allclose(g.flat[at], (ends[0] - ends[1]) / 2e-6, rtol=1e-4, atol=1e-6, err_msg=f"input {i} at {at}")


def test_the_rest_of_the_array_api(recorded):
    """Functions that several operations make."""
    x, i = X.astype(np.float32), INTS
    rx, ri = rs.asarray(x), rs.asarray(i)
    bad = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    pairs = [
        (rs.var(rx, axis=1), x.var(1)), (rs.std(rx, correction=1), x.std(ddof=1)), (rs.tan(rx), np.tan(x)), (rs.trunc(rx), np.trunc(x)),
        (rs.isnan(rs.asarray(bad)), np.isnan(bad)), (rs.isinf(rs.asarray(bad)), np.isinf(bad)), (rs.isfinite(rs.asarray(bad)), np.isfinite(bad)),
        (rs.floor_divide(ri, 3), i // 3), (rs.remainder(ri, -4), i % -4), (rs.floor_divide(rx, 0.5), x // 0.5),
        (rs.logsumexp(rx, 1), np.log(np.exp(x).sum(1))), (rs.squeeze(rx[:, :1]), x[:, 0]), (rs.expand_dims(rx, axis=-1), x[..., None]),
        (rs.stack([rx, rx], axis=1), np.stack([x, x], 1)), (rs.roll(rx, 2, axis=1), np.roll(x, 2, 1)), (rs.roll(rx, -3), np.roll(x, -3)),
        (rs.repeat(rx, 2, axis=1), x.repeat(2, 1)), (rs.tile(rx, (2, 1, 1)), np.tile(x, (2, 1, 1))), (rs.moveaxis(rx, 0, 2), np.moveaxis(x, 0, 2)),
        (rs.transpose(rx, 0, 1), x.swapaxes(0, 1)), (rs.vecdot(rx, rx), (x * x).sum(-1)), (rs.outer(rs.asarray(x[0, 0]), rs.asarray(x[0, 1])), np.outer(x[0, 0], x[0, 1])),
        (rs.matrix_transpose(rx), x.swapaxes(1, 2)), (rs.take(rx, [5, 1]), x.ravel()[[5, 1]]), (rs.positive(rx), x), (rs.mse(rx, 0.0), (x * x).mean()),
        (rs.tensordot(rx, rx, axes=([0, 2], [0, 2])), np.tensordot(x, x, ([0, 2], [0, 2]))), (rs.zeros_like(rx), x * 0), (rs.ones_like(ri, rs.float32), i * 0 + 1.0),
        (rs.empty((2,)), np.zeros(2)), (rs.empty_like(rx), x * 0), (rs.concat([rx, rx], axis=None), np.concatenate([x.ravel()] * 2)),
        (rs.sum(rx, ()), x), (rx.sum(0), x.sum(0)), (rs.binary_cross_entropy_with_logits(rx, 1.0), np.log1p(np.exp(-x)).mean()),
    ]
    for k, (got, want) in enumerate(pairs):
        np.testing.assert_allclose(got.numpy(), want, rtol=1e-4, atol=1e-5, err_msg=str(k))
    for n in (2,), (2, 3), (1, 0, 2), (2, 1, 1, 3), (3, 1, 1, 1, 2):  # along the last dims, and new ones
        np.testing.assert_array_equal(rs.tile(rx, n).numpy(), np.tile(x, n), err_msg=str(n))
    with pytest.raises(rs.errors.ShapeError, match="differ in size"):
        rs.tensordot(rs.ones((2, 3)), rs.ones((3, 2)), axes=([0, 1], [0, 1]))
    with pytest.raises(OverflowError):
        rs.full((1,), 2**53 + 1)
    assert [p.shape for p in rs.split(rx, 3, axis=1)] == [(3, 3, 5), (3, 1, 5)] and len(rs.chunk(rx, 2, axis=2)) == 2
    np.testing.assert_array_equal(rs.unstack(rx, axis=1)[2].numpy(), x[:, 2])
    assert [a.shape for a in rs.broadcast_arrays(rx, rs.ones(5))] == [x.shape] * 2
    q, k = (rng.standard_normal(s).astype(np.float32) for s in ((2, 4, 3, 8), (2, 2, 3, 8)))
    p = causal(np.einsum("bhsd,bhtd->bhst", q, k.repeat(2, 1)), 8 ** -0.5)
    np.testing.assert_allclose(rs.attention(rs.asarray(q), rs.asarray(k), rs.asarray(k), causal=True).numpy(), p @ k.repeat(2, 1), rtol=1e-4, atol=1e-5)


def test_every_name_is_there():
    for name in rs._api.__all__:
        assert getattr(rs, name) is not None or name == "newaxis"
        if callable(getattr(rs, name)) and not isinstance(getattr(rs, name), type):
            assert getattr(rs, name).__doc__, name


def test_types_are_said():
    """The wheel has py.typed: all that a program calls has types, which checkers read."""
    bare = []

    def look(name, f):
        signature = inspect.signature(f)
        bare.extend(f"{name}: {p.name}" for p in signature.parameters.values() if p.name != "self" and p.annotation is p.empty)
        if signature.return_annotation is signature.empty and not name.endswith("__init__"):
            bare.append(f"{name}: its result")

    for module in rs, rs.nn, rs.optim, rs.train, rs.random, rs.files, gt, gt.nn, gt.signal, gt.debug:
        for name, x in vars(module).items():
            if name.startswith("_") or not getattr(x, "__module__", "").startswith("ringside"):
                continue
            if not isinstance(x, type):
                if callable(x):
                    look(f"{module.__name__}.{name}", x)
                continue
            for method, f in vars(x).items():
                if inspect.isfunction(f) and (method == "__init__" or not method.startswith("_")):
                    look(f"{x.__module__}.{name}.{method}", f)
    assert not bare, bare
