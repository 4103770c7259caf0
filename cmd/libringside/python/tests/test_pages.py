"""The Python of docs/python.md and README.md runs, as a user would run it."""

import errno
import json
import os
import random
import re
import socket
import subprocess
import sys
import time

import pytest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
ROOT = os.path.join(PYTHON, "..", "..", "..")
PAGE = os.path.join(ROOT, "docs", "python.md")

ALL = []
for page in PAGE, os.path.join(ROOT, "README.md"):
    with open(page, encoding="utf-8") as f:
        ALL += re.findall(r"```python\n(.*?)```", f.read(), re.S)
BLOCKS = [b for b in ALL if "init_process_group" not in b]
RANKS = [b for b in ALL if "init_process_group" in b and "destroy_process_group" in b]


def test_blocks():
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_page(block, tmp_path):
    p = subprocess.run([sys.executable, "-B", "-W", "error", "-c", block], cwd=tmp_path, env={**os.environ, "PYTHONPATH": PYTHON}, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stdout + p.stderr
    if "opt.step" in block or "fit(" in block:  # it learned
        numbers = re.findall(r"[\d.]+(?:e-\d+)?$", p.stdout, re.M)
        assert float(numbers[-1]) > 0.9, p.stdout


def free_port():
    """A port where nobody listens, below those that the kernel gives to connections: one of
    those might be taken before rank 0 listens there."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        end = int(f.read().split()[0])
    while True:
        try:
            with socket.create_server(("localhost", random.randrange(20000, max(end, 30000)))) as free:
                return free.getsockname()[1]
        except OSError as e:
            if e.errno != errno.EADDRINUSE:
                raise


def outputs(ranks, patience):
    """What the ranks printed when all have ended, or one has failed: the others would wait for it."""
    deadline = time.monotonic() + patience
    while any(p.poll() is None for p in ranks) and not any(p.poll() for p in ranks) and time.monotonic() < deadline:
        time.sleep(0.05)
    for p in ranks:
        p.kill()
    return [p.communicate()[0] for p in ranks]


def test_ranks(tmp_path):
    """The program of ranks is started as the page says, and learns."""
    (block,) = RANKS
    (tmp_path / "ddp.py").write_text(block)
    port = free_port()
    environment = {**os.environ, "PYTHONPATH": PYTHON, "OMP_NUM_THREADS": "1", "WORLD_SIZE": "2", "MASTER_ADDR": "localhost", "MASTER_PORT": str(port)}
    ranks = [subprocess.Popen([sys.executable, "-B", "ddp.py"], cwd=tmp_path, env={**environment, "RANK": str(rank)}, stdout=subprocess.PIPE, text=True)
             for rank in range(2)]
    said = outputs(ranks, 300)
    assert [p.returncode for p in ranks] == [0, 0] and float(said[0]) > 0.9 and not said[1], said


def test_notebook(tmp_path):
    """The cells of the notebook run one after another, and none has output in the file."""
    with open(os.path.join(os.path.dirname(PAGE), "python.ipynb"), encoding="utf-8") as f:
        notebook = json.load(f)
    code = [c for c in notebook["cells"] if c["cell_type"] == "code"]
    assert len(code) >= 5 and not any(c["outputs"] or c["execution_count"] for c in code)
    program = "\n".join("".join(c["source"]) for c in code)
    environment = {**os.environ, "PYTHONPATH": PYTHON, "MPLBACKEND": "Agg"}
    p = subprocess.run([sys.executable, "-B", "-c", program], cwd=tmp_path, env=environment, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0 and "on the right side" in p.stdout, p.stdout + p.stderr
