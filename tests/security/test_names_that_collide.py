"""Snapshots that call themselves and their clusters so that their results would lie in one place, or in none."""

import json
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

from tests.derivation.small_cluster import small_world, taken, written
from tests.sampling import one_in
from tidegauge.cli.main import main
from tidegauge.runs.run import Run, load, new_run
from tidegauge.runs.run_places import folders
from tidegauge.runs.survivors import failed_error, going_on
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.manifest import MANIFEST_NAME


@pytest.fixture(scope="module")
def sound(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(written(tmp_path_factory.mktemp("sound") / "copy", small_world()))


def called(sound: Path, directory: Path, cluster: str, snapshot_id: str) -> str:
    """The same files under other names."""
    shutil.copytree(sound, directory)
    manifest = json.loads((directory / MANIFEST_NAME).read_text(encoding="utf-8"))
    named = manifest | {"cluster": cluster, "snapshot_id": snapshot_id}
    (directory / MANIFEST_NAME).write_text(json.dumps(named), encoding="utf-8")
    return str(directory)


def a_run(directory: Path, *snapshots: str) -> Run:
    return new_run(directory, snapshots, store_url="none", fail_on="never", started_at_ms=0)


CLASHES = [
    ("prod_eu", "prod/eu"),
    ("prod_eu", "prod\\eu"),
    ("prod/eu", "prod\\eu"),
    ("prod", "Prod"),
    ("stra\N{LATIN SMALL LETTER SHARP S}e", "STRASSE"),
    ("caf\N{LATIN SMALL LETTER E WITH ACUTE}", "cafe\N{COMBINING ACUTE ACCENT}"),
    ("_", ".."),
    ("_", ""),
    ("c" * 255, "c" * 254 + "d"),
    ("work", "failed"),
]


@pytest.mark.parametrize(("one", "other"), one_in(5, CLASHES), ids=lambda name: repr(name)[:12])
def test_two_clusters_never_share_a_folder(sound: Path, tmp_path: Path, one: str, other: str) -> None:
    given = [called(sound, tmp_path / str(n), cluster, "s") for n, cluster in enumerate((one, other))]
    run = a_run(tmp_path / "run", *given)
    targets = [snapshot.target for snapshot in run.snapshots]
    assert len({str(target).casefold() for target in targets}) == 2
    for target in targets:
        target.mkdir(parents=True)
        assert target.parent.parent == tmp_path / "run"
        assert target.parent not in (run.work, Path(run.failures.directory))
    assert [snapshot.target for snapshot in load(tmp_path / "run").snapshots] == targets


@pytest.mark.slow
def test_ids_of_a_cluster_never_share_a_folder(sound: Path, tmp_path: Path) -> None:
    given = [called(sound, tmp_path / str(n), "prod", name) for n, name in enumerate(("a_b", "a/b", "x" * 255))]
    targets = [snapshot.target for snapshot in a_run(tmp_path / "run", *given).snapshots]
    assert targets[0] == tmp_path / "run" / "prod" / "a_b", "a name that can be a folder's is its folder's"
    assert len(set(targets)) == 3
    for target in targets:
        target.mkdir(parents=True)


def test_a_name_made_like_anothers_folder_is_told_apart_from_it() -> None:
    made = folders(["prod/eu"])["prod/eu"]
    assert made.startswith("prod_eu~")
    both = folders(["prod/eu", made])
    assert both["prod/eu"] == made
    assert both[made] != made


NAMES = st.text(st.sampled_from("aA\N{LATIN SMALL LETTER E WITH ACUTE}~_./\\- \n\N{ROMAN NUMERAL ONE}"), max_size=6)


@given(st.sets(NAMES, max_size=20))
def test_whatever_they_are_called(names: set[str]) -> None:
    found = folders(names)
    assert found.keys() == names
    assert len({folder.casefold() for folder in found.values()}) == len(names)
    for folder in found.values():
        assert folder not in ("", ".", "..")
        assert not set(folder) & {"/", "\\", "\0", "\n"}
        assert len(folder.encode()) <= 255


@pytest.mark.slow
def test_one_that_is_there_twice_is_its_own_failure_and_the_others_go_on(sound: Path, tmp_path: Path) -> None:
    first, other, again = (
        called(sound, tmp_path / name, "prod", snapshot_id)
        for name, snapshot_id in (("first", "one"), ("other", "two"), ("again", "one"))
    )
    run = a_run(tmp_path / "run", first, other, again)
    assert [str(snapshot.root) for snapshot in going_on(run).snapshots] == [first, other]
    error = failed_error(run)
    assert isinstance(error, SnapshotError), "exit 2"
    assert f"{first} and {again} are both prod/one, and the first of them is audited." in str(error)


def test_a_path_that_reads_like_a_key_takes_nobody_along(
    sound: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    called(sound, tmp_path / "prod" / "one", "prod", "one")
    monkeypatch.chdir(tmp_path)
    run = a_run(tmp_path / "run", "prod/one", "prod/one")
    assert [snapshot.key for snapshot in going_on(run).snapshots] == ["prod/one"]


@pytest.mark.slow
def test_an_earlier_one_under_the_name_of_another_fails_with_its_snapshot_alone(sound: Path, tmp_path: Path) -> None:
    first = called(sound, tmp_path / "first", "prod", "one")
    second = called(sound, tmp_path / "second", "prod", "two")
    forged = called(sound, tmp_path / "forged", "prod", "one")
    run = new_run(
        tmp_path / "run", (first, second), store_url="none", fail_on="never", started_at_ms=0, previous={second: forged}
    )
    assert [snapshot.key for snapshot in run.snapshots] == ["prod/one"]
    assert f"{forged} and {first} are both prod/one" in str(failed_error(run))


@pytest.mark.slow
def test_it_is_exit_two_in_the_end(sound: Path, tmp_path: Path) -> None:
    first, again = (called(sound, tmp_path / name, "prod", "one") for name in ("first", "again"))
    done = CliRunner().invoke(
        main, ["job", "snapshot", "--run", str(tmp_path / "run"), "--store", "none", first, again]
    )
    assert done.exit_code == 0, "the step has something for the next one"
    assert "is left out" in done.output
    from tidegauge.audit.steps import raise_failures

    with pytest.raises(SnapshotError, match="1 of 2 snapshots could not be audited, the other 1 was"):
        raise_failures(load(tmp_path / "run"))
