"""The back end "ringside" of torch.distributed, for tensors in the memory of the host:

    import ringside.torch
    torch.distributed.init_process_group("ringside")

Ranks find each other through torch's own store. A call of at most INLINE bytes that is
waited for at once runs on its caller's thread, as do buckets of DDP of that size; the
others run beside it, so that async_op=True and DDP's larger buckets overlap with what the
caller does meanwhile."""

import torch.distributed as _dist

from ringside.torch import _replace  # noqa: F401 it puts functions into torch.distributed
from ringside.torch._buckets import share_buckets
from ringside.torch._group import INLINE, ProcessGroupRingside

__all__ = ["INLINE", "ProcessGroupRingside", "share_buckets"]

if not hasattr(_dist.Backend, "RINGSIDE"):
    _dist.Backend.register_backend("ringside", ProcessGroupRingside)
