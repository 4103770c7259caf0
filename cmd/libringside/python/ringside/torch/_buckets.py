"""Buckets of DistributedDataParallel in memory that the ranks of a host share."""

import ctypes
import os
import sys

import torch
import torch.distributed as dist

from ringside import RingsideError
from ringside import _native as native
from ringside.torch._buffers import bytes_of
from ringside.torch._group import ProcessGroupRingside


def share_buckets(model):
    """Has a DistributedDataParallel sum its buckets in memory that the ranks of this host
    share, so that less is copied: call it once, on all ranks, before the first step. It takes
    the place of a communication hook, and as much memory as the gradients. Gradients have the
    bits that they have without it, but where torch divides by a number of ranks that is no
    power of 2: it multiplies by the inverse, unless gradients are views of buckets."""
    group = model.process_group
    if not isinstance(group, ProcessGroupRingside):
        raise RingsideError(f"ringside: buckets of a model over {dist.get_backend(group)}, expected one over ringside")
    model.register_comm_hook(Buckets(group), _sum_shared)


class Buckets:
    """Memory of a group for the buckets of a model."""

    def __init__(self, group):
        self._group, self._pid, self._at = group, os.getpid(), {}

    def fill(self, bucket):
        """Returns a bucket's share of the mean, in memory of the group."""
        group, t, i = self._group, bucket.buffer(), bucket.index()
        with group._memory:
            group._filling = True
            try:
                if not group._handle:
                    raise RingsideError("ringside: the group of these buckets was closed")
                shared = self._at.get(i)
                if shared is None or shared.numel() != t.numel() or shared.dtype != t.dtype:
                    self._forget(i)
                    shared = self._at[i] = self._made(t)
                return torch.mul(t, 1 / group.size(), out=shared)  # as DDP without a hook
            finally:
                group._filling = False

    def _made(self, like):
        memory, n = ctypes.c_void_p(), bytes_of(like)
        native.check(self._group._library.ringside_memory(self._group._handle, n, ctypes.byref(memory)))
        return torch.frombuffer((ctypes.c_char * n).from_address(memory.value), dtype=like.dtype)

    def _forget(self, i):
        shared = self._at.pop(i, None)
        if shared is not None:
            native.check(self._group._library.ringside_forget(self._group._handle, shared.data_ptr()))

    def __del__(self):
        group = self._group
        if sys.is_finalizing() or os.getpid() != self._pid:
            return
        with group._memory:  # that of a call under way, after an exception, goes with the group
            for i in list(self._at) if group._handle and not group._live else ():
                self._forget(i)


def _sum_shared(buckets, bucket):
    """Is the hook of share_buckets."""
    group, t = buckets._group, bucket.buffer()
    t = t / group.size() if t.is_sparse else buckets.fill(bucket)
    work = group.allreduce([t])
    work._output = t
    if work._taken():
        work._run()
    return work.get_future()
