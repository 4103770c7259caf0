"""Random numbers: a function of the session's seed and of how many random operations were
recorded before, the same on every engine and any number of workers."""

from __future__ import annotations

from typing import Any, Sequence

from ringside import _functions, dtypes  # noqa: F401 the first has the methods of tensors
from ringside._ops import op
from ringside._session import current_session
from ringside._tensor import Tensor, apply, dims_of

__all__ = ["normal", "seed", "uniform"]

_RAND, _RANDN = op("rand"), op("randn")


def __dir__() -> list[str]:
    return __all__


def _draw(o: Any, shape: int | Sequence[int], dtype: Any, requires_grad: bool) -> Tensor:
    t = apply(o, ints=(dtypes.dtype(dtype).number, *dims_of(shape)), session=current_session())
    return t.requires_grad_() if requires_grad else t


def uniform(shape: int | Sequence[int] = (), dtype: Any = dtypes.float32, *, requires_grad: bool = False) -> Tensor:
    """Numbers that are uniform in [0, 1)."""
    return _draw(_RAND, shape, dtype, requires_grad)


def normal(shape: int | Sequence[int] = (), dtype: Any = dtypes.float32, *, requires_grad: bool = False) -> Tensor:
    """Normal numbers, of mean 0 and deviation 1."""
    return _draw(_RANDN, shape, dtype, requires_grad)


def seed(n: int) -> None:
    """Restarts the random numbers of the current session."""
    current_session().seed(n)
