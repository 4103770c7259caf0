"""Optimizers, and schedules of learning rates. An update is one fused operation for each
parameter, and nothing waits for its values."""

from __future__ import annotations

import ctypes
import json
import math
import os
import struct
import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from ringside import _functions, _native, _ops  # noqa: F401 the first has the methods of tensors
from ringside._session import whole
from ringside._tensor import Tensor, _fail, explained, handle_of, made_all, one_session
from ringside.errors import DTypeError, RingsideError

__all__ = ["Adam", "AdamW", "Optimizer", "SGD", "cosine"]


def __dir__() -> list[str]:
    return __all__


_pack_step = struct.Struct("<qqqdd").pack


def _named(params: Any) -> dict[str, Tensor]:
    if isinstance(params, Mapping):
        return dict(params)
    if hasattr(params, "named_parameters"):
        return dict(params.named_parameters())
    if params.__class__ is Tensor:
        raise TypeError("an optimizer of a tensor, expected a list of tensors, or a module")
    listed = list(params)
    if listed and isinstance(listed[0], tuple):
        return dict(listed)
    return {str(i): t for i, t in enumerate(listed)}


def _option(name: str, x: Any) -> Any:
    """Checks an option of an optimizer, a number of 0 or more or a bool."""
    if isinstance(x, bool):
        return x
    x = float(x)
    if not 0 <= x < (1 if name.startswith("beta") else math.inf):
        raise ValueError(f"an optimizer with {name} {x}, expected 0 or more{' and below 1' if name.startswith('beta') else ''}")
    return x


class Optimizer:
    """Updates parameters: a module's, a dict of them by name, or a list. The learning rate is
    the attribute lr, which may be changed between steps. Programs make one of its subclasses."""

    def __init__(self, kind: str, params: Any, lr: float, options: dict[str, Any], decays: Callable[[str, Tensor], bool] | None = None):
        self._params = _named(params)
        if not self._params:
            raise ValueError("an optimizer of no parameters")
        for name, t in self._params.items():
            if t.__class__ is not Tensor:
                raise TypeError(f"parameter {name} of an optimizer is {t!r}, expected a tensor")
            if not t.dtype.is_float:
                raise DTypeError(f"parameter {name} of an optimizer is of {t.dtype}, expected floats")
            if t.requires_grad and not t._leaf:
                raise ValueError(f"parameter {name} of an optimizer is computed from others, expected a leaf")
        if len({id(t) for t in self._params.values()}) < len(self._params):
            raise ValueError("an optimizer of a parameter twice")
        lr, options = float(lr), {name: _option(name, x) for name, x in options.items()}
        if not lr >= 0:
            raise ValueError(f"a learning rate of {lr}, expected 0 or more")
        self.lr = lr
        self._s = s = one_session(self._params.values())
        options = {"kind": kind, "names": list(self._params), "lr": lr, **options}
        if decays is not None:
            options["decays"] = [decays(name, t) for name, t in self._params.items()]
        self._handle, self._pid = 0, os.getpid()
        ids = _ops.pack([t._h for t in self._params.values()])
        self._handle = self._number(s._lib.ringside_optimizer(s._id, json.dumps(options).encode(), ids, len(self._params)))
        self._tensors = list(self._params.values())
        for t in self._tensors:
            t._describe()

    def _number(self, n: int, *others: Any) -> int:
        if n < 0:
            raise _fail(n, *self._params.values(), *others)
        return n

    def step(self, grads: Tensor | Sequence[Tensor | None] | Mapping[str, Tensor | None] | None = None, *, clip: float = 0.0) -> None:
        """Updates the parameters with grads, one for each or by name; without them, with
        what backward left, if anything. None leaves a parameter as it is. With clip the norm of
        all gradients together is scaled down to it."""
        lr, clip, s = float(self.lr), float(clip), self._s
        known = s._plain and 0 <= clip and -math.inf < lr < math.inf
        grads = () if grads is None else self._listed(grads)
        ids = []
        for g, t in zip(grads, self._tensors):
            if g is None:
                ids.append(0)
                continue
            ids.append(g._h if g.__class__ is Tensor else handle_of(g, "a gradient"))
            if g._d is None or g._d is not t._d or g._s is not s:  # equal descriptions are one object
                known = False
        call = _pack_step(_ops.STEP, 3 + len(ids), self._handle, lr, clip) + _ops.pack(ids)
        if known:  # nothing of it can fail
            s._calls.append(call)
            return
        try:
            s._hand_with(call)
        except RingsideError as e:
            raise explained(e, *self._tensors, *grads) from None

    def _listed(self, grads: Tensor | Iterable[Tensor | None] | Mapping[str, Tensor | None]) -> list[Tensor | None]:
        """Returns a gradient, or None, of each parameter."""
        if isinstance(grads, Mapping):
            more = [name for name in grads if name not in self._params]
            if more:
                raise KeyError(f"gradients of {', '.join(map(str, more))}, which the optimizer has no parameters of: it has {', '.join(self._params)}")
            grads = [grads.get(name) for name in self._params]
        grads = [grads] if grads.__class__ is Tensor else list(grads)  # grad() of one tensor returns one
        if len(grads) != len(self._tensors):
            raise RingsideError(f"ringside: {len(grads)} gradients of {len(self._tensors)} parameters")
        return grads

    def zero_grad(self) -> None:
        """Removes the gradients that backward left."""
        for t in self._params.values():
            t.grad = None

    @property
    def params(self) -> dict[str, Tensor]:
        """The parameters by name."""
        return dict(self._params)

    @property
    def steps(self) -> int:
        """The number of steps taken."""
        self._s._hand()
        return _native.about(self._handle)["steps"]

    def state_dict(self) -> dict[str, Any]:
        """Returns the steps taken, and the optimizer's tensors by name."""
        self._s._hand()
        about = _native.about(self._handle)
        names = about["state"] or []
        out = (ctypes.c_int64 * len(names))()
        made = made_all(self._s, out, lambda: self._number(self._s._lib.ringside_state(self._handle, out, len(names))))
        return {"steps": about["steps"], "lr": self.lr, "state": dict(zip(names, made))}

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Goes on where an optimizer of the same kind and parameters stopped."""
        names = _native.about(self._handle)["state"] or []
        missing = [name for name in names if name not in state["state"]]
        if missing:
            raise KeyError(f"the optimizer's state lacks {', '.join(missing)}")
        tensors = [state["state"][name] for name in names]
        ids = _ops.pack([handle_of(t, f"the optimizer's state {name}") for name, t in zip(names, tensors)])
        self._number(self._s._lib.ringside_restore(self._handle, whole("steps", state["steps"]), ids, len(names)), *tensors)
        self.lr = state.get("lr", self.lr)

    def __repr__(self) -> str:
        n = len(self._params)
        return f"{type(self).__name__}({n} parameter{'s' if n > 1 else ''}, lr={self.lr})"

    def __reduce__(self):
        raise TypeError("a ringside optimizer lies in its session and can't be copied or pickled: make another one, and give it state_dict()")

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and not sys.is_finalizing() and os.getpid() == self._pid:
            s = self._s
            if s._id and (s._calls or s._batch is not None):
                s._ended.append(self._handle)  # which they may name
            else:
                s._close_handle(self._handle)


class SGD(Optimizer):
    """Stochastic gradient descent, whose momentum, dampening, weight decay, added to the
    gradient, and Nesterov's form are PyTorch's."""

    def __init__(self, params: Any, lr: float = 1e-2, momentum: float = 0.0, dampening: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False):
        if nesterov and (not momentum or dampening):
            raise ValueError("nesterov needs momentum, and no dampening")
        super().__init__("sgd", params, lr, {"momentum": momentum, "dampening": dampening, "decay": weight_decay, "nesterov": nesterov})


class Adam(Optimizer):
    """Adam, whose weight decay is added to the gradient (Kingma and Ba 2015)."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 0.0):
        super().__init__("adam", params, lr, {"beta1": betas[0], "beta2": betas[1], "eps": eps, "decay": weight_decay})


class AdamW(Optimizer):
    """Adam with decoupled weight decay (Loshchilov and Hutter 2019). decays(name, tensor)
    says which parameters decay; without it all do."""

    def __init__(self, params: Any, lr: float = 1e-3, betas: tuple[float, float] = (0.9, 0.999), eps: float = 1e-8, weight_decay: float = 1e-2,
                 decays: Callable[[str, Tensor], bool] | None = None):
        super().__init__("adamw", params, lr, {"beta1": betas[0], "beta2": betas[1], "eps": eps, "decay": weight_decay}, decays)


def cosine(peak: float, last: float, warmup: int, steps: int) -> Callable[[int], float]:
    """Returns a schedule: it rises over the first warmup steps to peak and falls along half
    a cosine to last at step steps. Steps count from 0."""
    def at(step: int) -> float:
        if step < warmup:
            return peak * (step + 1) / warmup
        done = min(1.0, (step - warmup) / max(1, steps - warmup))
        return last + (peak - last) * (1 + math.cos(math.pi * done)) / 2
    return at
