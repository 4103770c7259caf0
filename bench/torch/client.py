"""A client in Python, of the dispatcher ADDR: it is told what to time, a JSON object a line on standard input, and
replies with one a line, {"ms": [what one took, on average]}.

    {"what": "call", "n": N}      empty calls of the C library
    {"what": "record", "n": N}    operations recorded, without their flush
    {"what": "trip", "n": N}      an addition, and its result read
    {"what": "view", "n": N}      16 MiB as an array of NumPy, "copy" copied
    {"what": "step", "n": N}      training steps, each loss read
"""
import json
import sys
import time

import numpy as np

import ringside as rs
from ringside import _native

rs.connect(sys.argv[1])
empty = _native.library().ringside_version
small = rs.ones(16)
one = rs.ones(1).sum()
big = rs.random.normal((2048, 2048)) + 1.0
big.numpy()

# MLP 784-128-128-10, batch 32, SGD, as the client in Go beside it.
model = rs.nn.Sequential(rs.nn.Linear(784, 128), rs.nn.ReLU(), rs.nn.Linear(128, 128), rs.nn.ReLU(), rs.nn.Linear(128, 10))
params = model.parameters()
opt = rs.optim.SGD(params, lr=1e-2)
x, y = rs.random.uniform((32, 784)), rs.asarray(np.arange(32) % 10)


def record(n):
    z = small
    start = time.perf_counter()
    for _ in range(n):
        z = z + 1.0
    took = time.perf_counter() - start
    z.numpy()
    return took


def timed(n, f):
    start = time.perf_counter()
    for _ in range(n):
        f()
    return time.perf_counter() - start


def step():
    loss = rs.nn.cross_entropy(model(x), y)
    opt.step(rs.grad(loss, params))
    return loss.item()


SIDES = {
    "call": lambda n: timed(n, empty),
    "record": record,
    "trip": lambda n: timed(n, lambda: (one + 1.0).item()),
    "view": lambda n: timed(n, big.numpy),
    "copy": lambda n: timed(n, lambda: big.numpy(copy=True)),
    "step": lambda n: timed(n, step),
}

for line in sys.stdin:
    ask = json.loads(line)
    print(json.dumps({"ms": [SIDES[ask["what"]](ask["n"]) * 1e3 / ask["n"]]}), flush=True)
