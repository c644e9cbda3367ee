"""Signing on the command line: `capture --sign`, and what `--verify-key` refuses of audits and of `snapshot verify`."""

import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.snapshots.keys import key_pair
from tests.tidegauge.test_capture import capture, data, of
from tests.tidegauge.test_previous_snapshots import audited, snapshot
from tidegauge.audit.previous_snapshots import earlier_of
from tidegauge.cli.main import main
from tidegauge.runs.run import load
from tidegauge.snapshots.manifest import MANIFEST_NAME
from tidegauge.snapshots.signing import Trusted, signature_name

__all__ = ["data"]  # a fixture


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return key_pair(tmp_path, "ours")


def run(*arguments: object) -> Result:
    return CliRunner().invoke(main, [str(a) for a in arguments])


def taken(data: Path, tmp_path: Path, snapshot_id: str, *more: object) -> Path:
    told = of(capture(tmp_path, "--broker", f"1={data}", "--id", snapshot_id, "--json", *map(str, more)))
    return Path(told["snapshot"])


def begun(tmp_path: Path, *given: object) -> Result:
    return run("job", "snapshot", *given, "--run", tmp_path / "run", "--store", "none")


def words(result: Result) -> str:
    return " ".join(result.output.split())


def test_what_is_signed_is_audited_and_what_is_not_or_was_changed_is_refused(data, keys, tmp_path):
    private, public = keys
    signed = taken(data, tmp_path, "signed", "--sign", private)
    plain = taken(data, tmp_path, "plain")
    assert not (plain / signature_name(MANIFEST_NAME)).exists()
    assert begun(tmp_path, signed, "--verify-key", public).exit_code == 0
    refused = begun(tmp_path, plain, "--verify-key", public)
    assert (refused.exit_code, "is not signed, and" in words(refused)) == (2, True)
    assert begun(tmp_path, plain).exit_code == 0, "nobody asked for a signature"

    log = next((signed / "broker-1/orders-0").glob("*.log"))
    log.write_bytes(bytes(byte ^ 1 for byte in log.read_bytes()))
    refused = begun(tmp_path, signed, "--verify-key", public)
    assert (refused.exit_code, "is not as it was signed: broker-1/orders-0/" in words(refused)) == (2, True)
    assert run("snapshot", "verify", signed, "--verify-key", public).exit_code == 1
    (signed / MANIFEST_NAME).write_text((signed / MANIFEST_NAME).read_text().replace("captured", "simulated"))
    assert run("snapshot", "verify", signed, "--verify-key", public).exit_code == 2


def test_of_several_the_one_that_nobody_signed_is_named_and_the_others_go_on(data, keys, tmp_path):
    signed, plain = taken(data, tmp_path, "signed", "--sign", keys[0]), taken(data, tmp_path, "plain")
    result = begun(tmp_path, signed, plain, "--verify-key", keys[1])
    assert result.exit_code == 0, result.output
    assert f"{plain} is left out: " in words(result)
    begun_run = load(tmp_path / "run")
    assert [s.manifest.snapshot_id for s in begun_run.snapshots] == ["signed"]
    assert [(f.snapshot, f.kind) for f in begun_run.failures.all()] == [(str(plain), "unusable")]


def test_the_snapshot_that_it_is_compared_with_has_to_be_signed_too(data, keys, tmp_path):
    plain, signed = taken(data, tmp_path, "plain"), taken(data, tmp_path, "signed", "--sign", keys[0])
    refused = begun(tmp_path, signed, "--previous", plain, "--verify-key", keys[1])
    assert (refused.exit_code, f"{plain}" in words(refused)) == (2, True)


def test_the_setting_asks_for_it_everywhere(data, keys, tmp_path, monkeypatch):
    signed, plain = taken(data, tmp_path, "signed", "--sign", keys[0]), taken(data, tmp_path, "plain")
    monkeypatch.setenv("TIDEGAUGE_VERIFY_KEY", str(keys[1]))
    assert [begun(tmp_path, s).exit_code for s in (signed, plain)] == [0, 2]
    assert [run("snapshot", "verify", s).exit_code for s in (signed, plain)] == [0, 2]
    assert run("audit", plain, "--out", tmp_path / "out", "--store", "none").exit_code == 2
    monkeypatch.setenv("TIDEGAUGE_VERIFY_KEY", str(tmp_path / "gone"))
    assert [begun(tmp_path, s).exit_code for s in (signed, plain)] == [2, 2], "a key that is gone asks all the more"


def test_a_signed_capture_links_what_the_same_key_signed_and_nothing_else(data, keys, tmp_path):
    taken(data, tmp_path, "plain")
    once = capture(tmp_path, "--broker", f"1={data}", "--id", "once", "--sign", str(keys[0]), "--json")
    assert of(once)["previous"] is None
    assert "Nothing is linked" in once.output
    again = of(capture(tmp_path, "--broker", f"1={data}", "--id", "again", "--sign", str(keys[0]), "--json"))
    assert (again["previous"], again["linked_files"] > 0) == ("once", True)
    named = capture(tmp_path, "--broker", f"1={data}", "--id", "x", "--sign", str(keys[0]), "--previous",
                    str(tmp_path / "out/test/plain"))  # fmt: skip
    assert (named.exit_code, "is not signed" in words(named)) == (2, True)


def test_a_key_that_cannot_be_used_is_said_before_anything_is_captured(data, keys, tmp_path):
    keys[0].chmod(0o644)
    result = capture(tmp_path, "--broker", f"1={data}", "--sign", str(keys[0]))
    assert (result.exit_code, "chmod 600" in words(result)) == (2, True)
    assert not (tmp_path / "out").exists()


def test_what_nobody_signed_is_passed_over_as_the_earlier_one(store_url, keys, tmp_path, monkeypatch):
    from tidegauge import store
    from tidegauge.snapshots.signing import Signer

    store.migrate(store_url)
    monkeypatch.setenv("TIDEGAUGE_SNAPSHOTS", str(tmp_path))
    days = {day: snapshot(tmp_path, f"day-{day}", day) for day in (1, 2, 3)}
    signer = Signer.of_key_file(keys[0])
    for day in (1, 3):
        manifest = days[day] / MANIFEST_NAME
        (days[day] / signature_name(MANIFEST_NAME)).write_text(signer.signature(manifest.read_text()))
    for day in (1, 2):
        audited(store_url, days[day], day)
    given = [str(days[3])]
    trusted = Trusted.of_key_file(keys[1])
    found = earlier_of(given, url=store_url, cluster=None, say=lambda _: None, trusted=trusted)
    assert found == {str(days[3]): str(days[1])}
    assert earlier_of(given, url=store_url, cluster=None, say=lambda _: None) == {str(days[3]): str(days[2])}


def test_no_key_stands_in_what_is_written(data, keys, tmp_path):
    signed = taken(data, tmp_path, "signed", "--sign", keys[0])
    secret = "".join(keys[0].read_text().splitlines()[1:-1])
    assert [p for p in signed.rglob("*") if p.is_file() and secret.encode() in p.read_bytes()] == []
    assert json.loads((signed / MANIFEST_NAME).read_text()).keys() >= {"answers_sha256", "cluster_id"}
