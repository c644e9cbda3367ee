"""The ledger of acknowledgements beside a simulated snapshot: TRUTH.json.

In: a snapshot's directory. Out: what producers with acks=all were told, by partition; None where there is no such file,
as there never is beside a captured one. D19 alone judges it. Nothing else of an audit reads the truth about a simulated
cluster, or the audit could not be scored by it.
"""

import json
from typing import Any, Final

from tidegauge.facts.context import Acknowledged
from tidegauge.kafka_log.types import TopicPartition
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import LeftOut, Manifest, Source

TRUTH: Final = "TRUTH.json"
_ALL: Final = -1

Ledger = dict[TopicPartition, tuple[Acknowledged, ...]]


def read_ledger(root: Location, manifest: Manifest, unread: list[LeftOut]) -> Ledger | None:
    """The acknowledgements of acks=all by topic and partition."""
    if manifest.source is not Source.SIMULATED or not (root / TRUTH).exists():
        return None
    found: dict[TopicPartition, list[Acknowledged]] = {}
    try:
        truth: dict[str, Any] = json.loads((root / TRUTH).read_text(encoding="utf-8"))
        begun = {c["partition"]: c["at_ms"] for c in truth.get("elections", ()) if c["kind"] == "first"}
        for told in truth["acknowledged"]:
            # What was told before is of a topic of the same name that is gone.
            of_this_topic = told["at_ms"] >= begun.get(told["partition"], 0)
            if told["acks"] == _ALL and told["base_offset"] >= 0 and of_this_topic:
                topic, _, partition = told["partition"].rpartition("-")
                found.setdefault(TopicPartition(topic, int(partition)), []).append(
                    Acknowledged(
                        base_offset=told["base_offset"],
                        last_offset=told["last_offset"],
                        leader_epoch=told["leader_epoch"],
                    )
                )
    except (OSError, ValueError, KeyError, TypeError) as error:
        unread.append(LeftOut(path=TRUTH, reason=f"cannot be read: {error}"))
        return None
    return {key: tuple(value) for key, value in found.items()}
