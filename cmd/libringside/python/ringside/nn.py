"""Layers. Layouts and names of parameters are PyTorch's, so its files of weights fit.

    class Net(rs.nn.Module):
        def __init__(self):
            self.first, self.last = rs.nn.Linear(4, 16), rs.nn.Linear(16, 3)

        def forward(self, x):
            return self.last(rs.relu(self.first(x)))"""

from __future__ import annotations

import math
from typing import Any, Callable, Iterator, Mapping, Sequence

from ringside import _functions as f
from ringside import random
from ringside._session import no_grad
from ringside._tensor import Tensor, affine, asarray
from ringside.errors import ShapeError

__all__ = [
    "AvgPool2d", "Conv2d", "Dropout", "Embedding", "Flatten", "Function", "GELU", "LayerNorm", "Linear", "MaxPool2d", "Module", "MultiheadAttention",
    "RMSNorm", "ReLU", "Sequential", "SiLU", "Sigmoid", "Tanh", "bce_with_logits", "cross_entropy", "mse", "parameter",
]


def __dir__() -> list[str]:
    return __all__


def parameter(x: Any) -> Tensor:
    """Makes a leaf that requires gradients: what modules list as a parameter."""
    return asarray(x).requires_grad_()


def _uniform(bound: float, *shape: int) -> Tensor:
    with no_grad():
        return parameter(random.uniform(shape) * (2 * bound) - bound)


class Module:
    """A layer or model: parameters (leaves that require gradients) and modules, as
    attributes or in lists of them. A subclass defines forward, which calls of the module
    make. Tensors that require no gradients are not among the parameters, and are not saved."""

    training = True

    def forward(self, *args: Any, **kwargs: Any) -> Any:
        """Returns the module's result, also as the module is called. A subclass defines it."""
        raise NotImplementedError(f"{type(self).__name__} has no forward")

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        return self.forward(*args, **kwargs)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        for name, x in vars(self).items():
            if isinstance(x, (list, tuple)):
                yield from ((f"{name}.{i}", y) for i, y in enumerate(x) if isinstance(y, Module) or y.__class__ is Tensor)
            elif isinstance(x, Module) or x.__class__ is Tensor:
                yield name, x

    def named_parameters(self, prefix: str = "") -> Iterator[tuple[str, Tensor]]:
        """Yields the parameters with dotted names; one that is shared once."""
        seen: set[int] = set()
        for name, t in self._named(prefix):
            if id(t) not in seen:
                seen.add(id(t))
                yield name, t

    def _named(self, prefix: str) -> Iterator[tuple[str, Tensor]]:
        for name, x in self._parts():
            if isinstance(x, Module):
                yield from x._named(f"{prefix}{name}.")
            elif x._leaf:
                yield prefix + name, x

    def parameters(self) -> list[Tensor]:
        """Returns the parameters."""
        return [t for _, t in self.named_parameters()]

    def modules(self) -> Iterator[Module]:
        """Yields the module and those within it."""
        yield self
        for _, x in self._parts():
            if isinstance(x, Module):
                yield from x.modules()

    def train(self, on: bool = True) -> Module:
        """Switches to training, where Dropout drops, or back, and returns the module."""
        for m in self.modules():
            m.training = on
        return self

    def eval(self) -> Module:
        """Switches training off."""
        return self.train(False)

    def zero_grad(self) -> None:
        """Removes the gradients that backward left."""
        for t in self.parameters():
            t.grad = None

    def state_dict(self) -> dict[str, Tensor]:
        """Returns the parameters by name, for ringside.save."""
        return dict(self.named_parameters())

    def load_state_dict(self, state: Mapping[str, Any], *, strict: bool = True) -> None:
        """Gives the parameters the values of the same names. Unless strict is off, other
        names on either side are an error."""
        mine = dict(self.named_parameters())
        state = {n: asarray(x) if n in mine and not hasattr(x, "shape") else x for n, x in state.items()}
        missing, more = sorted(set(mine) - set(state)), sorted(set(state) - set(mine))
        wrong = [f"{n} is {tuple(state[n].shape)}, expected {t.shape}" for n, t in mine.items() if n in state and tuple(state[n].shape) != t.shape]
        if wrong or strict and (missing or more):
            raise ShapeError("load_state_dict: " + "; ".join(
                wrong + ([f"missing: {', '.join(missing)}"] if missing else []) + ([f"unexpected: {', '.join(more)}"] if more else [])))
        with no_grad():
            for name, t in mine.items():
                if name in state:
                    t.assign(asarray(state[name], t.dtype, session=t._s))

    def __repr__(self) -> str:
        lines = [f"  ({name}): " + repr(x).replace("\n", "\n  ") for name, x in self._parts() if isinstance(x, Module)]
        own = self.describe()
        return f"{type(self).__name__}({own})" if not lines else "\n".join([f"{type(self).__name__}({own}", *lines, ")"])

    def describe(self) -> str:
        """Returns what repr says of the module itself."""
        return ""


class Linear(Module):
    """x @ weight.T + bias over the last dim: weight [out, in], bias [out]."""

    def __init__(self, in_features: int, out_features: int, bias: bool = True):
        bound = 1 / math.sqrt(max(in_features, 1))
        self.in_features, self.out_features = in_features, out_features
        self.weight = _uniform(bound, out_features, in_features)
        self.bias = _uniform(bound, out_features) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight.T if self.bias is None else affine(x, self.weight, self.bias)

    def describe(self) -> str:
        return f"{self.in_features}, {self.out_features}, bias={self.bias is not None}"


class Embedding(Module):
    """A table of n vectors, weight [n, dim], at indices [..] of int32 or int64: [.., dim]."""

    def __init__(self, n: int, dim: int):
        self.weight = parameter(random.normal((n, dim)))

    def forward(self, indices: Any) -> Tensor:
        return f.take(self.weight, indices, axis=0)

    def describe(self) -> str:
        return "{}, {}".format(*self.weight.shape)


class Conv2d(Module):
    """The cross-correlation of images [n, in_channels, h, w], as ringside.conv2d: weight
    [out_channels, in_channels/groups, kh, kw], bias [out_channels]. Sizes are numbers for
    both dims, or pairs."""

    def __init__(self, in_channels: int, out_channels: int, kernel_size: Any, stride: Any = 1, padding: Any = 0, dilation: Any = 1,
                 groups: int = 1, bias: bool = True):
        kh, kw = f._pair(kernel_size)
        bound = 1 / math.sqrt(max(in_channels // groups * kh * kw, 1))
        self.stride, self.padding, self.dilation, self.groups = stride, padding, dilation, groups
        self.weight = _uniform(bound, out_channels, in_channels // groups, kh, kw)
        self.bias = _uniform(bound, out_channels) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return f.conv2d(x, self.weight, self.bias, stride=self.stride, padding=self.padding, dilation=self.dilation, groups=self.groups)

    def describe(self) -> str:
        out, inner, kh, kw = self.weight.shape
        return f"{inner * self.groups}, {out}, ({kh}, {kw}), stride={self.stride}, padding={self.padding}"


class LayerNorm(Module):
    """Normalises the last dims, of the sizes in shape, to mean 0 and variance 1; then * weight
    + bias, both of shape."""

    def __init__(self, shape: int | Sequence[int], eps: float = 1e-5, bias: bool = True):
        self.eps = eps
        self.weight = f.ones(shape, requires_grad=True)
        self.bias = f.zeros(shape, requires_grad=True) if bias else None

    def forward(self, x: Tensor) -> Tensor:
        return f.layer_norm(x, self.weight, self.bias, eps=self.eps)

    def describe(self) -> str:
        return f"{self.weight.shape}, eps={self.eps}, bias={self.bias is not None}"


class RMSNorm(Module):
    """Divides the last dim, of size dim, by its root mean square; then * weight, [dim]."""

    def __init__(self, dim: int, eps: float = 1e-6):
        self.eps = eps
        self.weight = f.ones(dim, requires_grad=True)

    def forward(self, x: Tensor) -> Tensor:
        return f.rms_norm(x, self.weight, eps=self.eps)

    def describe(self) -> str:
        return f"{self.weight.shape[0]}, eps={self.eps}"


class Dropout(Module):
    """In training each element is 0 with probability p, else x/(1-p)."""

    def __init__(self, p: float = 0.5):
        self.p = p

    def forward(self, x: Tensor) -> Tensor:
        return f.dropout(x, self.p, training=self.training)

    def describe(self) -> str:
        return f"p={self.p}"


class Function(Module):
    """A function of a tensor as a module, which calls it with the options."""

    def __init__(self, function: Callable[..., Tensor], **options: Any):
        self.function, self.options = function, options

    def forward(self, x: Tensor) -> Tensor:
        return self.function(x, **self.options)

    def describe(self) -> str:
        options = [f"{name}={value!r}" for name, value in self.options.items()]
        return ", ".join([getattr(self.function, "__name__", repr(self.function)), *options] if type(self) is Function else options)


class ReLU(Function):
    """max(x, 0)."""

    def __init__(self) -> None:
        super().__init__(f.relu)


class GELU(Function):
    """x*(1+erf(x/sqrt(2)))/2; with approximate="tanh" in its tanh form."""

    def __init__(self, approximate: str = "none") -> None:
        super().__init__(f.gelu, approximate=approximate)


class SiLU(Function):
    """x*sigmoid(x)."""

    def __init__(self) -> None:
        super().__init__(f.silu)


class Tanh(Function):
    """The hyperbolic tangent."""

    def __init__(self) -> None:
        super().__init__(f.tanh)


class Sigmoid(Function):
    """1/(1+exp(-x))."""

    def __init__(self) -> None:
        super().__init__(f.sigmoid)


class Flatten(Module):
    """Makes one dim of all but the first: [n, a, b] to [n, a*b]."""

    def forward(self, x: Tensor) -> Tensor:
        return f.flatten(x, 1)


class _Pool(Function):
    """A function of windows of images."""

    def __init__(self, function: Callable[..., Tensor], kernel_size: Any, stride: Any, padding: Any):
        super().__init__(function, kernel=kernel_size, stride=stride, padding=padding)

    def describe(self) -> str:
        kernel, stride = self.options["kernel"], self.options["stride"]
        return f"kernel_size={kernel}, stride={kernel if stride is None else stride}, padding={self.options['padding']}"


class MaxPool2d(_Pool):
    """The largest of each window of images [n, c, h, w], as ringside.max_pool2d. Sizes are
    numbers for both dims, or pairs; stride is kernel_size unless given."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__(f.max_pool2d, kernel_size, stride, padding)


class AvgPool2d(_Pool):
    """The mean of each window of images, as MaxPool2d; padding counts as 0."""

    def __init__(self, kernel_size: Any, stride: Any = None, padding: Any = 0):
        super().__init__(f.avg_pool2d, kernel_size, stride, padding)


class Sequential(Module):
    """Modules one after another. Parameters are named by their numbers."""

    def __init__(self, *modules: Module):
        self.layers = list(modules)

    def _parts(self) -> Iterator[tuple[str, Any]]:
        return ((str(i), m) for i, m in enumerate(self.layers))

    def forward(self, x: Tensor) -> Tensor:
        for m in self.layers:
            x = m(x)
        return x


class MultiheadAttention(Module):
    """Attention of x [b, t, hidden] to itself, with heads of hidden/heads; groups of them
    share keys and values if kv_heads is less. Parameters are q_proj, k_proj, v_proj and
    o_proj."""

    def __init__(self, hidden: int, heads: int, kv_heads: int | None = None, *, bias: bool = True, causal: bool = False):
        if heads < 1 or hidden % heads or kv_heads is not None and (kv_heads < 1 or heads % kv_heads):
            raise ValueError(f"attention of {hidden} by {heads} heads, {kv_heads or heads} of keys: expected a divisor of each")
        self.heads, self.kv_heads, self.head_dim, self.causal = heads, kv_heads or heads, hidden // heads, causal
        self.q_proj = Linear(hidden, heads * self.head_dim, bias)
        self.k_proj = Linear(hidden, self.kv_heads * self.head_dim, bias)
        self.v_proj = Linear(hidden, self.kv_heads * self.head_dim, bias)
        self.o_proj = Linear(heads * self.head_dim, hidden, bias)

    def forward(self, x: Tensor) -> Tensor:
        b, t, _ = x.shape

        def split(y: Tensor, n: int) -> Tensor:
            return f.permute_dims(f.reshape(y, (b, t, n, self.head_dim)), (0, 2, 1, 3))

        y = f.attention(split(self.q_proj(x), self.heads), split(self.k_proj(x), self.kv_heads), split(self.v_proj(x), self.kv_heads), causal=self.causal)
        return self.o_proj(f.reshape(f.permute_dims(y, (0, 2, 1, 3)), (b, t, self.heads * self.head_dim)))


cross_entropy, mse, bce_with_logits = f.cross_entropy, f.mse, f.binary_cross_entropy_with_logits
