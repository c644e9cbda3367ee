"""Directories above what we write: whoever may write to one can exchange what lies below it, while a command runs."""

import os
from pathlib import Path

import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tests.sampling import one_in
from tests.security.command import tidegauge
from tests.security.test_run_directories_that_attack import a_run
from tidegauge.embedded import postgres_directory
from tidegauge.runs import run as runs
from tidegauge.runs.errors import SnapshotError, StoreError
from tidegauge.runs.run_places import check_own
from tidegauge.snapshots import places_above
from tidegauge.snapshots.places_above import weakness_above

NOBODY = 65534
OTHER = 65533


def given_to(place: Path, uid: int) -> Path:
    place.mkdir(exist_ok=True)
    os.chown(place, uid, uid)
    return place


def of_mode(place: Path, mode: int) -> Path:
    place.mkdir(exist_ok=True)
    place.chmod(mode)
    return place


needs_root = pytest.mark.usefixtures("root")


@pytest.fixture
def root(monkeypatch: pytest.MonkeyPatch) -> None:
    """Who is root gives directories away; for anybody else his own directories are somebody else's, once he asks as
    root.
    """
    if os.geteuid() != 0:
        monkeypatch.setattr(os, "geteuid", lambda: 0)
        monkeypatch.setattr(os, "chown", lambda *_: None)


# ----------------------------------------------------------------------------------------------- who runs it is root


@needs_root
@pytest.mark.parametrize("below", ["run", "a/b/run", "../eve/run"])
def test_root_writes_nothing_below_a_directory_of_another_user(tmp_path: Path, below: str) -> None:
    told = weakness_above(given_to(tmp_path / "eve", NOBODY) / below)
    assert told is not None
    assert "who could exchange what root writes below it" in told
    assert "chown root" in told


@pytest.mark.slow
def test_root_s_audit_below_another_user_s_home_ends_with_a_sentence_and_writes_nothing(tmp_path: Path) -> None:
    """The command as it is. Who is not root is only refused where everybody may write."""
    snapshot = taken(written(tmp_path / "copy", small_world()))
    home = tmp_path / "eve"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    else:
        home.chmod(0o777)
    for step in ("snapshot", "publish"):
        given = (snapshot,) if step == "snapshot" else ()
        done = tidegauge("job", step, *given, "--run", home / "runs" / "x", "--store", "none", home=tmp_path / "home")
        assert done.returncode == 2, done.stderr
    words = " ".join(done.stderr.split())
    assert f"Nothing is written to {home / 'runs' / 'x'}: it is not safe there." in words
    assert ("belongs to user 65534" if os.geteuid() == 0 else "Everybody may write to") in words
    assert list(home.iterdir()) == []


@needs_root
def test_who_asked_sudo_runs_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`sudo tidegauge audit … --out result` in one's own home."""
    home = given_to(tmp_path / "ada", NOBODY)
    monkeypatch.setenv("SUDO_UID", str(home.stat().st_uid))
    assert weakness_above(home / "result" / "x") is None
    monkeypatch.setenv("SUDO_UID", str(OTHER))
    assert weakness_above(home / "result" / "x") is not None


def test_sudo_s_word_counts_for_root_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    home = of_mode(tmp_path / "open", 0o777)
    monkeypatch.setenv("SUDO_UID", str(home.stat().st_uid))
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert weakness_above(home / "result") is not None


def _written_by(step: str, home: Path, snapshot: Path) -> list[object]:
    """The command that writes below `home`. What it reads need not be there: it is refused before."""
    out = home / "a" / "b"
    commands: dict[str, list[object]] = {
        "capture": ["capture", "--cluster", "small", "--broker", f"1={snapshot / 'broker-1'}", "--out", out],
        "adopt": ["snapshot", "adopt", home, "--cluster", "small"],
        "salvage": ["salvage", snapshot, "--topic", "orders", "--partition", 0, "--out", out],
        "gx export": ["gx", "export", out],
        "simulate": ["simulate", "leader-epoch-truncation", "--out", out],
        "a random world": ["simulate", "--seed", 1, "--out", out],
        "explore": ["explore", "Kip320", "--out", out],
        "score": ["score", "--scenarios", "--out", out, "--store", "none"],
        "dump": ["store", "dump", home / "x.dump"],
    }
    return commands[step]


@pytest.mark.parametrize(
    "step",
    one_in(5, ["capture", "adopt", "salvage", "gx export", "simulate", "a random world", "explore", "score", "dump"]),
)
def test_no_command_writes_where_somebody_else_could_exchange_it(tmp_path: Path, step: str) -> None:
    """Root's dump went where the directory's owner led it, by renaming root's directory beside the target."""
    snapshot = taken(written(tmp_path / "copy", small_world()))
    home = tmp_path / "eve"
    home.mkdir()
    if os.geteuid() == 0:
        os.chown(home, NOBODY, NOBODY)
    else:
        home.chmod(0o777)
    done = tidegauge(*_written_by(step, home, snapshot), home=tmp_path / "home")
    words = " ".join(done.stderr.split())
    assert done.returncode == 2, words
    assert "it is not safe there" in words
    assert f"{home} belongs to user 65534" in words or f"Everybody may write to {home}" in words
    assert list(home.iterdir()) == []


def test_a_directory_that_somebody_made_before_us_is_no_place_for_an_export(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp anybody may be quicker, between the look and the making."""
    shared = of_mode(tmp_path / "shared", 0o1777)
    looked = places_above.check_within

    def and_somebody_is_quicker(directory: Path) -> None:
        looked(directory)
        if not directory.exists():
            of_mode(directory, 0o777)

    monkeypatch.setattr(places_above, "check_within", and_somebody_is_quicker)
    with pytest.raises(SnapshotError, match="Everybody may write to"):
        places_above.made_safe(shared / "export")


# ------------------------------------------------------------------------------------------------------- whoever it is


@pytest.mark.parametrize("mode", [0o777, 0o2777, 0o757], ids=oct)
def test_a_place_below_one_that_everybody_may_write_to_is_refused(tmp_path: Path, mode: int) -> None:
    place = of_mode(tmp_path / "shared", mode) / "runs" / "x"
    for _ in range(2):
        told = weakness_above(place)
        assert told is not None
        assert told.startswith(f"Everybody may write to {tmp_path / 'shared'}, ")
        place.mkdir(parents=True, exist_ok=True)


@pytest.mark.parametrize("mode", [0o700, 0o755, 0o1777, 0o3777, 0o775, 0o2775, 0o770, 0o2770], ids=oct)
def test_ordinary_places_are_taken(tmp_path: Path, mode: int) -> None:
    """A home, a temporary directory, a project's with a shared group, a volume with Kubernetes' fsGroup."""
    shared = of_mode(tmp_path / "shared", mode)
    assert weakness_above(shared / "runs" / "x") is None
    (shared / "runs").mkdir()
    check_own(shared / "runs" / "x")


def test_what_somebody_laid_in_a_directory_of_everybody_s_is_no_way_to_a_place_of_ours(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    shared = of_mode(tmp_path / "shared", 0o1777)
    (shared / "link").symlink_to(tmp_path)
    assert weakness_above(shared / "link" / "run") is None
    if os.geteuid() == 0:
        os.lchown(shared / "link", NOBODY, NOBODY)
    else:  # then the link is of somebody else, and so is all that is above it
        monkeypatch.setattr(os, "geteuid", lambda: 0)
    told = weakness_above(shared / "link" / "run")
    assert told is not None
    assert f"user {(shared / 'link').lstat().st_uid}" in told


def test_a_link_is_followed_to_see_what_is_above_its_end(tmp_path: Path) -> None:
    of_mode(tmp_path / "open", 0o777)
    (tmp_path / "open" / "runs").mkdir()
    (tmp_path / "absolute").symlink_to(tmp_path / "open" / "runs")
    (tmp_path / "relative").symlink_to("open/../open/runs")
    for way in ("absolute", "relative"):
        for place in (tmp_path / way, tmp_path / way / "x"):
            told = weakness_above(place)
            assert told is not None, place
            assert str(tmp_path / "open") in told
    (tmp_path / "circle").symlink_to("circle")
    assert weakness_above(tmp_path / "circle" / "x") is None, "whoever opens it is told"


def test_the_top_of_a_volume_may_be_open_to_everybody_for_who_is_not_root(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As Kubernetes makes an emptyDir, and provisioners of NFS and local paths their volumes: root's, 0777."""
    volume = of_mode(tmp_path / "volume", 0o777)
    run = volume / "runs" / "x"
    assert weakness_above(run) is not None, "it is a directory like any other"
    monkeypatch.setattr(os.path, "ismount", lambda place: Path(place) == volume)
    real = Path.lstat

    def roots(place: Path) -> os.stat_result:
        found = real(place)
        return os.stat_result((*found[:4], 0, *found[5:]))

    monkeypatch.setattr(Path, "lstat", roots)
    monkeypatch.setattr(os, "geteuid", lambda: 10001)
    assert weakness_above(run) is None
    monkeypatch.setattr(os, "geteuid", lambda: 0)
    assert weakness_above(run) is not None, "root has the whole machine to lose"


def test_who_is_not_root_may_live_below_somebody_else_s_directory(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: OTHER)
    assert weakness_above(tmp_path / "home" / "runs" / "x") is None


# --------------------------------------------------------------------------------------------------- the embedded store


def test_the_embedded_postgres_does_not_lie_below_such_a_directory(tmp_path: Path) -> None:
    home = of_mode(tmp_path / "open", 0o777) / "home"
    with pytest.raises(StoreError, match="Everybody may write to"):
        postgres_directory.made(home / "postgres")


def test_a_directory_that_somebody_made_meanwhile_is_not_written_to(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In /tmp anybody may be quicker: what was not there when it was looked at is looked at again once it is made."""
    snapshot = taken(written(tmp_path / "copy", small_world()))
    shared = of_mode(tmp_path / "shared", 0o1777)
    checked = runs.check_own

    def and_somebody_is_quicker(directory: Path) -> None:
        checked(directory)
        if not directory.exists():
            directory.mkdir()
            directory.chmod(0o777)

    monkeypatch.setattr(runs, "check_own", and_somebody_is_quicker)
    with pytest.raises(SnapshotError, match="Everybody may write to"):
        a_run(shared / "run", snapshot)
    assert not (shared / "run" / "run.json").exists()
