"""Times torch.multiprocessing's hand-off of CUDA tensors and torch's uploads, in the
words of `memory.test latency`. Ends with status 77 where there is no torch with a GPU."""

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


if __name__ == "__main__":
    if not torch.cuda.is_available():
        sys.exit(77)
    mp.set_start_method("spawn")
    hand_off()
    memory = torch.ones(64 << 20, dtype=torch.uint8)
    upload("pinned", memory.pin_memory())
    upload("pageable", memory)
