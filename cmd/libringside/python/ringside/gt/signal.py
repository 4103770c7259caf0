"""Signals: names of parts of a program, which a config places on workers."""

from __future__ import annotations

from typing import Any

from ringside._ops import state
from ringside._session import _Flags
from ringside._session import signal as _signal

__all__ = ["context", "enter", "exit", "tensor"]


def __dir__() -> list[str]:
    return __all__


def context(name: str, backward: str | None = None) -> _Flags:
    """`with context(name):` names what is recorded in it; the inner one of two counts. Where
    gradients are computed the config's `backward` says."""
    return _signal(name)


def tensor(x: Any, name: str) -> Any:
    """Gives a tensor alone the signal of that name, and returns it."""
    return x.signal(name)


def enter(name: str) -> None:
    """Begins a context of this thread, for exit."""
    flags = _signal(name)
    flags.__enter__()
    state.entered.append((name, flags))


def exit(name: str) -> None:
    """Ends the innermost context that enter began, which is of that name."""
    entered = state.entered
    if not entered or entered[-1][0] != name:
        raise ValueError(f"exit of signal {name!r}: {entered[-1][0] if entered else 'none'!r} is the last that was entered")
    entered.pop()[1].__exit__()
