"""Several lives of one store: run, crash, rot a little, crash while recovering, recover, check, and again."""

from collections import Counter
from random import Random

from logherd.store.errors import StoreDamaged, StoreStopped
from sim.disk import SimulatedCrash
from sim.history import History

_LIVES = 5
_DERIVED = ("/data/consumequeue/", "/data/index/")


def run_history(seed: int) -> Counter[str]:
    """One history; counts crash states, and what was met on the way.

    Raises: AssertionError if something that must hold does not.
    """
    history, random, seen = History(seed), Random(seed ^ 0x5EED), Counter[str]()
    for _ in range(_LIVES):
        _refuse_rot(history, random, seen)
        while True:  # open, perhaps crashing on the way, again and again
            history.disk.crash_after(random.choice([None, random.randrange(1, 40)]))
            if random.random() < 0.1:
                history.disk.failing_flush = random.randrange(8)
                history.disk.failing_path = random.choice(["", "/commitlog/"])
            seen["states"] += 1
            try:
                recovery = history.open().recovery
            except SimulatedCrash:
                seen["crashed while recovering"] += 1
                history.crash(power=random.random() < 0.8)
                continue
            except (OSError, StoreStopped):
                seen["a flush failed while recovering"] += 1
                history.crash(power=random.random() < 0.3)
                continue
            except StoreDamaged as error:
                raise AssertionError(f"refused after an honest crash: {error}") from error
            break
        history.disk.crash_after(None)
        history.disk.failing_flush = None
        seen.update((f"store: {recovery.store}", f"tail: {recovery.tail}", f"derived: {recovery.derived}"))
        history.check()
        seen["some of the log was deleted"] += history.store.min_position > 0
        _plan_end(history, random)
        history.run(random.randrange(3, 40))
        seen["stopped by a failed flush"] += history.beside.stopped
        history.crash(power=random.random() < 0.8)
        seen["refused for want of space"] += history.beside.refused
        history.beside.stopped, history.beside.refused = False, 0
        history.disk.capacity = 1 << 30
    if history.seed % 3 == 0:
        seen["derived files equal those derived anew"] += _derived_equal_rebuilt(history)
    return seen


def _derived_equal_rebuilt(history: History) -> bool:
    """D1, byte for byte. Only where the log still holds all that the files were derived from."""
    history.open().close()
    if history.beside.before_deletion or "/data/commitlog/00000000000000000000" not in history.disk.names:
        return False
    files = {path: inode.content() for path, inode in history.disk.names.items() if path.startswith(_DERIVED)}
    for path in (*files, "/data/queues"):
        history.disk.unlink(path)
    history.open().close()
    again = {path: inode.content() for path, inode in history.disk.names.items() if path.startswith(_DERIVED)}
    differing = [path for path in {**files, **again} if files.get(path) != again.get(path)]
    assert not differing, f"derived again, {differing} differ"
    return True


def _plan_end(history: History, random: Random) -> None:
    """How this life ends: at a write of the log, at any call, or after a flush that fails."""
    kind = random.randrange(10)
    if random.random() < 0.2:
        history.disk.capacity = history.disk.used() + random.randrange(20_000)
    if kind < 5:
        history.disk.crash_after(random.randrange(1, 30), at="write /data/commitlog")
    elif kind < 9:
        history.disk.crash_after(random.randrange(1, 120))
    else:
        history.disk.failing_flush = random.randrange(30)
        # Half of the failures are meant for the log: its flushes are what is answered by, and few among all.
        history.disk.failing_path = random.choice(["", "/commitlog/"])


def _refuse_rot(history: History, random: Random, seen: Counter[str]) -> None:
    """Now and then a byte of a flushed record flips: opening must refuse, and name the file, and change nothing."""
    if random.random() < 0.2 and (place := history.rot()) is not None:
        before = len(history.disk.trace)
        try:
            history.open()
        except StoreDamaged as error:
            refused = error
        else:
            raise AssertionError(f"damage in {place[0]} at byte {place[1]} was taken for the end of the log")
        changed = [call for call in history.disk.trace[before:] if call != ("sync_dir", "/")]
        assert not changed, f"a refusal changed {changed}"
        assert refused.path == place[0], f"{refused} names a file that is whole"
        history.flip(*place)
        seen["refused rot"] += 1
