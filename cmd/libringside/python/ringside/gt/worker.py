"""python -m ringside.gt.worker -p PORT: a worker of gt.server."""

from __future__ import annotations

import argparse
import os

from ringside.gt._address import address
from ringside.gt.scripts import run


def main(arguments: list[str] | None = None) -> None:
    """Runs ringside worker in place of this process."""
    p = argparse.ArgumentParser(prog="gt.worker")
    p.add_argument("-p", "--port", type=int, default=9000, help="that of gt.server; 9000 unless given")
    p.add_argument("--host", default="localhost", help="that of gt.server; with --secret-file, unless it is this one")
    p.add_argument("--secret-file", default=os.environ.get("GT_SECRET_FILE"), help="a file that all hosts have; GT_SECRET_FILE names it too")
    o = p.parse_args(arguments)
    addr = address(o.host, o.port)
    run("worker", "--connect" if addr.startswith("/") else "--join", addr, *(["--secret-file", o.secret_file] if o.secret_file else []))


if __name__ == "__main__":
    main()
