"""A barrier through torch's store, which names the ranks that don't come."""

import datetime
import time

from ringside import RingsideError


def monitored(store, key, rank, size, timeout, wait_all_ranks):
    """Waits for all ranks, by values of the store below key, which no other barrier has. Rank
    0 names those that don't come within the timeout, the first one or all, and the others
    then fail too."""
    within = f"{round(timeout.total_seconds() * 1000)} ms"
    if rank > 0:  # texts as torch's own
        store.set(f"{key}/{rank}", "")
        failed = f"said nothing in {within}"
        if _came(store, f"{key}/all", timeout):
            failed = store.get(f"{key}/all").decode()
        if failed:
            raise RingsideError(f"ringside: Rank {rank} successfully reached monitoredBarrier, but received errors "
                                f"while waiting for send/recv from rank 0: {failed}")
        return
    deadline, late, failed = time.monotonic() + timeout.total_seconds(), [], ""
    for other in range(1, size):
        left = max(deadline - time.monotonic(), 0.001)
        if not _came(store, f"{key}/{other}", datetime.timedelta(seconds=left)):
            late.append(str(other))
            if not wait_all_ranks:
                break
    if late:
        failed = f"Rank{'s' if wait_all_ranks else ''} {', '.join(late)} failed to pass monitoredBarrier in {within}"
    if not timeout:
        failed = f"Rank 0 timed out in monitoredBarrier after {within}"
    store.set(f"{key}/all", failed)
    if failed:
        raise RingsideError(f"ringside: {failed}")


def _came(store, key, timeout):
    """Waits for a key of the store and reports whether it came in time."""
    try:
        store.wait([key], timeout)
    except RuntimeError:
        return False
    return True
