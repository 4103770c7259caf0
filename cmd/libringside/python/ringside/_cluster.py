"""Clusters of this process: a dispatcher and workers."""

from __future__ import annotations

import json
import os
import shutil
import sys
from typing import Any

from ringside import _native, _ops
from ringside._session import Session, session, whole
from ringside.errors import RingsideError


def command() -> str | None:
    """Returns the ringside command: beside this Python, on PATH, or in the source tree."""
    here = os.path.dirname(os.path.abspath(__file__))
    for path in os.path.join(sys.prefix, "bin", "ringside"), os.path.join(here, "..", "bin", "ringside"):
        if os.access(path, os.X_OK):
            return path
    return shutil.which("ringside")


class Cluster:
    """A dispatcher and workers, and a session with all of them. Made by cluster()."""

    def __init__(self, workers: int, threads: int, processes: bool | None, session_mib: int, options: dict[str, Any]):
        _ops.load()
        exe = None if processes is False else command()
        if processes and exe is None:
            raise RingsideError("ringside: the ringside command was not found on PATH or beside this Python: install the wheel, or processes=False")
        self._lib, self._options, self._pid = _native.library(), options, os.getpid()
        self._workers, self._handle, self.session = workers, 0, None
        text = json.dumps({"workers": workers, "threads": threads, "exe": exe or "", "session_mib": session_mib})
        self._handle = _native.number(self._lib.ringside_cluster(text.encode()))

    @property
    def addr(self) -> str:
        """The dispatcher's address, for connect in this or another process."""
        return _native.about(self._handle)["addr"]

    @property
    def processes(self) -> dict[str, int]:
        """The processes by name: w0, w1 and so on are workers; 0 is a dead one."""
        return _native.about(self._handle)["processes"]

    def open(self, **options: Any) -> Session:
        """Opens a session with all workers, or as many as its config says, or with the
        options of session()."""
        options = {**self._options, **options}
        config = options.get("config")
        if config is None or _fits_any(config):
            options.setdefault("workers", self._workers)
        opened = session(self.addr, **options)
        opened._cluster = self
        return opened

    def close(self) -> None:
        """Ends all processes."""
        handle, self._handle = self._handle, 0
        if handle and os.getpid() == self._pid:
            _native.check(self._lib.ringside_close(handle))

    def __enter__(self) -> Cluster:
        self.session = self.open()
        self.session.__enter__()
        return self

    def __exit__(self, *_: Any) -> None:
        try:
            self.session.__exit__()
        finally:
            self.close()

    def __repr__(self) -> str:
        return f"Cluster({self._workers} worker{'s' if self._workers > 1 else ''} at {self.addr!r})" if self._handle else "Cluster(closed)"

    def __reduce__(self):
        raise TypeError("a ringside cluster is of this process and can't be copied or pickled: send its addr, for ringside.connect()")

    def __del__(self) -> None:
        if getattr(self, "_handle", 0) and not sys.is_finalizing() and os.getpid() == self._pid:
            self._lib.ringside_free(self._lib.ringside_close(self._handle))


def _fits_any(config: str | os.PathLike) -> bool:
    """Reports whether a config fits any number of workers, since it gives none."""
    with open(config, encoding="utf-8") as f:
        return _native.described("ringside_config", os.fsencode(config), f.read().encode())["fits_any"]


def cluster(workers: int = 1, *, threads: int = 1, processes: bool | None = None, session_mib: int = 0, config: str | os.PathLike | None = None,
            secret_file: str | None = None, tls: bool = False, seed: int = 0, name: str | None = None) -> Cluster:
    """`with cluster(workers=2):` starts a dispatcher and workers, which compute together
    what the thread records within it, and end with it or with this process. Workers are
    processes, each on so many threads; without the ringside command, or with
    processes=False, they are threads of this one. session_mib bounds the tensors of a
    session on a worker. The other options are those of session()."""
    workers, threads, session_mib = whole("workers", workers), whole("threads", threads), whole("session_mib", session_mib)
    if workers < 1 or threads < 0:
        raise ValueError(f"a cluster of {workers} workers with {threads} threads each: expected at least 1 and 0")
    if threads > _native.MAX_THREADS:
        raise ValueError(f"a cluster with {threads} threads each: expected at most {_native.MAX_THREADS}")
    options: dict[str, Any] = {"secret_file": secret_file, "tls": tls, "seed": seed, "name": name}
    if config is not None:
        options["config"] = config
    return Cluster(workers, threads, processes, session_mib, options)
