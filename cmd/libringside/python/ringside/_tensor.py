"""Tensors: handles of values in a session."""

from __future__ import annotations

import builtins
import ctypes
import math
import numbers
import operator
import struct
from functools import partial
from typing import TYPE_CHECKING, Any, Iterable, Iterator, Sequence

from ringside import _hints, _native, _ops, dtypes
from ringside._ops import Op, op, pack_st, pack_t, pack_ts, pack_tt, state
from ringside._session import Session, check_alive, current_session
from ringside.dtypes import DType
from ringside.errors import DTypeError, IndexOutOfRange, RingsideError, ShapeError

if TYPE_CHECKING:
    import numpy

    from ringside._methods import Methods
else:
    Methods = object

_ELEMENTS = {d.number: struct.Struct("<" + d.format).unpack_from for d in dtypes.ALL if d.format}
_EXACT = 1 << 53  # the largest integer that a scalar holds with all below it


_Eight = ctypes.c_char * 8


class Description(tuple):
    """The dtype and the shape of a tensor. Tensors that have the same have one object."""

    __slots__ = ()
    __hash__ = object.__hash__
    __eq__ = object.__eq__


_descriptions: dict[tuple[DType, tuple[int, ...]], Description] = {}


def describe(d: DType, shape: tuple[int, ...]) -> Description:
    """Returns the description of a dtype and a shape."""
    found = _descriptions.get((d, shape))
    if found is None:
        if len(_descriptions) >= 4096:
            _descriptions.clear()
        found = _descriptions.setdefault((d, shape), Description((d, shape)))
    return found


class Tensor(Methods):
    """A value in a session. Operations record and return at once; reading (numpy, item,
    print) runs what is recorded. A value never changes, only `x += y` and the like give x
    another one. Made by asarray and the other functions, never directly."""

    # __del__ is a function of C, of each tensor: in one of Python a handler of a signal may
    # raise, and Python prints what comes out of __del__ and goes on.
    __slots__ = ("_s", "_h", "_d", "_leaf", "_of", "__del__", "__weakref__")
    _s: Session
    _h: int
    _d: Description | None
    _leaf: builtins.bool
    _of: Tensor | None  # whose gradient it is

    def __init__(self, session: Session, handle: int):
        self._s = session
        self._h = handle
        self._d = None
        self.__del__ = partial(session._drop, handle)
        if session._scopes:
            session._note(self)

    if not TYPE_CHECKING:  # which takes it for a tensor that has any name

        def __getattr__(self, name: str) -> Any:
            """Returns what most tensors never set, so that making one is cheap."""
            if name == "_of":
                return None
            if name == "_leaf":
                return False
            raise AttributeError(f"a Tensor has no {name!r}{_hints.said(_hints.METHODS, name)}")

    # What it is.

    def _describe(self) -> Description:
        d = self._d
        if d is None:
            n = self._raw()
            d = self._d = describe(dtypes.BY_NUMBER[n[0]], tuple(n[3:3 + n[2]]))
        return d

    def _raw(self) -> list[int]:
        out = (ctypes.c_int64 * 11)()
        n = self._s._lib.ringside_describe(self._s._id, self._h, out)
        if n < 0:
            raise _fail(n, self)
        return out[:]

    @property
    def dtype(self) -> DType:
        """The type of the elements."""
        return self._describe()[0]

    @property
    def shape(self) -> tuple[int, ...]:
        """The size of each dim."""
        return self._describe()[1]

    @property
    def ndim(self) -> int:
        """The number of dims."""
        return len(self._describe()[1])

    @property
    def size(self) -> int:
        """The number of elements."""
        return math.prod(self._describe()[1])

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def device(self) -> str:
        """The engine: where the session's tensors are."""
        return self._s.stats["engine"]

    @property
    def session(self) -> Session:
        """The session it belongs to."""
        return self._s

    # Reading.

    def numpy(self, *, copy: bool = False) -> numpy.ndarray:
        """Returns the content as an array of NumPy: a read-only view of the worker's memory,
        which stays as it is as long as the array or a view of it exists; with copy, a copy
        that can be written. It waits for what is recorded. bfloat16 must be cast first."""
        import numpy as np

        d, shape = self._describe()
        if not d.typestr:
            raise DTypeError("numpy() of bfloat16, which NumPy has not: use astype(ringside.float32).numpy()")
        self._s._hand()
        lib, data, n = self._s._library, ctypes.c_void_p(), ctypes.c_int64()
        if copy:
            out = np.empty(shape, d.typestr)
            got = lib.ringside_read(self._s._id, self._h, out.ctypes.data, out.nbytes)
            if got < 0:
                raise _fail(got, self)
            return out
        handles: list[int] = []
        try:
            handles.extend(map(lib.ringside_view, (self._s._id,), (self._h,), (ctypes.byref(data),), (ctypes.byref(n),)))
            if handles[0] < 0:
                raise _fail(handles[0], self)
            view = _View(lib, handles[0])
        except BaseException:  # also of a signal's handler, as in made
            for handle in handles:
                lib.ringside_free(lib.ringside_close(handle))
            raise
        if not n.value:
            out = np.empty(shape, d.typestr)
            out.flags.writeable = False
            return out
        view.__array_interface__ = {"shape": shape, "typestr": d.typestr, "data": (data.value, True), "version": 3}
        return np.asarray(view)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> numpy.ndarray:
        x = self.numpy(copy=bool(copy))
        return x if dtype is None else x.astype(dtype, copy=False)

    def item(self) -> float | int | bool:
        """Returns the only element as a number of Python. It waits."""
        s, raw = self._s, _Eight()
        n = s._hand(self._h, raw) or s._library.ringside_item(s._id, self._h, raw)
        if n < 0:
            raise _fail(n, self)
        if n == _native.BF16:
            return struct.unpack("<f", b"\0\0" + raw.raw[:2])[0]
        return _ELEMENTS[n](raw)[0]

    def tolist(self) -> Any:
        """Returns the content as lists of numbers."""
        return (astype(self, dtypes.float32) if self.dtype is dtypes.bfloat16 else self).numpy().tolist()

    def __float__(self) -> float:
        return float(self.item())

    def __int__(self) -> int:
        return int(self.item())

    def __index__(self) -> int:
        if self.dtype.is_float or self.dtype is dtypes.bool:
            raise DTypeError(f"an index must be an integer, not {self.dtype}")
        return int(self.item())

    def __bool__(self) -> builtins.bool:
        if self.size != 1:
            raise ShapeError(f"the truth of {self.size} elements is ambiguous: use any() or all()")
        return builtins.bool(self.item())

    def __len__(self) -> int:
        if not self.shape:
            raise TypeError("len() of a tensor of no dims")
        return self.shape[0]

    def __iter__(self) -> Iterator[Tensor]:
        return (self[i] for i in range(len(self)))

    def __repr__(self) -> str:
        import numpy as np

        d, shape = self._describe()
        x = (astype(self.detach(), dtypes.float32) if d is dtypes.bfloat16 else self).numpy()
        text = repr(np.asarray(x))  # array([[1., 2.]], dtype=float32)
        body = text[len("array("):-1].replace("\n      ", "\n       ")
        body = body.rsplit(", dtype=", 1)[0].rstrip(", \n")
        tail = f"dtype={d.name}" + (", requires_grad=True" if self._leaf else "")
        last = body.rsplit("\n", 1)[-1]
        return f"Tensor({body},{' ' if len(last) + len(tail) < 68 else chr(10) + ' ' * 7}{tail})"

    def __str__(self) -> str:
        return str((astype(self.detach(), dtypes.float32) if self.dtype is dtypes.bfloat16 else self).numpy())

    def __format__(self, spec: str) -> str:
        return format(self.item() if spec and self.size == 1 else str(self), spec)

    def __array_ufunc__(self, ufunc: Any, method: str, *inputs: Any, **options: Any) -> Tensor:
        """Does an operator between an array or number of NumPy and a tensor. Functions of NumPy
        compute no tensors."""
        name = ufunc.__name__
        if name in _REFLECTED and method == "__call__" and inputs[1] is self and not options:
            return getattr(self, _REFLECTED[name])(inputs[0])
        from ringside import _api

        if options.get("out") is not None:
            raise TypeError(f"np.{name} of a ringside tensor into an array: use the tensor's numpy()")
        name += "" if method == "__call__" else "." + method
        own = f"ringside.{name}({'x' if ufunc.nin == 1 else 'a, b'})" if name in _api.__all__ else ""
        use = _hints.NUMPY.get(name, own)
        raise TypeError(f"np.{name} of a ringside tensor: use {use + ', or ' if use else ''}the tensor's numpy()")

    def __dlpack__(self, *, stream: Any = None, max_version: tuple[int, int] | None = None, dl_device: Any = None, copy: bool | None = None):
        """Lends the memory by DLPack: as a read-only view to consumers of version 1, which
        has a flag for that, as a copy to others, because they would write."""
        now = max_version is not None and max_version >= (1, 0)
        if dl_device is not None and tuple(dl_device) != (1, 0):
            raise BufferError(f"DLPack to device {dl_device}: the memory is the host's, (1, 0)")
        if copy is False and not now:
            raise BufferError("DLPack before version 1.0 has no read-only flag, so its consumers get a copy")
        d, _ = self._describe()
        self._s._hand()
        out = (ctypes.c_void_p * 2)()
        n = self._s._lib.ringside_lend(self._s._id, self._h, 1 if copy or not now else 0, d.dlpack, d.itemsize * 8, out)
        if n < 0:
            raise _fail(n, self)
        python = ctypes.pythonapi
        new = python.PyCapsule_New
        new.restype, new.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p)
        gone = ctypes.cast(self._s._lib.ringside_unused, ctypes.c_void_p)
        return new(out[1], b"dltensor_versioned", gone) if now else new(out[0], b"dltensor", gone)

    def __dlpack_device__(self) -> tuple[int, int]:
        return 1, 0

    # Gradients.

    @property
    def requires_grad(self) -> builtins.bool:
        """Whether gradients are computed for it, or for what it was computed from."""
        return self._raw()[1] != 0

    @requires_grad.setter
    def requires_grad(self, on: builtins.bool) -> None:
        if not on:
            raise RingsideError("requires_grad can't be taken back: use detach()")
        self.requires_grad_()

    def requires_grad_(self) -> Tensor:
        """Makes it a leaf for which gradients are computed, and returns it."""
        _tensor(self, _native.REQUIRE_GRAD)
        self._leaf = True
        return self

    @property
    def grad(self) -> Tensor | None:
        """The gradient that backward left, or None. Assigning None clears it."""
        s = self._s
        g = made(s, (self,), s._lib.ringside_tensor, s._id, _native.GRADIENT, self._h, 0)
        if g is not None:
            g._of = self
        return g

    @grad.setter
    def grad(self, g: Tensor | None) -> None:
        if g is not None and g.__class__ is not Tensor:
            raise TypeError(f"a gradient is a tensor or None, not {g!r}")
        _tensor(self, _native.SET_GRADIENT, g)

    def backward(self, gradient: Tensor | None = None, *, retain_graph: builtins.bool = False) -> None:
        """Adds the gradients of this tensor to the .grad of every leaf that it was computed
        from. Of several elements gradient must be given. Its graph is freed, unless
        retain_graph is set."""
        of = 0 if gradient is None else handle_of(gradient, "gradient")
        n = self._s._lib.ringside_backward(self._s._id, self._h, of, 1 if retain_graph else 0)
        if n < 0:
            raise _fail(n, self, gradient)

    def detach(self) -> Tensor:
        """Returns the same value without a graph."""
        s = self._s
        t = made(s, (self,), s._lib.ringside_tensor, s._id, _native.DETACH, self._h, 0)
        t._d = self._d
        return t

    def assign(self, value: Any) -> Tensor:
        """Gives this tensor another value, of the same dtype and shape, and returns it.
        Results computed before keep the old value. A leaf takes one within no_grad."""
        v = _as(value, self)
        _tensor(self, _native.ASSIGN_VALUE if state.flags & _ops.NO_GRAD else _native.ASSIGN, v)
        if self._of is not None:  # x.grad.zero_()
            _tensor(self._of, _native.SET_GRADIENT, self)
        return self

    @property
    def data(self) -> Tensor:
        """The same value without a graph, as detach() returns it."""
        return self.detach()

    def zero_(self) -> Tensor:
        """Sets all elements to 0."""
        return self.assign(full_like(self, 0))

    def signal(self, name: str) -> Tensor:
        """Gives this tensor alone the signal of that name, and returns it; see signal()."""
        _tensor(self, _native.SET_SIGNAL, _native.number(self._s._lib.ringside_signal(_native.text(name, "the name of a signal"))))
        return self

    # Copies.

    def copy(self) -> Tensor:
        """Returns another handle of the same value, outside the graph: an assignment of one
        leaves the other."""
        return self.detach()

    def __copy__(self) -> Tensor:
        return self.detach()

    def __deepcopy__(self, memo: Any) -> Tensor:
        t = self.detach()
        return t.requires_grad_() if self._leaf else t

    def __reduce__(self):
        raise TypeError("a ringside tensor lies at a worker and can't be pickled: send x.numpy(), or use ringside.save and ringside.load")

    # Operators. The most usual ones are made below.

    if TYPE_CHECKING:
        def __add__(self, o: Any) -> Tensor: ...
        def __sub__(self, o: Any) -> Tensor: ...
        def __mul__(self, o: Any) -> Tensor: ...
        def __truediv__(self, o: Any) -> Tensor: ...
        def __matmul__(self, o: Any) -> Tensor: ...

    def __radd__(self, o: Any) -> Tensor: return _two(ADD, o, self)
    def __rsub__(self, o: Any) -> Tensor: return _two(SUB, o, self)
    def __rmul__(self, o: Any) -> Tensor: return _two(MUL, o, self)
    def __rtruediv__(self, o: Any) -> Tensor: return _two(DIV, o, self)
    def __pow__(self, o: Any) -> Tensor: return _two(POW, self, o)
    def __rpow__(self, o: Any) -> Tensor: return _two(POW, o, self)
    def __floordiv__(self, o: Any) -> Tensor: return _floor_divide(self, o)
    def __rfloordiv__(self, o: Any) -> Tensor: return _floor_divide(o, self)
    def __mod__(self, o: Any) -> Tensor: return _remainder(self, o)
    def __rmod__(self, o: Any) -> Tensor: return _remainder(o, self)
    def __rmatmul__(self, o: Any) -> Tensor: return matmul(o, self)
    def __eq__(self, o: Any) -> Tensor: return _two(EQ, self, o)  # type: ignore[override]
    def __ne__(self, o: Any) -> Tensor: return _two(NE, self, o)  # type: ignore[override]
    def __lt__(self, o: Any) -> Tensor: return _two(LT, self, o)
    def __le__(self, o: Any) -> Tensor: return _two(LE, self, o)
    def __gt__(self, o: Any) -> Tensor: return _two(GT, self, o)
    def __ge__(self, o: Any) -> Tensor: return _two(GE, self, o)
    def __and__(self, o: Any) -> Tensor: return _two(AND, self, o)
    def __rand__(self, o: Any) -> Tensor: return _two(AND, o, self)
    def __or__(self, o: Any) -> Tensor: return _two(OR, self, o)
    def __ror__(self, o: Any) -> Tensor: return _two(OR, o, self)
    def __xor__(self, o: Any) -> Tensor: return _two(XOR, self, o)
    def __rxor__(self, o: Any) -> Tensor: return _two(XOR, o, self)
    def __neg__(self) -> Tensor: return _one(NEG, self)
    def __pos__(self) -> Tensor: return reshape(self, self.shape)
    def __abs__(self) -> Tensor: return _one(ABS, self)
    def __invert__(self) -> Tensor: return _one(NOT, self)
    def __iadd__(self, o: Any) -> Tensor: return self.assign(_two(ADD, self, o))
    def __isub__(self, o: Any) -> Tensor: return self.assign(_two(SUB, self, o))
    def __imul__(self, o: Any) -> Tensor: return self.assign(_two(MUL, self, o))
    def __itruediv__(self, o: Any) -> Tensor: return self.assign(_two(DIV, self, o))
    def __ipow__(self, o: Any) -> Tensor: return self.assign(_two(POW, self, o))

    __hash__ = object.__hash__

    @property
    def T(self) -> Tensor:
        """The last two dims exchanged; of one or no dim the tensor itself."""
        known, s = _turned.get(self._d), self._s
        if known is not None and s._ahead:
            h = s._next()
            return _record(s, h, known[0], pack_tt(known[1] | state.flags, h, self._h, 1) + b"\0\0\0\0\0\0\0\0")
        n = len(self._describe()[1])
        if n != 2:
            return self if n < 2 else self.mT
        t = apply(PERMUTE, self, ints=(1, 0))
        _turned.learn(self._d, (t._describe(), _ops.head(PERMUTE.number, 1, 2)))
        return t

    @property
    def mT(self) -> Tensor:
        """The last two dims exchanged."""
        return permute_dims(self, (*range(self.ndim - 2), -1, -2))

    def __getitem__(self, key: Any) -> Tensor:
        """Basic indexing as NumPy's: integers, slices with steps of either sign, None and
        `...`; or one list or tensor of integers, which takes the place of a dim."""
        return _index(self, key)

    def __setitem__(self, key: Any, value: Any) -> None:
        """Replaces a part, which integers and slices of step 1 select."""
        self.assign(_replace(self, key, value))


# What does an operator of NumPy whose right operand is a tensor: of a comparison the mirrored one.
_REFLECTED = {
    "add": "__radd__", "subtract": "__rsub__", "multiply": "__rmul__", "divide": "__rtruediv__", "true_divide": "__rtruediv__",
    "floor_divide": "__rfloordiv__", "remainder": "__rmod__", "power": "__rpow__", "matmul": "__rmatmul__",
    "bitwise_and": "__rand__", "bitwise_or": "__ror__", "bitwise_xor": "__rxor__",
    "equal": "__eq__", "not_equal": "__ne__", "less": "__gt__", "less_equal": "__ge__", "greater": "__lt__", "greater_equal": "__le__",
}


class _View:
    """Memory of the worker that an array reads, until the array is gone."""

    __slots__ = ("__del__", "__array_interface__")

    def __init__(self, lib: Any, handle: int):
        self.__del__ = partial(lib.ringside_close, handle)  # as that of a Tensor


ADD, SUB, MUL, DIV, POW = op("add"), op("sub"), op("mul"), op("div"), op("pow")
EQ, NE, LT, LE, GT, GE = op("eq"), op("ne"), op("lt"), op("le"), op("gt"), op("ge")
AND, OR, XOR, NOT, NEG, ABS = op("and"), op("or"), op("xor"), op("not"), op("neg"), op("abs")
MAX, MIN, WHERE, MATMUL = op("max"), op("min"), op("where"), op("matmul")
RESHAPE, PERMUTE, SLICE, CAST, SELECT, PAD, FULL, FLOOR = (
    op("reshape"), op("permute"), op("slice"), op("cast"), op("index_select"), op("pad"), op("full"), op("floor"))


def _fail(n: int, *operands: Any) -> BaseException:
    """Returns the error of a call that returned n."""
    return explained(_native.failure(n), *operands)


def explained(e: BaseException, *operands: Any) -> BaseException:
    """Returns the error of a call of operands, of which some may be what it is about."""
    tensors = [x for x in operands if x.__class__ is Tensor]
    for t in tensors:
        if not t._s._id:
            return _native.errors.SessionClosed("ringside: the tensor's session was closed")
        if t._s is not tensors[0]._s:
            return RingsideError(f"ringside: tensors of different sessions: {tensors[0]._s!r} and {t._s!r}")
    if any(f"no such handle: tensor {t._h}," in str(e) for t in tensors):
        return _native.errors.Released(f"{e}: the tensor was released by a scope")
    return e


_new = object.__new__
_turned = _ops.Known()  # what T results in, and the head of its call


def _operator(o: Op, slow: Any) -> Any:
    """Returns the method of a usual operator: slow, of what is known without a call between."""
    two, number = o.of_tt, o.of_ts

    def method(self: Tensor, other: Any) -> Tensor:
        kind = other.__class__
        s = self._s
        if kind is Tensor:
            d = two.get((self._d, other._d))
            if d is None or other._s is not s or not s._plain:
                return slow(o, self, other)
            h = s._next()
            call = pack_tt(o.tt | state.flags, h, self._h, other._h)
        elif kind is float or kind is int and -_EXACT <= other <= _EXACT:
            d = number.get(self._d)  # known beside floats alone, where integers are taken for floats
            if d is None or not s._plain:
                return slow(o, self, other)
            h = s._next()
            call = pack_ts(o.ts | state.flags, h, self._h, other)
        else:
            return slow(o, self, other)
        t = _new(Tensor)
        t._s = s
        t._h = h
        t._d = d
        t.__del__ = partial(s._drop, h)
        s._calls.append(call)
        if not h & 255:
            s._hand()
        return t

    return method


def _unary(o: Op) -> Any:
    """Returns a function of one tensor: _one, of what is known without a call between."""
    known = o.of_t

    def f(x: Any) -> Tensor:
        if x.__class__ is not Tensor:
            return _one(o, x)
        d, s = known.get(x._d), x._s
        if d is None or not s._plain:
            return _one(o, x)
        h = s._next()
        call = pack_t(o.t | state.flags, h, x._h)
        t = _new(Tensor)
        t._s = s
        t._h = h
        t._d = d
        t.__del__ = partial(s._drop, h)
        s._calls.append(call)
        if not h & 255:
            s._hand()
        return t

    return f


_affine = _ops.Known()  # what affine results in, and the head of the call of w.T
_pack_affine = struct.Struct("<qqqqqqqqqqqqq").pack


def affine(x: Any, w: Tensor, b: Tensor) -> Tensor:
    """Returns x @ w.T + b. Where w has two dims, x no fewer, and the result is known, the
    three operations are recorded without tensors of Python for the first two."""
    if x.__class__ is not Tensor:
        return x @ w.T + b
    s, key = x._s, (x._d, w._d, b._d)
    known = _affine.get(key)
    if known is None or not s._plain or w._s is not s or b._s is not s:
        y = x @ w.T + b
        if None not in key and len(w._d[1]) == 2 <= len(x._d[1]):
            _affine.learn(key, (y._describe(), _ops.head(PERMUTE.number, 1, 2)))
        return y
    d, turn = known
    turned, product, h, flags = s._next(), s._next(), s._next(), state.flags
    call = _pack_affine(turn | flags, turned, w._h, 1, 0, MATMUL.tt | flags, product, x._h, turned, ADD.tt | flags, h, product, b._h)
    t = _new(Tensor)
    t._s = s
    t._h = h
    t._d = d
    t.__del__ = partial(s._drop, h)
    # Both lines are done as a whole, as they call no function: see Session._hand.
    s._calls += (call,)
    s._dead += (turned, product)
    if h & 255 < 3:
        s._hand()
    return t


def _record(s: Session, h: int, d: Description, call: bytes) -> Tensor:
    """Records a call ahead, whose result has number h."""
    t = _new(Tensor)
    t._s = s
    t._h = h
    t._d = d
    t.__del__ = partial(s._drop, h)
    s._calls.append(call)
    if s._scopes:
        s._note(t)
    if not h & 255:
        s._hand()
    return t


def _now(s: Session, call: bytes, *operands: Any) -> Tensor:
    """Has the library record a call at once, which may fail."""
    if s._calls or s._batch is not None or len(s._dead) > 1000:
        s._hand()
    return made(s, operands, s._apply, call)


def made(s: Session, operands: Sequence[Any], f: Any, *arguments: Any) -> Any:
    """Calls a function of the library, which returns the number of a new tensor, and returns
    that tensor, or None for number 0. The number is in a list before a handler of a signal
    may raise: then the tensor is dropped."""
    numbers: list[int] = []
    try:
        numbers.extend(map(f, *zip(arguments)))
        if numbers[0] < 0:
            raise _fail(numbers[0], *operands)
        return Tensor(s, numbers[0]) if numbers[0] else None
    except BaseException:
        s._dead.extend(numbers)  # the library passes over numbers that have no tensor
        raise


def made_all(s: Session, numbers: Any, f: Any, *arguments: Any) -> list[Tensor]:
    """Calls a function that writes the numbers of new tensors, as made."""
    try:
        f(*arguments)
        return [Tensor(s, n) for n in numbers]
    except BaseException:
        s._dead.extend(numbers)
        raise


def _tensor(t: Tensor, what: int, other: Any = 0) -> int:
    """Calls ringside_tensor of t and another tensor, a number or None."""
    n = t._s._lib.ringside_tensor(t._s._id, what, t._h, other._h if other.__class__ is Tensor else other or 0)
    if n < 0:
        raise _fail(n, t, other)
    return n


def handle_of(x: Any, what: str) -> int:
    """Returns the number of a tensor."""
    if x.__class__ is not Tensor:
        raise TypeError(f"{what} is {x!r}, expected a tensor")
    return x._h


def one_session(tensors: Iterable[Any]) -> Session:
    """Returns the session of tensors, of which there are some."""
    first = None
    for t in tensors:
        handle_of(t, "one of the tensors")
        first = t if first is None else first
        if t._s is not first._s:
            raise RingsideError(f"ringside: tensors of different sessions: {first._s!r} and {t._s!r}")
    return first._s


def _number(x: Any) -> float:
    """Returns a number as a scalar of an operation."""
    if isinstance(x, int) and not -_EXACT <= x <= _EXACT:
        raise OverflowError(f"{_short(x)}: a scalar beyond 2**53 is not exact; use asarray({_short(x)})")
    return x


def _short(x: int) -> str:
    """Returns an integer as a text, of a large one its bits."""
    return str(x) if x.bit_length() < 128 else f"an integer of {x.bit_length()} bits"


def fit(x: Any, d: DType, what: str) -> Any:
    """Checks that x is a number, and one that dtype d has, when it is cut toward zero; and
    returns it as one of Python."""
    if not isinstance(x, (int, float)):
        if not isinstance(x, numbers.Real) and (not hasattr(x, "dtype") or getattr(x, "ndim", 0)):
            raise TypeError(f"{what} of {x!r}, expected a number")
        x = x.item() if hasattr(x, "item") else float(x)
    if d in dtypes.BOUNDS:
        low, high = dtypes.BOUNDS[d]
        if not low - 1 < x < high + 1:
            raise OverflowError(f"{what} of {_short(x) if isinstance(x, int) else x}: {d} has {low} to {high}")
    return x


def _one(o: Op, x: Tensor) -> Tensor:
    """Records an operation of one tensor."""
    if x.__class__ is not Tensor:
        x = asarray(x)
    s, d = x._s, o.of_t.get(x._d)
    if d is not None and s._ahead:
        h = s._next()
        return _record(s, h, d, pack_t(o.t | state.flags, h, x._h))
    t = _now(s, pack_t(s._id, o.t | state.flags, x._h), x)
    o.of_t.learn(x._describe(), t._describe())
    return t


def _two(o: Op, a: Any, b: Any) -> Tensor:
    """Records an operation of two tensors, or a tensor and a number."""
    if a.__class__ is Tensor:
        s = a._s
        if b.__class__ is Tensor:
            d = o.of_tt.get((a._d, b._d))
            if d is not None and s._ahead and b._s is s:
                h = s._next()
                return _record(s, h, d, pack_tt(o.tt | state.flags, h, a._h, b._h))
            t = _now(s, pack_tt(s._id, o.tt | state.flags, a._h, b._h), a, b)
            o.of_tt.learn((a._describe(), b._describe()), t._describe())
            return t
        if isinstance(b, (int, float)):
            d = o.of_ts.get(a._d)
            if d is None:
                if o is POW and b < 0 and not a.dtype.is_float and not isinstance(b, float):
                    raise ValueError(f"integers to the power of {b}: astype(ringside.float32) first")
                a, b = beside(o, a, b)
                if b.__class__ is Tensor:
                    return _two(o, a, b)
                d = o.of_ts.get((a._d, b.__class__))
            if d is not None and s._ahead:
                h = s._next()
                return _record(s, h, d, pack_ts(o.ts | state.flags, h, a._h, _number(b)))
            t = _now(s, pack_ts(s._id, o.ts | state.flags, a._h, _number(b)), a)
            o.of_ts.learn(a._d if a._describe()[0].is_float else (a._d, b.__class__), t._describe())
            return t
        other = _operand(b, a)
        return NotImplemented if other is None else _two(o, a, other)
    if b.__class__ is Tensor:
        s = b._s
        if isinstance(a, (int, float)):
            b, a = beside(o, b, a)
            if a.__class__ is Tensor:
                return _two(o, a, b)
            d = o.of_st.get((b._d, a.__class__))
            if d is not None and s._ahead:
                h = s._next()
                return _record(s, h, d, pack_st(o.st | state.flags, h, _number(a), b._h))
            t = _now(s, pack_st(s._id, o.st | state.flags, _number(a), b._h), b)
            o.of_st.learn((b._describe(), a.__class__), t._describe())
            return t
        other = _operand(a, b)
        return NotImplemented if other is None else _two(o, other, b)
    return _two(o, asarray(a), b)


def beside(o: Op, t: Tensor, x: float) -> tuple[Tensor, Any]:
    """Returns a tensor and a number that is beside it in an operation, so that the dtype of
    the result does not depend on the number's value: a float beside integers or bools
    makes them float32; an integer must be one of the tensor's dtype; a bool beside bools
    is one. Comparisons are of the values."""
    d = t.dtype
    if d.is_float or o in _COMPARISONS:
        return t, x
    if isinstance(x, float):
        return astype(t, dtypes.float32), x
    if d is dtypes.bool:
        return t, full_like(t, x) if isinstance(x, builtins.bool) else x
    low, high = dtypes.BOUNDS[d]
    if not low <= x <= high:
        raise OverflowError(f"{x} beside {d}, which has {low} to {high}: cast the tensor first")
    return t, x


_COMPARISONS = EQ, NE, LT, LE, GT, GE


def _operand(x: Any, beside: Tensor) -> Tensor | None:
    """Returns an array or number of NumPy, or a list, as a tensor of the same session."""
    if isinstance(x, (list, tuple)) or hasattr(x, "__array__") or hasattr(x, "__dlpack__"):
        return asarray(x, session=beside._s)
    return None


def _as(x: Any, like: Tensor) -> Tensor:
    """Returns x as a tensor of like's session; a number as one of like's dtype and shape."""
    if x.__class__ is Tensor:
        return x
    if isinstance(x, (int, float)):
        return full_like(like, x)
    return asarray(x, like.dtype, session=like._s)


def apply(o: Op | str, *args: Any, ints: Sequence[int] = (), session: Session | None = None) -> Tensor:
    """Records an operation of the op table (docs/ops.md) by name: its tensors and numbers,
    and its integer attributes."""
    if o.__class__ is not Op:
        _ops.load()
        o = op(o)
        if o.number < 0:
            raise RingsideError(f"ringside: there is no operation {o.name!r}; docs/ops.md lists them")
    key: list[Any] = [*ints, None]
    words: list[Any] = []
    s = args[0]._s if args and args[0].__class__ is Tensor else None
    for x in args:
        if x.__class__ is Tensor:
            key.append(x._d)
            words.append(x._h)
            if x._s is not s:
                s = None
        else:
            key.append(x.__class__)
            words.append(x)
    found = None if s is None else o.of_all.get(tuple(key))
    if found is not None and s._ahead:
        d, head, pack = found
        line = _ops.line() if o.fallible else b""
        h = s._next()
        try:
            call = line + pack(head | state.flags, h, *words, *ints)
        except struct.error:
            pass  # attributes that are no integers equal some that are
        else:
            t = _record(s, h, d, call)
            if o.random or o.fallible and not line:
                s._hand()  # at its place, and while its line is under way
            return t
    args, words = _operands(args), []
    s, fmt, numbers, sure = session, "", 0, True
    for i, x in enumerate(args):
        if x.__class__ is Tensor:
            s = s or x._s
            words.append(x._h)
            fmt += "q"
        else:
            if i > 7:
                raise ShapeError(f"{o.name}: argument {i} is a number, expected a tensor")
            numbers |= 1 << i
            words.append(_number(x))
            fmt += "d"
            sure = sure and x.__class__ is float and i > 0
    s = s or current_session()
    if len(args) > 8191 or len(ints) > 255:
        raise ShapeError(f"{o.name} of {len(args)} arguments and {len(ints)} attributes, expected at most 8191 and 255")
    head, form = _ops.head(o.number, len(words), len(ints), numbers), struct.Struct(f"<qq{fmt}{len(ints)}q")
    try:
        call = form.pack(s._id, head | state.flags, *words, *ints)
    except struct.error as e:
        said = ", ".join(f"a tensor of {x.dtype.name} {x.shape}" if x.__class__ is Tensor else repr(x) for x in args)
        raise TypeError(f"{o.name} of {said} with attributes {tuple(ints)}: {e}; expected tensors and numbers, and attributes of 64 bits") from e
    t = _now(s, call, *args)
    if sure and 0 < len(args) < 8 and (not numbers or all_floats(args)):
        key = (*ints, None, *[x._describe() if x.__class__ is Tensor else x.__class__ for x in args])
        o.of_all.learn(key, (t._describe(), head, form.pack))
    return t


def _operands(args: Sequence[Any]) -> Sequence[Any]:
    """Returns arguments with tensors in the place of arrays and lists, of the session of the
    first tensor among them."""
    if all(x.__class__ is Tensor or isinstance(x, (int, float)) for x in args):
        return args
    s = next((x._s for x in args if x.__class__ is Tensor), None)
    return [asarray(x, session=s) if isinstance(x, (list, tuple)) or x.__class__ is not Tensor and getattr(x, "ndim", 0) else x for x in args]


def all_floats(args: Sequence[Any]) -> builtins.bool:
    """Reports whether the tensors among args have floats: then a number beside them changes
    nothing but values."""
    for x in args:
        if x.__class__ is Tensor and not x.dtype.is_float:
            return False
    return True


def dims_of(x: Any) -> tuple[int, ...]:
    """Returns one integer, of Python or NumPy, or several, as a tuple."""
    try:
        return (operator.index(x),)
    except TypeError:
        pass
    try:
        return tuple(map(operator.index, x))
    except TypeError:
        raise TypeError(f"{x!r}: expected an integer or several") from None


def axis_of(i: int, ndim: int) -> int:
    """Returns a dim that may be counted from the end."""
    if not -ndim <= i < ndim:
        raise ShapeError(f"axis {i} of {ndim} dims, expected {-ndim} to {ndim - 1}")
    return i + ndim if i < 0 else i


def asarray(x: Any, dtype: Any = None, *, copy: bool | None = None, session: Session | None = None, requires_grad: bool = False) -> Tensor:
    """Makes a tensor of numbers, lists, an array of NumPy or anything with DLPack, which it
    copies once. Floats of Python become float32, as does dtype=float. A tensor is
    returned as it is, or cast, or with copy=True copied."""
    if x.__class__ is Tensor:
        t = astype(x, x.dtype if dtype is None else dtype, copy=bool(copy))
        return t.requires_grad_() if requires_grad else t
    import numpy as np

    d = None if dtype is None else dtypes.dtype(dtype)
    mine = not hasattr(x, "dtype")  # numbers of Python: those that d lacks are an error
    if not isinstance(x, np.ndarray) and hasattr(x, "__dlpack__") and not hasattr(x, "__array__"):
        t = from_dlpack(x, session=session)
    elif type(x).__module__ == "torch" and str(getattr(x, "dtype", "")) == "torch.bfloat16":
        t = from_dlpack(x, session=session)
    else:
        a = np.asarray(x)
        if d is None and a.dtype == np.float64 and mine:
            d = dtypes.float32
        if mine and d in dtypes.BOUNDS and a.size and a.dtype.kind in "iuf":
            for n in (a.min(), a.max()):  # NaN is both
                fit(n, d, "asarray")
        t = _upload(a, d, session or current_session())
    if d is not None:
        t = astype(t, d, copy=False)
    return t.requires_grad_() if requires_grad else t


def _upload(a: Any, d: DType | None, s: Session) -> Tensor:
    """Uploads an array of NumPy, as d if NumPy has that and casts as astype does."""
    import numpy as np

    if a.dtype == object:
        raise ShapeError("asarray of lists of different lengths, or of objects that are not numbers of at most 64 bits")
    if a.dtype.kind not in "biuf":
        raise DTypeError(f"asarray of {a.dtype}: expected numbers or bools; cast them first")
    if d in dtypes.BOUNDS and a.dtype.kind == "f":  # NumPy's cast of what d lacks differs by processor
        a = a.astype("<f8" if a.itemsize > 4 else "<f4", copy=False)
    elif d is not None and d.typestr:
        a = a.astype(d.typestr, copy=False)
    elif d is not None:
        a = a.astype("<f4", copy=False)
    a = np.asarray(a, order="C")
    if a.dtype.byteorder == ">":
        a = a.astype(a.dtype.newbyteorder("<"))
    return _raw_upload(s, dtypes.dtype(a.dtype), a.ctypes.data, a.nbytes, a.shape, a)


def _raw_upload(s: Session, d: DType, data: int, nbytes: int, shape: Sequence[int], owner: Any) -> Tensor:
    check_alive(s)
    if nbytes > 1 << 16 and s._dead:  # else uploads alone would free nothing
        s._hand()
    t = made(s, (), s._library.ringside_upload, s._id, state.flags, d.number, data, nbytes, _ops.pack(shape), len(shape))
    t._d = describe(d, tuple(shape))
    return t


class _DLTensor(ctypes.Structure):
    _fields_ = [("data", ctypes.c_void_p), ("device", ctypes.c_int32), ("device_id", ctypes.c_int32), ("ndim", ctypes.c_int32),
                ("code", ctypes.c_uint8), ("bits", ctypes.c_uint8), ("lanes", ctypes.c_uint16), ("shape", ctypes.POINTER(ctypes.c_int64)),
                ("strides", ctypes.POINTER(ctypes.c_int64)), ("offset", ctypes.c_uint64)]


class _Managed(ctypes.Structure):
    _fields_ = [("tensor", _DLTensor), ("context", ctypes.c_void_p), ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p))]


class _Versioned(ctypes.Structure):
    _fields_ = [("major", ctypes.c_uint32), ("minor", ctypes.c_uint32), ("context", ctypes.c_void_p),
                ("deleter", ctypes.CFUNCTYPE(None, ctypes.c_void_p)), ("flags", ctypes.c_uint64), ("tensor", _DLTensor)]


def from_dlpack(x: Any, *, session: Session | None = None) -> Tensor:
    """Makes a tensor of anything with DLPack in the host's memory, which it copies."""
    if not hasattr(x, "__dlpack__"):
        raise TypeError(f"from_dlpack of {type(x).__name__}, which has no __dlpack__: use asarray")
    device = x.__dlpack_device__()
    if device[0] not in (1, 3):  # the host's memory, or such that a GPU can read too
        raise BufferError(f"from_dlpack of device {tuple(device)}: copy it to the host first")
    try:
        capsule = x.__dlpack__(max_version=(1, 0))
    except TypeError:  # it is of an older version
        capsule = x.__dlpack__()
    python = ctypes.pythonapi
    for f in python.PyCapsule_IsValid, python.PyCapsule_GetPointer:
        f.argtypes = (ctypes.py_object, ctypes.c_char_p)
    python.PyCapsule_GetPointer.restype = ctypes.c_void_p
    python.PyCapsule_SetName.argtypes = (ctypes.py_object, ctypes.c_char_p)
    kind, name, used = (_Versioned, b"dltensor_versioned", _USED_VERSIONED) if python.PyCapsule_IsValid(capsule, b"dltensor_versioned") else (_Managed, b"dltensor", _USED)
    at = python.PyCapsule_GetPointer(capsule, name)
    if not at:
        raise BufferError("from_dlpack: not a capsule of DLPack")
    m = kind.from_address(at)
    if kind is _Versioned and m.major != 1:
        raise BufferError(f"from_dlpack: version {m.major}.{m.minor}, expected 1")
    python.PyCapsule_SetName(capsule, used)
    try:
        return _taken(m.tensor, session or current_session())
    finally:
        if m.deleter:
            m.deleter(at)


_USED, _USED_VERSIONED = b"used_dltensor", b"used_dltensor_versioned"  # names that capsules keep


def _taken(t: _DLTensor, s: Session) -> Tensor:
    """Copies a tensor of DLPack."""
    import numpy as np

    d = next((d for d in dtypes.ALL if (d.dlpack, d.itemsize * 8) == (t.code, t.bits) and t.lanes == 1), None)
    if d is None:
        raise DTypeError(f"from_dlpack: type code {t.code} of {t.bits} bits and {t.lanes} lanes: cast it first")
    shape = tuple(t.shape[:t.ndim])
    nbytes = math.prod(shape) * d.itemsize
    if not nbytes:
        return _raw_upload(s, d, 0, 0, shape, None)
    strides = [t.strides[i] * d.itemsize for i in range(t.ndim)] if t.strides else None
    if strides is None or all(n == 1 or a == b for n, a, b in zip(shape, strides, _contiguous(shape, d.itemsize))):
        return _raw_upload(s, d, t.data + t.offset, nbytes, shape, None)
    low = sum(min(0, (n - 1) * a) for n, a in zip(shape, strides))
    span = sum(abs((n - 1) * a) for n, a in zip(shape, strides)) + d.itemsize
    raw = (ctypes.c_char * span).from_address(t.data + t.offset + low)
    a = np.ascontiguousarray(np.ndarray(shape, f"V{d.itemsize}", raw, -low, strides))
    return _raw_upload(s, d, a.ctypes.data, nbytes, shape, a)


def _contiguous(shape: Sequence[int], itemsize: int) -> list[int]:
    out, n = [], itemsize
    for d in reversed(shape):
        out.append(n)
        n *= d
    return out[::-1]


for _name, _o in ("add", ADD), ("sub", SUB), ("mul", MUL), ("truediv", DIV):
    setattr(Tensor, f"__{_name}__", _operator(_o, _two))
Tensor.__matmul__ = _operator(MATMUL, lambda o, a, b: matmul(a, b))  # type: ignore[method-assign]


def astype(x: Tensor, dtype: Any, *, copy: bool = True) -> Tensor:
    """Casts to another dtype. A float is cut toward zero and clamped to an integer's range;
    NaN becomes 0. A tensor that has the dtype is copied, unless copy is false."""
    d = dtypes.dtype(dtype)
    if x.dtype is d:
        return reshape(x, x.shape) if copy else x
    return apply(CAST, x, ints=(d.number,))


def full_like(x: Tensor, value: float, dtype: Any = None) -> Tensor:
    """Returns a tensor of x's shape and dtype whose elements are all value."""
    d = x.dtype if dtype is None else dtypes.dtype(dtype)
    return apply(FULL, fit(value, d, "full_like"), ints=(d.number, *x.shape), session=x._s)


def reshape(x: Tensor, shape: int | Sequence[int], *, copy: bool | None = None) -> Tensor:
    """Returns the same elements in another shape. One dim may be -1."""
    dims = dims_of(shape)
    if -1 in dims:
        known = -math.prod(dims)
        if dims.count(-1) > 1 or known <= 0 or x.size % known:
            raise ShapeError(f"reshape of {x.shape} to {dims}: {x.size} elements do not fill it")
        dims = tuple(x.size // known if n == -1 else n for n in dims)
    return apply(RESHAPE, x, ints=dims)


def permute_dims(x: Tensor, axes: Sequence[int]) -> Tensor:
    """Returns the dims in another order: dim i of the result is dim axes[i] of x."""
    return apply(PERMUTE, x, ints=[a if a >= 0 else axis_of(a, x.ndim) for a in axes])


def matmul(x1: Any, x2: Any) -> Tensor:
    """The matrix product [.., m, k] x [.., k, n]; a vector is a row or a column. The dims
    before broadcast."""
    if x1.__class__ is not Tensor or x2.__class__ is not Tensor:
        beside = x1 if x1.__class__ is Tensor else x2 if x2.__class__ is Tensor else asarray(x1)
        x1, x2 = _as(x1, beside) if x1 is not beside else x1, _as(x2, beside) if x2 is not beside else x2
    row, column = x1.ndim == 1, x2.ndim == 1
    if not row and not column or 0 in (x1.ndim, x2.ndim) or x1._s is not x2._s:
        return _two(MATMUL, x1, x2)
    y = matmul(reshape(x1, (1, *x1.shape)) if row else x1, reshape(x2, (*x2.shape, 1)) if column else x2)
    shape = y.shape
    return reshape(y, (*shape[:-2], *(() if row else shape[-2:-1]), *(() if column else shape[-1:])))


def _divided(a: Any, b: Any) -> tuple[Tensor, Tensor]:
    """Returns a // b and a % b, as Python has them. Of integers both are 0 where b is 0. Of
    floats the quotient is computed in float64."""
    t = a if a.__class__ is Tensor else b if b.__class__ is Tensor else asarray(a)
    a, b = (x if x.__class__ is Tensor else asarray(x, session=t._s) if not isinstance(x, (int, float)) else x for x in (a, b))
    d = _two(MUL, a, b).dtype  # of the result; of bools
    if d is dtypes.bool:
        d = dtypes.int64
    a, b = (astype(x, d, copy=False) if x.__class__ is Tensor else full_like(t, x, d) for x in (a, b))
    return _divided_floats(a, b, d) if d.is_float else _divided_ints(a, b, d)


def _divided_ints(a: Tensor, b: Tensor, d: DType) -> tuple[Tensor, Tensor]:
    zero = b == 0
    by = apply(WHERE, zero, 1, b)
    q = full_like(a, 0)
    r = a
    for _ in range(1 if d is dtypes.uint8 else 2):  # a float64 does not have all of int64, nor int32 all quotients
        more = astype(_one(FLOOR, _two(DIV, astype(r, dtypes.float64), astype(by, dtypes.float64))), d)
        q, r = q + more, r - more * by
    if d is dtypes.int64:
        over = (r != 0) & ((r < 0) ^ (by < 0))
        q, r = apply(WHERE, over, q - 1, q), apply(WHERE, over, r + by, r)
    return apply(WHERE, zero, 0, q), apply(WHERE, zero, 0, r)


def _divided_floats(a: Tensor, b: Tensor, d: DType) -> tuple[Tensor, Tensor]:
    a, b = (astype(x, dtypes.float64, copy=False) for x in (a, b))
    plain = a / b
    q = _one(FLOOR, plain.detach())
    product = q * b
    r = a - product
    if d is dtypes.float64:  # of narrower ones the product is exact
        r = r - _rounded_off(q, b.detach(), product.detach())
    over = (r != 0) & ((r < 0) ^ (b < 0))  # the quotient was rounded up to an integer
    q, r = apply(WHERE, over, q - 1.0, q), apply(WHERE, over, r + b, r)
    # by an infinity: 0, and a itself, or -1 and the infinity
    far, apart = (abs(b) == math.inf) & (abs(a) < math.inf), ((a < 0) ^ (b < 0)) & (a != 0)
    q = apply(WHERE, far, apply(WHERE, apart, -1.0, plain.detach()), apply(WHERE, (abs(a) == math.inf) & (b != 0), math.nan, q))
    r = apply(WHERE, far, apply(WHERE, apart, b, a), r)
    zero = apply(WHERE, b < 0, -0.0, full_like(b, 0.0))
    r = apply(WHERE, r == 0, zero + -(r.detach() - r), r)  # with r's gradient
    return astype(q, d, copy=False), astype(r, d, copy=False)


def _rounded_off(x: Tensor, y: Tensor, product: Tensor) -> Tensor:
    """Returns x*y - product, where product is x*y as rounded to float64, without an error
    (Dekker, A floating-point technique for extending the available precision, 1971); 0 where
    a number is infinite."""
    def halves(x: Tensor) -> tuple[Tensor, Tensor]:  # of 26 bits each, so that their products are exact
        scaled = x * 134217729.0  # 2**27 + 1
        high = scaled - (scaled - x)
        return high, x - high

    (xh, xl), (yh, yl) = halves(x), halves(y)
    off = ((xh * yh - product) + xh * yl + xl * yh) + xl * yl
    return apply(WHERE, abs(off) < math.inf, off, 0.0)


def _floor_divide(a: Any, b: Any) -> Tensor:
    return _divided(a, b)[0]


def _remainder(a: Any, b: Any) -> Tensor:
    return _divided(a, b)[1]


# Indexing.

def _plan(shape: tuple[int, ...], key: Any) -> tuple[list[int], list[int], list[int]]:
    """Returns start, step and number of each dim, the shape of the result, and the dims
    that an integer selects."""
    key = key if isinstance(key, tuple) else (key,)
    named = sum(k is not None and k is not Ellipsis and not _truth(k) for k in key)
    dots = sum(k is Ellipsis for k in key)
    if sum(map(_truth, key)) > any(map(_truth, key)) or any(map(_truth, key)) and any(hasattr(k, "__index__") and not _truth(k) for k in key):
        raise IndexOutOfRange("x[...] takes one bool, and no integers beside it")
    if named > len(shape) or dots > 1:
        raise IndexOutOfRange(f"{named} indices and {dots} ellipses for {len(shape)} dims")
    ints: list[int] = []
    out: list[int] = []
    gone: list[int] = []
    dim = 0
    for k in (*key, Ellipsis) if not dots else key:
        if k is None:
            out.append(1)
        elif k is Ellipsis:
            for n in shape[dim:len(shape) - named]:
                ints += (0, 1, n)
                out.append(n)
            dim = max(dim, len(shape) - named)
        elif isinstance(k, slice):
            start, stop, step = k.indices(shape[dim])
            n = len(range(start, stop, step))
            ints += (start if n else 0, step, n)
            out.append(n)
            dim, named = dim + 1, named - 1
        elif _truth(k):
            out.append(1 if k else 0)
        else:
            i = operator.index(k)
            if not -shape[dim] <= i < shape[dim]:
                raise IndexOutOfRange(f"index {i} of dim {dim}, which has size {shape[dim]}")
            ints += (i % shape[dim], 1, 1)
            gone.append(dim)
            dim, named = dim + 1, named - 1
    return ints, out, gone


def _truth(k: Any) -> bool:
    """Reports whether an index is True or False, of Python or NumPy: it makes a dim of 1 or 0."""
    return isinstance(k, builtins.bool) or type(k).__module__ == "numpy" and getattr(k, "ndim", 1) == 0 and k.dtype == "bool"


def _fancy(k: Any) -> bool:
    return isinstance(k, list) or k.__class__ is Tensor and (k.ndim > 0 or k.dtype is dtypes.bool) or hasattr(k, "__array__") and getattr(k, "ndim", 0) > 0


def _index(x: Tensor, key: Any) -> Tensor:
    keys = key if isinstance(key, tuple) else (key,)
    fancy = [i for i, k in enumerate(keys) if _fancy(k)]
    if fancy:
        if len(fancy) > 1 or not all(isinstance(k, slice) and k == slice(None) for k in keys[:fancy[0]]):
            raise IndexOutOfRange("x[...] takes one list or tensor of integers, after `:` alone; use take and take_along_axis for more")
        idx = asarray(keys[fancy[0]], session=x._s)
        if isinstance(keys[fancy[0]], list) and not idx.size:
            idx = astype(idx, dtypes.int64)
        if idx.dtype is dtypes.bool:
            raise DTypeError("x[mask] has a shape that depends on values: use where(mask, x, 0), or x.numpy()[mask]")
        y = apply(SELECT, x, idx, ints=(fancy[0],))
        rest = keys[fancy[0] + 1:]
        return y[(*[slice(None)] * (fancy[0] + idx.ndim), *rest)] if rest else y
    shape = x.shape
    ints, out, _ = _plan(shape, key)
    whole = all(ints[3 * i] == 0 and ints[3 * i + 1] == 1 and ints[3 * i + 2] == n for i, n in enumerate(shape))
    if not whole:
        x = apply(SLICE, x, ints=ints)
    if any(_truth(k) and not k for k in keys):
        x = apply(SLICE, reshape(x, (1, *x.shape)), ints=(0, 1, 0, *(n for d in x.shape for n in (0, 1, d))))
    return x if x.shape == tuple(out) and not (whole and not out) else reshape(x, out)


def _replace(x: Tensor, key: Any, value: Any) -> Tensor:
    """Returns x with a part replaced."""
    if any(_fancy(k) for k in (key if isinstance(key, tuple) else (key,))):
        raise IndexOutOfRange("x[...] = takes integers and slices; use where, index_add or scatter_add")
    ints, out, _ = _plan(x.shape, key)
    if 0 in out:
        return reshape(x, x.shape)
    kept = [ints[i + 2] for i in range(0, len(ints), 3)]
    if any(ints[i + 1] != 1 for i in range(0, len(ints), 3)):
        raise IndexOutOfRange("x[...] = takes slices of step 1; use where with a mask")
    v = astype(_as(value, x), x.dtype) if value.__class__ is Tensor or not isinstance(value, (int, float)) else apply(FULL, fit(value, x.dtype, "x[...] ="), ints=(x.dtype.number,), session=x._s)
    v = reshape(apply("expand", v, ints=out), kept)
    pads = [n for i, size in enumerate(x.shape) for n in (ints[3 * i], size - ints[3 * i] - kept[i])]
    mask = apply(PAD, apply(FULL, 1, ints=(dtypes.bool.number, *kept), session=x._s), 0, ints=pads)
    return apply(WHERE, mask, apply(PAD, v, 0, ints=pads), x)


def grad(loss: Tensor, xs: Tensor | Iterable[Tensor], *, grad_output: Tensor | None = None, retain_graph: bool = False,
         create_graph: bool = False, allow_unused: bool = False) -> Any:
    """Returns the gradients of loss with respect to xs: leaves (requires_grad) or results
    on the way from them. Of a single tensor it returns one, else a list. loss has one
    element, unless grad_output is given. Its graph is freed, unless retain_graph is set.
    With create_graph the gradients can be differentiated too; with allow_unused those of
    tensors that loss does not depend on are zeros."""
    single = xs.__class__ is Tensor
    ts = [xs] if single else list(xs)
    handle_of(loss, "loss")
    s = loss._s
    number, drop = s._next, s._drop
    words = [_ops.GRADIENTS, 3 + 2 * len(ts), loss._h, 0 if grad_output is None else handle_of(grad_output, "grad_output"),
             (1 if retain_graph else 0) | (2 if create_graph else 0) | (4 if allow_unused else 0)]
    gs: list[Tensor] = []
    for t in ts:
        if t.__class__ is not Tensor:
            handle_of(t, "one of xs")
        g = _new(Tensor)
        g._s = s
        g._h = h = number()
        g._d = t._d
        g.__del__ = partial(drop, h)
        gs.append(g)
        words.append(t._h)
        words.append(h)
    if s._scopes:
        for g in gs:
            s._note(g)
    try:
        s._hand_with(_ops.pack(words))
    except RingsideError as e:
        raise explained(e, loss, grad_output, *ts) from None
    return gs[0] if single else gs
