"""Element types. float16 and bfloat16 are for storage: operations compute in float32."""

from __future__ import annotations

import builtins
from typing import Any

from ringside import _native
from ringside.errors import DTypeError

__all__ = ["DType", "bfloat16", "bool", "dtype", "float16", "float32", "float64", "int32", "int64", "uint8"]


def __dir__() -> list[str]:
    return __all__


class DType:
    """The type of a tensor's elements, such as ringside.float32."""

    __slots__ = {
        "name": "its name, such as float32", "number": "the library's number of it", "itemsize": "bytes of an element",
        "format": "its code in struct", "typestr": "its name in NumPy's __array_interface__; empty for bfloat16",
        "dlpack": "its code in DLPack", "is_float": "whether its elements are floats",
    }

    def __init__(self, name: str, number: int, itemsize: int, format: str, typestr: str, dlpack: int):
        self.name, self.number, self.itemsize, self.format, self.typestr, self.dlpack = name, number, itemsize, format, typestr, dlpack
        self.is_float = dlpack in (2, 4)

    def __repr__(self) -> str:
        return "ringside." + self.name

    def __reduce__(self):
        return (dtype, (self.name,))


# The last two: as NumPy's __array_interface__ calls it, and its code in DLPack.
float32 = DType("float32", _native.F32, 4, "f", "<f4", 2)
float64 = DType("float64", _native.F64, 8, "d", "<f8", 2)
int32 = DType("int32", _native.I32, 4, "i", "<i4", 0)
int64 = DType("int64", _native.I64, 8, "q", "<i8", 0)
uint8 = DType("uint8", _native.U8, 1, "B", "|u1", 1)
bool = DType("bool", _native.BOOL, 1, "?", "|b1", 6)
float16 = DType("float16", _native.F16, 2, "e", "<f2", 2)
bfloat16 = DType("bfloat16", _native.BF16, 2, "H", "", 4)

ALL = (float32, float64, int32, int64, uint8, bool, float16, bfloat16)
BOUNDS = {int32: (-(1 << 31), (1 << 31) - 1), int64: (-(1 << 63), (1 << 63) - 1), uint8: (0, 255)}
BY_NUMBER = {d.number: d for d in ALL}
_BY_NAME = {d.name: d for d in ALL}
_BY_TYPE = {builtins.float: float32, builtins.int: int64, builtins.bool: bool}


def dtype(x: Any) -> DType:
    """Returns the DType of a DType, a name, a type of Python, or a dtype of NumPy."""
    if isinstance(x, DType):
        return x
    found = _BY_TYPE.get(x) if isinstance(x, type) else _BY_NAME.get(x) if isinstance(x, str) else None
    if found is None:
        name = getattr(x, "name", None) or getattr(x, "__name__", None) or str(x)
        found = _BY_NAME.get(name.replace("torch.", "").rstrip("_"))
    if found is None:
        raise DTypeError(f"dtype {x!r}: expected one of {', '.join(_BY_NAME)}")
    return found
