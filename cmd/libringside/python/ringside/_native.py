"""The C library by ctypes, as ringside.h describes it. library() loads it, once: a process
that only forks, such as a launcher, has none of its threads."""

import ctypes
import json
import os
import struct
import threading

from ringside import errors
from ringside.errors import RingsideError

VERSION = 5  # of ringside.h

PENDING, EXCHANGE, DONE = 0, 1, 2
(ALL_REDUCE, REDUCE, REDUCE_SCATTER, ALL_GATHER, BROADCAST, SCATTER, GATHER, ALL_TO_ALL,
 BARRIER, SEND, RECV) = range(1, 12)
ANY = -1  # rank
SUM, PROD, MIN, MAX, AND, OR, XOR, MEAN = range(1, 9)
F32, F64, I32, I64, U8, BOOL, F16, BF16 = range(1, 9)
VALUE = 4096
CHOSEN, NESTED, NOT_BEGUN = 1 << 62, -(1 << 63) + 1, -(1 << 63) + 3

# POLL is how long a wait goes on before Python may run its signal handlers.
POLL = 50  # milliseconds
MAX_THREADS = 1024  # of a session of this process, and of a worker

_i32, _i64, _u64, _ptr = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64, ctypes.c_void_p
# Fields of a ringside_request: group, kind, op, dtype, peer, dst, its bytes, src, its bytes,
# send, recv. An address of 0 is none.
pack_request = struct.Struct("@QiiiiPqPqPP").pack
_functions = {
    "ringside_open": (_i32, _i32, _i64, ctypes.c_char_p, ctypes.c_char_p, _i64, _ptr),
    "ringside_open_step": (_u64, _i64, _ptr, _ptr, _ptr, _ptr),
    "ringside_open_give": (_u64, ctypes.c_char_p, _ptr, _i32),
    "ringside_close": (_u64,),
    "ringside_memory": (_u64, _i64, _ptr),
    "ringside_forget": (_u64, _ptr),
    "ringside_call": (ctypes.c_char_p,),
    "ringside_start": (ctypes.c_char_p, _ptr),
    "ringside_wait": (_u64, _i64, _ptr),
    "ringside_wait_from": (_u64, _i64, _ptr, _ptr),
}
# Functions on sessions and tensors return a number, negative for a failure.
(GRADIENT, SET_GRADIENT, DETACH, REQUIRE_GRAD, ASSIGN, ASSIGN_VALUE, SET_SIGNAL) = range(1, 8)
_text, _f64, _i = ctypes.c_char_p, ctypes.c_double, ctypes.c_int64
_numbers = {
    "ringside_table": (_ptr,),
    "ringside_about": (_i, _ptr),
    "ringside_tape": (_i, _ptr),
    "ringside_config": (_text, _text, _ptr),
    "ringside_session": (_text,),
    "ringside_cluster": (_text,),
    "ringside_signal": (_text,),
    "ringside_line": (_text,),
    "ringside_apply": (_text,),
    "ringside_record": (_i, _text, _i, _text, _i, _i, _ptr),
    "ringside_upload": (_i, _i, _i32, _ptr, _i, _text, _i),
    "ringside_drop": (_i, _text, _i),
    "ringside_describe": (_i, _i, _ptr),
    "ringside_item": (_i, _i, _ptr),
    "ringside_read": (_i, _i, _ptr, _i),
    "ringside_view": (_i, _i, _ptr, _ptr),
    "ringside_flush": (_i, _i32),
    "ringside_scope": (_i, _i, _text, _i),
    "ringside_seed": (_i, _i),
    "ringside_backward": (_i, _i, _i, _i32),
    "ringside_tensor": (_i, _i32, _i, _i),
    "ringside_optimizer": (_i, _text, _text, _i),
    "ringside_state": (_i, _ptr, _i),
    "ringside_restore": (_i, _i, _text, _i),
    "ringside_save": (_i, _text, _text, _text, _i),
    "ringside_checkpoint": (_i, _text, _text, _text, _i),
    "ringside_resume": (_i, _text, _text, _text, _i, _ptr),
    "ringside_file": (_text,),
    "ringside_load": (_i, _i, _text),
    "ringside_lend": (_i, _i, _i32, _i32, _i32, _ptr),
}
_library = None
_loading = threading.Lock()


def library():
    """Returns the library. RINGSIDE_LIBRARY names another file than the package's."""
    global _library
    if _library is None:
        with _loading:
            if _library is None:
                _library = _load()
    return _library


def _load():
    here = os.path.join(os.path.dirname(os.path.abspath(__file__)), "libringside.so")
    path = os.environ.get("RINGSIDE_LIBRARY", here)
    try:
        lib = ctypes.CDLL(path)
    except OSError as e:
        raise RingsideError(f"ringside: library {path}: {e} (make python builds it)") from e
    if lib.ringside_version() != VERSION:
        raise RingsideError(f"ringside: library {path} has version {lib.ringside_version()}, expected {VERSION}")
    for name, arguments in _functions.items():
        f = getattr(lib, name)
        f.argtypes, f.restype = arguments, _ptr
    for name, arguments in _numbers.items():
        f = getattr(lib, name)
        f.argtypes, f.restype = arguments, _i64
    lib.ringside_failure.argtypes, lib.ringside_failure.restype = (_i64,), _ptr
    lib.ringside_free.argtypes, lib.ringside_free.restype = (_ptr,), None
    python = ctypes.pythonapi
    lib.ringside_on_wait.restype = None
    lib.ringside_on_wait(*(ctypes.cast(f, _ptr) for f in (
        python.PyGILState_Ensure, python.PyGILState_Release, python.PyErr_CheckSignals, python.PyErr_Fetch)))
    site = (ctypes.c_void_p * 13)(*(ctypes.cast(f, _ptr).value for f in (
        python.PyGILState_Ensure, python.PyGILState_Release, python.PyEval_GetFrame, python.PyFrame_GetBack,
        python.PyFrame_GetCode, python.PyFrame_GetLineNumber, python.PyObject_GetAttrString, python.PyUnicode_AsUTF8,
        python.Py_IncRef, python.Py_DecRef, python.PyErr_Clear, python.PyCapsule_IsValid, python.PyCapsule_GetPointer)))
    lib.ringside_on_site.argtypes, lib.ringside_on_site.restype = (_ptr, _i32, _text), None
    lib.ringside_on_site(site, len(site), os.path.dirname(os.path.abspath(__file__)).encode() + b"/")
    lib.ringside_raised.argtypes = (_ptr, _ptr, _ptr)
    python.PyErr_Restore.argtypes, python.PyErr_Restore.restype = (_ptr, _ptr, _ptr), None
    return lib


def check(text):
    """Raises the error that a function of the library returned, if it did. What a signal's
    handler raised comes first."""
    if not text:
        return
    message = take(text)
    interrupt()
    if "no such handle" in message:
        message += ": was the group closed?"
    raise RingsideError(message)


def text(x, what):
    """Returns a text as C has it, which ends at the first zero."""
    if not isinstance(x, str):
        raise TypeError(f"{what} is {x!r}, expected a str")
    if "\0" in x:
        raise ValueError(f"{what} is {x!r}, which has a zero character")
    return x.encode()


def path(x):
    """Returns the path of a file as C has it."""
    found = os.fsencode(x)
    if b"\0" in found:
        raise ValueError(f"path {x!r} has a zero character")
    return found


def take(text):
    """Returns a text of the library and frees it."""
    message = ctypes.string_at(text).decode(errors="replace")
    _library.ringside_free(text)
    return message


def interrupt():
    """Raises what the handler of a signal raised during a wait, if one did."""
    raised = _ptr(), _ptr(), _ptr()
    if _library.ringside_raised(*map(ctypes.byref, raised)):
        ctypes.pythonapi.PyErr_Restore(*raised)  # which raises it


def failure(number):
    """Returns the error of a function that returned a negative number; raises what a
    signal's handler raised."""
    kind, _, message = take(_library.ringside_failure(number)).partition("\n")
    interrupt()
    if kind == "handle" and "handle: tensor" not in message:  # 0 is that of a session or cluster after its close
        return errors.SessionClosed(f"{message}: was the session closed?")
    return errors.KINDS.get(kind, RingsideError)(message)


def number(n):
    """Returns what a function returned, or raises its error."""
    if n < 0:
        raise failure(n)
    return n


def described(function, *arguments):
    """Returns what a function of the library wrote as JSON."""
    out = _ptr()
    number(getattr(library(), function)(*arguments, ctypes.byref(out)))
    return json.loads(take(out))


def about(handle):
    """Returns what a handle is, as a dict."""
    return described("ringside_about", handle)


def open_group(rank, size, timeout_ms, name, secret, exchange):
    """Makes a group and returns its handle. exchange(round, value) gives every rank the
    values of all."""
    lib = library()
    opening, group, state, length = _u64(), _u64(), _i32(), _i64()
    value = ctypes.create_string_buffer(VALUE)
    check(lib.ringside_open(rank, size, timeout_ms, name.encode(), secret, len(secret), ctypes.byref(opening)))
    step = 0
    try:
        while True:
            text = lib.ringside_open_step(opening, POLL, ctypes.byref(state), value, ctypes.byref(length), ctypes.byref(group))
            if text:
                opening = None
                check(text)
            if state.value == DONE:
                opening = None
                return group.value
            if state.value == EXCHANGE:
                values = exchange(step, value.raw[:length.value])
                step += 1
                lengths = (_i64 * size)(*map(len, values))
                check(lib.ringside_open_give(opening, b"".join(values), lengths, size))
    finally:
        if opening is not None:
            lib.ringside_free(lib.ringside_close(opening))


def start(request):
    """Starts a call and returns its handle."""
    work = _u64()
    check(_library.ringside_start(request, ctypes.byref(work)))
    return work.value


def wait(work, milliseconds):
    """Waits for a started call, and returns whether it is done, and the other rank of a send
    or receive."""
    state, peer = _i32(), _i32(ANY)
    check(_library.ringside_wait_from(work, milliseconds, ctypes.byref(state), ctypes.byref(peer)))
    return state.value == DONE, peer.value
