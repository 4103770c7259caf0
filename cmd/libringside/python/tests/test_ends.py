"""Clients of a worker that end while it runs a program of hours for them."""

import signal
import subprocess
import sys
import textwrap
import time

import pytest

import ringside as rs

PATIENCE = 60  # seconds, only against hangs

CLIENT = """
    import functools, sys, time, ringside as rs
    from ringside import _native as native

    def announced(call, *arguments):
        print("waits", flush=True)
        return call(*arguments)

    with rs.session(sys.argv[1]):
        y = rs.ones((1, 1)).broadcast_to((1 << 22, 1 << 22)).sum()
        rs.flush()
        library = native.library()
        for name in "ringside_item", "ringside_read", "ringside_view", "ringside_flush", "ringside_record":
            setattr(library, name, functools.partial(announced, getattr(library, name)))
        try:
            {read}
        except KeyboardInterrupt:
            print(time.time(), flush=True)
            raise
    """


@pytest.mark.parametrize("read", ["y.item()", "y.numpy()", "rs.flush(wait=True)", "(y + 1).tolist()"])
@pytest.mark.parametrize("end", [signal.SIGINT, signal.SIGKILL])
def test_end_of_a_client(end, read):
    """The client's wait ends with KeyboardInterrupt, or the client is killed. The worker is
    free for others."""
    with rs.cluster(workers=1) as c, rs.session(c.addr):
        assert rs.ones(3).sum().item() == 3
        program = textwrap.dedent(CLIENT).format(read=read)
        p = subprocess.Popen([sys.executable, "-B", "-c", program, c.addr], stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        try:
            assert p.stdout.readline() == "waits\n", p.stderr.read()
            sent = time.time()
            p.send_signal(end)
            if end == signal.SIGINT:
                print(f"KeyboardInterrupt after {1e3 * (float(p.stdout.readlines()[-1]) - sent):.1f} ms")
            assert rs.ones(4).sum().item() == 4
            print(f"the worker is free after {1e3 * (time.time() - sent):.1f} ms")
            assert "KeyboardInterrupt" in p.communicate(timeout=PATIENCE)[1] or end == signal.SIGKILL
            assert p.returncode == -end
        finally:
            p.kill()
