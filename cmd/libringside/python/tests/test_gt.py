"""The surface of GT: programs of known values and its examples on 1, 2 and 3 workers, with
NumPy's results."""

import json
import os
import subprocess
import sys
import time

import numpy as np
import pytest

import ringside as rs
import ringside.gt as gt

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
with open(os.path.join(PYTHON, "..", "..", "..", "tensor", "testdata", "programs.json"), encoding="utf-8") as f:
    PROGRAMS = json.load(f)["programs"]

CONFIG = """
workers: {n}
rows:
  shard: {{axis: 0}}
columns:
  shard: {{axis: -1}}
  backward: rows
"""


@pytest.fixture(params=[1, 2, 3], ids="{} workers".format, scope="module")
def workers(request, tmp_path_factory):
    """A cluster whose tensors are cut by signals."""
    path = tmp_path_factory.mktemp("gt") / "config.yaml"
    path.write_text(CONFIG.format(n=request.param))
    with rs.cluster(workers=request.param, config=path):
        yield request.param


def key_of(key):
    return tuple(... if k == "..." else slice(*k) if isinstance(k, list) else k for k in key)


OPS = {
    "add": lambda a, b: a + b, "sub": lambda a, b: a - b, "mul": lambda a, b: a * b, "div": lambda a, b: a / b, "matmul": lambda a, b: a @ b,
    "exp": lambda a: a.exp(), "sum": lambda a, axis=None, keepdims=False: a.sum(axis=axis, keepdims=keepdims),
    "mean": lambda a, axis=None, keepdims=False: a.mean(axis=axis, keepdims=keepdims),
    "max": lambda a, axis=None, keepdims=False: a.max(axis=axis, keepdims=keepdims),
    "T": lambda a: a.T, "relu": lambda a: a.relu(), "sigmoid": lambda a: a.sigmoid(), "tanh": lambda a: a.tanh(), "sqrt": lambda a: a.sqrt(),
    "pow2": lambda a: a ** 2, "cat": lambda *xs, axis: gt.cat(xs, axis), "split": lambda a, size, dim: a.split(size, dim),
    "chunk": lambda a, n, dim: a.chunk(n, dim), "transpose": lambda a, dims: a.transpose(*dims), "permute": lambda a, dims: a.permute(*dims),
    "reshape": lambda a, shape: a.reshape(*shape), "slice": lambda a, key: a[key_of(key)],
}


def test_all_programs_are_there():
    assert len(PROGRAMS) >= 55


@pytest.mark.parametrize("cut", ["rows", "columns", None])
@pytest.mark.parametrize("program", PROGRAMS, ids=[p["name"] for p in PROGRAMS])
def test_program(workers, program, cut):
    tensors = {}
    for t in program["tensors"]:
        with gt.signal.context(cut if cut and t["shape"] else "whole"):
            tensors[t["id"]] = gt.tensor(np.array(t["data"], np.float32).reshape(t["shape"]).tolist(), requires_grad=t.get("grad", False))
    for step in program["program"]:
        args = [tensors[x] if isinstance(x, str) else x for x in step["in"]]
        if step["op"] == "isub":
            with gt.no_grad():
                tensors[step["in"][0]] -= args[1]
            continue
        out = OPS[step["op"]](*args, **step.get("attr", {}))
        tensors.update(zip(step["out"], out if isinstance(out, (list, tuple)) else [out]))
    for name, want in program["expect"].items():
        got = tensors[name].data.numpy()
        np.testing.assert_allclose(got, np.array(want["data"]).reshape(want["shape"]), rtol=program["rtol"], atol=program["atol"], err_msg=name)
    if program.get("backward"):
        tensors[program["backward"]].backward()
        for name, want in program["grads"].items():
            np.testing.assert_allclose(tensors[name].grad.data.numpy(), np.array(want["data"]).reshape(want["shape"]), rtol=program["rtol"], atol=program["atol"])


def test_first_example(workers):
    a, b = np.random.default_rng(1).standard_normal((2, 100, 100)).astype(np.float32)
    with gt.signal.context("rows"):
        x, y = gt.from_numpy(a), gt.from_numpy(b)
    np.testing.assert_allclose((x @ y)[:4, :4].data.numpy(), (a @ b)[:4, :4], rtol=1e-3, atol=1e-4)
    r = gt.randn(10000)
    assert abs(r.mean().item()) < 0.05 and gt.zeros(3, 2).shape == (3, 2) and gt.ones((2,)).tolist() == [1, 1]


def test_gradient_descent(workers):
    """Least squares, by hand: in-place updates under no_grad, gradients cleared."""
    rng = np.random.default_rng(2)
    a = rng.standard_normal((60, 4)).astype(np.float32)
    b = a @ np.array([[1], [-2], [3], [0.5]], np.float32)
    with gt.signal.context("rows"):
        x, y = gt.from_numpy(a), gt.from_numpy(b)
    w = gt.zeros(4, 1, requires_grad=True)
    for _ in range(150):
        loss = ((x @ w - y) * (x @ w - y)).mean()
        loss.backward()
        with gt.no_grad():
            w -= 0.2 * w.grad
        w.grad.zero_()
    np.testing.assert_allclose(w.data.numpy(), np.linalg.lstsq(a, b, rcond=None)[0], atol=1e-2)


class Net(gt.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = gt.nn.Linear(2, 16)
        self.fc2 = gt.nn.Linear(16, 1)

    def forward(self, x):
        with gt.signal.context("rows"):
            x = self.fc1(x).tanh()
        return self.fc2(x).sigmoid()


def test_xor(workers):
    x, y = gt.tensor([[0, 0], [0, 1], [1, 0], [1, 1]]), gt.tensor([[0], [1], [1], [0]])
    rs.random.seed(3)
    net = Net()
    opt = gt.nn.SGD(net.parameters(), lr=0.8)
    for _ in range(700):
        opt.zero_grad()
        loss = gt.nn.binary_cross_entropy(net(x), y)
        loss.backward()
        opt.step()
    assert (net(x).data.numpy().ravel() > 0.5).tolist() == [False, True, True, False], loss.item()


def test_signals(workers):
    """Nested contexts, enter and exit, one tensor: results are those without."""
    a = np.arange(35, dtype=np.float32).reshape(5, 7)
    want = (a @ a.T + 1).sum(axis=0)
    with gt.signal.context("rows", backward="columns"):
        x = gt.from_numpy(a)
        with gt.signal.context("columns"):
            y = gt.from_numpy(a)
    gt.signal.enter("rows")
    z = x @ y.T
    gt.signal.exit("rows")
    with pytest.raises(ValueError, match="none"):
        gt.signal.exit("rows")
    w = gt.signal.tensor(gt.from_numpy(np.ones((5, 5), np.float32)), "rows")
    np.testing.assert_allclose((z + w).sum(axis=0).data.numpy(), want)


def test_debug(workers, capsys):
    x = gt.tensor([1, 2, 3])
    x.data.numpy()
    y = (x * 2).exp()
    assert [row["op"] for row in gt.debug.get_tape()] == ["mul", "exp"]
    gt.debug.print_tape()
    gt.debug.print_worker_stats()
    out = capsys.readouterr().out
    assert "%1 = exp(%0) -> f32[3]" in out and "engine: " in out
    assert gt.debug.get_worker_stats()["ops"] > 0 and y.shape == (3,)


def run(program, **environment):
    p = subprocess.run([sys.executable, "-B", "-c", program], env={**os.environ, "PYTHONPATH": PYTHON, **environment}, capture_output=True, text=True, timeout=60)
    assert p.returncode == 0, p.stdout + p.stderr


def test_config_from_the_environment(tmp_path):
    path = tmp_path / "gt.yaml"
    path.write_text(CONFIG.format(n=2))
    run("""
import ringside.gt as gt, numpy as np
assert gt.get_config()["workers"] == 2 and gt.get_signal_config("columns")["backward"] == "rows" and gt.get_signal_config("x") is None
assert gt.get_signal_config("rows")["shard"]["axis"] == 0
with gt.signal.context("rows"):
    x = gt.randn(6, 2)
assert np.allclose(x.sum().item(), x.data.numpy().sum(), atol=1e-4)
assert len(gt._cluster.processes) == 3
""", GT_CONFIG=str(path))


def test_workers_by_number():
    run("""
import ringside.gt as gt
gt.gpu_workers(2)
assert gt.tensor([1, 2]).sum().item() == 3 and len(gt._cluster.processes) == 3
""")


def test_address(monkeypatch):
    """Sockets lie where the ringside command has them: see DirIn in ipc/local."""
    from ringside.gt._address import address
    for folder, mine in (("/run/user/7", "/run/user/7/ringside"), ("", f"/tmp/ringside-{os.getuid()}"), ("relative", f"/tmp/ringside-{os.getuid()}")):
        monkeypatch.setenv("XDG_RUNTIME_DIR", folder)
        assert address("localhost", 9000) == f"{mine}/gt-9000.sock"
    monkeypatch.delenv("XDG_RUNTIME_DIR")
    assert address("", 1) == f"/tmp/ringside-{os.getuid()}/gt-1.sock" and address("far.example", 9000) == "far.example:9000"


def test_server_and_worker(tmp_path):
    environment = {**os.environ, "PYTHONPATH": PYTHON, "XDG_RUNTIME_DIR": str(tmp_path)}
    parts = []
    try:
        parts.append(subprocess.Popen([sys.executable, "-B", "-m", "ringside.gt.server", "-p", "7001"], env=environment))
        socket = tmp_path / "ringside" / "gt-7001.sock"
        deadline = time.monotonic() + 60  # only against hangs
        while not socket.exists():
            assert parts[0].poll() is None and time.monotonic() < deadline
            time.sleep(0.01)  # there is nothing else to wait for
        parts.append(subprocess.Popen([sys.executable, "-B", "-m", "ringside.gt.worker", "-p", "7001"], env=environment))
        run("""
import ringside as rs, ringside.gt as gt, time
while True:  # until the worker has joined
    try:
        gt.connect("localhost:7001")
        break
    except rs.RingsideError as e:
        assert "no worker" in str(e), e
        time.sleep(0.01)
x = gt.tensor([1, 2, 3])
assert (x * x).sum().item() == 14 and "worker" in x.device
""", XDG_RUNTIME_DIR=str(tmp_path))
        top = subprocess.run([sys.executable, "-B", "-m", "ringside.gt.scripts.top", "--help"], env=environment, capture_output=True, text=True, timeout=60)
        assert top.returncode == 0 and "top" in top.stdout
    finally:
        for p in reversed(parts):
            p.terminate()
            p.wait(60)
