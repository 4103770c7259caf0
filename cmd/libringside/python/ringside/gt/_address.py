"""Where servers of GT's ports listen."""

from __future__ import annotations

import os
import socket


def address(host: str, port: int) -> str:
    """Returns the address of a server: of this host a socket of this user's, else
    host:port."""
    if host not in ("", "localhost", "127.0.0.1", socket.gethostname()):
        return f"{host}:{port}"
    folder = os.environ.get("XDG_RUNTIME_DIR", "")
    mine = os.path.join(folder, "ringside") if os.path.isabs(folder) else f"/tmp/ringside-{os.getuid()}"  # as package local has it
    return os.path.join(mine, f"gt-{port}.sock")
