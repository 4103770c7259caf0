"""python -m ringside.gt.scripts.trace: ringside trace, with its arguments."""

import sys

from ringside.gt.scripts import run

if __name__ == "__main__":
    run("trace", *sys.argv[1:])
