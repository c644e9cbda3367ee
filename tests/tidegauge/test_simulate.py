"""`tidegauge simulate`: what it writes and prints, what it refuses; and that an audit of it finds what it foretold."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tidegauge.cli.main import main
from tidegauge.sim_engine.random_worlds.fault_kinds import WorldFault
from tidegauge.sim_engine.rendering import truth_schema
from tidegauge.sim_engine.scenarios.registry import SCENARIOS


def run(*arguments: str | Path) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def test_the_list_names_every_scenario_and_every_kind_of_fault() -> None:
    result = run("simulate", "--list")
    assert result.exit_code == 0
    scenarios, faults = result.output.strip().split("\n\n")
    assert [line.split()[0] for line in scenarios.splitlines()[1:]] == list(SCENARIOS)
    assert [line.split()[0] for line in faults.splitlines()[1:]] == list(WorldFault)


@pytest.mark.slow
def test_a_seed_alone_is_a_random_world(tmp_path: Path) -> None:
    arguments = ("--seed", "5", "--faults", "records-bit-flip,kills", "--hours", "0.01")
    told = json.loads(run("simulate", *arguments, "--out", tmp_path / "one", "--json").output)
    assert (told["seed"], told["faults"], told["hours"]) == (5, ["records-bit-flip", "kills"], 0.01)
    injected = [each for moment in told["moments"] for each in moment["injected"]]
    assert {each["kind"] for each in injected} <= {"records-bit-flip", "kills"}
    for moment in told["moments"]:
        assert run("snapshot", "verify", moment["snapshot"]).exit_code == 0
        truth = json.loads((Path(moment["snapshot"]) / "TRUTH.json").read_text(encoding="utf-8"))
        assert truth_schema.problems(truth) == []
        assert f"tidegauge audit {moment['snapshot']} --out" in moment["next"]
    text = run("simulate", *arguments, "--out", tmp_path / "other").output
    assert text.startswith("Seed 5, faults: records-bit-flip, kills\n")
    assert all(each["where"] in text for each in injected)


@pytest.mark.slow
def test_a_world_with_every_kind_of_fault_is_told_too(tmp_path: Path) -> None:
    """What is wrong with lost or damaged records is not foretold by its code, but as any breach of the partition."""
    arguments = ("--seed", "723", "--faults", "all", "--hours", "0.01", "--out", tmp_path / "one", "--json")
    done = run("simulate", *arguments)
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    allowed = [each for moment in told["moments"] for each in moment["allowed"]]
    assert {"code": "*", "name": "any breach"} in [{name: each[name] for name in ("code", "name")} for each in allowed]


def test_what_cannot_be_simulated_is_said(tmp_path: Path) -> None:
    for arguments, problem in (
        (("--seed", "1", "--faults", "gremlins"), "kinds of kills, power-cut"),
        (("bit-rot", "--faults", "kills"), "leave the scenario's name out"),
        (("--seed", "1", "--hours", "0"), "--hours"),
    ):
        result = run("simulate", *arguments, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert problem in result.output
    assert not (tmp_path / "out").exists()


@pytest.mark.slow
def test_each_moment_is_a_snapshot_with_its_truth(tmp_path: Path) -> None:
    out = tmp_path / "incident"
    result = run("simulate", "unclean-election", "--out", out)
    assert result.exit_code == 0, result.output
    assert sorted(path.name for path in out.iterdir()) == ["a-is-alone", "a-is-back", "b-is-elected"]
    for directory in out.iterdir():
        assert run("snapshot", "verify", directory).exit_code == 0
        truth = json.loads((directory / "TRUTH.json").read_text(encoding="utf-8"))
        assert truth_schema.problems(truth) == []
    for told in (
        "Truth: committed records [100, 201) are lost",
        "orders-0: broker 2 leads, epoch 2 (unclean)",
        "D06 NoCommittedTruncation: orders-0, broker 1, [100, 201)",
        f"tidegauge audit {out}/a-is-back --out {out}-audit/a-is-back --previous {out}/a-is-alone",
    ):
        assert told in result.output


@pytest.mark.slow
def test_what_happened_is_told_once_or_anew_for_a_cluster_of_its_own(tmp_path: Path) -> None:
    told = json.loads(run("simulate", "unclean-election", "--out", tmp_path / "one", "--json").output)
    lines = [line for moment in told["moments"] for line in moment["happened"]]
    assert len(lines) == len(set(lines))
    other = json.loads(run("simulate", "kip-101-loss", "--out", tmp_path / "other", "--json").output)
    assert all(any("kill, broker-3" in line for line in moment["happened"]) for moment in other["moments"])


def test_another_seed_is_another_cluster(tmp_path: Path) -> None:
    for seed in (1, 2):
        assert run("simulate", "bit-rot", "--seed", str(seed), "--out", tmp_path / str(seed)).exit_code == 0
    log = "rotten/broker-3/orders-0/00000000000000000000.log"
    assert (tmp_path / "1" / log).read_bytes() != (tmp_path / "2" / log).read_bytes()


def test_an_unknown_name_is_answered_with_those_there_are(tmp_path: Path) -> None:
    for arguments in (["simulate", "clean-election"], ["simulate"]):
        result = run(*arguments, "--out", tmp_path / "out")
        assert result.exit_code == 2
        assert all(name in result.output for name in SCENARIOS)
    assert not (tmp_path / "out").exists()


MINE = """\
scenario: mine
about: a broker dies
cluster: {brokers: 3}
topics:
  orders: {replicas: 3}
clients:
  app: {kind: producer, idempotent: true}
play:
  - {start: app}
  - {after: 1s, send: app, to: orders-0, numbers: 0..9}
  - {after: 5s, kill: 1}
  - {after: 15s, moment: over, check: [{partition: orders-0, leader: 2, high_watermark: 10}]}
"""


def test_a_file_is_played_as_a_scenario_of_ours_is(tmp_path: Path) -> None:
    (tmp_path / "mine.yaml").write_text(MINE, encoding="utf-8")
    done = run("simulate", tmp_path / "mine.yaml", "--out", tmp_path / "out", "--json")
    assert done.exit_code == 0, done.output
    told = json.loads(done.output)
    assert (told["scenario"], told["about"]) == ("mine", "a broker dies")
    assert [path.name for path in (tmp_path / "out").iterdir()] == ["over"]
    assert run("snapshot", "verify", tmp_path / "out" / "over").exit_code == 0
    truth = json.loads((tmp_path / "out" / "over" / "TRUTH.json").read_text(encoding="utf-8"))
    assert truth["partitions"]["orders-0"]["high_watermark"] == 10
    assert "a broker dies" in run("simulate", tmp_path / "mine.yaml", "--out", tmp_path / "text").output


@pytest.mark.parametrize(
    ("old", "new", "line", "problem"),
    [
        ("kill: 1", "kil: 1", 11, "Did you mean kill?"),
        ("high_watermark: 10", "high_watermark: 11", 12, "the file says 11, and it is 10"),
        ("after: 5s, kill: 1", "after: 5s, start: 1", 11, "broker 1 is running"),
        ("check: [{partition", "find: [{code: D5}], check: [{partition", 12, "there is no invariant 'D5'"),
    ],
)
def test_a_file_that_cannot_be_played_is_one_line_and_nothing_is_written(
    old: str, new: str, line: int, problem: str, tmp_path: Path
) -> None:
    path = tmp_path / "mine.yaml"
    path.write_text(MINE.replace(old, new), encoding="utf-8")
    result = run("simulate", path, "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert f"mine.yaml, line {line}, " in " ".join(result.output.split())
    assert problem in " ".join(result.output.split())
    assert not (tmp_path / "out").exists()


def test_a_file_that_is_not_there_is_said(tmp_path: Path) -> None:
    result = run("simulate", tmp_path / "nobody.yaml", "--out", tmp_path / "out")
    assert result.exit_code == 2
    assert "No such file or directory" in result.output


def test_it_needs_a_directory_and_writes_over_nothing(tmp_path: Path) -> None:
    assert "--out DIR" in run("simulate", "bit-rot").output
    (tmp_path / "mine").write_text("do not touch", encoding="utf-8")
    result = run("simulate", "bit-rot", "--out", tmp_path)
    assert result.exit_code == 2
    assert "exists and holds something" in result.output
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.slow
@pytest.mark.jvm
@pytest.mark.postgres
@pytest.mark.parametrize(
    ("name", "moment"), [("unclean-election", "a-is-back"), ("leader-epoch-truncation", "a-is-away")]
)
def test_a_real_audit_finds_what_was_foretold(name: str, moment: str, tmp_path: Path) -> None:
    told = json.loads(run("simulate", name, "--out", tmp_path / "incident", "--json").output)
    (chosen,) = [each for each in told["moments"] if each["name"] == moment]
    command = chosen["next"].split()
    result = run(*command[1:], "--store", "none", "--fail-on", "never")
    assert result.exit_code == 0, result.output
    report = json.loads((Path(f"{tmp_path}/incident-audit/{moment}") / "report.json").read_text(encoding="utf-8"))
    found = sorted((b["code"], b["start_offset"], b["end_offset"]) for b in report["breaches"])
    expected = sorted((f["code"], f["start_offset"], f["end_offset"]) for f in chosen["findings"])
    assert found == expected
