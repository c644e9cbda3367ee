"""Snapshots in a real object store: verdicts are those of the same files on this machine, errors are one paragraph."""

import json
import os
import shutil
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from click.testing import CliRunner, Result

from tests.derivation.pipeline import derived
from tests.object_store.s3_server import BUCKET, S3Server, reached_by
from tidegauge.cli.main import main
from tidegauge.snapshots.adopt import adopt
from tidegauge.snapshots.location import location
from tidegauge.snapshots.manifest import MANIFEST_NAME

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.postgres]

ROOT = f"s3://{BUCKET}/prod"


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def put(server: S3Server, directory: Path, key: str) -> str:
    """Uploads a directory with another client than ours; its URL."""
    server.file_system().put(f"{directory}/", f"{BUCKET}/{key}/", recursive=True)
    return f"s3://{BUCKET}/{key}"


@pytest.fixture(scope="module")
def copy(golden, tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A capture with a manifest that has every digest."""
    directory = tmp_path_factory.mktemp("copies") / "unclean-before"
    shutil.copytree(golden("unclean-before"), directory)
    adopt(directory, cluster="prod", snapshot_id="one")
    return directory


@pytest.fixture(scope="module")
def url(copy: Path, s3_server: S3Server) -> str:
    return put(s3_server, copy, "prod/one")


def test_the_verdicts_are_those_of_the_same_files_here(copy, url, s3, golden, tmp_path):
    renamed = tmp_path / "copy"
    shutil.copytree(copy, renamed)
    manifest = renamed / MANIFEST_NAME
    manifest.write_text(manifest.read_text().replace('"snapshot_id": "one"', '"snapshot_id": "here"'))
    environ = {**reached_by(s3), "TIDEGAUGE_HOME": str(tmp_path / "home"), "AWS_SESSION_TOKEN": "token-of-a-session"}
    with (tmp_path / "said").open("w+", encoding="utf-8") as said:
        process = subprocess.Popen(
            [sys.executable, "-c", "from tidegauge.cli.start import run; run()", "audit", url, str(renamed),
             "--out", str(tmp_path / "out"), "--store", "none"],
            env=environ, stdout=said, stderr=subprocess.STDOUT,
        )  # fmt: skip
        commands = commands_of(process)
    assert process.returncode == 1, (tmp_path / "said").read_text(encoding="utf-8")
    assert any("java" in command for command in commands)
    for secret in ("AWS_SECRET_ACCESS_KEY", "AWS_SESSION_TOKEN"):
        assert not [command for command in commands if environ[secret] in command]
    there, here = (
        json.loads((tmp_path / "out" / "prod" / name / "report.json").read_text()) for name in ("one", "here")
    )
    assert len(there["losses"]) == 3
    for part in ("coverage", "invariants", "losses"):
        assert there[part] == here[part]
    assert [plain(breach) for breach in there["breaches"]] == [plain(breach) for breach in here["breaches"]]


def commands_of(process: subprocess.Popen[bytes]) -> set[str]:
    """The command lines, which everybody can read, of a process and all that it started, until it ended."""
    found: set[str] = set()
    while process.poll() is None:
        with suppress(psutil.NoSuchProcess):
            own = psutil.Process(process.pid)
            for each in (own, *own.children(recursive=True)):
                with suppress(psutil.NoSuchProcess):
                    found.add(" ".join(each.cmdline()))
        time.sleep(0.1)
    return found


def plain(breach: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in breach.items() if name != "next"}


def test_latest_is_the_newest_manifest_in_the_store(s3, url, monkeypatch, tmp_path):
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", f"s3://{BUCKET}/snaps")
    store = s3.file_system()
    for cluster, snapshot in (("prod", "z"), ("prod", "a"), ("other", "b")):
        for path in store.glob(f"{BUCKET}/prod/one/MANIFEST.*"):
            store.cp_file(path, f"{BUCKET}/snaps/{cluster}/{snapshot}/{path.rpartition('/')[2]}")
        os.utime(s3.objects / BUCKET / "snaps" / cluster / snapshot / MANIFEST_NAME, (1e9 + ord(snapshot) % 7,) * 2)
    store.pipe_file(f"{BUCKET}/snaps/prod/unfinished/broker-1/x", b"")
    from tidegauge.audit.latest_snapshots import resolve

    newest = max("za", key=lambda name: ord(name) % 7)
    assert resolve("latest", "prod") == f"s3://{BUCKET}/snaps/prod/{newest}"
    result = run("job", "snapshot", "latest", "--cluster", "prod", "--run", tmp_path / "run")
    assert result.exit_code == 0, result.output
    assert json.loads((tmp_path / "run" / "run.json").read_text())["snapshots"][0]["root"].endswith(f"/prod/{newest}")
    missing = run("job", "snapshot", "latest", "--cluster", "nobody", "--run", tmp_path / "other")
    assert missing.exit_code == 2
    assert f"No snapshot of nobody in s3://{BUCKET}/snaps/nobody" in missing.output


def test_a_snapshot_is_verified_where_it_lies(s3, url):
    result = run("snapshot", "verify", url)
    assert (result.exit_code, result.stdout) == (0, "prod/one: as its manifest says.\n")


def test_verifying_names_what_is_missing_changed_and_strange(s3, copy):
    broken = put(s3, copy, "prod/broken")
    below = location(broken)
    files = [name for name, size in below.sizes_below().items() if size and name.endswith(".log")]
    (below / files[0]).unlink()
    data = (below / files[1]).read_bytes()
    (below / files[1]).write_bytes(data[:-1] + bytes([data[-1] ^ 1]))
    (below / "broker-1" / "strange").write_bytes(b"?")
    result = run("snapshot", "verify", broken)
    assert result.exit_code == 1
    assert set(result.stdout.splitlines()) == {
        f"{files[0]}: missing",
        f"{files[1]}: its bytes have changed since the snapshot was taken",
        "broker-1/strange: not named in the manifest",
    }
    unread = derived(below).unread()
    assert unread[files[0]] == "cannot be read: No such file or directory"


def test_records_are_salvaged_from_there(s3, url, copy, tmp_path):
    ours, theirs = (
        run("salvage", place, "--topic", "orders", "--partition", "0", "--from", "800", "--out", tmp_path / name)
        for place, name in ((url, "there"), (copy, "here"))
    )
    assert ours.exit_code == theirs.exit_code == 0, ours.output
    for file in sorted((tmp_path / "here").rglob("*")):
        if file.is_file():
            assert (tmp_path / "there" / file.relative_to(tmp_path / "here")).read_bytes() == file.read_bytes()


@pytest.mark.parametrize(
    ("place", "told"),
    [
        ("s3://no-such-bucket/x", "does not exist"),
        (f"{ROOT}/nowhere", "does not exist"),
        (f"{ROOT}/one/{MANIFEST_NAME}", "is not a directory"),
        (f"{ROOT}/one/broker-1", f"has no {MANIFEST_NAME}, so it is no snapshot"),
        ("s3://", "names no bucket"),
    ],
)
def test_what_is_no_snapshot_is_said_in_one_paragraph(s3, url, tmp_path, place, told):
    result = run("audit", place, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert result.output.startswith(f"tidegauge: {place} ")
    assert told in result.output
    assert result.output.count("\n") == 1
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize(
    ("name", "value", "told"),
    [
        ("AWS_SECRET_ACCESS_KEY", "wrong", "denies access (SignatureDoesNotMatch)"),
        ("AWS_ACCESS_KEY_ID", "nobody", "denies access (InvalidAccessKeyId)"),
        ("AWS_ENDPOINT_URL", "http://127.0.0.1:1", "does not answer (Could not connect"),
    ],
)
def test_a_store_that_does_not_answer_us_is_the_environments_fault(s3, url, tmp_path, monkeypatch, name, value, told):
    monkeypatch.setenv(name, value)
    result = run("audit", url, "--out", tmp_path / "out")
    assert result.exit_code == 3
    assert result.output.startswith(f"tidegauge: {url}: the object store {told}")
    assert result.output.count("\n") == 1
    assert not (tmp_path / "out").exists()


def test_a_store_that_goes_away_is_no_verdict(s3, url, tmp_path):
    """Neither unread files nor a mistake of ours: the step fails, and may be tried again."""
    assert run("job", "snapshot", url, "--run", tmp_path).exit_code == 0
    done = subprocess.run(
        [sys.executable, "-c", "from tidegauge.cli.start import run; run()", "job", "index", "--run", str(tmp_path)],
        env={**reached_by(s3), "AWS_ENDPOINT_URL": "http://127.0.0.1:1", "TIDEGAUGE_SPARK_MASTER": "local[1]"},
        capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip
    assert done.returncode == 3
    assert "the object store does not answer" in done.stderr
    assert "Traceback" not in done.stderr
