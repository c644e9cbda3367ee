"""A node's own copy of the metadata log, among its log dirs: whether there is one, and what it says of leaders.

In: a log dir held open, a node's meta.properties. Out: `Leaders`; or why no log dir of the node has the metadata log.
Every node of a KRaft cluster has a copy, so where none was given, another directory holds it; a broker of the ZooKeeper
era has none anywhere.
"""

from collections.abc import Iterable
from contextlib import ExitStack

from tidegauge.kafka_log.log_dir import is_live_log, parse_metadata_checkpoint
from tidegauge.kafka_log.properties import MetaProperties
from tidegauge.snapshots.copying import Meter, UnreadableError, reading
from tidegauge.snapshots.leaders import Leaders, read_leaders
from tidegauge.snapshots.manifest import LeftOut
from tidegauge.snapshots.other_directories import METADATA_DIR
from tidegauge.snapshots.source_files import SourceDirectory


def is_kraft(said: Iterable[MetaProperties | None]) -> bool:
    """Whether any of a node's meta.properties is one of KRaft, or of a migration to it."""
    return any(meta is not None and meta.of_kraft for meta in said)


def without_metadata_log(directory: str) -> LeftOut:
    """What a snapshot says of a KRaft node, by its folder's name, none of whose log dirs has the metadata log."""
    return LeftOut(
        path=f"{directory}/{METADATA_DIR}",
        reason="not in the copy: none of the node's log dirs holds its metadata log, and what it knew of leaders, "
        "elections and settings is there. Where its properties name a metadata.log.dir, that directory was not given",
    )


def leaders_of(directory: SourceDirectory, meter: Meter) -> Leaders:
    """By the newest metadata snapshot and the log, in a node's directory of the metadata log."""
    names = directory.names()
    snapshots = [name for name in names if parse_metadata_checkpoint(name) is not None]
    with ExitStack() as stack:
        files = []
        try:
            for name in [*snapshots[-1:], *(n for n in names if is_live_log(n))]:
                files.append(reading(stack.enter_context(directory.open(name)), meter))
            return read_leaders(files)
        except (OSError, UnreadableError):
            return Leaders()  # Only an order or a proof is missing then.
