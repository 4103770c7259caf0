"""Adds to pyproject.toml what is compiled: the C library and the ringside command. A wheel
takes them from the folder, where `make python` puts them, or has Go and gcc build them. Its
tag says which glibc they need. A source distribution has the sources of both in src."""

import os
import re
import subprocess
import sys

from setuptools import setup

HERE = os.path.dirname(os.path.abspath(__file__))
LIBRARY, COMMAND = os.path.join(HERE, "ringside", "libringside.so"), os.path.join(HERE, "bin", "ringside")


def build():
    """Compiles what is missing, from src or from the tree that this folder lies in."""
    source = os.path.join(HERE, "src")
    if not os.path.isdir(source):
        source = os.path.join(HERE, "..", "..", "..")
    for path, *options in (LIBRARY, "-buildmode=c-shared", "./cmd/libringside"), (COMMAND, "./cmd/ringside"):
        if not os.path.exists(path):
            go = ["go", "build", "-buildvcs=false", "-trimpath", "-ldflags=-s -w", "-o", path, *options]
            subprocess.run(go, cwd=source, env={**os.environ, "CGO_ENABLED": "1"}, check=True)


def platform():
    """Returns the tag of the oldest glibc that has every function the files call."""
    versions = [2]
    for path in LIBRARY, COMMAND:
        with open(path, "rb") as f:
            versions += map(int, re.findall(rb"\0GLIBC_2\.(\d+)", f.read()))
    return f"manylinux_2_{max(versions)}_{os.uname().machine}"


options = {}
if "bdist_wheel" in sys.argv:
    build()
    options["bdist_wheel"] = {"plat_name": platform()}
setup(options=options)
