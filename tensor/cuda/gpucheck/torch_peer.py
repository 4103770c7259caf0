"""Times torch.multiprocessing's hand-off of CUDA tensors and torch's uploads, in the
words of `memory.test latency`; with `fast PART SCALE` what a part of `ringside bench gpu`
times, under the same names. Ends with status 77 where there is no torch with a GPU.
TORCH_DEVICE=cpu tries fast on the cores, without graphs."""

import json
import math
import os
import sys
import time

try:
    import torch
    import torch.multiprocessing as mp
except ImportError:
    sys.exit(77)

COUNT = 500
DEVICE = os.environ.get("TORCH_DEVICE", "cuda")
GPU = DEVICE == "cuda"

# Models whose training steps are timed, as `ringside bench gpu` has them. On the cores it
# is the first.
FORMS = json.loads("""{
    "qwen_t64": {"kind": "qwen", "batch": 2, "vocab": 256, "hidden": 64, "layers": 2, "heads": 4, "kv_heads": 2, "head_dim": 16, "ffn": 192, "seq": 64},
    "qwen_t128": {"kind": "qwen", "batch": 2, "vocab": 1000, "hidden": 128, "layers": 4, "heads": 4, "kv_heads": 2, "head_dim": 32, "ffn": 384, "seq": 64}
}""")


def settle():
    if GPU:
        torch.cuda.synchronize()


def consume(tensors, back):
    for _ in range(COUNT):
        t = tensors.get()
        del t
        back.put(None)


def hand_off():
    tensors, back = mp.Queue(), mp.Queue()
    other = mp.Process(target=consume, args=(tensors, back))
    other.start()
    times = []
    for _ in range(COUNT):
        t = torch.ones(1 << 18, device="cuda")
        torch.cuda.synchronize()
        begin = time.perf_counter()
        tensors.put(t)
        back.get()
        times.append((time.perf_counter() - begin) / 2)
    other.join()
    times.sort()
    print(f"torch hand-off p50 {times[COUNT // 2] * 1e6:.2f} us, p99 {times[COUNT * 99 // 100] * 1e6:.2f} us")


def upload(name, source):
    device = torch.empty_like(source, device="cuda")
    best = float("inf")
    for _ in range(10):
        begin = time.perf_counter()
        device.copy_(source, non_blocking=True)
        torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    print(f"torch upload {name} {source.numel() / best / 1e9:.2f} GB/s")


def timed(f, rounds=9):
    """Returns the median of what f takes, in seconds, with the wait for it."""
    if not GPU:
        rounds = 1
    f()
    times = []
    for _ in range(rounds):
        settle()
        begin = time.perf_counter()
        f()
        settle()
        times.append(time.perf_counter() - begin)
    times.sort()
    return times[len(times) // 2]


def say(name, value, unit):
    print(f"torch {name} {value:.6g} {unit}", flush=True)


def randn(*shape):
    return torch.randn(*shape, device=DEVICE)


def latency(_):
    x, m = randn(16), randn(16, 16)

    def eight():
        z = m
        for _ in range(8):
            z = z.softmax(-1)
        return z

    eight()
    ways = [("launch", lambda: x + 1), ("8 launches", eight), ("scalar read", lambda: x.sum().item())]
    if GPU:
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            eight()
        ways.append(("graph of 8", graph.replay))
    for name, do in ways:
        say(name, timed(do, 500) * 1e6, "us")


def bandwidth(scale):
    rows = max(1, (1 << 30) // 4 // 1024 // scale)
    x, y = randn(rows, 1024), randn(rows, 1024)
    w, b = randn(1024), randn(1024)
    p = torch.nn.Parameter(randn(rows, 1024))
    p.grad = x
    adamw = torch.optim.AdamW([p], lr=1e-3, **({"fused": True} if GPU else {}))
    to = torch.empty_like(x)
    f = torch.nn.functional
    for name, floats, do in [
        ("device copy", 2, lambda: to.copy_(x)),
        ("add", 3, lambda: x + y),
        ("chain of 4", 3, lambda: f.silu(x * y + 1) * 0.5),
        ("softmax", 2, lambda: x.softmax(-1)),
        ("layer norm", 2, lambda: f.layer_norm(x, (1024,), w, b)),
        ("sum", 1, lambda: x.sum(1)),
        ("AdamW", 7, adamw.step),
    ]:
        say(name, floats * rows * 4096 / timed(do) / 1e9, "GB/s")


def products(scale):
    torch.backends.cuda.matmul.allow_tf32 = False
    n = max(16, int(8192 / math.sqrt(scale)))
    for name, kind in [("f32", torch.float32), ("bf16", torch.bfloat16)]:
        a, b = randn(n, n).to(kind), randn(n, n).to(kind)
        say(f"product {name}", 2 * n**3 / timed(lambda: a @ b) / 1e9, "GFLOP/s")


def attention(scale):
    if not hasattr(torch.nn.functional, "scaled_dot_product_attention"):
        print(f"PyTorch {torch.__version__} has no attention of its own")
        return
    s = max(16, int(2048 / math.sqrt(scale)))
    q, k, v = (randn(1, 16, s, 128) for _ in range(3))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    say("attention", 4 * 16 * 128 * s * s / timed(lambda: sdpa(q, k, v, is_causal=True)) / 1e9, "GFLOP/s")


class Training:
    """Steps of one of FORMS, with the first values and the batch of the other side."""

    def __init__(self, form):
        from models import build

        self.model, x, y = build(form)
        self.model.to(DEVICE)
        for name in ("cos", "sin", "mask"):
            setattr(self.model, name, getattr(self.model, name).to(DEVICE))
        self.x, self.y = x.to(DEVICE), y.to(DEVICE)
        # capturable: the optimizer's count of steps lies on the GPU too.
        self.opt = torch.optim.AdamW(self.model.parameters(), lr=1e-3, weight_decay=0.01, capturable=GPU)

    def step(self, model=None):
        self.opt.zero_grad(set_to_none=True)
        loss = (model or self.model)(self.x, self.y)
        loss.backward()
        self.opt.step()
        return loss

    def graph(self):
        """Returns a replay of a step, and its loss."""
        aside = torch.cuda.Stream()
        aside.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(aside):
            for _ in range(3):
                self.step()
        torch.cuda.current_stream().wait_stream(aside)
        graph = torch.cuda.CUDAGraph()
        self.opt.zero_grad(set_to_none=True)
        with torch.cuda.graph(graph):
            loss = self.step()
        return graph, loss


def training(_):
    for name, form in FORMS.items():
        name = f"training step of {name}"
        t = Training(form)
        say(name, timed(lambda: t.step().item(), 50) * 1e3, "ms")
        if not GPU:
            return
        t = Training(form)
        graph, loss = t.graph()
        say(f"{name}, CUDA graph", timed(lambda: (graph.replay(), loss.item()), 50) * 1e3, "ms")
        if os.environ.get("TORCH_COMPILE") != "1":
            continue
        try:
            t = Training(form)
            compiled = torch.compile(t.model)
            say(f"{name}, compiled", timed(lambda: t.step(compiled).item(), 50) * 1e3, "ms")
        except Exception as e:  # no compiler on the machine
            print(f"{name}, compiled: {type(e).__name__}")


if __name__ == "__main__":
    if GPU and not torch.cuda.is_available():
        sys.exit(77)
    if sys.argv[1:2] == ["fast"]:
        parts = {f.__name__: f for f in (latency, bandwidth, products, attention, training)}
        parts[sys.argv[2]](int(sys.argv[3]))
        sys.exit(0)
    mp.set_start_method("spawn")
    hand_off()
    memory = torch.ones(64 << 20, dtype=torch.uint8)
    upload("pinned", memory.pin_memory())
    upload("pageable", memory)
