"""Operations of the op table, recorded by number. The library has the table."""

from __future__ import annotations

import struct
import threading
from typing import Any, Sequence

from ringside import _native

# The first word of a call, as ringside.h has it.
_ARGS, _INTS, _SCALARS, _NO_GRAD, _SIGNAL = 12, 25, 33, 41, 42
NO_GRAD = 1 << _NO_GRAD
SIGNALS = ((1 << 16) - 1) << _SIGNAL


def signal_flags(n: int) -> int:
    """Returns the flags of signal n."""
    return n << _SIGNAL


def head(number: int, args: int, ints: int = 0, scalars: int = 0) -> int:
    """Returns the first word of a call; scalars has a bit for each argument that is a
    number."""
    return number | args << _ARGS | ints << _INTS | scalars << _SCALARS


class Op:
    """An operation, and the first words of its usual calls once the library is loaded."""

    __slots__ = ("name", "number", "row", "t", "tt", "ts", "st")

    def __init__(self, name: str):
        self.name, self.number = name, -1

    def load(self, row: dict[str, Any]) -> None:
        self.row, self.number = row, row["number"]
        self.t, self.tt = head(self.number, 1), head(self.number, 2)
        self.ts, self.st = head(self.number, 2, 0, 2), head(self.number, 2, 0, 1)


class State(threading.local):
    """What a thread has chosen: the flags of its calls, and its sessions, innermost last."""

    def __init__(self) -> None:
        self.flags = 0
        self.sessions: list[Any] = []


state = State()
_ops: dict[str, Op] = {}
_loading = threading.Lock()
_loaded = False


def op(name: str) -> Op:
    """Returns the operation of that name, whether the library is loaded or not."""
    return _ops.setdefault(name, Op(name))


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


# Calls of a session and a head, and: a tensor; two; a tensor and a number; the reverse.
pack_t, pack_tt, pack_ts, pack_st = (struct.Struct("<qq" + f).pack for f in ("q", "qq", "qd", "dq"))


def pack(values: Sequence[int]) -> bytes:
    """Returns numbers as C has them."""
    return struct.pack(f"<{len(values)}q", *values)
