"""Whether it means anything when a capture read each file: only while somebody wrote to the log directories.

In: a manifest, the metadata history of its copy. Out: the manifest, without the instants where they mean nothing. A
controller that is alive writes a record at least each half second (`metadata.max.idle.interval.ms`), so that the
metadata log of a cluster that runs ends where it was read. One that ends long before shows that what was read had been
copied before, such as volumes' snapshots of several moments, or that the whole cluster had stopped: the order in which
the capture read says nothing of the order in which the files were written, and the clock nothing of their age.

Sources: KIP-835; QuorumController, NoOpRecord.
"""

from dataclasses import replace
from typing import Final

from tidegauge.facts.metadata.history import MetadataHistory
from tidegauge.snapshots.manifest import Manifest

_APART_MS: Final = 60_000
"""How far the clocks of a controller and of who captures may lie apart, and how long an election may take."""


def read_long_after(manifest: Manifest, history: MetadataHistory) -> int | None:
    """When a capture began, if that was long after the last record of a controller that writes when there is nothing
    to say; None if it was not, or if nobody can tell.
    """
    started = min((b.read_started_at_ms for b in manifest.brokers if b.read_started_at_ms is not None), default=None)
    last, idle = history.last_record_at_ms, history.last_idle_record_at_ms
    if started is None or last is None or idle is None or last - idle > _APART_MS:
        return None
    return started if started - last > _APART_MS else None


def without_instants(manifest: Manifest) -> Manifest:
    """The same, as a plain copy is told of, or one that was captured as `--copied`."""
    return replace(manifest, brokers=tuple(broker.without_instants() for broker in manifest.brokers))
