"""python -m ringside.gt.server -p PORT: a dispatcher, which workers and clients of GT join."""

from __future__ import annotations

import argparse
import os

from ringside.gt._address import address
from ringside.gt.scripts import run


def main(arguments: list[str] | None = None) -> None:
    """Runs ringside dispatcher in place of this process."""
    p = argparse.ArgumentParser(prog="gt.server")
    p.add_argument("-p", "--port", type=int, default=9000, help="the number that gt.worker and gt.connect name; 9000 unless given")
    p.add_argument("--host", help="also accept other hosts, at this address; with --secret-file")
    p.add_argument("--secret-file", default=os.environ.get("GT_SECRET_FILE"), help="a file that all hosts have; GT_SECRET_FILE names it too")
    o = p.parse_args(arguments)
    socket = address("localhost", o.port)
    os.makedirs(os.path.dirname(socket), mode=0o700, exist_ok=True)
    run("dispatcher", "--listen", socket, *(["--listen-tcp", f"{o.host}:{o.port}"] if o.host else []), *(["--secret-file", o.secret_file] if o.secret_file else []))


if __name__ == "__main__":
    main()
