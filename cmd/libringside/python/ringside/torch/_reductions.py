"""Reductions of torch and element types, as the library numbers them."""

import torch
import torch.distributed as dist

from ringside import RingsideError
from ringside import _native as native

FOLDED = {
    torch.float32: native.F32, torch.float64: native.F64, torch.float16: native.F16, torch.bfloat16: native.BF16,
    torch.int32: native.I32, torch.int64: native.I64, torch.uint8: native.U8, torch.bool: native.U8,
}
# Types that are reduced as they are: the library's number, and bytes.
PLAIN = {dtype: (number, torch.empty(0, dtype=dtype).element_size()) for dtype, number in FOLDED.items() if dtype != torch.bool}
WIDER = {torch.int8: torch.int32, torch.int16: torch.int32}  # integers wrap alike in both
_REDUCTIONS = (
    (dist.ReduceOp.SUM, native.SUM), (dist.ReduceOp.PRODUCT, native.PROD), (dist.ReduceOp.MIN, native.MIN),
    (dist.ReduceOp.MAX, native.MAX), (dist.ReduceOp.BAND, native.AND), (dist.ReduceOp.BOR, native.OR),
    (dist.ReduceOp.BXOR, native.XOR), (dist.ReduceOp.AVG, native.MEAN))
# By hash, which is torch's own number of a reduction: to compare two takes much longer. And by
# identity, which takes less: callers name the objects that the class has.
_OPS = {hash(op): number for op, number in _REDUCTIONS}
NAMED = {id(op): number for op, number in _REDUCTIONS}
# Of bytes that are 0 or 1, so that a result is 0 or 1 too.
OF_BOOL = {native.SUM: native.MAX, native.OR: native.MAX, native.PROD: native.MIN, native.AND: native.MIN,
           native.MIN: native.MIN, native.MAX: native.MAX, native.XOR: native.XOR}


def reduction(op):
    """Returns the library's number of a reduction of torch."""
    number = _OPS.get(hash(op))
    if number is None:
        raise RingsideError("ringside: a premultiplied sum, expected another reduction")
    return number


def moved_as(tensors):
    """Returns the library's number and the bytes of the elements that a call moves, so that
    ranks whose types differ get an error. Of types that the library lacks it is bytes."""
    kinds = {t.dtype for t in tensors}
    return PLAIN.get(kinds.pop(), (native.U8, 1)) if len(kinds) == 1 else (native.U8, 1)
