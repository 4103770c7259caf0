"""ringside for Python: tensors with the names of the array API standard, computed by workers
in other processes or in this one, with gradients, layers and optimizers.

    import ringside as rs

    x = rs.asarray([[1.0, 2.0], [3.0, 4.0]])
    y = (x @ x.T).sum(axis=0)
    print(y)                        # Tensor([16., 36.], dtype=float32)

Importing it loads no library and starts nothing: the first tensor does. ringside.torch is a
back end of torch.distributed."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from ringside.errors import RingsideError

if TYPE_CHECKING:
    from ringside._api import *  # noqa: F401,F403

__version__ = "0.1.0"

_MODULES = "dtypes", "errors", "files", "nn", "optim", "random", "train"


def __getattr__(name: str) -> Any:
    """Imports everything when the first name is used. A module of the package is imported
    alone: any of them may be the first, as in `from ringside.nn import Linear`."""
    if name.startswith("_") and name != "__all__":
        raise AttributeError(f"module 'ringside' has no attribute {name!r}")
    import importlib

    if name in _MODULES:
        return importlib.import_module("ringside." + name)
    api = importlib.import_module("ringside._api")
    if not hasattr(api, name):
        from ringside import _hints

        raise AttributeError(f"module 'ringside' has no attribute {name!r}{_hints.said(_hints.FUNCTIONS, name)}")
    globals().update({n: getattr(api, n) for n in api.__all__})
    return getattr(api, name)


def __dir__() -> list[str]:
    import importlib

    mine = {name for name in globals() if name not in ("Any", "TYPE_CHECKING", "annotations")}
    return sorted({*mine, *importlib.import_module("ringside._api").__all__})
