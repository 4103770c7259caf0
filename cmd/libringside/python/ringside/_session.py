"""Sessions: where tensors are, and what their operations are recorded into."""

from __future__ import annotations

import contextlib
import itertools
import json
import operator
import os
import sys
import threading
import weakref
from typing import Any, Iterator

from ringside import _native, _ops
from ringside._ops import state
from ringside.errors import SessionClosed

_default: Session | None = None
_sessions: weakref.WeakSet[Session] = weakref.WeakSet()
_made = itertools.count()  # how many sessions there were: their results have different numbers
_opening = threading.RLock()
_NOT_MADE = _native.NESTED, _native.NOT_BEGUN  # what the library returns of calls that it has not begun


class Session:
    """A session with workers, or with an engine in this process. Threads may share one:
    their calls run one after another. `with session:` makes it the thread's current one,
    and closes it at the end. Made by session() and connect()."""

    def __init__(self, **options: Any):
        _ops.load()
        self._library = lib = _native.library()
        self._apply, self._record = lib.ringside_apply, lib.ringside_record
        self._calls: list[bytes] = []  # recorded here alone; see _hand
        self._dead: list[int] = []  # tensors that Python has no variable for; always this list
        self._drop = self._dead.append
        self._ended: list[int] = []  # optimizers that Python has no variable for, which calls may name
        self._batch: tuple[list[bytes], list[int], list[int]] | None = None  # of the three, not sent yet; see _hand
        self._handing = threading.RLock()  # held while a batch is made and sent
        self._ahead = False  # whether operations may be recorded here alone
        self._plain = False  # the same, and no scope is open, which notes what is made in it
        self._scopes: list[Scope] = []  # that are open, innermost last
        self._cluster: Any = None  # that opened it, and ends with its last variable
        self._pid = os.getpid()
        self._id = 0
        self._id = _native.number(lib.ringside_session(json.dumps(options).encode()))
        self._next = itertools.count(_native.CHOSEN + (next(_made) % (1 << 21) << 40) + 1).__next__  # number of a result
        self._ahead = self._plain = _lines_are_whole()
        _sessions.add(self)

    @property
    def _lib(self) -> Any:
        """The library, for a call that may use what was recorded."""
        if self._calls or self._batch is not None or len(self._dead) > 1000:
            self._hand()
        return self._library

    def _hand(self, item: int = 0, element: Any = None, call: bytes = b"") -> int:
        """Hands over to the library what was recorded here, the tensors that have no variable
        any more, and then a call of its own. It may read the one element of tensor number
        item: then the result is that of ringside_item, or 0 if it did not.

        What is to be handed over lies in _calls, _dead and _ended until a batch of all three
        is made, and in _batch until that is sent: by whoever comes first. Other threads wait
        for _handing, but a handler of a signal may come after each call of a function and do
        the same. So lines without one are done as a whole. What is sent belongs to the frame
        that sends it, which puts it back if the library has not begun. A call of its own is
        sent by its own frame alone: its error comes there."""
        with self._handing:
            while self._id:
                calls: list[bytes] = []
                ended: list[int] = []
                n, before = len(self._dead), self._batch
                # Tensors and optimizers that are gone have their calls in the list, so they
                # are taken first. No function is called until the batch is made.
                dead = self._dead[:n]
                del self._dead[:n]
                ended, self._ended = self._ended, ended
                calls, self._calls = self._calls, calls
                batch = (calls, dead, ended) if before is None else (before[0] + calls, before[1] + dead, before[2] + ended)
                if not (batch[0] or batch[1] or batch[2] or call):
                    return 0
                self._batch = batch
                data, gone, done = b"".join(batch[0]) + call, _ops.pack(batch[1]), []
                send = map(self._record, (self._id,), (data,), (len(data) >> 3,), (gone,), (len(batch[1]),), (item,), (element,))
                try:
                    if self._batch is not batch:  # a handler has sent it
                        continue
                    self._batch = None
                    done.extend(send)  # which has the result before a handler may raise
                finally:
                    if done and done[0] in _NOT_MADE:
                        self._put_back(batch)
                    elif done:
                        while batch[2]:
                            self._close_handle(batch[2].pop())
                if done[0] < 0 and not item:
                    raise _native.failure(done[0])
                return done[0]
            if call:
                raise SessionClosed("ringside: the session was closed")
        return 0

    def _put_back(self, batch: tuple[list[bytes], list[int], list[int]]) -> None:
        """Has a batch sent another time, before what a handler may have put back. It calls
        nothing, as _hand says."""
        later = self._batch
        self._batch = batch if later is None else (batch[0] + later[0], batch[1] + later[1], batch[2] + later[2])

    def _hand_with(self, call: bytes) -> None:
        """Hands over to the library what was recorded here and a call after that."""
        if self._ahead:
            self._hand(call=call)
        else:
            self._hand()
            _native.number(self._record(self._id, call, len(call) >> 3, b"", 0, 0, None))

    def _close_handle(self, handle: int) -> None:
        """Closes an object of the library."""
        self._library.ringside_free(self._library.ringside_close(handle))

    def _note(self, tensor: Any) -> None:
        """Notes a new tensor for the innermost scope, if one is open."""
        for scope in self._scopes[-1:]:
            scope._made[tensor._h] = tensor

    def flush(self, wait: bool = False) -> None:
        """Submits what is recorded; with wait, returns when it has run. Reads do both."""
        check_alive(self)
        self._hand()
        n = self._library.ringside_flush(self._id, 1 if wait else 0)
        if n < 0:
            raise _native.failure(n)

    def seed(self, seed: int) -> None:
        """Restarts the random numbers: the same seed gives the same ones on any engine and
        any number of workers. Below 2**53."""
        _native.number(self._lib.ringside_seed(self._id, whole("seed", seed) & (1 << 53) - 1))

    @property
    def stats(self) -> dict[str, Any]:
        """The engine's name, and counters: ops recorded, programs submitted, tensors live."""
        check_alive(self)
        self._hand()
        return _native.about(self._id)

    def tape(self) -> list[dict[str, Any]]:
        """Returns what the next read runs, an instruction a dict: op, dtype, shape, args."""
        check_alive(self)
        self._hand()
        return _native.described("ringside_tape", self._id)

    def close(self) -> None:
        """Frees the session's tensors. Using them afterwards is an error. Further calls do
        nothing."""
        global _default
        if _default is self:
            _default = None
        handle, self._id, self._ahead, self._plain = self._id, 0, False, False
        if handle and os.getpid() == self._pid:
            while self._ended:
                self._close_handle(self._ended.pop())
            _native.check(self._library.ringside_close(handle))

    def __enter__(self) -> Session:
        check_alive(self)
        state.sessions.append(self)
        return self

    def __exit__(self, *_: Any) -> None:
        state.sessions.remove(self)
        self.close()

    def __del__(self) -> None:
        if getattr(self, "_id", 0) and not sys.is_finalizing() and os.getpid() == self._pid:
            self._library.ringside_free(self._library.ringside_close(self._id))

    def __repr__(self) -> str:
        return f"Session({self._id}, {self.stats['engine']!r})" if self._id else "Session(closed)"  # the handle tells sessions of one engine apart

    def __reduce__(self):
        raise TypeError("a ringside session is a connection and can't be pickled: open one in each process, by ringside.connect()")


def session(addr: str | None = None, *, in_process: bool = False, threads: int = 1, workers: int = 0, config: str | os.PathLike | None = None,
            secret_file: str | None = None, tls: bool = False, seed: int = 0, name: str | None = None) -> Session:
    """Opens a session, for `with`.

    addr is a dispatcher's address; without one it is with the dispatcher of this user, or
    in this process if none runs, as always with in_process, on so many threads. With
    workers, or a config file (see docs/sharding.md), several workers compute together.
    secret_file and tls are for a dispatcher of another host, as its own flags. seed is that
    of the random numbers; its low 53 bits count. name is the session's in `ringside top`: the
    program's unless given."""
    workers, threads, seed = whole("workers", workers), whole("threads", threads), whole("seed", seed)
    if workers < 0 or threads < 0:
        raise ValueError(f"a session of {workers} workers and {threads} threads: expected none negative")
    if threads > _native.MAX_THREADS:
        raise ValueError(f"a session of {threads} threads: expected at most {_native.MAX_THREADS}")
    for what, text in ("addr", addr), ("name", name):
        if not isinstance(text, (str, type(None))):
            raise TypeError(f"{what} is {text!r}, expected a str")
    options: dict[str, Any] = {"name": name or os.path.basename(sys.argv[0] or "python"), "addr": addr or "", "here": bool(in_process),
                               "threads": threads, "workers": workers, "seed": seed & (1 << 53) - 1,
                               "secret_file": os.fspath(secret_file or ""), "tls": bool(tls)}
    if config is not None:
        with open(config, encoding="utf-8") as f:
            options.update(config=f.read(), config_file=os.fspath(config))
    return Session(**options)


def whole(what: str, n: Any) -> int:
    """Returns an option that is an integer, of Python or NumPy."""
    try:
        return operator.index(n)
    except TypeError:
        raise TypeError(f"{what} is {n!r}, expected an integer") from None


def connect(addr: str | None = None, *, in_process: bool = False, threads: int = 1, workers: int = 0, config: str | os.PathLike | None = None,
            secret_file: str | None = None, tls: bool = False, seed: int = 0, name: str | None = None) -> Session:
    """Opens a session as session does, of the same options, and makes it the one that all
    threads use that are in no `with` of another."""
    global _default
    made = session(addr, in_process=in_process, threads=threads, workers=workers, config=config, secret_file=secret_file, tls=tls, seed=seed, name=name)
    _default = made
    return made


def current_session() -> Session:
    """Returns the session that new tensors are made in: that of the innermost `with`, or
    the one of connect, which is opened if there is none."""
    global _default
    if state.sessions:
        return state.sessions[-1]
    if _default is None:
        with _opening:
            if _default is None:
                _default = session()
    return _default


def flush(wait: bool = False) -> None:
    """Submits what is recorded in the current session; see Session.flush."""
    current_session().flush(wait)


class _Flags(contextlib.ContextDecorator):
    """Sets flags of this thread's calls, in a with statement or around a function."""

    def __init__(self, clear: int, set: int):
        self._clear, self._set = clear, set

    def __enter__(self) -> None:
        state.before.append(state.flags)  # the thread's: a decorator is one object for all threads
        state.flags = state.flags & ~self._clear | self._set

    def __exit__(self, *_: Any) -> None:
        state.flags = state.before.pop()


def no_grad() -> _Flags:
    """`with no_grad():` records without graphs in this thread: results have no gradient."""
    return _Flags(0, _ops.NO_GRAD)


def enable_grad() -> _Flags:
    """`with enable_grad():` records graphs within no_grad."""
    return _Flags(_ops.NO_GRAD, 0)


def signal(name: str) -> _Flags:
    """`with signal(name):` names what this thread records: a config places it on workers
    (docs/sharding.md). Without a config it changes nothing. The inner one of two counts."""
    _ops.load()
    n = _native.number(_native.library().ringside_signal(_native.text(name, "the name of a signal")))
    return _Flags(_ops.SIGNALS, _ops.signal_flags(n))


class Scope:
    """The tensors made in a scope; see scope."""

    def __init__(self) -> None:
        self._made: weakref.WeakValueDictionary[int, Any] = weakref.WeakValueDictionary()  # by number
        self._kept: set[int] = set()

    def keep(self, tensor: Any) -> Any:
        """Lets a tensor outlive the scope, and returns it."""
        self._kept.add(tensor._h)
        return tensor


@contextlib.contextmanager
def scope(session: Session | None = None) -> Iterator[Scope]:
    """`with scope() as s:` frees at its end what was made in the session meanwhile, by any
    thread, but what s.keep(tensor) kept. Python frees a tensor when its last variable is
    gone, so few programs need it."""
    s, made = session or current_session(), Scope()
    mark = _native.number(s._lib.ringside_scope(s._id, 0, b"", 0))
    s._scopes.append(made)
    s._plain = False
    try:
        yield made
    finally:
        try:
            s._hand()  # an error of what was recorded does not keep the scope open
        finally:
            _end(s, made, mark)


def _end(s: Session, made: Scope, mark: int) -> None:
    """Frees what was made in a scope since mark."""
    n = s._library.ringside_scope(s._id, mark, _ops.pack(list(made._kept)), len(made._kept))
    s._scopes.remove(made)
    for tensor in [ref() for ref in made._made.valuerefs()]:
        if tensor is None:
            continue
        if tensor._h in made._kept:
            s._note(tensor)
        else:
            tensor._d = None  # nothing is known of it: the library sees its next use, and refuses it
    s._plain = s._ahead and not s._scopes
    _native.number(n)


def _lines_are_whole() -> bool:
    """Reports whether threads and handlers of signals come only after calls of functions: not
    before Python 3.10, nor without its global lock. Session._hand relies on it."""
    return sys.version_info >= (3, 10) and getattr(sys, "_is_gil_enabled", lambda: True)()


def _forked() -> None:
    """Has the library refuse every operation in a forked child."""
    for s in list(_sessions):
        s._ahead, s._plain, s._handing = False, False, threading.RLock()


os.register_at_fork(after_in_child=_forked)


def check_alive(s: Session) -> None:
    """Raises for a session that was closed."""
    if not s._id:
        raise SessionClosed("ringside: the session was closed")
