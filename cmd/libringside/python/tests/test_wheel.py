"""What `make python` packed, installed as a user does."""

import glob
import os
import subprocess
import sys
import zipfile

import ringside

PYTHON = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
BUILT = os.path.join(PYTHON, "..", "..", "..", "bin", "python")

PROGRAM = """
import os, sys, tempfile, torch, torch.distributed as dist, ringside.torch
assert ringside.__file__.startswith(sys.prefix), ringside.__file__
folder = tempfile.mkdtemp()
child = os.fork()
rank = 1 if child == 0 else 0
dist.init_process_group("ringside", init_method=f"file://{folder}/store", rank=rank, world_size=2)
t = torch.full((3,), rank + 1.0)
dist.all_reduce(t)
assert t.tolist() == [3, 3, 3], t
dist.destroy_process_group()
if rank == 0:
    import ringside as rs, ringside.gt as gt
    with rs.cluster(workers=2) as c:  # processes of the command in the wheel
        assert len(c.processes) == 3 and (rs.ones(3) * 2).sum().item() == 6 and gt.zeros(2).tolist() == [0, 0]
assert rank or os.waitpid(child, 0)[1] == 0
"""


def test_wheel(tmp_path):
    wheels = glob.glob(os.path.join(BUILT, "*.whl"))
    assert len(wheels) == 1 and f"ringside-{ringside.__version__}-py3-none-manylinux_2_" in wheels[0]
    subprocess.run([sys.executable, "-m", "venv", "--system-site-packages", tmp_path], check=True)
    # No compiler and no network: neither is on PATH, and pip looks nowhere else.
    environment = {"PATH": f"{tmp_path}/bin", "HOME": str(tmp_path)}

    def run(*command):
        return subprocess.run(command, cwd=tmp_path, env=environment, check=True, capture_output=True, text=True)

    with zipfile.ZipFile(wheels[0]) as f:
        names = {os.path.basename(name) for name in f.namelist()}
    assert {"LICENSE", "NOTICE", "libringside.so", "ringside", "py.typed", "_methods.pyi", "_tensor.py", "visualize.py"} <= names
    run(f"{tmp_path}/bin/pip", "install", "--no-index", "--no-deps", wheels[0])
    run(f"{tmp_path}/bin/python", "-c", PROGRAM)
    assert run(f"{tmp_path}/bin/ringside", "version").stdout.startswith("ringside ")


def test_sources():
    import tarfile
    (path,) = glob.glob(os.path.join(BUILT, "*.tar.gz"))
    with tarfile.open(path) as f:
        names = {name.split("/", 1)[-1] for name in f.getnames()}
    for name in "setup.py", "src/go.mod", "src/cmd/libringside/ringside.h", "src/LICENSE":
        assert name in names
    assert not any(name.endswith(".so") for name in names)
