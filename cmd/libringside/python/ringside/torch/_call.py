"""Calls: each is a work of torch, which runs on the thread that waits for it, or beside it."""

import sys
import threading

import torch
from torch._C._distributed_c10d import Work

from ringside import RingsideError
from ringside import _native as native

# The last work of the process that has not begun. It runs when it is waited for, and begins
# when another call is made: so calls run in the order in which they were made.
slot = None
_slot_lock = threading.Lock()


def push(work):
    """Makes work the one in the slot, and begins the one before it."""
    global slot
    with _slot_lock:
        last, slot = slot, work
    if last is not None:
        last._start()


class Call(Work):
    """A call. Its maker sets _group, _request, _output and _keep, which holds the buffers. The
    class has what most calls never set, so that making one is cheap."""

    _finish = None  # is called once the call has succeeded
    _lock = None  # of a started call: held by the thread that waits for it
    _handle = None  # of a started call
    _peer = native.ANY  # the sender, once a started receive is done
    _done = False
    _error = _future = None

    def _start(self):
        """Begins the call, unless it has begun."""
        if self._done:
            return
        group = self._group
        with group._order:
            if self._handle is None and not self._done:
                self._lock = threading.Lock()
                group._live.add(self)
                try:
                    self._handle = native.start(self._request)
                except RingsideError as e:
                    self._end(e)

    def _end(self, error):
        """Ends the work. The thread that calls it is the only one that can."""
        try:
            if error is None and self._finish is not None:
                self._finish()
        except Exception as e:  # of a copy of the result
            error = e
        if error is not None:
            self._error = named_timeout(error)
        self._finish = self._request = self._keep = None
        self._done = True
        if self._lock is not None:
            self._group._live.discard(self)

    def _run(self):
        """Makes the call on this thread, unless it has begun."""
        group = self._group
        with group._order:
            if self._handle is not None or self._done:
                return
            error = None
            try:
                text = group._library.ringside_call(self._request)
                if text:
                    native.check(text)
            except RingsideError as e:
                error = e
            except BaseException as e:  # of a signal's handler
                self._end(RingsideError(f"ringside: the call was interrupted: {e!r}"))
                raise
            self._end(error)

    def _poll(self, milliseconds):
        """Waits for a call that has begun, at most so long, and reports whether it is done."""
        if self._done:
            return True
        with self._lock:
            if self._done:
                return True
            error = None
            try:
                done, self._peer = native.wait(self._handle, milliseconds)
                if not done:
                    return False
            except RingsideError as e:
                error = e
            self._end(error)
            return True

    def wait(self, timeout=None):
        self._run() if self._taken() else self._start()
        while not self._done:
            self._poll(native.POLL)
        if self._error is not None:
            raise self._error
        return True

    def _taken(self):
        """Takes the work out of the slot, and reports whether it was there."""
        global slot
        with _slot_lock:
            if slot is not self:
                return False
            slot = None
            return True

    def _source_rank(self):
        return self._peer

    source_rank = _source_rank

    def synchronize(self):
        self.wait()

    def is_completed(self):
        self._start()
        return self._poll(0)

    def is_success(self):
        return self.is_completed() and self._error is None

    def exception(self):
        return self._error

    def result(self):
        self.wait()
        return self._output

    def get_future(self):
        # DDP's reducer asks from C++ and has little to do meanwhile: another thread would cost
        # more than a small call takes.
        if _called_by_backward() and self._taken():
            self._run()
        else:
            self._start()
        with self._group._order:
            if self._future is None:
                end = torch.futures.Future()
                if self._done and self._error is None:
                    self._future = end
                    end.set_result(self._output)
                else:
                    self._future = end.then(self._outcome)
                    if self._done:
                        end.set_result(None)
                    else:
                        self._group._watch(self, end)
            return self._future

    def _outcome(self, _):
        """Returns the result of the call, or raises its error. Code of C++, as DDP's, takes an
        exception that set_exception gave for a list of tensors, and reads beyond it; one of
        a callback is an error there too."""
        if self._error is not None:
            raise self._error
        return self._output

    def _settle(self, end):
        """Waits for the call and completes a future."""
        while not self._poll(native.POLL):
            pass
        end.set_result(None)


def settle_all(works):
    """Completes futures of works, one after the other, until it gets None."""
    while (pair := works.get()) is not None:
        work, end = pair
        work._settle(end)


def named_timeout(error):
    """Returns an error of a call; of one that took too long it says whose timeout that is."""
    if isinstance(error, RingsideError) and "timed out after" in str(error):
        return RingsideError(f"{error}; the timeout is that of init_process_group or new_group")
    return error


def _called_by_backward():
    """Reports whether the caller of the caller is a backward pass itself, not a function of
    Python in it."""
    try:
        frame = sys._getframe(2)
    except ValueError:  # a thread of C++
        return False
    return frame.f_globals.get("__name__", "").startswith("torch.autograd")
