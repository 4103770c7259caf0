"""One rank of a data-parallel training with DistributedDataParallel over Gloo: RANK WORLD STORE, a file that the ranks meet in.

Every rank is told the same, a JSON object a line on standard input, and replies with one a line:

    {"model": NAME, "form": {...}, "opt": "adamw" or "sgd"}     makes a model; the rank has its part of the batch: {}
    {"drop": NAME}                                              forgets it: {}
    {"steps": N, "model": NAME}                                 takes N steps: {"ms": [what one took on average]}
    {"losses": N, "model": NAME}                                the same and says {"losses": [...]} of its part
"""
import json
import sys
import time
import warnings

import torch
import torch.distributed as dist
from torch.nn.parallel import DistributedDataParallel

from models import build

warnings.filterwarnings("ignore")
torch.set_num_threads(1)
RANK, WORLD = int(sys.argv[1]), int(sys.argv[2])


class Trainer:
    def __init__(self, form, opt):
        model, x, y = build(form)
        self.x, self.y = x.chunk(WORLD)[RANK].contiguous(), y.chunk(WORLD)[RANK].contiguous()
        self.model = DistributedDataParallel(model)
        if opt == "adamw":
            self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01)
        else:
            self.opt = torch.optim.SGD(self.model.parameters(), lr=1e-2)

    def step(self):
        self.opt.zero_grad(set_to_none=True)
        loss = self.model(self.x, self.y)
        loss.backward()
        self.opt.step()
        return loss


def main():
    dist.init_process_group("gloo", init_method="file://" + sys.argv[3], rank=RANK, world_size=WORLD)
    trainers = {}
    for line in sys.stdin:
        ask, reply = json.loads(line), {}
        if "form" in ask:
            trainers[ask["model"]] = Trainer(ask["form"], ask["opt"])
        elif "steps" in ask:
            t, start = trainers[ask["model"]], time.perf_counter()
            for _ in range(ask["steps"]):
                t.step()
            reply["ms"] = [(time.perf_counter() - start) * 1e3 / ask["steps"]]
        elif "losses" in ask:
            t = trainers[ask["model"]]
            reply["losses"] = [float(t.step()) for _ in range(ask["losses"])]
        elif "drop" in ask:
            del trainers[ask["drop"]]
        print(json.dumps(reply), flush=True)


main()
