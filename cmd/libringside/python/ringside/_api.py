"""The names of ringside, which importing that loads when one is asked for."""

from ringside import _functions, dtypes, errors, files, nn, optim, random, train
from ringside._cluster import Cluster, cluster
from ringside._functions import *  # noqa: F401,F403
from ringside._session import Session, connect, current_session, flush, no_grad, enable_grad, scope, session, signal
from ringside._tensor import Tensor, from_dlpack, grad
from ringside.dtypes import DType, bfloat16, bool, float16, float32, float64, int32, int64, uint8
from ringside.errors import RingsideError
from ringside.files import load, load_checkpoint, save, save_checkpoint

e, pi, inf, nan, newaxis = 2.718281828459045, 3.141592653589793, float("inf"), float("nan"), None

__all__ = [
    "Cluster", "DType", "RingsideError", "Session", "Tensor", "bfloat16", "bool", "cluster", "connect", "current_session",
    "dtypes", "e", "enable_grad", "errors", "float16", "float32", "float64", "flush", "from_dlpack", "grad", "inf", "int32",
    "int64", "load", "load_checkpoint", "nan", "newaxis", "nn", "no_grad", "optim", "pi", "random", "save", "save_checkpoint", "scope", "session", "signal", "train", "uint8",
]
__all__ += _functions.__all__  # in a form that type checkers read
