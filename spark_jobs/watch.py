"""How far a Spark step is: its tasks that are done, told while the driver waits for them.

In: a session, what the step works on. Out: progress (`tidegauge.progress`). Watching never ends a step, and asks
nothing any more once the step is over. Tasks have about equal bytes and partitions (`segment_tasks.by_bytes`,
`by_partition.tasks`), so the share of tasks stands for these.
"""

import logging
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from tidegauge.progress import Advance, is_shown, working

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_LOG: Final = logging.getLogger(__name__)
_EVERY_S: Final = 1.0


@contextmanager
def watched(spark: "SparkSession", what: str, unit: str, *, parts: int, size_bytes: int = 0) -> Iterator[None]:
    """Shows how many of so many parts and bytes are done, while the block runs jobs."""
    if not is_shown():
        yield
        return
    over = threading.Event()
    with working(what, unit, parts=parts, size_bytes=size_bytes) as advance:
        thread = threading.Thread(
            target=_watch, args=(spark, advance, parts, size_bytes, over), name=f"watch-{what}", daemon=True
        )
        thread.start()
        try:
            yield
        finally:
            over.set()
            thread.join()


def _watch(spark: "SparkSession", advance: Advance, parts: int, size_bytes: int, over: threading.Event) -> None:
    told_parts = told_bytes = 0
    while not over.wait(_EVERY_S):
        try:
            share = _share_done(spark)
        except Exception as error:  # Whatever it is, the step itself tells what matters.
            _LOG.debug("Spark does not tell how far it is: %s", error)
            return
        now_parts, now_bytes = max(told_parts, int(share * parts)), max(told_bytes, int(share * size_bytes))
        if (now_parts, now_bytes) != (told_parts, told_bytes):
            advance(now_parts - told_parts, now_bytes - told_bytes)
            told_parts, told_bytes = now_parts, now_bytes


def _share_done(spark: "SparkSession") -> float:
    """Of the largest stage that is at work: the others shuffle what it reads, or gather what it counted."""
    tracker = spark.sparkContext.statusTracker()
    stages = [tracker.getStageInfo(stage_id) for stage_id in tracker.getActiveStageIds()]
    largest = max((stage for stage in stages if stage is not None), key=lambda stage: stage.numTasks, default=None)
    return largest.numCompletedTasks / largest.numTasks if largest is not None and largest.numTasks else 0.0
