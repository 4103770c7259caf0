"""Errors. All are RingsideError; most are also the error of Python that fits."""

__all__ = [
    "DTypeError", "IndexOutOfRange", "NoGradient", "NotFound", "NotRunning", "OutOfMemory", "Released", "RingsideError", "SessionClosed",
    "SessionLost", "ShapeError",
]


def __dir__() -> "list[str]":
    return __all__


class RingsideError(RuntimeError):
    """An error of the library: what failed, its value, what was expected."""


class ShapeError(RingsideError, ValueError):
    """Shapes, dims or counts do not fit an operation."""


class DTypeError(RingsideError, TypeError):
    """An operation does not take the element type."""


class IndexOutOfRange(RingsideError, IndexError):
    """An index is out of range. That of a tensor of indices is found when it is read."""


class NotFound(RingsideError, FileNotFoundError):
    """A file or a folder is not there."""


class NotRunning(RingsideError, ConnectionRefusedError):
    """No dispatcher listens at the address."""


class OutOfMemory(RingsideError, MemoryError):
    """A worker has no memory for a tensor."""


class Released(RingsideError):
    """A tensor was used after its scope, or a graph after its gradients were computed."""


class NoGradient(RingsideError):
    """A gradient was asked for of a tensor that has none."""


class SessionLost(RingsideError, ConnectionError):
    """A worker or the dispatcher is gone, and the session's tensors with it."""


class SessionClosed(RingsideError):
    """The session was closed."""


KINDS = {
    "shape": ShapeError, "dtype": DTypeError, "index": IndexOutOfRange, "refused": NotRunning,
    "missing": NotFound, "memory": OutOfMemory, "released": Released,
    "grad": NoGradient, "lost": SessionLost, "closed": SessionClosed,
}
