"""What programs and people see of the package: names, docstrings, texts of objects, errors."""

import ast
import importlib
import inspect
import os
import pathlib
import pydoc
import re
import subprocess
import sys

import pytest
import torch

import ringside as rs
from ringside import _hints, _native, _ops

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
MODULES = ["dtypes", "errors", "files", "gt", "gt.debug", "gt.nn", "gt.signal", "nn", "optim", "random", "torch", "train"]


@pytest.mark.parametrize("name", MODULES)
def test_names(name):
    """A module's completions and its help are its own names, each with a docstring."""
    module = importlib.import_module("ringside." + name)
    names = set(module.__all__)
    assert len(names) == len(module.__all__) and all(hasattr(module, n) for n in names)
    if name != "torch":
        assert set(dir(module)) == names
    for n in names:
        x = getattr(module, n)
        if inspect.isfunction(x) or inspect.isclass(x):
            assert x.__doc__ and len(x.__doc__) > 5, n
    for n, x in vars(module).items():  # what is defined there and has no underscore is in the list
        if (inspect.isfunction(x) or inspect.isclass(x)) and x.__module__ == module.__name__ and not n.startswith("_"):
            assert n in names, n
    text = pydoc.render_doc(module, renderer=pydoc.plaintext)
    assert "typing." not in text.partition("\nDATA\n")[2]


def test_names_of_ringside():
    names = set(dir(rs))
    assert {"nn", "asarray", "sum", "float32", "cluster"} <= names and not {"Any", "TYPE_CHECKING", "annotations"} & names


def test_methods_have_docstrings():
    for c in (rs.Tensor, rs.Session, rs.Cluster, rs.DType, rs.nn.Module, rs.optim.Optimizer, rs.train.Trainer):
        for n in dir(c):
            if not n.startswith("_") and (callable(getattr(c, n)) or isinstance(getattr(c, n), property)):
                assert inspect.getdoc(getattr(c, n)), (c, n)


def test_texts():
    with rs.session(in_process=True):
        model = rs.nn.Linear(2, 3)
        opt = rs.optim.AdamW(model, lr=0.5)
        assert repr(opt) == "AdamW(2 parameters, lr=0.5)"
        assert repr(rs.train.Trainer(model, None, opt)) == "Trainer(Linear, AdamW(2 parameters, lr=0.5), step=0)"
        for layer, text in ((rs.nn.LayerNorm((2, 3)), "LayerNorm((2, 3), eps=1e-05, bias=True)"), (rs.nn.RMSNorm(4), "RMSNorm(4, eps=1e-06)"),
                            (rs.nn.Dropout(0.1), "Dropout(p=0.1)"), (rs.nn.ReLU(), "ReLU()"), (rs.nn.GELU("tanh"), "GELU(approximate='tanh')"),
                            (rs.nn.MaxPool2d(2), "MaxPool2d(kernel_size=2, stride=2, padding=0)"), (rs.nn.Function(rs.softmax, axis=0), "Function(softmax, axis=0)")):
            assert repr(layer) == text
    with rs.cluster(workers=2, processes=False) as c:
        assert repr(c) == f"Cluster(2 workers at {c.addr!r})"
    assert repr(c) == "Cluster(closed)"


def test_pools_have_torchs_names():
    x = torch.arange(32.0).reshape(1, 2, 4, 4)
    with rs.session(in_process=True):
        for name in "MaxPool2d", "AvgPool2d":
            options = {"kernel_size": 2, "stride": 1, "padding": 1}
            got, want = getattr(rs.nn, name)(**options)(rs.asarray(x)), getattr(torch.nn, name)(**options)(x)
            assert got.tolist() == want.tolist()


def test_missing_files(tmp_path):
    gone = str(tmp_path / "gone")
    with rs.session(in_process=True):
        t = rs.ones(2)
        for call in (lambda: rs.load(gone), lambda: rs.files.load_notes(gone), lambda: rs.load_checkpoint(gone, {"t": t}),
                     lambda: rs.save(gone + "/t.safetensors", {"t": t}), lambda: rs.session(in_process=True, config=gone)):
            with pytest.raises(FileNotFoundError, match="gone"):
                call()
        with pytest.raises(rs.errors.NotFound):
            rs.load(gone)
        assert t.tolist() == [1, 1]


def test_nobody_listens(tmp_path):
    with pytest.raises(ConnectionRefusedError, match="no process listens") as e:
        rs.session(str(tmp_path / "dispatcher"))
    assert e.type is rs.errors.NotRunning


@pytest.mark.parametrize("call, error, said", [
    (lambda: rs.cluster(2, nope=1), TypeError, "nope"),  # before anything is started
    (lambda: rs.connect(nope=1), TypeError, "nope"),
    (lambda: rs.gelu(rs.ones(1), approximate="tan"), ValueError, "'tan', expected none or tanh"),
    (lambda: rs.nn.MultiheadAttention(7, 2), ValueError, "7 by 2 heads"), (lambda: rs.nn.MultiheadAttention(8, 4, 3), ValueError, "3 of keys"),
    (lambda: rs.nn.Linear(2, 1).load_state_dict({"weight": [[1.0]], "bias": 2}), ValueError, r"weight is \(1, 1\), expected \(1, 2\); bias is \(\)"),
])
def test_options(call, error, said):
    with rs.session(in_process=True), pytest.raises(error, match=said):
        call()


def test_an_update_with_a_graph():
    """The error names no_grad, which is Python's name, and the line."""
    with rs.session(in_process=True):
        w = rs.ones(2, requires_grad=True)
        with pytest.raises(rs.RingsideError, match=r"no_grad in Python.*test_surface.py:\d+"):
            w -= w * 2


def methods():
    """Returns the text of _methods.pyi."""
    with open(os.path.join(PYTHON, "ringside", "_tensor.py"), encoding="utf-8") as f:
        (tensor,) = (n for n in ast.parse(f.read()).body if isinstance(n, ast.ClassDef) and n.name == "Tensor")
    parts = [part for n in tensor.body for part in (n.body if isinstance(n, ast.If) else [n])]
    written = {n.name for n in parts if isinstance(n, ast.FunctionDef)}
    lines = ['''"""The methods of tensors that are set from functions, which type checkers and editors don't
see. `PYTHONPATH=. python3 tests/test_surface.py` writes the file."""

import builtins
from typing import Any, Sequence

from ringside._tensor import Tensor

class Methods:''']
    for name, f in vars(rs.Tensor).items():
        if name in written or not inspect.isfunction(f):
            continue
        signature = inspect.signature(f)
        first, *others = signature.parameters.values()
        mine = [first.replace(name="self", annotation=first.empty), *others]
        text = str(signature.replace(parameters=mine)).replace("'", "").replace("= none", "= 'none'")
        lines.append(f"    def {name}{text}: ...")
    return "\n".join(lines) + "\n"


STUB = os.path.join(PYTHON, "ringside", "_methods.pyi")


def test_methods_for_type_checkers():
    text = methods()
    ast.parse(text)
    assert "def sum(self, axis: Any = None" in text and "def __add__" not in text  # which _tensor.py has
    with open(STUB, encoding="utf-8") as f:
        assert f.read() == text, "PYTHONPATH=. python3 tests/test_surface.py writes it anew"


def test_pydoc():
    """python -m pydoc has the functions of ringside, which are loaded when they are asked for."""
    p = subprocess.run([sys.executable, "-B", "-m", "pydoc", "ringside"], env={**os.environ, "PYTHONPATH": PYTHON}, capture_output=True, text=True, check=True)
    for line in "    softmax(x: 'Tensor', axis: 'int' = -1) -> 'Tensor'", "    class Session(builtins.object)":
        assert line in p.stdout
    assert "libringside.so" not in p.stderr


if __name__ == "__main__":
    with open(STUB, "w", encoding="utf-8") as f:
        f.write(methods())


@pytest.mark.parametrize("of, hints", [("module", _hints.FUNCTIONS), ("tensor", _hints.METHODS)])
def test_hints(of, hints):
    """A name of PyTorch that does not exist is refused with what does, and that works."""
    with rs.session(in_process=True):
        owner = rs if of == "module" else rs.ones(1)
        for name, hint in hints.items():
            with pytest.raises(AttributeError, match=re.escape(f"has no {'attribute ' if of == 'module' else ''}{name!r}: use {hint}")):
                getattr(owner, name)
            x, index = rs.ones((3, 3)), rs.zeros(3, rs.int64)
            values = {"ringside": rs, "x": x, "y": x, "a": x, "b": x, "mask": x > 0, "index": index, "indices": rs.zeros((3, 3), rs.int64),
                      "tensors": [x, x], "value": 2.0, "low": 0.0, "high": 1.0, "data": [1.0], "array": [1.0], "dtype": rs.float64,
                      "axes": (1, 0), "shape": (3, 3), "i": 0, "j": 1, "n": 7}
            exec(hint.replace("axis=...", "axis=1"), values)


def test_numbers_of_the_header():
    """The package has the version and the numbers that ringside.h has."""
    header = pathlib.Path(__file__).parents[2].joinpath("ringside.h").read_text()
    found = {name: int(n) for name, n in re.findall(r"RINGSIDE_([A-Z0-9_]+) (?:= )?(\d+)\b", header)}
    assert found["VERSION"] == _native.VERSION and found["VALUE"] == _native.VALUE
    assert (found["LINE"], found["GRADIENTS"], found["STEP"]) == (_ops.LINE, _ops.GRADIENTS, _ops.STEP)
    both = [name for name in found if hasattr(_native, name)]
    assert len(both) > 35 and not [name for name in both if getattr(_native, name) != found[name]]
