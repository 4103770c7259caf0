"""python -m ringside.gt.scripts.visualize: ringside trace view, with its arguments."""

import sys

from ringside.gt.scripts import run

if __name__ == "__main__":
    run("trace", "view", *sys.argv[1:])
