"""GT's scripts: python -m ringside.gt.scripts.top and so on, which run the ringside command."""

from __future__ import annotations

import os
import sys
from typing import NoReturn


def run(*arguments: str) -> NoReturn:
    """Runs the ringside command in place of this process."""
    from ringside._cluster import command

    path = command()
    if path is None:
        sys.exit("the ringside command was not found on PATH or beside this Python: install the wheel")
    os.execv(path, [path, *arguments])
