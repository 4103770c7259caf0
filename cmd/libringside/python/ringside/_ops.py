"""Operations of the op table, recorded by number, and what a thread has chosen for them. The
library has the table; the functions that record them are in _functions.py and _tensor.py."""

from __future__ import annotations

import array
import os
import struct
import sys
import threading
from typing import Any, Sequence

from ringside import _native

# The first word of a call, as ringside.h has it.
_ARGS, _INTS, _SCALARS, _NO_GRAD, _SIGNAL = 12, 25, 33, 41, 42
LINE, GRADIENTS, STEP = 4093, 4094, 4095  # calls of no operation
NO_GRAD = 1 << _NO_GRAD
SIGNALS = ((1 << 16) - 1) << _SIGNAL


def signal_flags(n: int) -> int:
    """Returns the flags of signal n."""
    return n << _SIGNAL


def head(number: int, args: int, ints: int = 0, scalars: int = 0) -> int:
    """Returns the first word of a call; scalars has a bit for each argument that is a
    number."""
    return number | args << _ARGS | ints << _INTS | scalars << _SCALARS


class Known(dict):
    """What calls of an operation result in, by what their operands are: such calls do not
    fail. It forgets everything when it is full."""

    def learn(self, key: Any, result: Any) -> None:
        if len(self) >= 1024:
            self.clear()
        self[key] = result


class Op:
    """An operation, and the first words of its usual calls once the library is loaded. What
    is known of calls of a tensor, of two, of a tensor and a number, of a number and a tensor,
    and of the others, says which need not be seen by the library at once."""

    __slots__ = ("name", "number", "fallible", "random", "t", "tt", "ts", "st", "of_t", "of_tt", "of_ts", "of_st", "of_all")

    def __init__(self, name: str):
        self.name, self.number, self.fallible, self.random = name, -1, True, True
        self.of_t, self.of_tt, self.of_ts, self.of_st, self.of_all = Known(), Known(), Known(), Known(), Known()

    def load(self, row: dict[str, Any]) -> None:
        self.number = row["number"]
        self.fallible, self.random = row["fallible"], row["random"]
        self.t, self.tt = head(self.number, 1), head(self.number, 2)
        self.ts, self.st = head(self.number, 2, 0, 2), head(self.number, 2, 0, 1)


class State(threading.local):
    """What a thread has chosen: the flags of its calls and those before each with statement
    that it is in, the signals that it entered, and its sessions; innermost last."""

    def __init__(self) -> None:
        self.flags = 0
        self.before: list[int] = []
        self.entered: list[Any] = []
        self.sessions: list[Any] = []


state = State()
_ops: dict[str, Op] = {}
_loading = threading.Lock()
_loaded = False


def op(name: str) -> Op:
    """Returns the operation of that name, whether the library is loaded or not."""
    return _ops.get(name) or _ops.setdefault(name, Op(name))


def load() -> None:
    """Loads the library and the op table."""
    global _loaded
    if _loaded:
        return
    with _loading:
        if _loaded:
            return
        for row in table()["ops"]:
            op(row["name"]).load(row)
        missing = [o.name for o in _ops.values() if o.number < 0]
        if missing:
            raise _native.RingsideError(f"ringside: the library has no operation {', '.join(missing)}")
        _loaded = True


def table() -> dict[str, Any]:
    """Returns the op table and the element types of the library."""
    return _native.described("ringside_table")


_PACKAGE = os.path.dirname(os.path.abspath(__file__)) + os.sep
_pack_line = struct.Struct("<qqq").pack
_lines: dict[tuple[int, int], tuple[bytes, Any]] = {}  # by the code's id and the place in it; with the code, which so stays


def line() -> bytes:
    """Returns the call that names the line of the innermost frame outside of the package,
    which errors of the operation after it name. It is empty if the library has no number
    for that line."""
    frame = sys._getframe(2)
    while frame is not None and frame.f_code.co_filename.startswith(_PACKAGE):
        frame = frame.f_back
    if frame is None:
        return b""
    code = frame.f_code
    key = id(code), frame.f_lasti
    found = _lines.get(key)
    if found is None:
        text = f"{code.co_filename}:{frame.f_lineno}".encode(errors="replace")
        number = _native.number(_native.library().ringside_line(text))
        if len(_lines) >= 4096:
            _lines.clear()
        found = _lines[key] = _pack_line(LINE, 1, number) if number else b"", code
    return found[0]


# Calls of a head, and a session or the result, and: a tensor; two; a tensor and a number;
# the reverse.
pack_t, pack_tt, pack_ts, pack_st = (struct.Struct("<qq" + f).pack for f in ("q", "qq", "qd", "dq"))


_pack_few = [struct.Struct(f"<{n}q").pack for n in range(4)]


def pack(values: Sequence[int]) -> bytes:
    """Returns numbers as C has them."""
    return _pack_few[len(values)](*values) if len(values) < 4 else array.array("q", values).tobytes()
