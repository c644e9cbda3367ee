"""The simulated controller beside real ones: the same event on the same image gives the same records."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegauge.kafka_log.metadata_records import MetadataRecord, decode_metadata_record
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.sim_engine.metadata.controller import ClusterImage, applied, begin_shutdown, fence, register, unfence

Golden = Callable[[str], Path]
Change = tuple[tuple[str, object], ...]

CHANGED = ("leader", "isr", "leader_recovery_state", "eligible_leader_replicas", "last_known_elr")
UNSAID = {"leader": -2, "leader_recovery_state": -1}


def metadata_batches(broker: Path) -> Iterator[list[MetadataRecord]]:
    for path in sorted((broker / "__cluster_metadata-0").glob("*.log")):
        data = path.read_bytes()
        headers, _ = scan_buffer(data)
        for row, records in records_in(data, headers):
            if headers[row]["control_type"] == -1 and isinstance(records, tuple):
                decoded = [decode_metadata_record(r.value or b"") for r in records]
                assert all(isinstance(d, MetadataRecord) for d in decoded)
                yield [d for d in decoded if isinstance(d, MetadataRecord)]


def events(batch: list[MetadataRecord]) -> Iterator[tuple[MetadataRecord | None, list[MetadataRecord]]]:
    """What happened to brokers in a batch, each with its records. Fencing is noted behind what follows from it."""
    about = [each for each in batch if each.name in ("RegisterBrokerRecord", "BrokerRegistrationChangeRecord")]
    if len(about) == 1:
        yield about[0], batch
    elif not about or any(each.fields.get("fenced") == 1 for each in about):
        # Whose a change is cannot be told here.
        yield None, batch
    else:
        starts = [i for i, each in enumerate(batch) if any(each is a for a in about)]
        if starts[0] > 0:
            yield None, batch[: starts[0]]
        for start, end in zip(starts, [*starts[1:], len(batch)], strict=True):
            yield batch[start], batch[start:end]


def changes(records: list[MetadataRecord]) -> dict[tuple[object, object], Change]:
    said = {}
    for each in records:
        if each.name == "PartitionChangeRecord":
            fields = each.fields
            what = tuple(
                (name, tuple(sorted(value)) if isinstance(value := fields.get(name), tuple) else value)
                for name in CHANGED
                if fields.get(name) is not None and fields.get(name) != UNSAID.get(name)
            )
            said[fields["topic_id"], fields["partition_id"]] = what
    return said


@pytest.mark.parametrize("capture", ["healthy", "epochs", "unclean-before", "soak-01"])
def test_what_a_real_controller_decided_is_decided_again(golden: Golden, capture: str) -> None:
    decided = 0
    image = ClusterImage()
    broker = max(golden(capture).glob("broker-*"), key=lambda b: sum(len(x) for x in metadata_batches(b)))
    for batch in metadata_batches(broker):
        for first, event in events(batch):
            said = first.fields if first is not None else {}
            ours: list[MetadataRecord] | None = None
            if first is None:
                pass
            elif first.name == "BrokerRegistrationChangeRecord" and said["broker_id"] in image.brokers:
                number = int(str(said["broker_id"]))
                if said["in_controlled_shutdown"] == 1:
                    ours = begin_shutdown(image, number)
                elif said["fenced"] == 1:
                    ours = fence(image, number)
                elif said["fenced"] == -1:
                    ours = unfence(image, number)
            elif first.name == "RegisterBrokerRecord":
                before = image.brokers.get(int(str(said["broker_id"])))
                clean = not any(e.name == "PartitionChangeRecord" for e in event)
                ours = register(
                    image,
                    broker_id=int(str(said["broker_id"])),
                    broker_epoch=int(str(said["broker_epoch"])),
                    incarnation_id=str(said["incarnation_id"]),
                    log_dirs=tuple(map(str, said["log_dirs"])),  # type: ignore[arg-type]
                    previous_broker_epoch=before.broker_epoch if before is not None and clean else None,
                )
            if ours is not None:
                assert changes(ours) == changes(event), (capture, first)
                decided += len(changes(event))
            image = applied(image, event)
    assert decided > 5
