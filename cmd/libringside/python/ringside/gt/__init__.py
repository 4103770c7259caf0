"""The surface of GT over ringside: programs of GT run with `import ringside.gt as gt`.

    import ringside.gt as gt

    a = gt.randn(1000, 1000, requires_grad=True)
    loss = (a @ a).relu().mean()
    loss.backward()
    print(loss.data.numpy(), a.grad.data.numpy().shape)

Without connect the session is with workers of this process: gpu_workers(n) or GT_CONFIG says how
many. docs/python.md lists what differs."""

from __future__ import annotations

import os
from typing import Any, Sequence

import ringside as _rs
from ringside import _native
from ringside._ops import load as _load
from ringside._session import session as _session, whole as _whole
from ringside.dtypes import bool, float32, float64, int32, int64
from ringside.gt import debug, nn, signal
from ringside.gt._address import address as _address

Tensor = _rs.Tensor

__all__ = [
    "Tensor", "bool", "cat", "concat", "connect", "debug", "float32", "float64", "from_numpy", "get_config", "get_signal_config", "gpu_workers",
    "int32", "int64", "load_config", "nn", "no_grad", "ones", "rand", "randn", "signal", "tensor", "where", "zeros",
]


def __dir__() -> list[str]:
    return __all__


_workers: int | None = None
_config: tuple[str, dict[str, Any]] | None = None  # a file, and what it says
_cluster: _rs.Cluster | None = None


def load_config(path: str | os.PathLike) -> dict[str, Any]:
    """Reads placements of signals, for the session that is opened next (docs/sharding.md)."""
    global _config
    _load()
    with open(path, encoding="utf-8") as f:
        _config = os.fspath(path), _native.described("ringside_config", os.fsencode(path), f.read().encode())
    return _config[1]


def get_config() -> dict[str, Any] | None:
    """Returns what the config says: workers, auto_shard, signals; None without one. Without
    load_config it is that of GT_CONFIG."""
    if _config is None and os.environ.get("GT_CONFIG"):
        load_config(os.environ["GT_CONFIG"])
    return _config[1] if _config else None


def get_signal_config(name: str) -> dict[str, Any] | None:
    """Returns what the config says of a signal: shard, workers, backward, compile."""
    config = get_config()
    return config["signals"].get(name) if config else None


def gpu_workers(n: int) -> None:
    """Has n workers compute together. They are of this host's processors."""
    global _workers
    _workers = _whole("gpu_workers", n)


def connect(where: str = "localhost", port: int | None = None) -> _rs.Session:
    """Opens the session with a server: "host:port", as gt.server -p was given, or the
    dispatcher at a socket."""
    host, _, number = where.partition(":")
    addr = where if where.startswith("/") else _address(host, int(port or number or 9000))
    return _use(_rs.session(addr, **_options()))


def _options() -> dict[str, Any]:
    secret = os.environ.get("GT_SECRET_FILE")
    options: dict[str, Any] = {"secret_file": secret} if secret else {}
    if get_config():
        options["config"] = _config[0]
    return options


def _use(s: _rs.Session) -> _rs.Session:
    from ringside import _session as module
    module._default = s
    return s


def _ready() -> None:
    """Opens a session if there is none: of a cluster of this process, or as ringside does."""
    global _cluster
    from ringside import _session as module
    from ringside._ops import state
    if state.sessions or module._default is not None:
        return
    config = get_config()
    workers = config["workers"] if config else _workers
    if workers and workers > 1 or config:
        _cluster = _rs.cluster(workers=workers, **_options())
        _use(_cluster.open())
    else:
        _use(_session())


def _shape(shape: Sequence[Any]) -> tuple[int, ...]:
    return tuple(shape[0]) if len(shape) == 1 and not isinstance(shape[0], int) else tuple(shape)


def tensor(data: Any, dtype: Any = float32, requires_grad: Any = False) -> Tensor:
    """Makes a tensor of numbers or lists; float32 unless said."""
    _ready()
    return _rs.asarray(data, dtype, requires_grad=requires_grad)


def from_numpy(array: Any, requires_grad: Any = False) -> Tensor:
    """Makes a tensor of an array, of its dtype."""
    _ready()
    return _rs.asarray(array, requires_grad=requires_grad)


def randn(*shape: Any, dtype: Any = float32, requires_grad: Any = False) -> Tensor:
    """Normal numbers, of mean 0 and deviation 1; the shape is as that of zeros."""
    _ready()
    return _rs.random.normal(_shape(shape), dtype, requires_grad=requires_grad)


def rand(*shape: Any, dtype: Any = float32, requires_grad: Any = False) -> Tensor:
    """Numbers that are uniform in [0, 1); the shape is as that of zeros."""
    _ready()
    return _rs.random.uniform(_shape(shape), dtype, requires_grad=requires_grad)


def zeros(*shape: Any, dtype: Any = float32, requires_grad: Any = False) -> Tensor:
    """Zeros, of the shape of sizes: zeros(2, 3) or zeros((2, 3))."""
    _ready()
    return _rs.zeros(_shape(shape), dtype, requires_grad=requires_grad)


def ones(*shape: Any, dtype: Any = float32, requires_grad: Any = False) -> Tensor:
    """Ones, of the shape of sizes: ones(2, 3) or ones((2, 3))."""
    _ready()
    return _rs.ones(_shape(shape), dtype, requires_grad=requires_grad)


def cat(tensors: Sequence[Tensor], axis: int = 0) -> Tensor:
    """Puts tensors one after another along a dim."""
    return _rs.concat(tensors, axis=axis)


concat, where, no_grad = _rs.concat, _rs.where, _rs.no_grad
