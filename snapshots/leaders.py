"""Who leads which partition and whose each disk is, by a metadata log: enough to copy followers before leaders, and to
know a disk whose meta.properties is wrong.

In: the bytes of a metadata snapshot and of the log behind it. Out: (topic, partition) -> broker id; racks; directory id
-> node. What cannot be read is passed over; without an answer an order or a proof is missing,
and nothing else.
"""

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from numpy.typing import NDArray

from tidegauge.kafka_log.allowance import Allowance, of_internal_topic
from tidegauge.kafka_log.control import ControlType, KRaftVoters, decode_control_record
from tidegauge.kafka_log.corruption import Corruption
from tidegauge.kafka_log.metadata_records import MetadataRecord, decode_metadata_record
from tidegauge.kafka_log.records import records_in
from tidegauge.kafka_log.scan import scan_batches
from tidegauge.kafka_log.sources import PassZeros, ReadInto
from tidegauge.kafka_log.types import TopicPartition


@dataclass(slots=True, kw_only=True)
class Leaders:
    """What one metadata log says. `reach`: its last leader epoch and offset, to tell the furthest copy."""

    names: dict[str, str] = field(default_factory=dict)
    by_id: dict[tuple[str, int], int] = field(default_factory=dict)
    racks: dict[int, str | None] = field(default_factory=dict)
    owners: dict[str, int] = field(default_factory=dict)
    """Directory id -> the node that had it last: a broker's log dirs, and where a voter keeps the metadata log."""
    reach: tuple[int, int] = (-1, -1)

    def of(self, topic: str, partition: int) -> int | None:
        """The partition's leader; None if there is none, or nobody knows."""
        for topic_id, name in self.names.items():
            if name == topic and (topic_id, partition) in self.by_id:
                leader = self.by_id[topic_id, partition]
                return leader if leader >= 0 else None
        return None

    def by_name(self) -> dict[TopicPartition, int]:
        """Topic and partition -> leader, of all that have one."""
        return {
            TopicPartition(self.names[topic_id], partition): leader
            for (topic_id, partition), leader in self.by_id.items()
            if leader >= 0 and topic_id in self.names
        }


def read_leaders(files: Iterable[tuple[ReadInto, PassZeros]]) -> Leaders:
    """Reads the newest metadata snapshot, then the log's segments in order, each by its source."""
    leaders = Leaders()
    for readinto, pass_zeros in files:
        allowance = of_internal_topic()

        def on_rows(rows: NDArray[Any], data: memoryview, position: int, allowance: Allowance = allowance) -> None:
            leaders.reach = int(rows[-1]["partition_leader_epoch"]), int(rows[-1]["last_offset"])
            told = (rows["control_type"] == -1) | (rows["control_type"] >= ControlType.LEADER_CHANGE)
            wanted = rows[told & (rows["magic"] == 2) & (rows["crc_valid"] == 1)].copy()
            wanted["position"] -= position
            for at, records in records_in(data, wanted, allowance=allowance):
                for record in () if isinstance(records, Corruption) else records:
                    if wanted[at]["control_type"] != -1:
                        voters = decode_control_record(record, allowance=allowance)
                        if isinstance(voters, KRaftVoters):
                            leaders.owners.update({v.directory_id: v.voter_id for v in voters.voters})
                        continue
                    decoded = decode_metadata_record(record.value or b"", allowance=allowance)
                    if isinstance(decoded, MetadataRecord):
                        _apply(leaders, decoded)

        for _ in scan_batches(readinto, pass_zeros=pass_zeros, on_rows=on_rows):
            pass
    return leaders


def _apply(leaders: Leaders, record: MetadataRecord) -> None:
    fields: Any = record.fields
    match record.name:
        case "TopicRecord":
            leaders.names[str(fields["topic_id"])] = fields["name"]
        case "RemoveTopicRecord":
            leaders.names.pop(str(fields["topic_id"]), None)
        case "PartitionRecord":
            leaders.by_id[str(fields["topic_id"]), fields["partition_id"]] = fields["leader"]
        case "PartitionChangeRecord" if fields["leader"] != -2:
            leaders.by_id[str(fields["topic_id"]), fields["partition_id"]] = fields["leader"]
        case "RegisterBrokerRecord":
            leaders.racks[fields["broker_id"]] = fields["rack"]
            leaders.owners.update({str(d): fields["broker_id"] for d in fields.get("log_dirs") or ()})
        case "BrokerRegistrationChangeRecord":
            leaders.owners.update({str(d): fields["broker_id"] for d in fields.get("log_dirs") or ()})
        case _:
            pass
