"""Whose disks they are: which meta.properties is wrong, and what proves a disk all the same."""

from collections.abc import Collection, Mapping

import pytest

from tidegauge.kafka_log.properties import MetaProperties
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.identity import Claim, LogDirKey, Owners, Settled, settle

HERE, THERE = "A" * 22, "B" * 22


def claim(
    node: int, *, says: int | None = None, cluster: str | None = HERE, disk: str | None = None, log_dir: str = "."
) -> Claim:
    said = MetaProperties(
        version=1,
        node_id=node if says is None else says,
        directory_id=disk or f"disk-{node}{log_dir}",
        cluster_id=cluster,
        corruptions=(),
    )
    return Claim(node_id=node, log_dir=log_dir, path=f"broker-{node}/{log_dir}/meta.properties", said=said)


def nothing_said(node: int) -> Claim:
    return Claim(node_id=node, log_dir=".", path=f"broker-{node}/meta.properties", said=None)


def settled(*claims: Claim, logs: Mapping[int, Owners] | None = None, hint: str | None = None) -> Settled:
    """`logs`: node -> what its metadata log knows; asked of several, the newest tells: that of the highest node."""

    def owners_by(places: Collection[LogDirKey]) -> Owners:
        asked = sorted(node for node in logs or {} if any(place[0] == node for place in places))
        return (logs or {})[asked[-1]] if asked else {}

    return settle(claims, owners_by, hint=hint)


def test_files_that_agree_are_everybodys_own_and_no_metadata_log_is_read() -> None:
    def nobody(_: Collection[LogDirKey]) -> Owners:
        raise AssertionError("read for nothing")

    found = settle([claim(1), claim(2), nothing_said(3)], nobody)
    assert (found.cluster_id, found.wrong, found.foreign) == (HERE, {}, {})


def test_the_cluster_is_that_of_most_nodes_and_not_of_most_log_dirs() -> None:
    many = [claim(3, cluster=THERE, log_dir=f"d{n}") for n in range(5)]
    found = settled(claim(1), claim(2), *many)
    assert found.cluster_id == HERE
    assert found.foreign.keys() == {(3, f"d{n}") for n in range(5)}


def test_a_disk_that_the_others_metadata_log_knows_counts_though_its_file_is_wrong() -> None:
    logs = {1: {"disk-3.": 3}}
    for wrong in (claim(3, cluster=THERE), claim(3, says=7), claim(3, says=2)):
        found = settled(claim(1), claim(2), wrong, logs=logs)
        assert (found.cluster_id, found.foreign) == (HERE, {})
        assert found.wrong.keys() == {(3, ".")}


def test_what_the_wrong_nodes_own_metadata_log_says_proves_nothing() -> None:
    assert settled(claim(1), claim(2), claim(3, cluster=THERE), logs={3: {"disk-3.": 3}}).foreign.keys() == {(3, ".")}


def test_a_copy_of_another_nodes_disk_is_the_one_that_does_not_count() -> None:
    found = settled(claim(1), claim(2), claim(3, says=2, disk="disk-2."), logs={1: {"disk-2.": 2}})
    assert found.foreign.keys() == {(3, ".")}
    assert "its directory id is node 2's" in found.foreign[3, "."]


def test_one_log_dir_of_a_node_may_be_somebody_elses() -> None:
    found = settled(claim(1), claim(2, log_dir="d1"), claim(2, log_dir="d2", cluster=THERE))
    assert found.foreign.keys() == {(2, "d2")}
    assert (
        settled(claim(1, log_dir="a"), claim(1, log_dir="b"), claim(1, log_dir="c", cluster=THERE)).cluster_id == HERE
    )


def test_a_file_that_says_nothing_contradicts_nobody() -> None:
    assert settled(claim(1), claim(2, cluster=THERE), claim(3), nothing_said(4)).foreign.keys() == {(2, ".")}


def test_one_against_one_is_not_decided_but_one_cluster_where_a_metadata_log_knows_both() -> None:
    found = settled(claim(1), claim(2, cluster=THERE), logs={1: {"disk-1.": 1, "disk-2.": 2}})
    assert (found.cluster_id, found.foreign, found.wrong) == (None, {}, {})
    assert settled(claim(1), claim(2, cluster=THERE), hint=THERE).foreign.keys() == {(1, ".")}


def test_one_against_one_that_nothing_connects_is_no_snapshot() -> None:
    with pytest.raises(SnapshotError, match=r"mixes log directories of 2 clusters: .*broker-2.* says BBBB"):
        settled(claim(1), claim(2, cluster=THERE), logs={1: {"disk-1.": 1}, 2: {"disk-2.": 2}})


def test_of_two_against_two_the_side_counts_whose_metadata_log_knows_more() -> None:
    sides = [claim(1), claim(2), claim(3, cluster=THERE), claim(4, cluster=THERE)]
    found = settled(*sides, logs={2: {"disk-3.": 3}})
    assert (found.cluster_id, found.foreign.keys()) == (HERE, {(4, ".")})


@pytest.mark.parametrize("claims", [[claim(7, says=2)], [claim(1, says=2), claim(2, says=1)]])
def test_names_that_are_a_slip_are_refused_when_they_are_given_and_stand_later(claims: list[Claim]) -> None:
    with pytest.raises(SnapshotError, match=r"belongs to broker 2 .* Rename the directory to broker-"):
        settled(*claims)
    later = settle(claims, lambda _: {}, names_are_fresh=False)
    assert later.foreign.keys() == {c.place for c in claims}
