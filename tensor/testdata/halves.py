"""Writes halves.json: conversions and operations of f16 and bf16, from PyTorch.

Run (Debian: apt-get install python3-torch libopenblas0-openmp):

    env -u OPENBLAS_CORETYPE -u OPENBLAS_L2_SIZE /usr/bin/python3 halves.py

Fields: "from" are numbers of f32, "f16" and "bf16" what PyTorch makes of each in 16 bits, all as the unsigned integers of
their bits. "cases" have the
form of golden.py's, with dtypes f16 and bf16 and no gradients: what PyTorch's own 16-bit operations give on a CPU and,
where it has none there, what its f32 operations give, rounded.
"""
import json
import struct

import torch
import torch.nn.functional as F

import formula

TYPES = {"f16": torch.float16, "bf16": torch.bfloat16, "f32": torch.float32, "i64": torch.int64}
NAMES = {v: k for k, v in TYPES.items()}
cases = []


def bits(x):
    return struct.unpack("<I", struct.pack("<f", x))[0]


def floats(us):
    return torch.tensor([struct.unpack("<f", struct.pack("<I", u))[0] for u in us], dtype=torch.float32)


def conversions():
    """Every exponent that matters, and some of the others, with mantissas around each place where rounding turns, both signs, and what formula.py draws."""
    us = []
    for e in [*range(0, 98, 8), *range(98, 147), *range(147, 254, 8), 254]:
        for m in (0, 1, 0x7FFFFF, 0x0FFF, 0x1000, 0x1001, 0x2FFF, 0x3000, 0x3001, 0x7FFF, 0x8000, 0x8001, 0x17FFF, 0x18000, 0x18001, 0x7FEFFF, 0x7FF000, 0x7F7FFF, 0x7F8000):
            us.append(e << 23 | m)
            us.append(1 << 31 | e << 23 | m)
    us += [0x7F800000, 0xFF800000]
    us += [bits(float(v)) for v in formula.uniform("halves", [500], 0.0, 8.0)]
    x = floats(us)
    return {"from": us, **{to: [v & 0xFFFF for v in x.to(TYPES[to]).view(torch.int16).tolist()] for to in ("f16", "bf16")}}


def number(v):
    if v != v:
        return "nan"
    if v in (float("inf"), float("-inf")):
        return "inf" if v > 0 else "-inf"
    return v


def block(t):
    return {"shape": list(t.shape), "dtype": NAMES[t.dtype], "data": [number(v) for v in t.reshape(-1).tolist()]}


def case(name, op, fn, *inputs):
    try:
        out = fn(*inputs)
    except RuntimeError:  # not implemented for these
        like = next(t.dtype for t in inputs if t.dtype in (torch.float16, torch.bfloat16))
        out = fn(*(t.float() if t.is_floating_point() else t for t in inputs)).to(like)
    cases.append({"name": name, "op": op, "inputs": [block(t) for t in inputs], "outputs": [block(out)]})


def operations():
    for tag in ("f16", "bf16"):
        def f(*shape, stream, scale=2.0, offset=0.0, dtype=tag):
            return torch.from_numpy(formula.uniform(stream, list(shape), offset, scale)).to(TYPES[dtype])

        x, y = f(5, 7, stream="halves.x"), f(5, 7, stream="halves.y")
        p = f(5, 7, stream="halves.p", offset=1.25, scale=1.0)
        for op, fn in dict(add=torch.add, sub=torch.sub, mul=torch.mul, maximum=torch.maximum).items():
            case("%s_%s" % (op, tag), op, fn, x, y)
        case("div_%s" % tag, "div", torch.div, x, p)
        case("add_row_%s" % tag, "add", torch.add, x, f(7, stream="halves.row"))
        case("add_large_%s" % tag, "add", torch.add, x * 16384, y * 16384)
        for op, fn in dict(neg=torch.neg, abs=torch.abs, relu=F.relu, square=torch.square, exp=torch.exp, tanh=torch.tanh, sigmoid=torch.sigmoid, silu=F.silu, sin=torch.sin).items():
            case("%s_%s" % (op, tag), op, fn, x)
        for op, fn in dict(sqrt=torch.sqrt, log=torch.log).items():
            case("%s_%s" % (op, tag), op, fn, p)
        case("add_f32_%s" % tag, "add", torch.add, x, f(5, 7, stream="halves.z", dtype="f32"))
        case("mul_i64_%s" % tag, "mul", torch.mul, x, torch.arange(7))
        for m, k, n in ((1, 3, 2), (5, 7, 4), (9, 65, 33)):
            wide = lambda a, b: (a.float() @ b.float()).to(TYPES[tag])  # products of 16 bits are summed in f32
            case("matmul_%dx%dx%d_%s" % (m, k, n, tag), "matmul", wide, f(m, k, stream="halves.a"), f(k, n, stream="halves.b"))
    case("add_f16_bf16", "add", torch.add, torch.full((3,), 0.1, dtype=torch.float16), torch.full((3,), 0.1, dtype=torch.bfloat16))


operations()
with open("halves.json", "w") as out:
    out.write('{"torch":"%s",\n' % torch.__version__)
    for name, numbers in conversions().items():
        out.write('"%s":%s,\n' % (name, json.dumps(numbers, separators=(",", ":"))))
    out.write('"cases":[\n' + ",\n".join(json.dumps(c, separators=(",", ":")) for c in cases) + "\n]}\n")
print(len(cases), "cases")
