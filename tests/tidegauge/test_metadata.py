"""`tidegauge metadata`: the image of an offset, two of them side by side, and offsets that cannot be reached."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tests.derivation.damage import copy_of
from tests.derivation.metadata_damage import at, metadata_record, metadata_snapshots, records_of, rewrite, without_head
from tidegauge.cli.main import main


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["metadata", *map(str, arguments)])


@pytest.fixture
def copy(golden: Golden, tmp_path: Path) -> Path:
    return copy_of(golden("healthy"), tmp_path / "copy", "__cluster_metadata-0")


def test_the_image_of_an_offset_is_what_was_in_force_below_it(copy: Path) -> None:
    early = json.loads(run(copy, "--at", 30, "--kind", "topic", "--kind", "partition", "--json").stdout)
    assert (early["offset"], early["node_id"], early["begun_with"], early["damaged"]) == (30, 1, None, False)
    assert [e["name"] for e in early["entries"]] == ["plain"], "its partitions come with the next record"
    (plain,) = early["entries"]
    assert plain["metadata_offset"] == 27
    features = run(copy, "--kind", "feature").stdout
    assert 'metadata.version  {"level":33}' in features


def test_two_offsets_differ_in_what_was_written_between_them(copy: Path) -> None:
    told = run(copy, "--at", 100, "--against", 130).stdout.splitlines()
    assert told[-1] == "25 entries differ"
    assert [line for line in told if line.startswith("producer ids")] == [
        'producer ids  next  only against: {"next_producer_id":1000}'
    ]
    found = json.loads(run(copy, "--at", 130, "--against", 130, "--json").stdout)
    assert found["differences"] == []


def test_a_node_has_what_its_own_snapshot_and_the_log_behind_it_say(copy: Path) -> None:
    assert run(copy, "--node", 2).stdout.splitlines()[-1] == "they say the same"
    acl = metadata_record("AccessControlEntryRecord", 0, id="tXJ0eUxxTuGcBQ2hvBCuEg", principal="User:mallory")
    snapshot = metadata_snapshots(copy)[1]
    first = next(o for o, r in records_of(snapshot) if r.name == "RegisterControllerRecord")
    rewrite([snapshot], at(first, acl))
    (found,) = json.loads(run(copy, "--node", 2, "--kind", "acl", "--json").stdout)["differences"]
    assert (found["name"], found["at"], found["against"]["principal"]) == (
        "tXJ0eUxxTuGcBQ2hvBCuEg",
        None,
        "User:mallory",
    )
    assert run(copy, "--node", 3).stdout.splitlines()[-1] == "they say the same"


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (("--at", 10_000), "Offset 10000 is beyond the metadata log of node 1, which ends at 462."),
        (("--node", 9), "no metadata log of node 9, only of [1, 2, 3]"),
        (("--kind", "quotas"), "quotas: the kinds are feature, broker"),
    ],
)
def test_what_cannot_be_shown_says_why(copy: Path, arguments: tuple[object, ...], says: str) -> None:
    result = run(copy, *arguments)
    assert result.exit_code == 2
    assert says in " ".join(result.output.split())


def test_an_offset_before_the_oldest_snapshot_of_a_log_without_a_head_is_refused(
    golden: Golden, tmp_path: Path
) -> None:
    whole = copy_of(golden("pair-clean-b2"), tmp_path / "whole", "__cluster_metadata-0")
    cut = copy_of(whole, tmp_path / "cut", "__cluster_metadata-0")
    without_head(cut, 200)
    refused = run(cut, "--at", 100)
    assert refused.exit_code == 2
    assert "Ask for offset 266 or later." in " ".join(refused.output.split())
    asked = ("--at", 700, "--json")
    ours, theirs = (json.loads(run(d, *asked).stdout)["entries"] for d in (cut, whole))
    assert [(e["kind"], e["name"], e["value"]) for e in ours] == [(e["kind"], e["name"], e["value"]) for e in theirs]
