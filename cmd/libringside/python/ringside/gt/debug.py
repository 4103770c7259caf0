"""What is recorded, and what the session did."""

from __future__ import annotations

from typing import Any

from ringside._session import current_session

__all__ = ["get_tape", "get_worker_stats", "print_tape", "print_worker_stats"]


def __dir__() -> list[str]:
    return __all__


def get_tape() -> list[dict[str, Any]]:
    """Returns the instructions recorded since the last read."""
    return current_session().tape()


def print_tape() -> None:
    """Prints the instructions recorded since the last read."""
    for i, row in enumerate(get_tape()):
        print(f"%{i} = {row['op']}({', '.join(row['args'] or [])}) -> {row['dtype']}{row['shape']}{' in ' + row['signal'] if 'signal' in row else ''}")


def get_worker_stats() -> dict[str, Any]:
    """Returns the counters of the session: operations, programs, tensors. `ringside top` shows
    those of the workers."""
    return current_session().stats


def print_worker_stats() -> None:
    """Prints the counters of the session."""
    for name, value in get_worker_stats().items():
        print(f"{name}: {value}")
