"""Layers, losses and optimizers under GT's names."""

from __future__ import annotations

from typing import Any

from ringside import _functions as _f
from ringside import nn as _nn
from ringside.nn import Module
from ringside.optim import SGD as _SGD
from ringside.optim import Adam as _Adam


class Linear(_nn.Linear):
    """x @ weight.T + bias over the last dim."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        from ringside.gt import _ready
        _ready()
        super().__init__(in_features, out_features, bias)


class SGD(_SGD):
    """Stochastic gradient descent with what backward left."""

    def __init__(self, parameters: Any, lr: float = 0.01, **options: Any):
        super().__init__(list(parameters), lr, **options)


class Adam(_Adam):
    """Adam with what backward left."""

    def __init__(self, parameters: Any, lr: float = 0.001, **options: Any):
        super().__init__(list(parameters), lr, **options)


relu, sigmoid, tanh, softmax = _f.relu, _f.sigmoid, _f.tanh, _f.softmax
mse_loss, cross_entropy, binary_cross_entropy_with_logits = _f.mse, _f.cross_entropy, _f.binary_cross_entropy_with_logits


def binary_cross_entropy(p: Any, target: Any) -> Any:
    """The mean of -target*log(p) - (1-target)*log(1-p) of probabilities."""
    return -(target * _f.log(p) + (1 - target) * _f.log(1 - p)).mean()


__all__ = ["Adam", "Linear", "Module", "SGD", "binary_cross_entropy", "binary_cross_entropy_with_logits", "cross_entropy", "mse_loss",
           "relu", "sigmoid", "softmax", "tanh"]


def __dir__() -> list[str]:
    return __all__
