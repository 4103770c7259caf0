"""The functions of the array API standard, and those of neural networks.

Functions of numbers promote as PyTorch does; a number of Python beside a tensor changes no
float dtype. Gradients flow through all but those that count or compare."""

from __future__ import annotations

import builtins
import functools
import inspect
import math
import operator
from numbers import Integral
from typing import Any, Callable, Sequence

from ringside import dtypes
from ringside import _tensor as _t
from ringside._ops import op
from ringside._session import Session, current_session
from ringside._tensor import Tensor, apply, asarray, astype, axis_of, beside, dims_of as _dims, full_like, matmul, permute_dims, reshape
from ringside.errors import DTypeError, ShapeError

Axis = "int | Sequence[int] | None"


def _tensor(x: Any, beside: Any = None) -> Tensor:
    return x if x.__class__ is Tensor else asarray(x, session=getattr(beside, "_s", None))


# Creation. dtype is float32 unless said.

def full(shape: int | Sequence[int], fill_value: float, dtype: Any = None, *, requires_grad: builtins.bool = False) -> Tensor:
    """Elements that are all fill_value; the dtype of an int is int64, of a bool bool."""
    _t.fit(fill_value, dtypes.bool, "full")
    d = dtypes.dtype(dtype if dtype is not None else type(fill_value))
    x = _t.fit(fill_value, d, "full")
    t = apply(_t.FULL, x if isinstance(x, int) and not d.is_float else float(x), ints=(d.number, *_dims(shape)), session=current_session())
    return t.requires_grad_() if requires_grad else t


def zeros(shape: int | Sequence[int], dtype: Any = dtypes.float32, *, requires_grad: builtins.bool = False) -> Tensor:
    """Elements that are all 0."""
    return full(shape, 0, dtype, requires_grad=requires_grad)


def ones(shape: int | Sequence[int], dtype: Any = dtypes.float32, *, requires_grad: builtins.bool = False) -> Tensor:
    """Elements that are all 1."""
    return full(shape, 1, dtype, requires_grad=requires_grad)


def empty(shape: int | Sequence[int], dtype: Any = dtypes.float32) -> Tensor:
    """The same as zeros."""
    return zeros(shape, dtype)


def zeros_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Zeros of x's shape, and its dtype unless another is given."""
    return full_like(x, 0, dtype)


def ones_like(x: Tensor, dtype: Any = None) -> Tensor:
    """Ones of x's shape, and its dtype unless another is given."""
    return full_like(x, 1, dtype)


def empty_like(x: Tensor, dtype: Any = None) -> Tensor:
    """The same as zeros_like."""
    return full_like(x, 0, dtype)


def arange(start: float, stop: float | None = None, step: float = 1, dtype: Any = None) -> Tensor:
    """start, start+step and so on below stop; arange(n) is 0 to n-1. Of ints it is int64."""
    if stop is None:
        start, stop = 0, start
    if dtype is None:
        dtype = dtypes.int64 if builtins.all(isinstance(x, int) for x in (start, stop, step)) else dtypes.float32
    if not step:
        raise ValueError("arange by a step of 0")
    d = dtypes.dtype(dtype)
    n = builtins.max(0, math.ceil((stop - start) / step))
    for x in (start, start + (n - 1) * step) if n else ():
        _t.fit(x, d, "arange")
    return apply(op("arange"), start, step, ints=(d.number, n), session=current_session())


def linspace(start: float, stop: float, num: int, dtype: Any = dtypes.float32, *, endpoint: builtins.bool = True) -> Tensor:
    """num numbers from start to stop, the last of which is stop, or, without endpoint, a
    step before it."""
    num = operator.index(num)
    if num < 0:
        raise ShapeError(f"linspace of {num} numbers, expected 0 or more")
    steps = num - 1 if endpoint else num
    x = arange(0, num, 1, dtypes.float64) * ((stop - start) / builtins.max(steps, 1)) + start
    return astype(x, dtype)


def eye(n_rows: int, n_cols: int | None = None, *, k: int = 0, dtype: Any = dtypes.float32) -> Tensor:
    """1 on the k-th diagonal, 0 elsewhere."""
    return triu(tril(ones((n_rows, n_rows if n_cols is None else n_cols), dtype), k=k), k=k)


# Elementwise, of one tensor. What they take, and the dtype of what they give:
_FLOATS = "x [..] of any dtype; the result [..] has it if it is a float's, else float32."
_NUMBERS = "x [..] of any dtype but bool; the result [..] has it."
_BOOLS = "x [..] of bools; so is the result [..]."
_ANY = "x [..] of any dtype; the result [..] has it."


def _unary(name: str, doc: str, takes: str = _FLOATS) -> Callable[[Any], Tensor]:
    f = _t._unary(op(name))
    f.__doc__ = f"{doc} {takes}"
    return f


negative = _unary("neg", "-x.", _NUMBERS)
abs = _unary("abs", "|x|.", _NUMBERS)
sign = _unary("sign", "-1, 0 or 1.", _NUMBERS)
exp = _unary("exp", "e**x.")
log = _unary("log", "The natural logarithm.")
sqrt = _unary("sqrt", "The square root.")
rsqrt = _unary("rsqrt", "1/sqrt(x).")
reciprocal = _unary("recip", "1/x.")
square = _unary("square", "x*x.", _NUMBERS)
sin = _unary("sin", "The sine of radians.")
cos = _unary("cos", "The cosine of radians.")
tanh = _unary("tanh", "The hyperbolic tangent.")
sigmoid = _unary("sigmoid", "1/(1+exp(-x)).")
relu = _unary("relu", "max(x, 0).", _NUMBERS)
silu = _unary("silu", "x*sigmoid(x).")
erf = _unary("erf", "The error function.")
floor = _unary("floor", "The largest integer not above x, as a float.")
ceil = _unary("ceil", "The smallest integer not below x, as a float.")
logical_not = _unary("not", "not x.", _BOOLS)
barrier = _unary("barrier", "x. What is recorded of the result is computed anew, not taken from the same computation before.", _ANY)


def positive(x: Tensor) -> Tensor:
    """x."""
    return x


def gelu(x: Any, *, approximate: str = "none") -> Tensor:
    """x*(1+erf(x/sqrt(2)))/2; with approximate="tanh" in its tanh form. x [..] of any dtype;
    the result has it, or float32."""
    if approximate not in ("none", "tanh"):
        raise ValueError(f"gelu approximate={approximate!r}, expected none or tanh")
    return _t._one(op("gelu_tanh" if approximate == "tanh" else "gelu"), x)


def tan(x: Any) -> Tensor:
    """The tangent of radians: x [..] of any dtype; the result has it, or float32."""
    return sin(x) / cos(x)


def trunc(x: Tensor) -> Tensor:
    """x [..] cut toward zero, as a float: of x's dtype, or float32."""
    return where(x < 0, ceil(x), floor(x))


def isnan(x: Tensor) -> Tensor:
    """Where x [..] is not a number, as bools [..]."""
    return x != x


def isinf(x: Tensor) -> Tensor:
    """Where x [..] is infinite, as bools [..]."""
    return abs(x) == math.inf


def isfinite(x: Tensor) -> Tensor:
    """Where x [..] is neither infinite nor NaN, as bools [..]."""
    return abs(x) < math.inf


def clip(x: Any, min: float | None = None, max: float | None = None) -> Tensor:
    """x [..], but at least min and at most max, numbers or tensors; beside numbers of x's
    dtype."""
    x = _tensor(x)
    for limit, f in (min, maximum), (max, minimum):
        if limit is not None and not isinstance(limit, (int, float)):
            x = f(x, limit)
    min, max = (x if isinstance(x, (int, float)) else None for x in (min, max))
    if min != min or max != max:
        raise ValueError("clip by NaN, expected numbers")
    if isinstance(min, float) or isinstance(max, float):
        x, _ = beside(op("clamp"), x, 0.0)
    return apply(op("clamp"), x, -math.inf if min is None else min, math.inf if max is None else max)


def dropout(x: Tensor, p: float = 0.5, *, training: builtins.bool = True) -> Tensor:
    """In training each element is 0 with probability p, else x/(1-p)."""
    return apply(op("dropout"), x, p) if training and p else x


# Elementwise, of two tensors or a tensor and a number, which broadcast.

_COMMON = "The result has the common shape and dtype of x1 and x2."
_TRUTHS = "The result has the common shape of x1 and x2, and bools."
_OF_BOOLS = "x1, x2 and the result, of their common shape, are bools."


def _binary(name: str, doc: str, takes: str = _COMMON) -> Callable[[Any, Any], Tensor]:
    o, two = op(name), _t._two

    def f(x1: Any, x2: Any) -> Tensor:
        y = two(o, x1, x2)
        if y is NotImplemented:
            raise DTypeError(f"{name} of {type(x1).__name__} and {type(x2).__name__}")
        return y

    f.__doc__ = f"{doc} {takes}"
    return f


add = _binary("add", "x1 + x2.")
subtract = _binary("sub", "x1 - x2.")
multiply = _binary("mul", "x1 * x2.")
divide = _binary("div", "x1 / x2; integers and bools become float32.")
pow = _binary("pow", "x1 ** x2.")
maximum = _binary("max", "The larger; NaN if either is.")
minimum = _binary("min", "The smaller; NaN if either is.")
equal = _binary("eq", "x1 == x2.", _TRUTHS)
not_equal = _binary("ne", "x1 != x2.", _TRUTHS)
less = _binary("lt", "x1 < x2.", _TRUTHS)
less_equal = _binary("le", "x1 <= x2.", _TRUTHS)
greater = _binary("gt", "x1 > x2.", _TRUTHS)
greater_equal = _binary("ge", "x1 >= x2.", _TRUTHS)
logical_and = _binary("and", "x1 and x2.", _OF_BOOLS)
logical_or = _binary("or", "x1 or x2.", _OF_BOOLS)
logical_xor = _binary("xor", "Whether one of two is true.", _OF_BOOLS)


def floor_divide(x1: Any, x2: Any) -> Tensor:
    """The largest integer not above x1/x2, which of floats is computed in float64. An
    integer by 0 is 0; an infinity is NaN. The result has the common shape and dtype."""
    return _t._floor_divide(x1, x2)


def remainder(x1: Any, x2: Any) -> Tensor:
    """x1 - x1//x2*x2, with the sign of x2. Of an integer by 0 it is 0, of a float NaN. The
    result has the common shape and dtype."""
    return _t._remainder(x1, x2)


def where(condition: Any, x1: Any, x2: Any) -> Tensor:
    """x1 where the bools of condition are true, x2 elsewhere; one of them or both may be a
    number. The result has the common shape of the three, and the common dtype of x1 and x2."""
    c = _tensor(condition)
    if isinstance(x1, (int, float)) and isinstance(x2, (int, float)):
        x1 = _t.asarray(x1, session=c._s)
    x1, x2 = (x if isinstance(x, (int, float)) else _tensor(x, c) for x in (x1, x2))
    if x1.__class__ is not Tensor:
        x2, x1 = beside(_t.WHERE, x2, x1)
    elif x2.__class__ is not Tensor:
        x1, x2 = beside(_t.WHERE, x1, x2)
    return apply(_t.WHERE, c, x1, x2)


# Reductions over the dims of axis, or all.

_SEVERAL, _ONE = "axis is a dim, several, or None for all", "axis is a dim, or None for all"


def _reduction(name: str, doc: str, over: str = _SEVERAL) -> Callable[..., Tensor]:
    o = op(name)

    def over_none(x: Tensor) -> Tensor:
        """Returns the reduction over no dim: the elements, of the reduction's dtype."""
        if name.startswith("arg"):
            raise ShapeError(f"{name} over no dim, expected one or None")
        d = x.dtype
        if name in ("sum", "prod", "mean") and not d.is_float:
            d = dtypes.float32 if name == "mean" else dtypes.int64
        return astype(x, dtypes.bool if name in ("any", "all") else d)

    def f(x: Any, axis: Any = None, *, keepdims: builtins.bool = False) -> Tensor:
        x = _tensor(x)
        axes = () if axis is None else _dims(axis)
        if axis is not None and not axes:
            return over_none(x)
        if axes and min_(axes) < 0:
            axes = tuple(axis_of(a, x.ndim) for a in axes)
        return apply(o, x, ints=(1 if keepdims else 0, *axes))

    f.__doc__ = f"""{doc}

    x [..]; {over}. The result lacks these dims, or with
    keepdims has 1 there."""
    return f


min_ = min  # of Python, which a name below hides

sum = _reduction("sum", "The sum over dims; of integers and bools as int64.")
mean = _reduction("mean", "The mean over dims; of integers and bools as float32.")
max = _reduction("amax", "The largest over dims; equal ones share its gradient.")
min = _reduction("amin", "The smallest over dims.")
prod = _reduction("prod", "The product over dims; of integers and bools as int64.")
any = _reduction("any", "Whether any of the bools over dims is true.")
all = _reduction("all", "Whether all of the bools over dims are true.")
argmax = _reduction("argmax", "The index of the first largest along one dim, or in the flat order over all; int64.", _ONE)
argmin = _reduction("argmin", "The index of the first smallest, as argmax.", _ONE)


def var(x: Tensor, axis: Any = None, *, correction: float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    """The mean of the squares of the distances from the mean; correction is taken from the
    number of elements that they are divided by. x [..]; the result lacks the dims of axis,
    and has x's dtype, or float32."""
    x = _tensor(x)
    d = x.dtype
    if d.itemsize == 2:
        x = astype(x, dtypes.float32)
    s = sum(square(x - mean(x, axis, keepdims=True)), axis, keepdims=keepdims)
    n = x.size / builtins.max(s.size, 1)
    v = s / builtins.max(n - correction, 0)
    return astype(v, d) if d.itemsize == 2 else v


def std(x: Tensor, axis: Any = None, *, correction: float = 0.0, keepdims: builtins.bool = False) -> Tensor:
    """The square root of var, of its shape and dtype."""
    return sqrt(var(x, axis, correction=correction, keepdims=keepdims))


def cumulative_sum(x: Tensor, *, axis: int | None = None, reverse: builtins.bool = False) -> Tensor:
    """The running sum along a dim, from its end with reverse: of x's shape and dtype, of
    integers and bools as int64."""
    x = _tensor(x)
    if axis is None and x.ndim != 1:
        raise ShapeError(f"cumulative_sum of {x.ndim} dims needs an axis")
    return apply(op("cumsum"), x, ints=(axis_of(axis or 0, x.ndim), 1 if reverse else 0))


def logsumexp(x: Tensor, axis: int = -1, *, keepdims: builtins.bool = False) -> Tensor:
    """log(sum(exp(x))) along a dim, which does not overflow: x [..] of floats; the result lacks
    the dim, or with keepdims has 1 there."""
    m = max(x, axis, keepdims=True).detach()
    m = where(abs(m) == math.inf, 0.0, m)
    y = log(sum(exp(x - m), axis, keepdims=True)) + m
    return y if keepdims else squeeze(y, axis)


# Shapes.

def expand_dims(x: Tensor, axis: int = 0) -> Tensor:
    """Inserts a dim of 1 that is dim axis of the result: [a, b] to [a, 1, b] for axis 1."""
    shape = list(x.shape)
    shape.insert(axis_of(axis, len(shape) + 1), 1)
    return reshape(x, shape)


def squeeze(x: Tensor, axis: Any = None) -> Tensor:
    """Removes dims of 1, those of axis or all: [a, 1, b] to [a, b]."""
    shape = x.shape
    axes = {i for i, n in enumerate(shape) if n == 1} if axis is None else {axis_of(a, len(shape)) for a in _dims(axis)}
    for a in axes:
        if shape[a] != 1:
            raise ShapeError(f"squeeze of dim {a}, which has size {shape[a]}: only 1 can be removed")
    return reshape(x, [n for i, n in enumerate(shape) if i not in axes])


def flatten(x: Tensor, start: int = 0, stop: int = -1) -> Tensor:
    """Makes one dim of the dims start to stop, which are counted too: [a, b, c] to [a*b*c]."""
    if x.ndim == 0:
        return reshape(x, (1,))
    a, b = axis_of(start, x.ndim), axis_of(stop, x.ndim)
    if a > b:
        raise ShapeError(f"flatten of dims {a} to {b}, expected an order")
    return reshape(x, (*x.shape[:a], math.prod(x.shape[a:b + 1]), *x.shape[b + 1:]))


def broadcast_to(x: Tensor, shape: Sequence[int]) -> Tensor:
    """Repeats dims of 1 up to shape, without a copy; -1 keeps a dim as it is."""
    dims, off = list(shape), len(shape) - x.ndim
    dims = [x.shape[i - off] if n == -1 and i >= off else n for i, n in enumerate(dims)]
    return apply(op("expand"), x, ints=dims)


def broadcast_arrays(*xs: Tensor) -> list[Tensor]:
    """Broadcasts tensors to their common shape."""
    import numpy as np

    shape = np.broadcast_shapes(*(x.shape for x in xs))
    return [broadcast_to(x, shape) for x in xs]


def transpose(x: Tensor, a: int = -2, b: int = -1) -> Tensor:
    """Exchanges two dims."""
    axes = list(range(x.ndim))
    a, b = axis_of(a, x.ndim), axis_of(b, x.ndim)
    axes[a], axes[b] = axes[b], axes[a]
    return permute_dims(x, axes)


def matrix_transpose(x: Tensor) -> Tensor:
    """Exchanges the last two dims."""
    return x.mT


def moveaxis(x: Tensor, source: int | Sequence[int], destination: int | Sequence[int]) -> Tensor:
    """Moves a dim, or several, to other places."""
    here, there = ([axis_of(a, x.ndim) for a in _dims(axes)] for axes in (source, destination))
    if len(here) != len(there) or len({*here}) != len(here) or len({*there}) != len(there):
        raise ShapeError(f"moveaxis of dims {here} to {there}, expected as many, none twice")
    axes = [a for a in range(x.ndim) if a not in here]
    for a, to in sorted(zip(here, there), key=lambda pair: pair[1]):
        axes.insert(to, a)
    return permute_dims(x, axes)


def concat(xs: Sequence[Tensor], *, axis: int | None = 0) -> Tensor:
    """Puts tensors one after another along a dim; with axis None, their elements."""
    ts = [_tensor(x) for x in xs]
    if axis is None:
        ts, axis = [flatten(x) for x in ts], 0
    if not ts:
        raise ShapeError("concat of no tensors")
    return apply(op("concat"), *ts, ints=(axis if axis >= 0 else axis_of(axis, ts[0].ndim),))


def stack(xs: Sequence[Tensor], *, axis: int = 0) -> Tensor:
    """Puts n tensors of one shape [a, b] one after another along a new dim: [n, a, b]."""
    ts = [_tensor(x) for x in xs]
    return concat([expand_dims(x, axis=axis) for x in ts], axis=axis_of(axis, ts[0].ndim + 1) if ts else 0)


def unstack(x: Tensor, *, axis: int = 0) -> tuple[Tensor, ...]:
    """Returns the parts of x along a dim, without it."""
    a = axis_of(axis, x.ndim)
    return tuple(x[(*[slice(None)] * a, i)] for i in range(x.shape[a]))


def split(x: Tensor, sizes: int | Sequence[int], axis: int = 0) -> list[Tensor]:
    """Cuts a dim into pieces: of the given sizes, or of one size, the last maybe smaller."""
    a = axis_of(axis, x.ndim)
    n = x.shape[a]
    if isinstance(sizes, Integral):
        if sizes < 1:
            raise ShapeError(f"split in pieces of {sizes}, expected 1 or more")
        sizes = [builtins.min(sizes, n - i) for i in range(0, n, sizes)]
    if builtins.sum(sizes) != n or sizes and min_(sizes) < 0:
        raise ShapeError(f"split in sizes {list(sizes)}, which are not {n} together")
    out, at = [], 0
    for size in sizes:
        out.append(x[(*[slice(None)] * a, slice(at, at + size))])
        at += size
    return out


def chunk(x: Tensor, n: int, axis: int = 0) -> list[Tensor]:
    """Cuts a dim into at most n pieces, equal but the last."""
    if n < 1:
        raise ShapeError(f"chunk in {n} pieces, expected 1 or more")
    return split(x, builtins.max(1, -(-x.shape[axis] // n)), axis=axis)


def flip(x: Tensor, *, axis: Any = None) -> Tensor:
    """Reverses the order along dims."""
    axes = {axis_of(a, x.ndim) for a in (range(x.ndim) if axis is None else _dims(axis))}
    return x[tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(x.ndim))]


def roll(x: Tensor, shift: int | Sequence[int], *, axis: int | Sequence[int] | None = None) -> Tensor:
    """Moves elements along a dim by shift; those that leave it enter at its other end. Of
    several dims shift is one, or one for each."""
    if axis is None:
        return reshape(roll(flatten(x), shift, axis=0), x.shape)
    axes, shifts = _dims(axis), _dims(shift)
    if len(shifts) not in (1, len(axes)):
        raise ShapeError(f"roll by {len(shifts)} shifts along {len(axes)} dims, expected one for each")
    if len(axes) != 1:
        for a, by in zip(axes, shifts * len(axes) if len(shifts) == 1 else shifts):
            x = roll(x, by, axis=a)
        return x
    axis, shift = axis_of(axes[0], x.ndim), shifts[0]
    n = x.shape[axis]
    k = -shift % n if n else 0
    return concat(split(x, [k, n - k], axis=axis)[::-1], axis=axis) if k else reshape(x, x.shape)


def repeat(x: Tensor, repeats: int, *, axis: int) -> Tensor:
    """Repeats every element along a dim, whose size is then repeats times as large."""
    a, repeats = axis_of(axis, x.ndim), operator.index(repeats)
    if repeats < 0:
        raise ShapeError(f"repeat {repeats} times, expected 0 or more")
    y = expand_dims(x, axis=a + 1)
    return reshape(broadcast_to(y, (*x.shape[:a + 1], repeats, *x.shape[a + 1:])), (*x.shape[:a], x.shape[a] * repeats, *x.shape[a + 1:]))


def tile(x: Tensor, repetitions: int | Sequence[int]) -> Tensor:
    """Repeats x along its last dims, as many as there are repetitions; of more repetitions
    than dims the first ones make new dims."""
    repetitions = _dims(repetitions)
    if repetitions and min_(repetitions) < 0:
        raise ShapeError(f"tile {repetitions} times, expected 0 or more")
    ndim, n = builtins.max(x.ndim, len(repetitions)), len(repetitions)
    x = reshape(x, (*[1] * (ndim - x.ndim), *x.shape))
    for a, times in enumerate(repetitions):
        x = concat([x] * times, axis=ndim - n + a) if times else x[(*[slice(None)] * (ndim - n + a), slice(0, 0))]
    return x


def pad(x: Tensor, widths: Sequence[tuple[int, int]], value: float = 0) -> Tensor:
    """Puts value around x: a pair for each dim, before and after."""
    if len(widths) != x.ndim:
        raise ShapeError(f"pad by {len(widths)} pairs, expected one for each of {x.ndim} dims")
    if builtins.any(len(pair) != 2 for pair in widths):
        raise ShapeError(f"pad by {widths}, expected pairs")
    return apply(_t.PAD, x, _t.fit(value, x.dtype, "pad"), ints=[n for pair in widths for n in pair])


def tril(x: Tensor, *, k: int = 0) -> Tensor:
    """0 above the k-th diagonal of the last two dims."""
    return apply(op("tril"), x, ints=(k,))


def triu(x: Tensor, *, k: int = 0) -> Tensor:
    """0 below the k-th diagonal of the last two dims."""
    return apply(op("triu"), x, ints=(k,))


# Indices: int32 or int64; those of take and index_add may count from the end.

def take(x: Tensor, indices: Any, *, axis: int | None = None) -> Tensor:
    """x at indices along a dim, which their dims replace: of x [.., n, ..] and indices [i, j]
    [.., i, j, ..]."""
    if axis is None:
        x, axis = flatten(x), 0
    return apply(_t.SELECT, x, _tensor(indices, x), ints=(axis_of(axis, x.ndim),))


def take_along_axis(x: Tensor, indices: Any, *, axis: int = -1) -> Tensor:
    """out[i][j] = x[i][indices[i][j]] for axis 1; as torch.gather."""
    return apply(op("gather"), x, _tensor(indices, x), ints=(axis_of(axis, x.ndim),))


def index_add(x: Tensor, indices: Any, source: Tensor, *, axis: int = 0) -> Tensor:
    """x plus, for every j in order, source at j to indices[j] along a dim."""
    return apply(op("index_add"), x, _tensor(indices, x), source, ints=(axis_of(axis, x.ndim),))


def scatter_add(x: Tensor, indices: Any, source: Tensor, *, axis: int = -1) -> Tensor:
    """x plus source[i][j] at [i][indices[i][j]] for axis 1."""
    return apply(op("scatter_add"), x, _tensor(indices, x), source, ints=(axis_of(axis, x.ndim),))


def one_hot(indices: Any, classes: int, dtype: Any = dtypes.float32) -> Tensor:
    """1 at [.., index], 0 elsewhere: indices [..], the result [.., classes]."""
    return apply(op("one_hot"), _tensor(indices), ints=(dtypes.dtype(dtype).number, classes))


# Products.

def vecdot(x1: Any, x2: Any, *, axis: int = -1) -> Tensor:
    """The sum of products along a dim: x1 and x2 [.., n] for axis -1, the result [..]."""
    return sum(multiply(x1, x2), axis)


def outer(x1: Tensor, x2: Tensor) -> Tensor:
    """The products of each element of a vector with each of another: [m] and [n] to [m, n]."""
    if x1.ndim != 1 or x2.ndim != 1:
        raise ShapeError(f"outer of {x1.shape} and {x2.shape}, expected vectors")
    return expand_dims(x1, axis=1) * x2


def tensordot(x1: Tensor, x2: Tensor, *, axes: Any = 2) -> Tensor:
    """The sum of products over dims: the last of x1 and the first of x2, or two lists."""
    if isinstance(axes, Integral):
        if axes < 0:
            raise ShapeError(f"tensordot over {axes} dims, expected 0 or more")
        axes = (range(x1.ndim - axes, x1.ndim), range(axes))
    left, right = ([axis_of(a, x.ndim) for a in _dims(l)] for x, l in zip((x1, x2), axes))
    if [x1.shape[i] for i in left] != [x2.shape[i] for i in right]:
        raise ShapeError(f"tensordot of {x1.shape} and {x2.shape} over dims {left} and {right}, which differ in size")
    keep1, keep2 = ([i for i in range(x.ndim) if i not in l] for x, l in ((x1, left), (x2, right)))
    shape = [x1.shape[i] for i in keep1] + [x2.shape[i] for i in keep2]
    inner = math.prod(x1.shape[i] for i in left)
    a = reshape(permute_dims(x1, keep1 + left), (math.prod(x1.shape[i] for i in keep1), inner))
    b = reshape(permute_dims(x2, right + keep2), (inner, math.prod(x2.shape[i] for i in keep2)))
    return reshape(matmul(a, b), shape)


# Neural networks.

def softmax(x: Tensor, axis: int = -1) -> Tensor:
    """exp(x)/sum(exp(x)) along a dim: of x's shape, and its dtype or float32."""
    return apply(op("softmax"), x, ints=(axis_of(axis, x.ndim),))


def log_softmax(x: Tensor, axis: int = -1) -> Tensor:
    """x - log(sum(exp(x))) along a dim: of x's shape, and its dtype or float32."""
    return apply(op("log_softmax"), x, ints=(axis_of(axis, x.ndim),))


def causal_softmax(x: Tensor, scale: float = 1.0) -> Tensor:
    """The softmax of x*scale over the last dim of [.., s, t], in row i over columns up to
    i+t-s; 0 beyond."""
    return apply(op("causal_softmax"), x, scale)


def cross_entropy(x: Tensor, target: Any, *, ignore: int | None = -100) -> Tensor:
    """The mean of -log_softmax(x)[target] over the rows whose target isn't ignore: logits
    [.., classes], targets [..] of int32 or int64, the result of no dims."""
    y = _tensor(target, x)
    if x.ndim != 2:
        x, y = reshape(x, (-1, x.shape[-1])), flatten(y)
    return apply(op("cross_entropy"), x, y, ints=(-(1 << 63) if ignore is None else ignore,))


def mse(x: Tensor, target: Any) -> Tensor:
    """The mean of (x-target)**2 over all elements: a result of no dims."""
    return mean(square(x - target))


def binary_cross_entropy_with_logits(x: Tensor, target: Any) -> Tensor:
    """The mean of -target*log(p) - (1-target)*log(1-p) with p = sigmoid(x), over all elements:
    a result of no dims."""
    m = relu(x.detach())
    return mean(log(exp(-m) + exp(x - m)) + m - x * target)


def layer_norm(x: Tensor, weight: Tensor | None = None, bias: Tensor | None = None, *, eps: float = 1e-5, dims: int = 1) -> Tensor:
    """(x-mean)/sqrt(var+eps) over the last dims, then *weight + bias; their number is
    weight's, or dims."""
    if weight is None:
        y = apply(op("layer_norm"), x, eps, ints=(dims,))
        return y if bias is None else y + bias
    return apply(op("layer_norm"), x, weight, *(() if bias is None else (bias,)), eps, ints=(weight.ndim,))


def rms_norm(x: Tensor, weight: Tensor | None = None, *, eps: float = 1e-6, dims: int = 1) -> Tensor:
    """x/sqrt(mean(x*x)+eps) over the last dims, then *weight."""
    return apply(op("rms_norm"), x, *(() if weight is None else (weight,)), eps, ints=(dims if weight is None else weight.ndim,))


def rope(x: Tensor, cos: Tensor, sin: Tensor, *, back: builtins.bool = False) -> Tensor:
    """Rotary positions, halves rotated: x [.., s, d], cos and sin [s, d/2]; back turns the
    other way."""
    return apply(op("rope"), x, cos, sin, ints=(1 if back else 0,))


def attention(q: Tensor, k: Tensor, v: Tensor, *, scale: float | None = None, causal: builtins.bool = False) -> Tensor:
    """softmax(q k^T scale) v of q [b, h, s, d], k and v [b, kv, t, d], where h is a multiple
    of kv; scale is 1/sqrt(d) unless given."""
    b, h, s, d = q.shape if q.ndim == 4 else (0, 0, 0, 0)
    kv = k.shape[1] if k.ndim == 4 else 0
    if k.shape != v.shape or not kv or q.ndim != 4 or h % kv:
        raise ShapeError(f"attention of q {q.shape}, k {k.shape}, v {v.shape}, expected [b, h, s, d] and [b, kv, t, d], h a multiple of kv")
    if h != kv:
        q, k, v = reshape(q, (b, kv, h // kv, s, d)), expand_dims(k, axis=2), expand_dims(v, axis=2)
    scale = 1 / math.sqrt(d) if scale is None else scale
    p = matmul(q, k.mT)
    y = matmul(causal_softmax(p, scale) if causal else softmax(p * scale), v)
    return reshape(y, (b, h, s, d)) if h != kv else y


def _pair(x: int | Sequence[int]) -> tuple[int, int]:
    pair = _dims(x)
    if len(pair) > 2 or not pair:
        raise ShapeError(f"{x!r}: expected one number for both dims, or a pair")
    return pair[0], pair[-1]


def conv2d(x: Tensor, weight: Tensor, bias: Tensor | None = None, *, stride: Any = 1, padding: Any = 0, dilation: Any = 1, groups: int = 1) -> Tensor:
    """The cross-correlation of images [n, c, h, w] with weights [o, c/groups, kh, kw]
    and bias [o]: [n, o, (h+2*padding-dilation*(kh-1)-1)//stride+1, ..]. Numbers are for both
    dims, or a pair."""
    y = apply(op("conv2d"), x, weight, ints=(*_pair(stride), *_pair(padding), *_pair(dilation), groups))
    if bias is not None and bias.shape != weight.shape[:1]:
        raise ShapeError(f"conv2d of {weight.shape[0]} channels with a bias of {bias.shape}, expected ({weight.shape[0]},)")
    return y if bias is None else y + reshape(bias, (-1, 1, 1))


def _pool(name: str, x: Tensor, kernel: Any, stride: Any, padding: Any) -> Tensor:
    return apply(op(name), x, ints=(*_pair(kernel), *_pair(stride or kernel), *_pair(padding)))


def max_pool2d(x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The largest of each window of images [n, c, h, w]:
    [n, c, (h+2*padding-kernel)//stride+1, ..]. stride is kernel unless given."""
    return _pool("max_pool2d", x, kernel, stride, padding)


def avg_pool2d(x: Tensor, kernel: Any, stride: Any = None, padding: Any = 0) -> Tensor:
    """The mean of each window of images, as max_pool2d; padding counts as 0."""
    return _pool("avg_pool2d", x, kernel, stride, padding)


__all__ = [
    "abs", "add", "all", "any", "apply", "arange", "argmax", "argmin", "asarray", "astype", "attention", "avg_pool2d", "barrier",
    "binary_cross_entropy_with_logits", "broadcast_arrays", "broadcast_to", "causal_softmax", "ceil", "chunk", "clip", "concat",
    "conv2d", "cos", "cross_entropy", "cumulative_sum", "divide", "dropout", "empty", "empty_like", "equal", "erf", "exp",
    "expand_dims", "eye", "flatten", "flip", "floor", "floor_divide", "full", "full_like", "gelu", "greater", "greater_equal",
    "index_add", "isfinite", "isinf", "isnan", "layer_norm", "less", "less_equal", "linspace", "log", "log_softmax",
    "logical_and", "logical_not", "logical_or", "logical_xor", "logsumexp", "matmul", "matrix_transpose", "max", "max_pool2d",
    "maximum", "mean", "min", "minimum", "moveaxis", "mse", "multiply", "negative", "not_equal", "one_hot", "ones", "ones_like",
    "outer", "pad", "permute_dims", "positive", "pow", "prod", "reciprocal", "relu", "remainder", "repeat", "reshape",
    "rms_norm", "roll", "rope", "rsqrt", "scatter_add", "sigmoid", "sign", "silu", "sin", "softmax", "split", "sqrt", "square",
    "squeeze", "stack", "std", "subtract", "sum", "take", "take_along_axis", "tan", "tanh", "tensordot", "tile", "transpose",
    "tril", "triu", "trunc", "unstack", "var", "vecdot", "where", "zeros", "zeros_like", "cumulative_sum", "isinf",
]

for _name in __all__:  # those that were made in a function above have its name
    globals()[_name].__name__ = globals()[_name].__qualname__ = _name

# Functions that are methods too: x.sum() is sum(x).
METHODS = (
    "abs", "all", "any", "argmax", "argmin", "astype", "broadcast_to", "ceil", "chunk", "clip", "cos", "cumulative_sum", "erf", "exp",
    "expand_dims", "flatten", "flip", "floor", "gelu", "log", "log_softmax", "logsumexp", "matmul", "max", "maximum", "mean", "min",
    "minimum", "moveaxis", "pow", "prod", "reciprocal", "relu", "repeat", "roll", "rsqrt", "sigmoid", "sign", "silu", "sin", "softmax",
    "split", "sqrt", "square", "squeeze", "std", "sum", "take", "tanh", "transpose", "tril", "triu", "unstack", "var",
)

for _name in METHODS:
    setattr(Tensor, _name, globals()[_name])
Tensor.unsqueeze = expand_dims  # type: ignore[attr-defined]  # PyTorch's name


def _reshape(self: Tensor, *shape: Any) -> Tensor:
    return reshape(self, shape[0] if len(shape) == 1 else shape)


def _permute(self: Tensor, *axes: Any) -> Tensor:
    return permute_dims(self, axes[0] if len(axes) == 1 and not isinstance(axes[0], Integral) else axes)


_reshape.__doc__, _permute.__doc__ = reshape.__doc__, permute_dims.__doc__
Tensor.reshape, Tensor.permute_dims, Tensor.permute = _reshape, _permute, _permute  # type: ignore[attr-defined]


def _of_tensors(f: Callable[..., Any]) -> Callable[..., Any]:
    """Returns f for arguments that are lists and numbers as well, which become tensors. Those
    that can't, such as None, are an error of asarray."""
    signature = inspect.signature(f)
    tensors = [p.name for p in signature.parameters.values() if str(p.annotation) in ("Tensor", "Tensor | None")]

    @functools.wraps(f)
    def call(*args: Any, **named: Any) -> Any:
        try:
            return f(*args, **named)
        except AttributeError:
            given = signature.bind(*args, **named)
            others = [n for n in tensors if n in given.arguments and not isinstance(given.arguments[n], Tensor)]
            optional = [n for n in others if given.arguments[n] is None and signature.parameters[n].default is None]
            if len(others) == len(optional):
                raise
        session = next((x._s for x in given.arguments.values() if isinstance(x, Tensor)), None)
        given.arguments.update((n, asarray(given.arguments[n], session=session)) for n in others if n not in optional)
        return f(*given.args, **given.kwargs)

    return call if tensors else f


# The methods stay without this: they are of tensors.
for _name in __all__:
    if getattr(globals()[_name], "__module__", None) == __name__:
        globals()[_name] = _of_tensors(globals()[_name])
for _name in "full_like", "permute_dims":
    globals()[_name] = _of_tensors(globals()[_name])
