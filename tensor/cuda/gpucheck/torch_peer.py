"""Times torch.multiprocessing's hand-off of CUDA tensors and torch's uploads, in the
words of `memory.test latency`; with `fast SCALE` what `ringside bench gpu` times, under
the same names. Ends with status 77 where there is no torch with a GPU."""

import math
import sys
import time

try:
    import torch
    import torch.multiprocessing as mp
except ImportError:
    sys.exit(77)

COUNT = 500


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
    f()
    times = []
    for _ in range(rounds):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        f()
        torch.cuda.synchronize()
        times.append(time.perf_counter() - begin)
    times.sort()
    return times[len(times) // 2]


def say(name, value, unit):
    print(f"torch {name} {value:.6g} {unit}", flush=True)


def bandwidth(scale):
    rows = max(1, (1 << 30) // 4 // 1024 // scale)
    x, y = torch.randn(rows, 1024, device="cuda"), torch.randn(rows, 1024, device="cuda")
    w, b = torch.randn(1024, device="cuda"), torch.randn(1024, device="cuda")
    p = torch.nn.Parameter(torch.randn(rows, 1024, device="cuda"))
    p.grad = x
    adamw = torch.optim.AdamW([p], lr=1e-3, fused=True)
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


def compute(scale):
    torch.backends.cuda.matmul.allow_tf32 = False
    n = max(16, int(8192 / math.sqrt(scale)))
    for name, kind in [("f32", torch.float32), ("bf16", torch.bfloat16)]:
        a, b = torch.randn(n, n, device="cuda", dtype=kind), torch.randn(n, n, device="cuda", dtype=kind)
        say(f"product {name}", 2 * n**3 / timed(lambda: a @ b) / 1e9, "GFLOP/s")
    s = max(16, int(2048 / math.sqrt(scale)))
    q, k, v = (torch.randn(1, 16, s, 128, device="cuda") for _ in range(3))
    sdpa = torch.nn.functional.scaled_dot_product_attention
    say("attention", 4 * 16 * 128 * s * s / timed(lambda: sdpa(q, k, v, is_causal=True)) / 1e9, "GFLOP/s")


def latency():
    x, m = torch.randn(16, device="cuda"), torch.randn(16, 16, device="cuda")

    def eight():
        z = m
        for _ in range(8):
            z = z.softmax(-1)
        return z

    eight()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        eight()
    for name, do in [("launch", lambda: x + 1), ("graph of 8", graph.replay), ("8 launches", eight), ("scalar read", lambda: x.sum().item())]:
        say(name, timed(do, 500) * 1e6, "us")


def training():
    """Steps of a decoder of the size of qwen_t64: eager, compiled, and as a CUDA graph."""
    torch.manual_seed(1)
    layer = torch.nn.TransformerEncoderLayer(64, 4, 192, dropout=0.0, batch_first=True, norm_first=True)
    net = torch.nn.Sequential(
        torch.nn.Embedding(256, 64), torch.nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.nn.Linear(64, 256)
    ).cuda()
    opt = torch.optim.AdamW(net.parameters(), lr=1e-3, capturable=True)
    x, y = (torch.randint(256, (2, 64), device="cuda") for _ in range(2))

    def step(model):
        opt.zero_grad(set_to_none=True)
        loss = torch.nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        loss.backward()
        opt.step()
        return loss

    say("training step, eager", timed(lambda: step(net).item(), 50) * 1e3, "ms")
    aside = torch.cuda.Stream()
    aside.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(aside):
        for _ in range(3):
            step(net)
    torch.cuda.current_stream().wait_stream(aside)
    graph = torch.cuda.CUDAGraph()
    opt.zero_grad(set_to_none=True)
    with torch.cuda.graph(graph):
        loss = step(net)
    say("training step, CUDA graph", timed(lambda: (graph.replay(), loss.item()), 50) * 1e3, "ms")
    try:
        compiled = torch.compile(net)
        say("training step, compiled", timed(lambda: step(compiled).item(), 50) * 1e3, "ms")
    except Exception as e:  # no compiler on the machine
        print(f"torch training step, compiled: {type(e).__name__}")


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit(77)
    if len(sys.argv) > 2 and sys.argv[1] == "fast":
        latency()
        bandwidth(int(sys.argv[2]))
        compute(int(sys.argv[2]))
        training()
        sys.exit(0)
    mp.set_start_method("spawn")
    hand_off()
    memory = torch.ones(64 << 20, dtype=torch.uint8)
    upload("pinned", memory.pin_memory())
    upload("pageable", memory)
