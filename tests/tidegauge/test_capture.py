"""`tidegauge capture` as a command: what it prints, how it exits, what it leaves."""

import json
import re
import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tests.derivation.apart import say
from tests.derivation.pipeline import derived, derived_once
from tests.snapshots.brokers import Log, log_dir
from tests.snapshots.test_capture_again import killed
from tidegauge.cli.main import main
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.manifest import MANIFEST_NAME


@pytest.fixture
def data(tmp_path: Path) -> Path:
    directory = log_dir(tmp_path / "data")
    orders = Log.new(directory / "orders-0")
    for _ in range(3):
        orders.append(50)
        orders.roll()
    orders.append(7)
    return directory


def capture(tmp_path: Path, *arguments: str) -> Result:
    return CliRunner().invoke(main, ["capture", "--cluster", "test", "--out", str(tmp_path / "out"), *arguments])


def of(result: Result) -> dict:
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout)


def test_a_capture_tells_where_it_is_and_what_it_cost(data, tmp_path):
    told = of(capture(tmp_path, "--broker", f"1={data}", "--json"))
    assert re.fullmatch(r"[0-9]{8}T[0-9]{6}Z", told["snapshot_id"])
    assert Path(told["snapshot"]) == tmp_path / "out/test" / told["snapshot_id"]
    files = [p for p in Path(told["snapshot"]).glob("broker-*/**/*") if p.is_file()]
    assert (told["files"], told["bytes"]) == (len(files), sum(p.stat().st_size for p in files))
    assert (told["linked_bytes"], told["previous"], told["left_out"]) == (0, None, [])
    manifest = json.loads((Path(told["snapshot"]) / MANIFEST_NAME).read_text())
    assert (manifest["source"], manifest["mode"], manifest["consistency"]) == ("captured", "full", "fuzzy")


def test_the_next_capture_links_what_the_newest_snapshot_holds_unless_told_not_to(data, tmp_path):
    one = of(capture(tmp_path, "--broker", f"1={data}", "--id", "one", "--json"))
    two = of(capture(tmp_path, "--broker", f"1={data}", "--id", "two", "--json"))
    assert (two["previous"], two["linked_bytes"] > one["bytes"] / 3) == ("one", True)
    three = of(capture(tmp_path, "--broker", f"1={data}", "--id", "three", "--previous", "none", "--json"))
    assert (three["previous"], three["linked_bytes"]) == (None, 0)
    four = of(capture(tmp_path, "--broker", f"1={data}", "--id", "four", "--previous", one["snapshot"], "--json"))
    assert four["previous"] == "one"


def test_a_newest_snapshot_that_is_broken_stops_no_capture_but_one_that_was_named_does(data, tmp_path):
    one = of(capture(tmp_path, "--broker", f"1={data}", "--id", "one", "--json"))
    (Path(one["snapshot"]) / MANIFEST_NAME).write_text("{")
    result = capture(tmp_path, "--broker", f"1={data}", "--id", "two")
    assert (result.exit_code, "Nothing is linked, since" in result.stderr) == (0, True)
    assert capture(tmp_path, "--broker", f"1={data}", "--id", "three", "--previous", one["snapshot"]).exit_code == 2


def test_without_json_it_says_what_to_run_next(data, tmp_path):
    result = capture(tmp_path, "--broker", f"1={data}", "--id", "one", "--max-mb-per-s", "500")
    assert result.exit_code == 0
    assert result.stdout.startswith("test/one: 1 brokers, ")
    assert f"Next: tidegauge audit {tmp_path / 'out/test/one'} --out OUT" in result.stdout


def test_shares_and_what_joins_them(data, tmp_path):
    result = capture(tmp_path, "--broker", f"1={data}", "--id", "one", "--part")
    assert "with --finish and no --broker" in result.stdout
    assert of(capture(tmp_path, "--id", "one", "--finish", "--json"))["finished"] is True


def test_what_joins_shares_waits_for_those_that_are_expected(data, tmp_path):
    """A scheduler tries it again; a node whose capture has not begun leaves no trace by which to miss it."""
    capture(tmp_path, "--broker", f"1={data}", "--id", "one", "--part")
    early = capture(tmp_path, "--id", "one", "--finish", "--expect", "1,2,30")
    assert early.exit_code == 3, early.output
    assert "holds no share yet of 2, 30, which --expect names. Nothing was joined." in early.stderr
    assert not (tmp_path / "out" / "c" / "one" / "MANIFEST.json").exists()
    assert capture(tmp_path, "--id", "one", "--finish", "--expect", "1").exit_code == 0


@pytest.mark.parametrize("shares", [False, True])
def test_of_a_copy_it_notes_no_instants_and_the_next_capture_links_it_all_the_same(data, tmp_path, shares):
    given = ["--broker", f"1={data}", "--copied"]
    of(capture(tmp_path, *given, "--id", "one", *(["--part"] if shares else []), "--json"))
    if shares:
        of(capture(tmp_path, "--id", "one", "--finish", "--json"))
    manifest = open_snapshot(tmp_path / "out" / "test" / "one").manifest
    (broker,) = manifest.brokers
    assert (broker.read_started_at_ms, broker.read_finished_at_ms) == (None, None)
    assert {file.read_at_ms for file in broker.files} == {None}
    assert all(file.sha256 for file in broker.files)
    assert of(capture(tmp_path, *given, "--id", "two", "--json"))["linked_files"] > 0


def test_an_unfinished_capture_is_told(data, tmp_path):
    killed(tmp_path, lambda: (tmp_path / f"out/one/broker-1/orders-0/{50:020d}.log").exists())
    (tmp_path / "out/one").rename(tmp_path / "out/moved")
    (tmp_path / "out/test").mkdir()
    (tmp_path / "out/moved").rename(tmp_path / "out/test/one")
    result = capture(tmp_path, "--broker", f"1={tmp_path / 'data'}", "--id", "two")
    assert "is unfinished: go on with it by --id one" in result.stderr
    assert of(capture(tmp_path, "--broker", f"1={tmp_path / 'data'}", "--id", "one", "--json"))["finished"] is True


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--part", "--finish", "--id", "x"], "give one"),
        (["--finish", "--id", "x", "--copied"], "--finish reads none"),
        (["--broker", "1=x", "--copied", "--bootstrap", "b:1"], "the cluster has gone on since"),
        (["--finish", "--id", "x", "--expect", "1,,2"], "--expect 1,,2 names no nodes"),
        (["--finish", "--id", "x", "--expect", "-1"], "--expect -1 names no nodes"),
        (["--broker", "1=x", "--part", "--id", "x", "--expect", "1"], "--expect goes with --finish"),
        (["--part", "--broker", "1={data}"], "meet under one --id"),
        ([], "Name the brokers"),
        (["--broker", "1={data}", "--id", "../up"], "cannot be a directory's name"),
        (["--broker", "1={data}", "--id", ".."], "cannot be a directory's name"),
        (["--broker", "1={data}", "--hash-topics"], "goes with --mode headers"),
        (["--broker", "1={data}", "--mode", "headers", "--hash-topics", "--part", "--id", "x"], "need the same names"),
        (["--broker", "1={data}", "--client-config", "x"], "goes with --bootstrap"),
        (["--broker", "1={data}", "--previous", "{data}/nowhere"], "does not exist"),
        (["--broker", "1={data}", "--out", "{data}/snapshots"], "is inside broker 1's log dir"),
        (["--broker", "1={data}/orders-0"], "has no meta.properties"),
    ],
)
def test_what_cannot_be_meant_is_refused_and_leaves_nothing(data, tmp_path, arguments, says):
    before = sorted(p for p in tmp_path.rglob("*"))
    result = capture(tmp_path, *(a.format(data=data) for a in arguments))
    assert result.exit_code == 2
    assert says in result.stderr
    assert sorted(p for p in tmp_path.rglob("*")) == before


def test_an_earlier_snapshot_of_another_cluster_is_refused(data, tmp_path):
    of(capture(tmp_path, "--broker", f"1={data}", "--id", "one", "--json"))
    other = log_dir(tmp_path / "other", cluster="BBBBBBBBBBBBBBBBBBBBBB")
    result = capture(tmp_path, "--broker", f"1={other}", "--id", "two")
    assert result.exit_code == 2
    assert "the cluster's earlier snapshot, is of AAAAAAAAAAAAAAAAAAAAAA" in result.stderr
    assert capture(tmp_path, "--broker", f"1={other}", "--id", "two", "--previous", "none").exit_code == 0


def test_a_place_below_a_file_is_none_and_no_later_try_makes_it_one(data, tmp_path):
    (tmp_path / "out").write_text("a file")
    result = capture(tmp_path, "--broker", f"1={data}")
    assert result.exit_code == 2
    assert str(tmp_path / "out") in result.stderr


@pytest.mark.slow
def test_a_cluster_that_does_not_answer_is_told_before_anything_is_copied(data, tmp_path):
    result = capture(tmp_path, "--broker", f"1={data}", "--id", "one", "--bootstrap", "127.0.0.1:1")
    assert result.exit_code == 3
    assert "No broker of 127.0.0.1:1 answers" in result.stderr
    assert not (tmp_path / "out").exists()


def log_dirs_of(capture_: Path, node: int, *names: str) -> str:
    return f"{node}={','.join(str(capture_ / f'broker-{node}' / name) for name in names)}"


def test_a_controller_is_captured_like_any_node_and_is_no_broker(golden: Golden, tmp_path):
    real = golden("disk-failed")
    brokers = [
        f"100={real / 'broker-100'}",
        log_dirs_of(real, 1, "d1", "d2", "meta"),
        log_dirs_of(real, 2, "d1", "meta"),
    ]
    arguments = [part for broker in brokers for part in ("--broker", broker)]
    told = of(capture(tmp_path, *arguments, "--id", "whole", "--json"))
    assert (told["brokers"], told["controllers"], told["warnings"]) == ([1, 2], [100], [])
    assert capture(tmp_path, *arguments, "--id", "again").stdout.startswith("test/again: 2 brokers and 1 controllers, ")
    whole, plain = derived(Path(told["snapshot"])), derived_once(real)
    assert [r["broker_id"] for r in whole.rows["brokers"]] == [1, 2]
    assert [r["offline_replicas"] for r in whole.rows["brokers"]] == [
        r["offline_replicas"] for r in plain.rows["brokers"]
    ]


def test_whoever_forgets_a_metadata_log_dir_is_told_which_and_how(golden: Golden, tmp_path):
    real = golden("disk-failed")
    brokers = [log_dirs_of(real, 1, "d1", "d2"), log_dirs_of(real, 2, "d1", "meta")]
    result = capture(tmp_path, *(part for broker in brokers for part in ("--broker", broker)), "--id", "one")
    assert result.exit_code == 0
    warned = [line for line in result.stderr.splitlines() if "Warning: broker-1/__cluster_metadata-0" in line]
    assert len(warned) == 1
    assert f"--broker {brokers[0]},<metadata.log.dir>" in warned[0]
    assert "Warning: broker-2" not in result.stderr
    unread = derived(tmp_path / "out/test/one").unread()
    assert "none of the node's log dirs holds its metadata log" in unread["broker-1/__cluster_metadata-0"]


@pytest.mark.parametrize(
    ("wrong", "says"),
    [
        ({"cluster_id": "B" * 22}, f"cluster.id={'B' * 22}, while most nodes' say"),
        ({"node_id": "9"}, "node.id=9, while it lies under node 2's name"),
    ],
)
def test_one_wrong_file_stops_no_capture_and_is_told(golden: Golden, tmp_path, wrong, says):
    real = tmp_path / "real"
    shutil.copytree(golden("disk-failed"), real)
    for log_dir_ in ("d1", "meta"):
        say(real / "broker-2" / log_dir_, **wrong)
    brokers = [
        f"100={real / 'broker-100'}",
        log_dirs_of(real, 1, "d1", "d2", "meta"),
        log_dirs_of(real, 2, "d1", "meta"),
    ]
    result = capture(tmp_path, *(part for broker in brokers for part in ("--broker", broker)), "--id", "one")
    assert result.exit_code == 0, result.stderr
    warned = [line for line in result.stderr.splitlines() if "Warning: " in line]
    assert len(warned) == 2
    assert all(says in line for line in warned)
    assert "by its directory id the log dir is the node's own" in "".join(line for line in warned if "/d1/" in line)
    assert "an audit will not count it" in "".join(line for line in warned if "/meta/" in line)
    snapshot = tmp_path / "out/test/one"
    assert [b.broker_id for b in open_snapshot(snapshot, settle=False).manifest.brokers] == [1, 2, 100]
    assert [(f.broker_id, f.name) for f in open_snapshot(snapshot).manifest.foreign] == [(2, "meta")]
    assert open_snapshot(snapshot).manifest.cluster_id == derived_once(golden("disk-failed")).manifest.cluster_id


def test_shares_of_which_one_file_is_wrong_are_joined(data, tmp_path):
    paths = {1: data}
    for node in (2, 3):
        paths[node] = log_dir(tmp_path / f"data-{node}", node=node, cluster="B" * 22 if node == 3 else "A" * 22)
        Log.new(paths[node] / "orders-0").append(3)
    say(paths[2], node_id="7")
    for node, path in paths.items():
        assert capture(tmp_path, "--broker", f"{node}={path}", "--id", "one", "--part").exit_code == 0
    assert of(capture(tmp_path, "--id", "one", "--finish", "--json"))["finished"] is True
    settled = open_snapshot(tmp_path / "out/test/one").manifest
    assert [b.broker_id for b in settled.brokers] == [1]
    assert [f.broker_id for f in settled.foreign] == [2, 3]
