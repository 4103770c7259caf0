"""One rank of a group of torch.distributed: RANK WORLD STORE BACKEND, STORE a file that the ranks meet in.

Every rank is told the same, a JSON object a line on standard input, and replies with one a line:

    {"bytes": B, "n": N}    all-reduces B bytes of float32 N times: {"ms": [what one took on average]}
    {"steps": N}            takes N steps of a DDP training: {"ms": [what one took on average]}
"""
import json
import sys
import time
import warnings

import torch
import torch.distributed as dist

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
RANK, WORLD, STORE, BACKEND = int(sys.argv[1]), int(sys.argv[2]), sys.argv[3], sys.argv[4]
if BACKEND == "ringside":
    import ringside.torch


class Trainer:
    """MLP 784-128-128-10, batch 32 a rank, SGD."""

    def __init__(self):
        torch.manual_seed(1)
        layers = torch.nn.Sequential(torch.nn.Linear(784, 128), torch.nn.ReLU(), torch.nn.Linear(128, 128),
                                     torch.nn.ReLU(), torch.nn.Linear(128, 10))
        self.model = torch.nn.parallel.DistributedDataParallel(layers)
        self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-2)
        self.loss = torch.nn.CrossEntropyLoss()
        self.x, self.y = torch.rand(32, 784), torch.randint(0, 10, (32,))

    def step(self):
        self.opt.zero_grad(set_to_none=True)
        self.loss(self.model(self.x), self.y).backward()
        self.opt.step()


def timed(n, f):
    dist.barrier()
    start = time.perf_counter()
    for _ in range(n):
        f()
    return [(time.perf_counter() - start) * 1e3 / n]


def main():
    dist.init_process_group(BACKEND, init_method="file://" + STORE, rank=RANK, world_size=WORLD)
    trainer = Trainer()
    for line in sys.stdin:
        ask = json.loads(line)
        if "bytes" in ask:
            x = torch.zeros(ask["bytes"] // 4)
            ms = timed(ask["n"], lambda: dist.all_reduce(x))
        else:
            ms = timed(ask["steps"], trainer.step)
        print(json.dumps({"ms": ms}), flush=True)


main()
