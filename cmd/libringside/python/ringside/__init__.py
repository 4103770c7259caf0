"""ringside for Python. Importing it loads nothing: ringside.torch is a back end of
torch.distributed, and loads the library when the first group is made."""

__version__ = "0.1.0"


class RingsideError(RuntimeError):
    """An error of the library: what failed, its value, what was expected."""
