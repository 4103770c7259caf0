"""Times collectives of PyTorch's Gloo by the loop of collective.c, which has the form of cases and of what is printed.

    python3 gloo.py RANK RANKS STORE BUDGET_MS CASE...

STORE is a file that does not exist, or tcp://host:port of rank 0; the network interface comes by GLOO_SOCKET_IFNAME.
"""
import os
import sys
import time

import torch
import torch.distributed as dist

SMALL = 8192
rank, ranks, store, budget = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], float(sys.argv[4]) * 1e-3
torch.set_num_threads(1)
dist.init_process_group("gloo", init_method=store if store.startswith("tcp:") else "file://" + store, rank=rank, world_size=ranks)


def worst(x):
    t = torch.tensor([x], dtype=torch.float64)
    dist.all_reduce(t, op=dist.ReduceOp.MAX)
    return t.item()


def value(n, r):
    return (torch.arange(n) % 29 + r).to(torch.float32)


def measure(op, size):
    n = size // 4
    each = n // ranks
    x = torch.zeros(each if op == "allgather" else n)
    parts = [torch.zeros(each) for _ in range(ranks)] if op == "allgather" else None

    def call():
        if op == "allreduce":
            dist.all_reduce(x)
        elif op == "broadcast":
            dist.broadcast(x, 0)
        elif op == "allgather":
            dist.all_gather(parts, x)
        else:
            dist.barrier()

    bad = 0
    if op == "allreduce":
        x.copy_(value(n, rank))
        call()
        bad = (x != sum(value(n, r) for r in range(ranks))).sum().item()
    elif op == "broadcast":
        x.copy_(value(n, 0) if rank == 0 else torch.full((n,), -1.0))
        call()
        bad = (x != value(n, 0)).sum().item()
    elif op == "allgather":
        x.copy_(value(each, rank))
        call()
        bad = sum((parts[r] != value(each, r)).sum().item() for r in range(ranks))
    bad = worst(bad)
    within = size <= SMALL and op != "broadcast"
    calls, took = 3, 0.0
    for last in False, True:
        dist.barrier()
        took, start = 0.0, time.perf_counter()
        for _ in range(calls):
            if op != "barrier" and (op != "broadcast" or rank == 0):
                x.zero_()
            if within:
                call()
                continue
            dist.barrier()
            t = time.perf_counter()
            call()
            took += time.perf_counter() - t
        if within:
            took = time.perf_counter() - start
        took = worst(took / calls)
        if not last:
            calls = max(3, min(50000, int(budget / took)))
    if rank == 0:
        print(f"{took * 1e6:.4f} {bad:.0f} {calls}", flush=True)


for case in sys.argv[5:]:
    name, dtype, length, _ = case.split(":")
    if dtype != "f32" or name == "reducescatter":
        sys.exit(f"{case}: Gloo has no such collective")
    measure(name, int(length))
dist.barrier()
sys.stdout.flush()
os._exit(0)  # at the end of the interpreter Gloo's threads abort it now and then
