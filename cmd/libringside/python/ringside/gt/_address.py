"""Where servers of GT's ports listen."""

from __future__ import annotations

import os
import socket


def address(host: str, port: int) -> str:
    """Returns the address of a server: of this host a socket of this user's, else
    host:port."""
    if host not in ("", "localhost", "127.0.0.1", socket.gethostname()):
        return f"{host}:{port}"
    folder = os.environ.get("XDG_RUNTIME_DIR") or f"/tmp/ringside-{os.getuid()}"
    return os.path.join(folder, "ringside", f"gt-{port}.sock")
