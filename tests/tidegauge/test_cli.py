"""The command line on input that cannot be used, and the commands that need neither Spark nor a store."""

import base64
import errno
import json
import os
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tidegauge.cli.main import main


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def make_broker(directory: Path, broker: int, *, node: int | None = None, cluster: str = "abc") -> Path:
    log_dir = directory / f"broker-{broker}"
    log_dir.mkdir(parents=True)
    (log_dir / "meta.properties").write_text(f"version=1\nnode.id={node or broker}\ncluster.id={cluster}\n")
    return log_dir


@pytest.mark.parametrize("command", ["audit", "snapshot", "explain", "salvage", "job", "demo"])
def test_every_command_has_help(command):
    result = run(command, "--help")
    assert result.exit_code == 0
    assert "Usage" in result.output


def commands(group, *names):
    for name, command in group.commands.items():
        yield (*names, name), command
        if isinstance(command, click.Group):
            yield from commands(command, *names, name)


def test_every_command_s_help_ends_with_its_exit_codes():
    leaves = [(names, c) for names, c in commands(main) if not isinstance(c, click.Group)]
    assert len(leaves) > 20
    for names, _ in leaves:
        said = " ".join(run(*names, "--help").output.split())
        assert said.endswith("3 the environment; 70 our own error."), names
    assert "1 a breach at or above --fail-on" in " ".join(run("audit", "--help").output.split())


def test_what_may_not_be_read_is_told_by_its_reader_and_not_as_a_wrong_word():
    """Else it is exit 2 with a usage text: the words were right, and the system refused."""
    paths = [(n, p) for n, c in commands(main) for p in c.params if isinstance(p.type, click.Path)]
    assert len(paths) >= 20
    assert [names for names, parameter in paths if parameter.type.readable] == []


def test_a_directory_that_is_not_there(tmp_path):
    result = run("audit", tmp_path / "nowhere", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "does not exist" in result.output
    assert not (tmp_path / "out").exists()


def test_a_file_instead_of_a_directory(tmp_path):
    (tmp_path / "capture.tar.gz").write_bytes(b"\0")
    result = run("audit", tmp_path / "capture.tar.gz", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "Unpack it first" in result.output


def test_a_snapshot_of_zero_brokers(tmp_path):
    result = run("audit", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "holds no broker's log directories" in result.output
    assert "cp -a --sparse=always" in result.output


@pytest.mark.parametrize("command", [("store", "names"), ("store", "dump"), ("job", "snapshot", "--run")])
def test_a_store_s_address_that_is_none(tmp_path, command):
    if command != ("store", "names"):
        command = (*command, tmp_path / "new")
    if command[0] == "job":
        replica = make_broker(tmp_path / "copy", 1) / "orders-0"
        replica.mkdir()
        (replica / "00000000000000000000.log").touch()
        command = (*command, tmp_path / "copy")
    result = run(*command, "--store", "postgresql://user:s3cret@host:s3cret/db")
    assert result.exit_code == 2
    assert "Give postgresql+psycopg2://USER@HOST:PORT/DATABASE" in result.output
    assert "s3cret" not in result.output


def test_a_manifest_that_is_no_manifest(tmp_path):
    make_broker(tmp_path, 1)
    (tmp_path / "MANIFEST.json").write_text('{"schema_version": 1, "cluster": 7}')
    result = run("audit", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "not a manifest that can be used" in result.output


def test_log_directories_of_two_clusters(tmp_path):
    make_broker(tmp_path, 1, cluster="one")
    make_broker(tmp_path, 2, cluster="two")
    result = run("audit", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "mixes log directories of 2 clusters" in result.output


def test_a_broker_under_another_ones_name(tmp_path):
    make_broker(tmp_path, 1, node=4)
    result = run("audit", tmp_path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "Rename the directory to broker-4" in result.output


def test_one_snapshot_named_twice(tmp_path):
    replica = make_broker(tmp_path / "copy", 1) / "orders-0"
    replica.mkdir()
    (replica / f"{0:020d}.log").touch()
    result = run("job", "snapshot", tmp_path / "copy", tmp_path / "copy", "--run", tmp_path / "out", "--store", "none")
    assert "Name each once" in result.output
    assert len(json.loads((tmp_path / "out" / "run.json").read_text())["snapshots"]) == 1


def test_a_step_without_the_one_before(tmp_path):
    result = run("job", "evaluate", "--run", tmp_path)
    assert result.exit_code == 2
    assert "is not a run directory" in result.output


def test_the_newest_snapshot_needs_a_cluster(tmp_path):
    result = run("job", "snapshot", "latest", "--run", tmp_path)
    assert result.exit_code == 2
    assert "--cluster NAME" in result.output


@pytest.mark.parametrize("command", [("audit", "--out"), ("job", "snapshot", "--run")])
def test_a_snapshot_of_another_cluster_than_the_one_named_is_refused(tmp_path, command):
    make_broker(tmp_path / "copy", 1)
    assert run("snapshot", "adopt", tmp_path / "copy", "--cluster", "orders").exit_code == 0
    result = run(*command, tmp_path / "out", tmp_path / "copy", "--cluster", "payments")
    assert result.exit_code == 2
    assert "is a snapshot of orders, by its manifest, and not of payments" in " ".join(result.output.split())
    assert "--cluster orders" in result.output
    assert not (tmp_path / "out" / "run.json").exists()


def test_a_mistake_of_ours_is_never_exit_code_one(tmp_path, monkeypatch):
    make_broker(tmp_path / "copy", 1)
    monkeypatch.setattr("tidegauge.audit.steps.begin", lambda *_, **__: 1 / 0)
    result = run("audit", tmp_path / "copy", "--out", tmp_path / "out")
    assert result.exit_code == 70
    assert "ZeroDivisionError" in result.output


def test_a_reader_that_has_left_is_no_refusal_of_the_system(tmp_path):
    copy = tmp_path / "copy"
    make_broker(copy, 1)
    assert run("snapshot", "adopt", copy, "--cluster", "orders").exit_code == 0
    for n in range(9):
        (copy / f"strange-{n}").write_text("")
    reader, writer = os.pipe()
    os.close(reader)
    command = [
        sys.executable,
        "-u",
        "-c",
        "from tidegauge.cli.start import run; run()",
        "snapshot",
        "verify",
        str(copy),
    ]
    done = subprocess.run(command, stdout=writer, stderr=subprocess.PIPE, text=True, check=False)
    os.close(writer)
    assert done.returncode == 3
    assert "refused" not in done.stderr
    assert "BrokenPipe" not in done.stderr


def test_adopting_verifying_and_adopting_again(tmp_path):
    log_dir = make_broker(tmp_path, 1)
    assert run("snapshot", "adopt", tmp_path, "--cluster", "orders").exit_code == 0
    assert run("snapshot", "verify", tmp_path).exit_code == 0
    again = run("snapshot", "adopt", tmp_path, "--cluster", "orders")
    assert again.exit_code == 2
    assert "is a snapshot already" in again.output
    (log_dir / "meta.properties").write_text("version=1\nnode.id=1\ncluster.id=xyz\n")
    (log_dir / "new-file").write_text("")
    verified = run("snapshot", "verify", tmp_path)
    assert verified.exit_code == 1
    assert "broker-1/meta.properties: its bytes have changed" in verified.output
    assert "broker-1/new-file: not named in the manifest" in verified.output


def test_explaining_what_no_report_holds(tmp_path):
    (tmp_path / "report.json").write_text(json.dumps({"breaches": []}))
    result = run("explain", "D06-123", "--report", tmp_path)
    assert result.exit_code == 2
    assert "holds no breach D06-123" in result.output


def test_a_report_may_lie_in_a_folder_that_is_closed_to_us(tmp_path, monkeypatch):
    (tmp_path / "cluster" / "s1").mkdir(parents=True)
    listed = os.scandir

    def closed(path):
        if Path(path).name == "s1":
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(path))
        return listed(path)

    monkeypatch.setattr(os, "scandir", closed)
    result = CliRunner().invoke(main, ["explain", "d06-1", "--report", str(tmp_path)])
    assert result.exit_code == 3
    assert f"the system refused at {tmp_path / 'cluster' / 's1'}: Permission denied" in result.stderr


def test_salvage_takes_the_copy_that_alone_holds_the_records(golden, tmp_path):
    out = tmp_path / "saved"
    result = run(
        "salvage", golden("unclean-before"), "--topic", "orders", "--partition", 0, "--from", 800, "--out", out
    )
    assert result.exit_code == 0, result.output
    assert "700 records of orders-0 [800, 1500) from broker 1" in result.output
    records = [json.loads(line) for line in (out / "records.jsonl").read_text().splitlines()]
    assert [r["offset"] for r in records] == list(range(800, 1500))
    assert {r["leader_epoch"] for r in records} == {0}
    assert not any(r["survives_elsewhere"] for r in records)
    assert base64.b64decode(records[0]["value"])
    again = run("salvage", golden("unclean-before"), "--topic", "orders", "--partition", 0, "--out", out)
    assert again.exit_code == 2
    assert "is not empty" in again.output


def test_salvaged_batches_are_a_log_that_reads_back(golden, tmp_path):
    from tidegauge.kafka_log.scan import scan_buffer

    run(
        "salvage",
        golden("unclean-before"),
        "--topic",
        "payments",
        "--partition",
        0,
        "--from",
        463,
        "--out",
        tmp_path / "s",
    )
    (log,) = (tmp_path / "s" / "payments-0").glob("*.log")
    headers, corruptions = scan_buffer(log.read_bytes())
    assert not corruptions
    assert int(headers[0]["base_offset"]) == 463 == int(log.stem)
    assert int(headers[-1]["last_offset"]) == 712
