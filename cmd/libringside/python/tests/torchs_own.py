"""Runs torch's own tests of torch.distributed, which Debian's python3-torch has, over
ringside in the place of gloo:

    python3 torchs_own.py all
    python3 torchs_own.py run gloo|ringside SIZE OUT.json [TEST...]
    python3 torchs_own.py compare GLOO.json RINGSIDE.json

all runs and compares all tests with 2 and with 4 ranks. run writes how each test ended:
passed, skipped, failed or hung. compare fails if a test
that passes over gloo does not over ringside, less those of EXPECTED, if ringside skips one
that gloo does not, and if any hangs. The tests take gloo's branch wherever they have one:
torch.distributed makes a ringside group whenever it is told to make one of gloo."""

import contextlib
import io
import json
import os
import subprocess
import sys
import tempfile
import time
import types
import unittest

# What differs, with the reason. None is skipped: each is run, and must fail.
_PROFILER = "it looks for asynchronous events with the shapes of inputs, which torch's own back ends alone can make, in C++"
EXPECTED = {
    "test_ddp_logging_data_cpu": "it looks for the name gloo and the number of gloo's threads",
    "test_isend_autograd_profiler": _PROFILER,
    "test_isend_torch_profiler": _PROFILER,
    "test_send_recv_any_source_autograd_profiler": _PROFILER,
    "test_send_recv_any_source_torch_profiler": _PROFILER,
    "test_send_recv_autograd_profiler": _PROFILER,
    "test_send_recv_torch_profiler": _PROFILER,
    "test_send_recv_with_tag_autograd_profiler": _PROFILER,
    "test_send_recv_with_tag_torch_profiler": _PROFILER,
}

HUNG = 150  # seconds that a test may take
GROUP = 60  # seconds that a rank may keep others waiting


def load(backend, size, folder):
    """Returns the class of torch's tests, whose ranks are forked from this process."""
    os.environ.update(BACKEND="gloo", WORLD_SIZE=str(size), TEMP_DIR=folder, MASTER_ADDR="127.0.0.1",
                      DISTRIBUTED_TESTS_DEFAULT_TIMEOUT=str(HUNG), GLOO_SOCKET_IFNAME="lo", OMP_NUM_THREADS="1")
    for name in ("barrier", "test_dir", "init_dir"):
        os.makedirs(os.path.join(folder, name), exist_ok=True)
    try:
        import expecttest  # noqa: F401
    except ImportError:  # what torch's tests need of it
        sys.modules["expecttest"] = types.SimpleNamespace(TestCase=unittest.TestCase, ACCEPT=False)
    import torch
    import torch.nn.parallel._replicated_tensor_ddp_utils as replicated

    torch.set_num_threads(1)
    replicated._set_ddp_with_replicated_tensor = lambda on: None  # torch 1.13's breaks on Python 3.11
    if backend == "ringside":
        import torch.distributed.distributed_c10d as c10d

        from ringside.torch import ProcessGroupRingside

        # Its name stays ringside: torch's C++ takes a group of the name gloo for one of gloo's.
        torch.distributed.ProcessGroupGloo = c10d.ProcessGroupGloo = ProcessGroupRingside
        # Torch wraps only its own back ends for TORCH_DISTRIBUTED_DEBUG=DETAIL.
        c10d._create_process_group_wrapper = lambda wrapped_pg, **_: wrapped_pg
    from torch.testing._internal.distributed import distributed_test as theirs

    theirs.default_pg_timeout = GROUP
    if backend == "ringside":
        theirs.PROFILING_SUPPORTED_BACKENDS = []  # its calls are no events of torch's profiler

    class TestRanks(theirs.TestDistBackend, theirs.DistributedTest._DistTestBase):
        def setUp(self):
            super().setUp()
            self._start_processes(torch.multiprocessing.get_context("fork").Process)

    return TestRanks


def run(backend, size, out, names):
    with tempfile.TemporaryDirectory(prefix="ringside-torch-") as folder:
        run_in(folder, backend, size, out, names)


def run_in(folder, backend, size, out, names):
    cases = load(backend, size, folder)
    outcomes = {}
    for name in names or sorted(n for n in dir(cases) if n.startswith("test_")):
        result, text, began = unittest.TestResult(), io.StringIO(), time.monotonic()
        with contextlib.redirect_stdout(text):
            cases(name).run(result)
        took = time.monotonic() - began
        bad = "".join(trace for _, trace in result.failures + result.errors)
        if "timed out" in bad and took >= HUNG:
            outcome = "hung"
        elif bad:
            outcome = "failed"
        elif result.skipped:
            outcome, bad = "skipped", result.skipped[0][1]
        else:
            outcome = "passed"
        outcomes[name] = {"outcome": outcome, "seconds": round(took, 1), "why": bad[-3000:]}
        print(f"{backend} {size} {name}: {outcome} {took:.1f} s", flush=True)
        with open(out, "w") as f:
            json.dump(outcomes, f, indent=1)


def compare(gloo, ringside):
    """Prints what differs and returns whether all is in order."""
    bad, counts = [], {}
    for name, theirs in gloo.items():
        ours = ringside[name]["outcome"] if name in ringside else "missing"
        pair = theirs["outcome"], ours
        counts[pair] = counts.get(pair, 0) + 1
        if name in EXPECTED:
            if ours not in ("failed", theirs["outcome"]):
                bad.append(f"{name}: {ours}, expected to fail")
            if ours == "passed":
                bad.append(f"{name} passes: remove it from EXPECTED")
        elif ours in ("hung", "missing") or ours != "passed" and theirs["outcome"] == "passed" or \
                ours == "skipped" and theirs["outcome"] != "skipped":
            bad.append(f"{name}: {theirs['outcome']} over gloo, {ours} over ringside")
    for (theirs, ours), n in sorted(counts.items()):
        print(f"{n} tests {theirs} over gloo and {ours} over ringside")
    print("\n".join(bad) or "nothing differs")
    return not bad


def apart(backend, size, out, names=()):
    """Runs the tests in a process of their own, whose log goes beside out."""
    with open(f"{out}.log", "w") as log:
        subprocess.run([sys.executable, "-B", __file__, "run", backend, str(size), out, *names], check=True,
                       stdout=log, stderr=subprocess.STDOUT)


def files(*paths):
    """Returns the contents of files that run wrote."""
    out = []
    for path in paths:
        with open(path) as f:
            out.append(json.load(f))
    return out


def everything():
    good = True
    with tempfile.TemporaryDirectory(prefix="ringside-torch-") as folder:
        for size in (2, 4):
            paths = [os.path.join(folder, f"{backend}.{size}") for backend in ("gloo", "ringside")]
            for backend, path in zip(("gloo", "ringside"), paths):
                apart(backend, size, path)
            print(f"{size} ranks:")
            sides = files(*paths)
            good = compare(*sides) and good
            for name, end in sides[1].items():
                if end["outcome"] in ("failed", "hung") and sides[0][name]["outcome"] == "passed":
                    print(f"{name}: {end['why']}")
    return good


if __name__ == "__main__":
    if sys.argv[1] == "all":
        sys.exit(not everything())
    if sys.argv[1] == "run":
        run(sys.argv[2], int(sys.argv[3]), sys.argv[4], sys.argv[5:])
    else:
        sys.exit(not compare(*files(*sys.argv[2:4])))
