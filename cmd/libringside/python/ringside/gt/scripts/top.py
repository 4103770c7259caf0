"""python -m ringside.gt.scripts.top: ringside top, with its arguments."""

import sys

from ringside.gt.scripts import run

if __name__ == "__main__":
    run("top", *sys.argv[1:])
