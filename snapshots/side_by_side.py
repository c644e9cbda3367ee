"""Work that is done by several threads of one capture at once: reading, hashing and writing let go of the interpreter.

In: pieces of work in the order in which they are to begin. Out: nothing, when all are done. The rule that must hold:
when this is left, nobody works any more, so that whoever clears up after a failure clears up everything.
"""

import threading
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor, as_completed

Piece = Callable[[], None]


def side_by_side(pieces: Iterable[Piece], workers: int, *, stop: Callable[[], None]) -> None:
    """Does all of them, so many at once; one after the other where that is one.

    The first that fails, or a signal, ends the others: no further one is begun, and `stop` tells those that run. Raises
    what the first one raised.
    """
    if workers == 1:
        for piece in pieces:
            piece()
        return
    waiting, lock, ended = iter(pieces), threading.Lock(), threading.Event()

    def work() -> None:
        while not ended.is_set():
            with lock:
                piece = next(waiting, None)
            if piece is None:
                return
            piece()

    with ThreadPoolExecutor(workers) as pool:
        try:
            for done in as_completed([pool.submit(work) for _ in range(workers)]):
                done.result()
        except BaseException:
            ended.set()
            stop()
            raise
