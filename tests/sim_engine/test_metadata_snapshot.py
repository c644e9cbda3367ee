"""Snapshots of the metadata log beside those of real nodes: the same log gives the same file."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tidegauge.kafka_log.control import (
    ControlRecord,
    KRaftVoters,
    SnapshotFooter,
    SnapshotHeader,
    Voter,
    decode_control_record,
)
from tidegauge.kafka_log.metadata_records import MetadataRecord, decode_metadata_record
from tidegauge.kafka_log.records import Record, records_in
from tidegauge.kafka_log.scan import scan_buffer
from tidegauge.sim_engine.log.replica_log import LogConfig, append, new_log, with_epoch, with_high_watermark
from tidegauge.sim_engine.metadata.metadata_image import MetadataImage, image_records, replayed
from tidegauge.sim_engine.metadata.metadata_log import MetadataLog, begun, record, written
from tidegauge.sim_engine.metadata.metadata_snapshot import (
    Clock,
    bootstrap_records,
    cut_behind,
    first_snapshot,
    formatted_with,
    snapshot_data,
    taken,
)

Golden = Callable[[str], Path]
NOW_MS = 1_700_000_000_000
VOTERS = (
    Voter(
        voter_id=1,
        directory_id="sDmisJ-pQoCl0xghsJtxIA",
        endpoints=(("CONTROLLER", "127.0.0.1", 29091),),
        min_kraft_version=0,
        max_kraft_version=1,
    ),
)


def read(path: Path) -> Iterator[tuple[int, Record, ControlRecord | None]]:
    """A file's records, each with the epoch of its batch; control records decoded."""
    data = path.read_bytes()
    headers, _ = scan_buffer(data)
    for row, records in records_in(data, headers):
        assert isinstance(records, tuple)
        for each in records:
            control = decode_control_record(each) if headers[row]["control_type"] != -1 else None
            yield int(headers[row]["partition_leader_epoch"]), each, control  # type: ignore[misc]


def plain(path: Path) -> list[tuple[int, MetadataRecord]]:
    found = []
    for _, each, control in read(path):
        if control is None:
            decoded = decode_metadata_record(each.value or b"")
            assert isinstance(decoded, MetadataRecord)
            found.append((each.offset, decoded))
    return found


def clock_and_voters(path: Path) -> tuple[Clock, tuple[Voter, ...]]:
    """When a real node wrote a snapshot, and who voted."""
    voters: tuple[Voter, ...] = ()
    last = header = records = footer = 0
    for _, each, control in read(path):
        match control:
            case SnapshotHeader():
                last, header = control.last_contained_log_timestamp, each.timestamp
            case KRaftVoters():
                voters = control.voters
            case SnapshotFooter():
                footer = each.timestamp
            case None:
                records = each.timestamp
    return Clock(last_contained_ms=last, header_ms=header, records_ms=records, footer_ms=footer), voters


def in_their_order(ours: list[MetadataRecord], theirs: list[MetadataRecord]) -> list[MetadataRecord]:
    """Our records with resources' configs ordered as theirs: their order is by an enum's identity, new in each JVM."""
    rank: dict[object, int] = {}
    for each in theirs:
        if each.name == "ConfigRecord":
            rank.setdefault((each.fields["resource_type"], each.fields["resource_name"]), len(rank))
    configs = [each for each in ours if each.name == "ConfigRecord"]
    configs.sort(key=lambda r: rank[r.fields["resource_type"], r.fields["resource_name"]])
    first = next((i for i, each in enumerate(ours) if each.name == "ConfigRecord"), len(ours))
    return [*ours[:first], *configs, *ours[first + len(configs) :]]


@pytest.mark.parametrize("capture", ["healthy", "pair-clean-b2", "tiered"])
def test_a_real_nodes_snapshot_is_made_again_from_its_log(golden: Golden, capture: str) -> None:
    compared = 0
    for path in sorted(golden(capture).glob("broker-*/__cluster_metadata-0/*.checkpoint")):
        end_offset, leader_epoch = int(path.stem[:20]), int(path.stem[21:])
        if end_offset == 0:
            continue
        log = plain(path.parent / f"{0:020d}.log")
        image = replayed(MetadataImage(), (each for offset, each in log if offset < end_offset))
        clock, voters = clock_and_voters(path)
        ours = in_their_order(image_records(image), [each for _, each in plain(path)])
        assert snapshot_data(ours, leader_epoch=leader_epoch, voters=voters, clock=clock) == path.read_bytes(), path
        compared += 1
    assert compared


@pytest.mark.parametrize("capture", ["healthy", "epochs", "soak-01"])
def test_the_snapshot_that_a_node_was_formatted_with_is_made_again(golden: Golden, capture: str) -> None:
    for path in sorted(golden(capture).glob(f"broker-*/__cluster_metadata-0/{0:020d}-{0:010d}.checkpoint")):
        clock, voters = clock_and_voters(path)
        made = snapshot_data(bootstrap_records(), leader_epoch=0, voters=voters, clock=clock)
        assert made == path.read_bytes(), path


@pytest.mark.parametrize(
    ("capture", "levels"),
    [
        ("kafka-3.9", {"metadata.version": 21}),
        (
            "kafka-4.1",
            {
                "metadata.version": 27,
                "eligible.leader.replicas.version": 1,
                "group.version": 1,
                "transaction.version": 2,
            },
        ),
    ],
)
def test_the_bootstrap_file_of_earlier_versions_is_made_again(
    golden: Golden, capture: str, levels: dict[str, int]
) -> None:
    for path in sorted(golden(capture).glob("broker-*/bootstrap.checkpoint")):
        clock, _ = clock_and_voters(path)
        assert snapshot_data(bootstrap_records(levels), leader_epoch=0, voters=(), clock=clock) == path.read_bytes()


def grown(topics: int) -> MetadataLog:
    metadata = begun(leader_id=1, voters=VOTERS, now_ms=NOW_MS)
    metadata = written(metadata, bootstrap_records(), now_ms=NOW_MS)
    for number in range(topics):
        name, topic_id = f"topic-{number}", f"{number:06d}AAAAAAAAAAAAAAAA"
        batch = [
            record("TopicRecord", 0, name=name, topic_id=topic_id),
            record("ConfigRecord", 0, resource_type=2, resource_name=name, name="retention.ms", value="1000"),
            record(
                "PartitionRecord",
                2,
                partition_id=0,
                topic_id=topic_id,
                replicas=(1, 2),
                isr=(1, 2),
                leader=1,
                leader_epoch=0,
                partition_epoch=0,
                directories=("AAAAAAAAAAAAAAAAAAAAAA",) * 2,
            ),
        ]
        metadata = written(metadata, batch, now_ms=NOW_MS + number)
    return metadata


def test_an_image_told_and_replayed_is_the_same_image(golden: Golden) -> None:
    log = plain(golden("unclean-before") / "broker-2" / "__cluster_metadata-0" / f"{0:020d}.log")
    image = replayed(MetadataImage(), (each for _, each in log))
    told = image_records(image)
    again = replayed(MetadataImage(), told)
    assert image_records(again) == image_records(replayed(MetadataImage(), image_records(again)))
    assert again.cluster.topics == image.cluster.topics
    assert again.configs == image.configs
    assert again.cluster.features == image.cluster.features


def test_a_snapshot_of_a_snapshot_and_the_log_behind_it_is_one_of_the_whole_log() -> None:
    metadata = grown(40)
    first = first_snapshot(VOTERS, formatted_at_ms=NOW_MS)
    middle = taken(metadata.log, first, now_ms=NOW_MS, end_offset=3 + 6 + 3 * 20)
    assert middle.name == f"{69:020d}-{1:010d}.checkpoint"
    behind = taken(metadata.log, middle, now_ms=NOW_MS)
    assert behind == taken(metadata.log, first, now_ms=NOW_MS)
    assert len(behind.image.cluster.topics) == 40


def test_what_a_node_was_formatted_with_is_told_by_its_log() -> None:
    metadata = grown(3)
    assert formatted_with(metadata.log) == (first_snapshot(VOTERS, formatted_at_ms=NOW_MS),)
    assert formatted_with(new_log(LogConfig(), now_ms=NOW_MS)) == ()
    snapshot = taken(metadata.log, first_snapshot(VOTERS, formatted_at_ms=NOW_MS), now_ms=NOW_MS, end_offset=12)
    assert formatted_with(cut_behind(metadata.log, snapshot)) == ()


def test_a_log_behind_a_snapshot_begins_there() -> None:
    metadata = grown(60)
    small = with_epoch(new_log(LogConfig(segment_bytes=2048), now_ms=NOW_MS), 1, 0)
    log = small
    for segment in metadata.log.segments:
        for batch in segment.batches:
            log = append(log, batch, now_ms=NOW_MS)
    log = with_high_watermark(log, log.log_end_offset)
    assert len(log.segments) > 4
    snapshot = taken(log, first_snapshot(VOTERS, formatted_at_ms=NOW_MS), now_ms=NOW_MS, end_offset=9 + 3 * 33)
    cut = cut_behind(log, snapshot)
    assert cut.log_start_offset == snapshot.end_offset
    assert 0 < cut.segments[0].base_offset <= snapshot.end_offset
    assert cut.segments[1].base_offset > snapshot.end_offset
    assert cut.epochs[0].start_offset == snapshot.end_offset
    whole = taken(log, snapshot, now_ms=NOW_MS)
    assert taken(cut, snapshot, now_ms=NOW_MS) == whole


@pytest.mark.slow
def test_large_images_are_cut_into_batches() -> None:
    records = [
        record("TopicRecord", 0, name="t" * 200 + str(i), topic_id="AAAAAAAAAAAAAAAAAAAAAQ") for i in range(50_000)
    ]
    clock = Clock(last_contained_ms=1, header_ms=2, records_ms=3, footer_ms=4)
    headers, damage = scan_buffer(snapshot_data(records, leader_epoch=7, voters=VOTERS, clock=clock))
    assert not damage
    assert len(headers) == 2 + 2
    assert max(int(h["size_bytes"]) for h in headers) <= 8 << 20
    assert int(headers[-1]["last_offset"]) == 3 + 50_000
