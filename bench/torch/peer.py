"""Takes training steps when told to: a JSON object a line on standard input, one a line in reply.

    {"model": NAME, "form": {...}, "opt": "adamw" or "sgd"}     makes a model: {}
    {"drop": NAME}                                              forgets it: {}
    {"steps": N, "model": NAME}                                 takes N steps after one that is not counted: {"ms": [...]}
    {"losses": N, "model": NAME}                                takes N steps: {"losses": [...]}
    {"save": PATH, "model": NAME}                               writes its parameters and the optimizer's state: {}
    {"op": NAME, "sizes": [...], "n": N}                        times one operation: {"ms": [...]}
    {"row": TEXT, "setup": [TEXT, ...], "turn": MS, "most": N}  times an expression on the operands a, b, c that setup makes for MS, N times
                                                                at most: {"ms": [...]}; {"lacks": true} where PyTorch lacks it for the
                                                                dtype, {"error": TEXT} where it fails otherwise
"""
import json
import signal
import struct
import sys
import time
import warnings

import torch
import torch.nn.functional as F

from models import build

warnings.filterwarnings("ignore")
signal.signal(signal.SIGINT, signal.SIG_IGN)  # whoever started this ends it
THREADS = int(sys.argv[1])
torch.set_num_threads(THREADS)

# OpenMP's threads spin for some 15 ms after they have worked, on a core that is the other side's as soon as that hears the reply.
REST = 0.05
ROW_REST = 0.02  # rows are many


class Trainer:
    def __init__(self, form, opt):
        self.model, self.x, self.y = build(form)
        params = list(self.model.parameters())
        if opt == "adamw":
            self.opt = torch.optim.AdamW(params, lr=1e-3, weight_decay=0.01)
        else:
            self.opt = torch.optim.SGD(params, lr=1e-2)

    def step(self):
        if hasattr(self.model, "cache"):
            with torch.no_grad():
                return self.model(self.x, self.y)
        self.opt.zero_grad(set_to_none=True)
        loss = self.model(self.x, self.y)
        loss.backward()
        self.opt.step()
        return loss

    def save(self, path):
        """Writes a safetensors file: parameters by name, and NAME.exp_avg and NAME.exp_avg_sq where there are any."""
        tensors = {}
        for name, p in self.model.named_parameters():
            tensors[name] = p.detach()
            for kind in ("exp_avg", "exp_avg_sq"):
                if self.opt.__class__ is torch.optim.AdamW:
                    state = self.opt.state.get(p, {})
                    tensors[f"{name}.{kind}"] = state.get(kind, torch.zeros_like(p)).detach()
        header, at = {}, 0
        for name, t in tensors.items():
            size = 4 * t.numel()
            header[name] = {"dtype": "F32", "shape": list(t.shape), "data_offsets": [at, at + size]}
            at += size
        text = json.dumps(header).encode()
        with open(path, "wb") as f:
            f.write(struct.pack("<Q", len(text)) + text)
            for t in tensors.values():
                f.write(t.contiguous().numpy().tobytes())


def operation(name, sizes):
    """A function that runs one operation on operands made here."""
    if name == "matmul":
        m, n, k, ta, tb = sizes
        a = torch.rand(k, m).t() if ta else torch.rand(m, k)
        b = torch.rand(n, k).t() if tb else torch.rand(k, n)
        c = torch.empty(m, n)
        return lambda: torch.mm(a, b, out=c)
    n = sizes[0]
    if name == "adamw":
        p = torch.nn.Parameter(torch.randn(n))
        p.grad = torch.randn(n)
        return torch.optim.AdamW([p], lr=1e-3, weight_decay=0.01).step
    if name == "chain":
        x, y, z = torch.rand(n), torch.rand(n), torch.rand(n)
        return lambda: torch.relu((x * y + z - x) * y) + z
    raise ValueError(name)


class Rows:
    """Expressions on operands, of which those that the row before had too are kept."""

    def __init__(self):
        self.text, self.operands, self.call = None, {}, None

    def prepare(self, setup, text):
        """Makes call, a function that evaluates the expression."""
        keys = list(enumerate(setup))
        if self.text == (keys, text):
            return
        self.text, self.call = None, None
        self.operands = {k: v for k, v in self.operands.items() if k in keys}
        names = {"torch": torch, "F": F}
        for i, made in keys:
            if (i, made) not in self.operands:
                self.operands[i, made] = eval(made, names)
        names.update({"abc"[i]: self.operands[i, made] for i, made in keys})
        self.call, self.text = eval("lambda: " + text, names), (keys, text)

    def ask(self, ask):
        try:
            with torch.no_grad():
                self.prepare(ask["setup"], ask["row"])
                self.call()  # not counted, as in main
                first = timed(self.call, 1)[0]
                n = min(max(int(ask["turn"] / max(first, 1e-3)), 1), ask["most"])
                return {"ms": timed(self.call, n)}
        except Exception as e:  # of any kind: the next row is another one
            if "not implemented for" in str(e):
                return {"lacks": True}
            return {"error": (str(e).strip() or type(e).__name__).splitlines()[0]}


def timed(f, n):
    out = []
    for _ in range(n):
        start = time.perf_counter()
        f()
        out.append((time.perf_counter() - start) * 1e3)
    return out


def main():
    trainers, operations, rows = {}, {}, Rows()
    for line in sys.stdin:
        ask, reply, rest = json.loads(line), {}, REST
        if "form" in ask:
            trainers[ask["model"]] = Trainer(ask["form"], ask["opt"])
        elif "steps" in ask:
            step = trainers[ask["model"]].step
            step()  # not counted, as below
            reply["ms"] = timed(step, ask["steps"])
        elif "losses" in ask:
            t = trainers[ask["model"]]
            reply["losses"] = [float(t.step()) for _ in range(ask["losses"])]
        elif "save" in ask:
            trainers[ask["model"]].save(ask["save"])
        elif "op" in ask:
            key = (ask["op"], *ask["sizes"])
            if key not in operations:
                operations[key] = operation(ask["op"], ask["sizes"])
            with torch.no_grad():
                operations[key]()  # not counted: it brings its operands and threads back to the cores
                reply["ms"] = timed(operations[key], ask["n"])
        elif "row" in ask:
            reply, rest = rows.ask(ask), ROW_REST
        elif "drop" in ask:
            del trainers[ask["drop"]]
        if THREADS > 1:
            time.sleep(rest)
        print(json.dumps(reply), flush=True)


main()
