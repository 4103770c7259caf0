"""Functions that take the place of those of torch.distributed that know its own back ends
alone."""

import functools

import torch
import torch.distributed as dist

from ringside.torch._group import ProcessGroupRingside, groups


def _replace(name):
    """Makes the function that it decorates, whose first argument is torch's, take the place
    of one of torch.distributed that knows torch's own back ends alone."""
    def decorate(f):
        torchs = getattr(dist.distributed_c10d, name)
        new = functools.wraps(torchs)(functools.partial(f, torchs))
        setattr(dist.distributed_c10d, name, new)
        setattr(dist, name, new)
    return decorate


@_replace("all_reduce")
def _all_reduce(torchs, tensor, op=dist.ReduceOp.SUM, group=None, async_op=False):
    """All-reduces as torch's, which makes options and a work: of a small call that is waited
    for they take longer than the call."""
    g = dist.GroupMember.WORLD if group is None else group
    if async_op or g.__class__ is not ProcessGroupRingside or not isinstance(tensor, torch.Tensor) or not g._reduce_now(tensor, op):
        return torchs(tensor, op, group, async_op)


@_replace("destroy_process_group")
def _destroy(torchs, group=None):
    everything = group is None or group is dist.GroupMember.WORLD
    for g in list(groups) if everything else [group]:
        if isinstance(g, ProcessGroupRingside):
            g.close()
    torchs(group)


@_replace("monitored_barrier")
def _monitored_barrier(torchs, group=dist.GroupMember.WORLD, timeout=None, wait_all_ranks=False):
    g = dist.GroupMember.WORLD if group is None else group
    if isinstance(g, ProcessGroupRingside):
        g.monitored_barrier(timeout, wait_all_ranks)
    else:
        torchs(group, timeout, wait_all_ranks)
