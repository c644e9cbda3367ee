"""What a run leaves on the disk: no secret, and nothing that another user of the machine can read."""

import stat
from pathlib import Path

import pytest

from tests.derivation.small_cluster import small_world, taken, written
from tests.security.command import tidegauge
from tidegauge.audit.request import AuditRequest
from tidegauge.audit.steps import begin
from tidegauge.runs.run import NO_STORE, load
from tidegauge.runs.store_address import with_secrets, without_secrets

PASSWORD = "hunter2-is-secret"


@pytest.fixture(scope="module")
def snapshot(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return taken(written(tmp_path_factory.mktemp("secrets") / "copy", small_world()))


def open_to_others(directory: Path) -> list[tuple[str, str]]:
    """What users that are not of the group can read, write or enter."""
    return [
        (path.relative_to(directory).as_posix(), stat.filemode(mode))
        for path in sorted((directory, *directory.rglob("*")))
        if (mode := path.lstat().st_mode) & stat.S_IRWXO and not stat.S_ISLNK(mode)
    ]


@pytest.mark.parametrize(
    "url",
    [
        f"postgresql+psycopg2://sre:{PASSWORD}@store.example:5433/audits",
        f"postgresql://sre@store.example/audits?password={PASSWORD}&sslmode=require",
        f"postgresql://sre:{PASSWORD}@/audits?host=/run/postgresql&sslpassword={PASSWORD}&passfile=/x/{PASSWORD}",
    ],
)
def test_the_stores_password_is_not_kept_and_comes_from_who_goes_on(url: str, snapshot: Path, tmp_path: Path) -> None:
    run = begin(AuditRequest(snapshots=(str(snapshot),), out=tmp_path / "out", fail_on="never", store=url))
    assert run.store_url == url, "this process may use it"
    for path in (tmp_path / "out").rglob("*"):
        assert path.is_dir() or PASSWORD.encode() not in path.read_bytes(), path
    kept = load(tmp_path / "out").store_url
    assert kept == without_secrets(url)
    assert with_secrets(kept, url) == url
    assert with_secrets(kept, None) == kept
    assert with_secrets(kept, f"postgresql://sre:{PASSWORD}@elsewhere.example/audits") == kept


def test_a_run_without_a_store_says_so(snapshot: Path, tmp_path: Path) -> None:
    begin(AuditRequest(snapshots=(str(snapshot),), out=tmp_path / "out", fail_on="never", store=NO_STORE))
    assert load(tmp_path / "out").store_url == NO_STORE


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
def test_nobody_else_can_read_what_an_audit_leaves(snapshot: Path, tmp_path: Path) -> None:
    out = tmp_path / "runs" / "out"
    done = tidegauge("audit", snapshot, "--out", out, "--store", NO_STORE, home=tmp_path / "home", umask=0)
    assert done.returncode in (0, 1), done.stderr
    assert open_to_others(tmp_path / "runs") == []


@pytest.mark.slow
def test_salvaged_records_are_their_owners_alone(snapshot: Path, tmp_path: Path) -> None:
    out = tmp_path / "salvaged"
    done = tidegauge(
        "salvage", snapshot, "--topic", "orders", "--partition", 0, "--broker", 1, "--from", 0, "--out", out,
        home=tmp_path / "home", umask=0,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert (out / "records.jsonl").stat().st_size > 0
    for path in (out, *out.rglob("*")):
        assert path.stat().st_mode & (stat.S_IRWXG | stat.S_IRWXO) == 0, path
