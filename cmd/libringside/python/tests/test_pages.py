"""The Python of docs/python.md runs, as a user would run it."""

import json
import os
import re
import subprocess
import sys

import pytest

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
PAGE = os.path.join(PYTHON, "..", "..", "..", "docs", "python.md")

with open(PAGE, encoding="utf-8") as f:
    BLOCKS = [b for b in re.findall(r"```python\n(.*?)```", f.read(), re.S) if "init_process_group" not in b]


def test_blocks():
    assert len(BLOCKS) >= 3


@pytest.mark.parametrize("block", BLOCKS, ids=range(len(BLOCKS)))
def test_page(block, tmp_path):
    p = subprocess.run([sys.executable, "-B", "-W", "error", "-c", block], cwd=tmp_path, env={**os.environ, "PYTHONPATH": PYTHON}, capture_output=True, text=True, timeout=120)
    assert p.returncode == 0, p.stdout + p.stderr
    if "opt.step" in block or "fit(" in block:  # it learned
        numbers = re.findall(r"[\d.]+(?:e-\d+)?$", p.stdout, re.M)
        assert float(numbers[-1]) > 0.9, p.stdout


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
