"""Tensors of torch as the library takes them: bytes that lie in order, and counts by rank."""

import ctypes
import operator

import torch

from ringside import RingsideError


def check_dense(t):
    """Checks that t is a dense tensor in the memory of the host."""
    if t.layout is not torch.strided or not t.is_cpu:
        raise RingsideError(f"ringside: a tensor of layout {t.layout} on {t.device}, expected a dense one on cpu")


def dense(t):
    """Returns t, or a copy of it, with its elements in order in memory."""
    check_dense(t)
    t = t.detach()
    if t.is_conj() or t.is_neg():
        t = t.resolve_conj().resolve_neg()
    return t.contiguous()


def in_place(t):
    """Reports whether a result can be written to t's memory: its elements lie there in order
    and as they are."""
    return t.is_contiguous() and not (t.is_conj() or t.is_neg())


def bytes_of(t):
    """Returns how many bytes the elements of t are."""
    return t.numel() * t.element_size()


def flat_of(tensors):
    """Returns a dense tensor of the bytes of tensors, one after the other."""
    if len(tensors) == 1:
        return dense(tensors[0])
    return torch.cat([dense(t).reshape(-1).view(torch.uint8) for t in tensors])


def put_back(flat, tensors):
    """Copies the bytes of flat into tensors, one after the other."""
    at, flat = 0, flat.view(torch.uint8)
    for t in tensors:
        n = bytes_of(t)
        part = flat[at:at + n]
        if at % t.element_size():
            part = part.clone()  # where elements of t are aligned
        t.detach().copy_(part.view(t.dtype).view(t.shape))
        at += n


def one_type(tensors):
    """Checks that a call has tensors, and that their elements are of one type."""
    if not tensors:
        raise RingsideError("ringside: a call of no tensors, expected at least one")
    for i, t in enumerate(tensors):
        if t.dtype != tensors[0].dtype:
            raise RingsideError(f"ringside: tensor {i} of the call is of {t.dtype}, expected {tensors[0].dtype} as the first")


def integer(x):
    """Returns an integer, of Python or NumPy; None for another value."""
    try:
        return operator.index(x)
    except TypeError:
        return None


def tag_of(tag):
    """Returns a tag of a send or receive, which torch has as a C int."""
    n = integer(tag)
    if n is None or not 0 <= n < 1 << 31:
        raise RingsideError(f"ringside: tag {tag!r}, expected an integer of 0 to 2147483647 (2**31 - 1)")
    return n


def address(numbers):
    """Returns where counts lie in memory; 0 for None."""
    return 0 if numbers is None else ctypes.addressof(numbers)


def counts_of(numbers):
    """Returns numbers by rank for the library; None for None."""
    numbers = None if numbers is None else list(numbers)
    return None if numbers is None else (ctypes.c_int64 * len(numbers))(*numbers)
