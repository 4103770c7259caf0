"""Writes ops.json: results and gradients of single operations, from PyTorch.

Run (Debian: apt-get install python3-torch libopenblas0-openmp):

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE /usr/bin/python3 golden.py

Format: {"torch": version, "cases": [case, ...]}, one case a line. A case has

    name     unique
    op       snake_case, PyTorch's name where it has one; the list is in README.md
    inputs   in the operation's order: {"shape", "dtype", "data", "grad"?}; data is row-major;
             dtype is f32, f64, i32, i64, u8 or bool (data 0 and 1)
    ints     named integer attributes, always lists; flags are [0] or [1]
    floats   named float attributes
    strings  named string attributes
    outputs  list of {"shape", "dtype", "data"}
    weights  one list for each output, when any input wants a gradient: the loss is
             the sum over outputs of sum(output * weights)
    grads    one entry for each input: the gradient's data (shape of the input), or null

Floats are the shortest decimals that read back to the same value of their dtype; "nan", "inf" and
"-inf" are strings. Inputs come from formula.py (stream "<case>/<input number>"), so
PyTorch's own generators play no part. f32 cases are computed in double precision on inputs exact
in f32 and rounded once at the end: what a tolerance then measures is the engine's error alone.
"""
import json
import math

import numpy as np
import torch
import torch.nn.functional as F

import formula

NAMES = {torch.float32: "f32", torch.float64: "f64", torch.int32: "i32",
         torch.int64: "i64", torch.uint8: "u8", torch.bool: "bool"}
DTYPES = {v: k for k, v in NAMES.items()}
cases, seen = [], set()


# ---- inputs -------------------------------------------------------------------------------------

class In:
    """A recipe for one input, made concrete when its case's name is known."""

    def __init__(self, shape=None, dtype="f32", grad=True, offset=0.0, scale=2.0, data=None, below=None):
        self.shape, self.dtype, self.grad = shape, dtype, grad and dtype in ("f32", "f64")
        self.offset, self.scale, self.data, self.below = offset, scale, data, below

    def tensor(self, stream):
        dt = DTYPES[self.dtype]
        if self.data is not None:
            t = torch.tensor(self.data, dtype=dt)
            return t if self.shape is None else t.reshape(self.shape)
        if self.below is not None:
            return torch.from_numpy(formula.indices(stream, self.shape, self.below)).to(dt)
        return torch.from_numpy(np.asarray(formula.uniform(stream, self.shape, self.offset, self.scale))).to(dt)


def f(*shape, **kw):
    return In(shape, **kw)


def pos(*shape, **kw):
    """Values in [0.25, 2.25): arguments of log, sqrt, division."""
    return In(shape, offset=1.25, scale=1.0, **kw)


def const(*shape, **kw):
    return In(shape, grad=False, **kw)


def idx(below, *shape):
    return In(shape, dtype="i64", below=below)


def lit(data, shape=None, dtype="f32", grad=True):
    return In(shape, dtype=dtype, grad=grad, data=data)


# ---- writing ------------------------------------------------------------------------------------

def number(x, dtype):
    if dtype in ("f32", "f64"):
        x = np.float32(x) if dtype == "f32" else np.float64(x)
        if np.isnan(x):
            return '"nan"'
        if np.isinf(x):
            return '"inf"' if x > 0 else '"-inf"'
        s = repr(x) if not np.isclose(float(x) % 1, 0, atol=0) or abs(x) > 1e15 else "%d" % x
        return "-0.0" if x == 0 and math.copysign(1, x) < 0 else s
    return "%d" % int(x)


def numbers(t, dtype):
    return "[" + ",".join(number(v, dtype) for v in t.detach().reshape(-1).tolist()) + "]"


def block(t, dtype, grad=False):
    return '{"shape":%s,"dtype":"%s","data":%s%s}' % (
        json.dumps(list(t.shape), separators=(",", ":")), dtype, numbers(t, dtype), ',"grad":true' if grad else "")


def case(name, op, fn, *inputs, out=None, **attrs):
    """Runs fn on the inputs in double precision and records the case.

    out names the dtypes of the outputs where they differ from the first float input's (or, without
    one, from what PyTorch answered). Attributes: int, bool and lists of int are ints, float is
    floats, str is strings.
    """
    assert name not in seen, name
    seen.add(name)
    ints, floats, strings = {}, {}, {}
    for k, v in attrs.items():
        if isinstance(v, str):
            strings[k] = v
        elif isinstance(v, float):
            floats[k] = v
        else:
            ints[k] = [int(e) for e in v] if isinstance(v, (list, tuple)) else [int(v)]
    given = [r.tensor("%s/%d" % (name, i)) for i, r in enumerate(inputs)]
    args = []
    for r, t in zip(inputs, given):
        t = t.double() if t.dtype == torch.float32 else t.clone()
        args.append(t.requires_grad_(True) if r.grad else t)
    res = fn(*args)
    res = list(res) if isinstance(res, (list, tuple)) else [res]
    floatin = next((r.dtype for r in inputs if r.dtype in ("f32", "f64")), "f32")
    types = out.split() if out else [floatin if t.is_floating_point() else NAMES[t.dtype] for t in res]
    fields = ['"name":%s' % json.dumps(name), '"op":%s' % json.dumps(op),
              '"inputs":[%s]' % ",".join(block(t, r.dtype, r.grad) for r, t in zip(inputs, given))]
    for label, group in (("ints", ints), ("floats", floats), ("strings", strings)):
        if group:
            fields.append('"%s":%s' % (label, json.dumps(group, separators=(",", ":"))))
    fields.append('"outputs":[%s]' % ",".join(block(t, dt) for t, dt in zip(res, types)))
    if any(r.grad for r in inputs):
        ws = [torch.from_numpy(formula.uniform("%s/w%d" % (name, i), list(t.shape))).double() for i, t in enumerate(res)]
        loss = sum((t * w).sum() for t, w in zip(res, ws))
        wanted = [a for a, r in zip(args, inputs) if r.grad]
        gs = iter(torch.autograd.grad(loss, wanted))
        fields.append('"weights":[%s]' % ",".join(numbers(w, "f32") for w in ws))
        fields.append('"grads":[%s]' % ",".join(numbers(next(gs), r.dtype) if r.grad else "null" for r in inputs))
    cases.append("{" + ",".join(fields) + "}")


# ---- elementwise --------------------------------------------------------------------------------

def elementwise():
    unary = dict(neg=torch.neg, abs=torch.abs, exp=torch.exp, square=torch.square, relu=F.relu, sigmoid=torch.sigmoid,
                 tanh=torch.tanh, sin=torch.sin, cos=torch.cos, erf=torch.erf, silu=F.silu, softplus=F.softplus)
    for op, fn in unary.items():
        case(op, op, fn, f(2, 7))
    for op, fn in dict(log=torch.log, sqrt=torch.sqrt, rsqrt=torch.rsqrt, reciprocal=torch.reciprocal).items():
        case(op, op, fn, pos(2, 7))
    for op, fn in dict(sign=torch.sign, floor=torch.floor, ceil=torch.ceil, round=torch.round).items():
        case(op, op, fn, lit([-2.5, -1.5, -0.75, -0.5, 0.0, 0.25, 0.5, 1.5, 2.5, 3.75], grad=False))
    case("gelu_erf", "gelu", F.gelu, f(3, 5, scale=4.0), approximate="none")
    case("gelu_tanh", "gelu", lambda x: F.gelu(x, approximate="tanh"), f(3, 5, scale=4.0), approximate="tanh")
    case("leaky_relu", "leaky_relu", lambda x: F.leaky_relu(x, 0.125), f(3, 5), negative_slope=0.125)
    case("relu_at_zero", "relu", F.relu, lit([-1.0, -0.0, 0.0, 1.0]))
    case("abs_at_zero", "abs", torch.abs, lit([-1.0, 0.0, 1.0]))
    case("sigmoid_far", "sigmoid", torch.sigmoid, lit([-100.0, -20.0, 0.0, 20.0, 100.0]))
    case("tanh_far", "tanh", torch.tanh, lit([-100.0, -9.0, -0.0001220703125, 0.0, 0.0001220703125, 9.0, 100.0]))
    case("exp_far", "exp", torch.exp, lit([-200.0, -80.0, -1.0, 0.0, 1.0, 80.0], grad=False))
    case("erf_far", "erf", torch.erf, lit([-6.0, -3.0, -0.0001220703125, 0.0, 0.5, 3.0, 6.0]))
    case("exp_scalar", "exp", torch.exp, f())
    case("neg_empty", "neg", torch.neg, f(0, 3))
    case("neg_f64", "neg", torch.neg, f(2, 3, dtype="f64"))
    case("exp_f64", "exp", torch.exp, f(2, 3, dtype="f64"))
    case("neg_i64", "neg", torch.neg, lit([-3, 0, 4], dtype="i64"))

    binary = dict(add=torch.add, sub=torch.sub, mul=torch.mul, div=torch.div, maximum=torch.maximum, minimum=torch.minimum)
    shapes = [("same", (2, 3), (2, 3)), ("row", (2, 3), (3,)), ("col", (2, 3), (2, 1)),
              ("outer", (4, 1), (1, 3)), ("scalar", (2, 3), ()), ("deep", (2, 1, 3), (4, 1))]
    for op, fn in binary.items():
        for tag, a, b in shapes if op in ("add", "sub", "mul", "div") else shapes[:2]:
            case("%s_%s" % (op, tag), op, fn, f(*a), pos(*b) if op == "div" else f(*b))
    case("add_left_scalar", "add", torch.add, f(), f(3, 2))
    case("add_broadcast_both", "add", torch.add, f(3, 1, 2), f(1, 4, 1))
    case("mul_empty", "mul", torch.mul, f(0, 3), f(3))
    case("add_i64", "add", torch.add, lit([1, -2, 3], dtype="i64"), lit([10, 20, -30], dtype="i64"))
    case("mul_i32", "mul", torch.mul, lit([1, -2, 3], dtype="i32"), lit([[2], [5]], dtype="i32"))
    case("sub_f64", "sub", torch.sub, f(2, 2, dtype="f64"), f(2, 2, dtype="f64"))
    case("maximum_ties", "maximum", torch.maximum, lit([1.0, 2.0, 3.0, -1.0]), lit([1.0, 3.0, 2.0, -1.0]))
    case("minimum_ties", "minimum", torch.minimum, lit([1.0, 2.0, 3.0, -1.0]), lit([1.0, 3.0, 2.0, -1.0]))
    case("div_by_zero", "div", torch.div, lit([1.0, -1.0, 0.0], grad=False), lit([0.0, 0.0, 0.0], grad=False))
    case("pow", "pow", torch.pow, pos(2, 3), f(2, 3))
    case("pow_broadcast", "pow", torch.pow, pos(2, 3), f(3))
    for e in (2.0, 3.0, 0.5, -1.5):
        case("pow_scalar_%g" % e, "pow_scalar", lambda x: torch.pow(x, e), pos(2, 3), exponent=e)
    case("pow_scalar_negative_base", "pow_scalar", lambda x: torch.pow(x, 3.0), f(5), exponent=3.0)

    for op in ("eq", "ne", "lt", "le", "gt", "ge"):
        case(op, op, getattr(torch, op), lit([1.0, 2.0, 3.0, 2.0], grad=False), lit([2.0, 2.0, 2.0, -1.0], grad=False))
    case("lt_nan", "lt", torch.lt, lit([float("nan"), 1.0], grad=False), lit([1.0, float("nan")], grad=False))
    case("eq_i64_broadcast", "eq", torch.eq, idx(3, 4, 1), lit([0, 1, 2], dtype="i64"))
    yes, no = lit([1, 1, 0, 0], dtype="bool"), lit([1, 0, 1, 0], dtype="bool")
    case("logical_and", "logical_and", torch.logical_and, yes, no)
    case("logical_or", "logical_or", torch.logical_or, yes, no)
    case("logical_not", "logical_not", torch.logical_not, yes)

    case("where", "where", torch.where, lit([[1, 0, 1], [0, 0, 1]], dtype="bool"), f(2, 3), f(2, 3))
    case("where_broadcast", "where", torch.where, lit([[1], [0]], dtype="bool"), f(3), f(2, 1))
    case("masked_fill", "masked_fill", lambda x, m: x.masked_fill(m, -7.5), f(2, 3), lit([1, 0, 1], dtype="bool"), value=-7.5)
    edge = lit([-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 2.0])
    case("clamp", "clamp", lambda x: x.clamp(-1.0, 0.5), edge, min=-1.0, max=0.5)
    case("clamp_min", "clamp", lambda x: x.clamp(min=-0.5), edge, min=-0.5)
    case("clamp_max", "clamp", lambda x: x.clamp(max=0.5), edge, max=0.5)
    frac = lit([-2.75, -1.0, -0.5, 0.0, 0.5, 1.75, 200.0], grad=False)
    for to in ("i32", "i64", "f64", "bool"):
        case("cast_f32_%s" % to, "cast", lambda x: x.to(DTYPES[to]), frac, out=to, dtype=to)
    case("cast_f32_u8", "cast", lambda x: x.to(torch.uint8), lit([0.0, 1.5, 254.75], grad=False), out="u8", dtype="u8")
    case("cast_i64_f32", "cast", lambda x: x.to(torch.float32), lit([-3, 0, 16777217], dtype="i64"), out="f32", dtype="f32")
    case("cast_bool_f32", "cast", lambda x: x.to(torch.float32), yes, out="f32", dtype="f32")
    case("cast_bool_i64", "cast", lambda x: x.to(torch.int64), yes, out="i64", dtype="i64")
    case("cast_f32_f64_grad", "cast", lambda x: x * 1, f(3), out="f64", dtype="f64")
    case("cast_f64_f32_grad", "cast", lambda x: x * 1, f(3, dtype="f64"), out="f32", dtype="f32")


# ---- reductions ---------------------------------------------------------------------------------

def reductions():
    dims = [("all", None), ("0", [0]), ("1", [1]), ("last", [-1]), ("02", [0, 2])]
    fns = dict(sum=lambda x, d, k: x.sum(d, keepdim=k), mean=lambda x, d, k: x.mean(d, keepdim=k),
               max=lambda x, d, k: torch.amax(x, d, keepdim=k), min=lambda x, d, k: torch.amin(x, d, keepdim=k))
    for op, fn in fns.items():
        for tag, d in dims:
            for keep in (False, True) if tag in ("1", "02") else (False,):
                case("%s_%s%s" % (op, tag, "_keep" if keep else ""), op,
                     lambda x: fn(x, [0, 1, 2] if d is None else d, keep), f(2, 3, 4),
                     dim=[] if d is None else d, keepdim=keep)
    case("sum_scalar", "sum", lambda x: x.sum(), f(), dim=[], keepdim=False)
    case("sum_empty", "sum", lambda x: x.sum(0), f(0, 3), dim=[0], keepdim=False)
    case("sum_i64", "sum", lambda x: x.sum(1), idx(100, 2, 5), dim=[1], keepdim=False)
    case("sum_bool", "sum", lambda x: x.sum(), lit([1, 0, 1, 1], dtype="bool"), out="i64", dim=[], keepdim=False)
    case("sum_f64", "sum", lambda x: x.sum(0), f(3, 2, dtype="f64"), dim=[0], keepdim=False)
    case("max_ties", "max", lambda x: torch.amax(x, [1]), lit([[1.0, 3.0, 3.0, 0.0], [2.0, 2.0, 2.0, 2.0]]), dim=[1], keepdim=False)
    case("min_ties_all", "min", lambda x: torch.amin(x, [0, 1]), lit([[1.0, 3.0], [1.0, 2.0]]), dim=[], keepdim=False)
    case("max_i64", "max", lambda x: torch.amax(x, [0]), idx(50, 4, 3), dim=[0], keepdim=False)
    case("prod_all", "prod", lambda x: x.prod(), f(5), dim=[], keepdim=False)
    case("prod_1", "prod", lambda x: x.prod(1), f(2, 4), dim=[1], keepdim=False)
    case("prod_keep", "prod", lambda x: x.prod(0, keepdim=True), f(3, 2), dim=[0], keepdim=True)
    case("prod_zero", "prod", lambda x: x.prod(1), lit([[2.0, 0.0, 3.0], [0.0, 0.0, 5.0]]), dim=[1], keepdim=False)
    for op in ("argmax", "argmin"):
        fn = getattr(torch, op)
        case("%s_0" % op, op, lambda x: fn(x, 0), const(3, 4), dim=[0], keepdim=False)
        case("%s_last_keep" % op, op, lambda x: fn(x, -1, keepdim=True), const(3, 4), dim=[-1], keepdim=True)
        case("%s_all" % op, op, lambda x: fn(x), const(3, 4), dim=[], keepdim=False)
    for d in (0, 1, -1):
        case("cumsum_%s" % ("last" if d < 0 else d), "cumsum", lambda x: x.cumsum(d), f(2, 3, 2), dim=d)
    case("cumsum_i64", "cumsum", lambda x: x.cumsum(0), idx(9, 5), dim=0)
    case("var_unbiased", "var", lambda x: x.var(1, unbiased=True), f(2, 5), dim=[1], correction=1, keepdim=False)
    case("var_biased_keep", "var", lambda x: x.var(1, unbiased=False, keepdim=True), f(2, 5), dim=[1], correction=0, keepdim=True)
    case("logsumexp", "logsumexp", lambda x: x.logsumexp(1), f(3, 4, scale=8.0), dim=[1], keepdim=False)
    case("logsumexp_far", "logsumexp", lambda x: x.logsumexp(1, keepdim=True), lit([[1000.0, 1001.0], [-1000.0, -1000.0]]), dim=[1], keepdim=True)


# ---- products -----------------------------------------------------------------------------------

def products():
    for tag, a, b in [("1x1", (4,), (4,)), ("1x2", (4,), (4, 3)), ("2x1", (3, 4), (4,)), ("2x2", (3, 4), (4, 5)),
                      ("3x2", (2, 3, 4), (4, 5)), ("2x3", (3, 4), (2, 4, 5)), ("3x3", (2, 3, 4), (2, 4, 5)),
                      ("3x1", (2, 3, 4), (4,)), ("1x3", (4,), (2, 4, 3)), ("4x4", (2, 2, 3, 4), (2, 2, 4, 3)),
                      ("4x4_broadcast", (2, 1, 3, 4), (1, 3, 4, 2)), ("4x2", (2, 2, 2, 3), (3, 4)), ("4x3", (2, 3, 2, 3), (3, 3, 2)),
                      ("row_col", (1, 5), (5, 1)), ("outer", (3, 1), (1, 4)), ("odd", (7, 9), (9, 5)),
                      ("k_empty", (2, 0), (0, 3))]:
        case("matmul_%s" % tag, "matmul", torch.matmul, f(*a), f(*b))
    case("matmul_f64", "matmul", torch.matmul, f(3, 4, dtype="f64"), f(4, 2, dtype="f64"))
    case("matmul_i64", "matmul", torch.matmul, idx(20, 2, 3), idx(20, 3, 2))
    case("linear_bias", "linear", F.linear, f(2, 3, 4), f(5, 4), f(5))
    case("linear", "linear", F.linear, f(3, 4), f(5, 4))


# ---- shape and movement -------------------------------------------------------------------------

def sliced(x, starts, ends, steps):
    return x[tuple(slice(s, e, st) for s, e, st in zip(starts, ends, steps))]


def movement():
    case("reshape", "reshape", lambda x: x.reshape(3, 4), f(2, 6), shape=[3, 4])
    case("reshape_infer", "reshape", lambda x: x.reshape(-1, 2), f(2, 3, 2), shape=[-1, 2])
    case("reshape_scalar", "reshape", lambda x: x.reshape([]), f(1, 1), shape=[])
    case("permute", "permute", lambda x: x.permute(2, 0, 1), f(2, 3, 4), dims=[2, 0, 1])
    case("permute_4d", "permute", lambda x: x.permute(0, 2, 1, 3), f(2, 3, 2, 2), dims=[0, 2, 1, 3])
    case("transpose", "transpose", lambda x: x.transpose(0, 1), f(2, 3), dims=[0, 1])
    case("transpose_negative", "transpose", lambda x: x.transpose(-2, -1), f(2, 3, 2), dims=[-2, -1])
    case("transpose_i64", "transpose", lambda x: x.transpose(0, 1), idx(9, 2, 3), dims=[0, 1])
    case("expand", "expand", lambda x: x.expand(2, 3, 4), f(3, 1), shape=[2, 3, 4])
    case("expand_scalar", "expand", lambda x: x.expand(2, 2), f(), shape=[2, 2])
    case("squeeze", "squeeze", lambda x: x.squeeze(1), f(2, 1, 3), dim=1)
    case("unsqueeze", "unsqueeze", lambda x: x.unsqueeze(-1), f(2, 3), dim=-1)
    for tag, shape, starts, ends, steps in [("rows", (5, 3), [1, 0], [4, 3], [1, 1]), ("cols", (3, 5), [0, 2], [3, 5], [1, 1]),
                                            ("step", (7, 5), [1, 0], [7, 5], [2, 3]), ("3d", (3, 4, 5), [0, 1, 1], [3, 4, 5], [2, 1, 3]),
                                            ("empty", (3, 2), [1, 0], [1, 2], [1, 1])]:
        case("slice_%s" % tag, "slice", lambda x: sliced(x, starts, ends, steps), f(*shape), start=starts, end=ends, step=steps)
    case("index_select_0", "index_select", lambda x, i: x.index_select(0, i), f(4, 3), lit([2, 0, 2, 3, 2], dtype="i64"), dim=0)
    case("index_select_1", "index_select", lambda x, i: x.index_select(1, i), f(2, 4, 3), lit([3, 1], dtype="i64"), dim=1)
    case("gather_0", "gather", lambda x, i: x.gather(0, i), f(4, 3), lit([[0, 3, 1], [0, 0, 2]], dtype="i64"), dim=0)
    case("gather_1", "gather", lambda x, i: x.gather(1, i), f(3, 4), idx(4, 3, 6), dim=1)
    case("gather_3d", "gather", lambda x, i: x.gather(2, i), f(2, 2, 3), idx(3, 2, 2, 2), dim=2)
    case("scatter_add_0", "scatter_add", lambda x, i, s: x.scatter_add(0, i, s), f(3, 4), idx(3, 5, 4), f(5, 4), dim=0)
    case("scatter_add_1", "scatter_add", lambda x, i, s: x.scatter_add(1, i, s), f(2, 3), lit([[0, 0, 2], [1, 1, 1]], dtype="i64"), f(2, 3), dim=1)
    case("embedding", "embedding", lambda w, i: F.embedding(i, w), f(5, 3), lit([[1, 4, 1], [0, 1, 2]], dtype="i64"))
    case("embedding_i32", "embedding", lambda w, i: F.embedding(i, w), f(5, 3), lit([4, 4], dtype="i32"))
    for n, dim, shapes in [("0", 0, [(2, 3), (1, 3)]), ("1", 1, [(2, 3), (2, 1), (2, 2)]), ("last", -1, [(2, 2, 1), (2, 2, 3)]), ("empty", 0, [(2, 2), (0, 2)])]:
        case("cat_%s" % n, "cat", lambda *x: torch.cat(x, dim), *[f(*s) for s in shapes], dim=dim)
    for d in (0, 1, -1):
        case("stack_%s" % ("last" if d < 0 else d), "stack", lambda *x: torch.stack(x, d), f(2, 3), f(2, 3), dim=d)
    case("split_even", "split", lambda x: x.split(2, 0), f(4, 3), size=2, dim=0)
    case("split_rest", "split", lambda x: x.split(2, 1), f(2, 5), size=2, dim=1)
    case("chunk", "chunk", lambda x: x.chunk(2, 0), f(5, 2), chunks=2, dim=0)
    case("split_sizes", "split_sizes", lambda x: x.split([1, 3, 2], 1), f(2, 6), sizes=[1, 3, 2], dim=1)
    case("pad_last", "pad", lambda x: F.pad(x, (1, 2), value=0.5), f(2, 3), before=[0, 1], after=[0, 2], value=0.5)
    case("pad_both", "pad", lambda x: F.pad(x, (1, 0, 0, 2)), f(2, 3), before=[0, 1], after=[2, 0], value=0.0)
    case("flip", "flip", lambda x: x.flip(0, 2), f(2, 2, 3), dims=[0, 2])
    case("roll", "roll", lambda x: x.roll(2, 1), f(2, 5), shift=2, dim=1)
    for op in ("triu", "tril"):
        for d in (0, 1, -1):
            case("%s_%d" % (op, d), op, lambda x: getattr(torch, op)(x, d), f(3, 4), diagonal=d)
    case("tril_batch", "tril", lambda x: torch.tril(x), f(2, 3, 3), diagonal=0)
    case("one_hot", "one_hot", lambda i: F.one_hot(i, 5), lit([[0, 4], [2, 2]], dtype="i64"), num_classes=5)


# ---- rows: softmax, norms, losses ---------------------------------------------------------------

def rms_norm(x, w=None, eps=1e-6):
    y = x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + eps)
    return y if w is None else y * w


def rows():
    for op, fn in (("softmax", F.softmax), ("log_softmax", F.log_softmax)):
        case("%s_last" % op, op, lambda x: fn(x, -1), f(3, 5, scale=4.0), dim=-1)
        case("%s_0" % op, op, lambda x: fn(x, 0), f(3, 2), dim=0)
        case("%s_mid" % op, op, lambda x: fn(x, 1), f(2, 3, 2), dim=1)
        case("%s_far" % op, op, lambda x: fn(x, -1), lit([[1000.0, 1000.0, 998.0], [-1000.0, 0.0, 3.0]]), dim=-1)
    case("softmax_masked", "softmax", lambda x: F.softmax(x, -1), lit([[0.5, float("-inf"), 1.5], [float("-inf"), float("-inf"), 2.0]], grad=False), dim=-1)
    case("layer_norm", "layer_norm", lambda x, w, b: F.layer_norm(x, (5,), w, b, 1e-5), f(2, 3, 5), f(5), f(5), eps=1e-5)
    case("layer_norm_plain", "layer_norm", lambda x: F.layer_norm(x, (8,), eps=1e-5), f(2, 8), eps=1e-5)
    case("layer_norm_offset", "layer_norm", lambda x, w, b: F.layer_norm(x, (6,), w, b, 1e-3), f(2, 6, offset=100.0, scale=1.0), pos(6), f(6), eps=1e-3)
    case("rms_norm", "rms_norm", rms_norm, f(2, 3, 5), f(5), eps=1e-6)
    case("rms_norm_plain", "rms_norm", rms_norm, f(2, 8), eps=1e-6)
    case("rms_norm_small", "rms_norm", rms_norm, f(2, 4, scale=2.0 ** -10), pos(4), eps=1e-6)
    tgt = lit([1, 0, 3], dtype="i64")
    case("cross_entropy", "cross_entropy", F.cross_entropy, f(3, 4), tgt, reduction="mean", ignore_index=-100)
    case("cross_entropy_ignore", "cross_entropy", F.cross_entropy, f(4, 5), lit([1, -100, 4, -100], dtype="i64"), reduction="mean", ignore_index=-100)
    case("cross_entropy_ignore_2", "cross_entropy", lambda x, t: F.cross_entropy(x, t, ignore_index=2), f(4, 3), lit([2, 1, 2, 0], dtype="i64"), reduction="mean", ignore_index=2)
    case("cross_entropy_sum", "cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction="sum"), f(3, 4), tgt, reduction="sum", ignore_index=-100)
    case("cross_entropy_none", "cross_entropy", lambda x, t: F.cross_entropy(x, t, reduction="none"), f(3, 4), tgt, reduction="none", ignore_index=-100)
    case("cross_entropy_far", "cross_entropy", F.cross_entropy, lit([[500.0, -500.0], [3.0, 900.0]]), lit([1, 1], dtype="i64"), reduction="mean", ignore_index=-100)
    case("nll_loss", "nll_loss", F.nll_loss, f(3, 4), tgt, reduction="mean", ignore_index=-100)
    case("mse_loss", "mse_loss", F.mse_loss, f(2, 3), f(2, 3), reduction="mean")
    case("bce_with_logits", "bce_with_logits", F.binary_cross_entropy_with_logits, f(2, 3, scale=8.0), lit([[0.0, 1.0, 1.0], [1.0, 0.0, 0.5]], grad=False), reduction="mean")


# ---- attention and images -----------------------------------------------------------------------

def sdpa(q, k, v, causal):
    n = q.shape[1] // k.shape[1]  # query heads a key/value head: GQA
    k, v = k.repeat_interleave(n, 1), v.repeat_interleave(n, 1)
    a = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
    if causal:
        t, s = a.shape[-2:]
        a = a.masked_fill(torch.ones(t, s, dtype=torch.bool).triu(1), float("-inf"))
    return F.softmax(a, -1) @ v


def rope(x, theta, offset):
    """x is [..., positions, width]; pairs are (i, i+width/2), the rotate-half form."""
    t, d = x.shape[-2:]
    inv = theta ** (-torch.arange(0, d, 2).double() / d)
    ang = torch.outer(torch.arange(offset, offset + t).double(), inv)
    cos, sin = torch.cat((ang, ang), -1).cos(), torch.cat((ang, ang), -1).sin()
    a, b = x[..., : d // 2], x[..., d // 2:]
    return x * cos + torch.cat((-b, a), -1) * sin


def attention():
    case("sdpa", "sdpa", lambda q, k, v: sdpa(q, k, v, False), f(1, 2, 3, 4), f(1, 2, 3, 4), f(1, 2, 3, 4), causal=False)
    case("sdpa_causal", "sdpa", lambda q, k, v: sdpa(q, k, v, True), f(1, 2, 4, 2), f(1, 2, 4, 2), f(1, 2, 4, 2), causal=True)
    case("sdpa_causal_gqa", "sdpa", lambda q, k, v: sdpa(q, k, v, True), f(2, 4, 3, 2), f(2, 2, 3, 2), f(2, 2, 3, 2), causal=True)
    case("sdpa_one_kv_head", "sdpa", lambda q, k, v: sdpa(q, k, v, True), f(1, 3, 3, 4), f(1, 1, 3, 4), f(1, 1, 3, 4), causal=True)
    case("sdpa_longer_keys", "sdpa", lambda q, k, v: sdpa(q, k, v, False), f(1, 2, 2, 4), f(1, 2, 5, 4), f(1, 2, 5, 4), causal=False)
    case("sdpa_large_scores", "sdpa", lambda q, k, v: sdpa(q, k, v, True), f(1, 1, 3, 4, scale=32.0), f(1, 1, 3, 4, scale=32.0), f(1, 1, 3, 4), causal=True)
    case("rope", "rope", lambda x: rope(x, 10000.0, 0), f(1, 2, 5, 4), theta=10000.0, offset=0)
    case("rope_offset", "rope", lambda x: rope(x, 1e6, 7), f(2, 1, 3, 8), theta=1e6, offset=7)


def images():
    conv = [("1x1", (1, 3, 3, 3), (2, 3, 1, 1), {}), ("3x3", (1, 2, 5, 5), (3, 2, 3, 3), {}), ("pad", (2, 1, 4, 4), (2, 1, 3, 3), dict(padding=1)),
            ("stride", (1, 2, 6, 5), (2, 2, 3, 3), dict(stride=2, padding=1)), ("stride_hw", (1, 1, 6, 7), (1, 1, 2, 3), dict(stride=(2, 3), padding=(0, 1))),
            ("dilation", (1, 1, 7, 7), (2, 1, 3, 3), dict(dilation=2)), ("groups", (1, 4, 4, 4), (4, 2, 3, 3), dict(groups=2, padding=1)),
            ("depthwise", (1, 3, 4, 4), (3, 1, 3, 3), dict(groups=3, padding=1)), ("wide", (1, 1, 3, 6), (1, 1, 1, 4), {})]
    pair = lambda v: [v, v] if isinstance(v, int) else list(v)
    for tag, xs, ws, kw in conv:
        at = dict(stride=pair(kw.get("stride", 1)), padding=pair(kw.get("padding", 0)), dilation=pair(kw.get("dilation", 1)), groups=kw.get("groups", 1))
        case("conv2d_%s" % tag, "conv2d", lambda x, w, b: F.conv2d(x, w, b, **kw), f(*xs), f(*ws), f(ws[0]), **at)
    case("conv2d_no_bias", "conv2d", lambda x, w: F.conv2d(x, w), f(1, 2, 3, 3), f(1, 2, 2, 2), stride=[1, 1], padding=[0, 0], dilation=[1, 1], groups=1)
    for op, fn in (("max_pool2d", F.max_pool2d), ("avg_pool2d", F.avg_pool2d)):
        for tag, shape, k, s, p in [("2", (1, 2, 4, 4), 2, 2, 0), ("3_stride_2_pad", (1, 1, 5, 6), 3, 2, 1), ("overlap", (2, 1, 4, 4), 3, 1, 0), ("rest", (1, 1, 5, 5), 2, 2, 0)]:
            case("%s_%s" % (op, tag), op, lambda x: fn(x, k, s, p), f(*shape), kernel=[k, k], stride=[s, s], padding=[p, p])
    case("batch_norm2d", "batch_norm2d", lambda x, w, b: F.batch_norm(x, None, None, w, b, True, 0.1, 1e-5), f(2, 3, 2, 2), pos(3), f(3), eps=1e-5)


for group in (elementwise, reductions, products, movement, rows, attention, images):
    group()
with open("ops.json", "w") as out:
    out.write('{"torch":"%s","cases":[\n' % torch.__version__ + ",\n".join(cases) + "\n]}\n")
print(len(cases), "cases")
