"""Signed snapshots: what is taken, and every way to change one afterwards."""

import base64
import json
import os
import shutil
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest
from cryptography.hazmat.primitives.asymmetric.ec import SECP256R1, generate_private_key
from cryptography.hazmat.primitives.serialization import BestAvailableEncryption, Encoding, NoEncryption, PrivateFormat

from tests.snapshots.brokers import Log, log_dir
from tests.snapshots.keys import key_pair
from tests.snapshots.one_manifest import in_one_file
from tests.snapshots.test_capture_live import captured
from tidegauge.runs.run import load, new_run
from tidegauge.snapshots.adopt import adopt, open_snapshot
from tidegauge.snapshots.capture import Capture, Captured, finish
from tidegauge.snapshots.cluster_answers import ANSWERS_NAME, ClusterAnswers
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.file_taking import Way
from tidegauge.snapshots.location import local
from tidegauge.snapshots.manifest import MANIFEST_NAME, Mode, part_name
from tidegauge.snapshots.signing import Signer, Trusted, signature_name
from tidegauge.snapshots.verification import open_verified, verify

SIGNATURE = signature_name(MANIFEST_NAME)
PART = part_name("broker-1")
NOW_MS = 1 << 42
"""Later than anything here was captured."""


@pytest.fixture
def keys(tmp_path: Path) -> tuple[Path, Path]:
    return key_pair(tmp_path, "ours")


@pytest.fixture
def signer(keys: tuple[Path, Path]) -> Signer:
    return Signer.of_key_file(keys[0])


@pytest.fixture
def trusted(keys: tuple[Path, Path]) -> Trusted:
    return Trusted.of_key_file(keys[1])


@pytest.fixture
def brokers(tmp_path: Path) -> list[str]:
    for node in (1, 2):
        log = Log.new(log_dir(tmp_path / f"data-{node}", node=node) / "orders-0")
        log.append(5)
        log.roll()
        log.append(node)
    return [f"{node}={tmp_path / f'data-{node}'}" for node in (1, 2)]


@pytest.fixture
def signed(tmp_path: Path, brokers: list[str], signer: Signer) -> Path:
    """With answers of the cluster, too."""
    answers = ClusterAnswers(
        started_at_ms=1, finished_at_ms=2, cluster_id=None, controller_id=1, brokers=(), topics=(), groups=None,
        transactions=None,
    )  # fmt: skip
    captured(tmp_path / "signed", *brokers, signer=signer, ask=lambda: answers)
    return tmp_path / "signed"


def other(tmp_path: Path) -> Path:
    return key_pair(tmp_path, "other")[0]


# ------------------------------------------------------------------------------------------------- what is signed


def test_a_signed_snapshot_is_taken_and_all_of_its_files_have_a_digest(signed: Path, trusted: Trusted) -> None:
    snapshot = open_verified(local(signed), cluster=None, trusted=trusted)
    assert all(file.sha256 for file in snapshot.manifest.files())
    assert snapshot.manifest.answers_sha256
    assert verify(open_snapshot(signed, settle=False), all_digests=True) == ()
    assert snapshot == open_verified(local(signed), cluster=None, trusted=None), "nothing but the trust is another"


def test_summaries_that_nobody_signed_come_from_no_place_that_nobody_named(
    signed: Path, trusted: Trusted, tmp_path: Path
) -> None:
    def kept(asked: str | None, by: Trusted | None) -> str | None:
        run = new_run(
            tmp_path / "run", (str(signed),), store_url="none", fail_on="never", started_at_ms=NOW_MS, trusted=by,
            kept_summaries=asked,
        )  # fmt: skip
        assert load(run.directory).kept_summaries == run.kept_summaries
        return run.kept_summaries

    assert kept(None, trusted) == "none"
    assert kept(None, None) is None
    assert kept(str(tmp_path / "kept"), trusted) == str(tmp_path / "kept")


def test_any_openssl_checks_the_signature(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    raw = tmp_path / "raw"
    raw.write_bytes(base64.b64decode((signed / SIGNATURE).read_text()))
    command = ["openssl", "pkeyutl", "-verify", "-rawin", "-pubin", "-inkey", keys[1], "-sigfile", raw, "-in"]
    assert subprocess.run([*command, signed / MANIFEST_NAME], capture_output=True, check=False).returncode == 0
    assert subprocess.run([*command, signed / SIGNATURE], capture_output=True, check=False).returncode != 0


def test_one_key_of_several_will_do(signed: Path, keys: tuple[Path, Path], tmp_path: Path) -> None:
    both = tmp_path / "both.pub"
    both.write_bytes(key_pair(tmp_path, "next")[1].read_bytes() + b"# the old one:\n" + keys[1].read_bytes())
    open_verified(local(signed), cluster=None, trusted=Trusted.of_key_file(both))


# ------------------------------------------------------------------------------------------ what is changed afterwards


def _edited(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def _bit(path: Path) -> None:
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def _cut(path: Path) -> None:
    path.write_text("".join(path.read_text().splitlines(keepends=True)[:-1]))


def _no_longer_asked(directory: Path) -> None:
    value = json.loads((directory / MANIFEST_NAME).read_text())
    (directory / MANIFEST_NAME).write_text(json.dumps(value | {"answers": None, "answers_sha256": None}))


CHANGES: dict[str, tuple[Callable[[Path], object], str]] = {
    "the manifest": (lambda d: _edited(d / MANIFEST_NAME, '"cluster": "test"', '"cluster": "prod"'), "is not what"),
    "one byte of the manifest's white space": (lambda d: _edited(d / MANIFEST_NAME, "\n", " \n"), "is not what"),
    "a part of the manifest": (lambda d: _edited(d / PART, "orders-0", "orders-1"), "was changed since"),
    "a part's last line gone": (lambda d: _cut(d / PART), "was changed since"),
    "no part": (lambda d: (d / PART).unlink(), "MANIFEST.broker-1.jsonl, which MANIFEST.json names, cannot be read"),
    "the part of another broker": (lambda d: shutil.copy(d / part_name("broker-2"), d / PART), "was changed since"),
    "the answers taken out": (_no_longer_asked, "is not what"),
    "no signature": (lambda d: (d / SIGNATURE).unlink(), "is not signed"),
    "an empty signature": (lambda d: (d / SIGNATURE).write_text(""), "is not what"),
    "a signature that is no base64": (lambda d: (d / SIGNATURE).write_bytes(b"\xff\x00" * 40), "is not what"),
    "a short signature": (lambda d: (d / SIGNATURE).write_text(base64.b64encode(b"x" * 63).decode()), "is not what"),
    "no manifest": (lambda d: (d / MANIFEST_NAME).unlink(), "nobody has signed it"),
    "a segment": (lambda d: _bit(next(d.glob("broker-1/orders-0/*0.log"))), "its bytes have changed"),
    "a checkpoint": (lambda d: _bit(d / "broker-1/meta.properties"), "its bytes have changed"),
    "the answers": (lambda d: _bit(d / ANSWERS_NAME), f"{ANSWERS_NAME}: its bytes have changed"),
    "no answers": (lambda d: (d / ANSWERS_NAME).unlink(), f"{ANSWERS_NAME}: missing"),
    "a file missing": (lambda d: (d / "broker-2/meta.properties").unlink(), "broker-2/meta.properties: missing"),
    "a longer file": (lambda d: (d / "broker-2/meta.properties").open("a").write("x"), "the manifest says"),
    "a remote tier": (lambda d: (d / "remote-storage").mkdir(), "remote-storage: not named"),
    "a ledger": (lambda d: (d / "TRUTH.json").write_text("{}"), "TRUTH.json: not named"),
    "one more broker": (lambda d: shutil.copytree(d / "broker-1", d / "broker-3"), "broker-3: not named"),
}  # fmt: skip


@pytest.mark.parametrize("change", CHANGES)
def test_what_was_changed_is_not_audited(change: str, signed: Path, trusted: Trusted) -> None:
    do, says = CHANGES[change]
    do(signed)
    with pytest.raises(SnapshotError, match=says):
        open_verified(local(signed), cluster=None, trusted=trusted)


def test_what_somebody_else_signed_is_not_audited(signed: Path, tmp_path: Path) -> None:
    trusted = Signer.of_key_file(other(tmp_path)).trusted
    with pytest.raises(SnapshotError, match=r"is not what the holder of a key in .*other\.pem signed"):
        open_verified(local(signed), cluster=None, trusted=trusted)


def test_a_manifest_without_digests_proves_nothing_of_its_files(signed: Path, signer: Signer) -> None:
    value = in_one_file(signed)
    value["brokers"][0]["files"][0]["sha256"] = None
    text = json.dumps(value)
    (signed / MANIFEST_NAME).write_text(text)
    (signed / SIGNATURE).write_text(signer.signature(text))
    with pytest.raises(SnapshotError, match="has no digest of it"):
        open_verified(local(signed), cluster=None, trusted=signer.trusted)


def test_a_plain_copy_is_not_signed_even_when_it_is_adopted(tmp_path: Path, trusted: Trusted) -> None:
    log_dir(tmp_path / "copy/broker-1")
    Log.new(tmp_path / "copy/broker-1/orders-0").append(1)
    with pytest.raises(SnapshotError, match="nobody has signed it"):
        open_verified(local(tmp_path / "copy"), cluster=None, trusted=trusted)
    adopt(tmp_path / "copy", cluster="test")
    with pytest.raises(SnapshotError, match="is not signed"):
        open_verified(local(tmp_path / "copy"), cluster=None, trusted=trusted)


# ------------------------------------------------------------------------- nothing is signed that nobody vouches for


def joined(root: Path, signer: Signer | None) -> Captured:
    return finish(Capture(cluster="test", snapshot_id="one", out=root, way=Way(mode=Mode.FULL), signer=signer))


def test_signed_shares_become_a_signed_snapshot(
    tmp_path: Path, brokers: list[str], signer: Signer, trusted: Trusted
) -> None:
    out = tmp_path / "out"
    for broker in brokers:
        captured(out, broker, part=True, signer=signer)
    assert captured(out, brokers[0], part=True, signer=signer).bytes_read == 0, "a share that is there"
    joined(out, signer)
    assert joined(out, signer).manifest is not None, "asked again"
    assert {p.name for p in out.iterdir()} == {
        MANIFEST_NAME, SIGNATURE, "broker-1", "broker-2", PART, part_name("broker-2"),
    }  # fmt: skip
    open_verified(local(out), cluster=None, trusted=trusted)


@pytest.mark.parametrize(
    "whose", ["nobody's", "somebody else's", "changed", "of another snapshot", "of another broker"]
)
def test_a_share_that_is_not_signed_by_the_same_key_is_not_joined(
    whose: str, tmp_path: Path, brokers: list[str], signer: Signer
) -> None:
    out, share = tmp_path / "out", ".part-broker-2.json"
    captured(out, brokers[0], part=True, signer=signer)
    by = {"nobody's": None, "somebody else's": Signer.of_key_file(other(tmp_path))}.get(whose, signer)
    captured(out, brokers[1], part=True, signer=by)
    if whose == "changed":
        _edited(out / share, '"rack": null', '"rack": "x"')
    if whose == "of another snapshot":
        captured(tmp_path / "earlier", brokers[1], part=True, signer=signer, snapshot_id="earlier")
        for name in (share, signature_name(share)):
            shutil.copy(tmp_path / "earlier" / name, out / name)
    if whose == "of another broker":
        for name in (share, signature_name(share)):
            shutil.copy(out / name.replace("2", "1"), out / name)
    with pytest.raises(SnapshotError):
        joined(out, signer)
    assert not (out / MANIFEST_NAME).exists()


def test_what_an_interrupted_capture_left_is_taken_anew_before_it_is_signed(
    tmp_path: Path, brokers: list[str], signer: Signer, trusted: Trusted
) -> None:
    """Whoever may write there could have left a journal that vouches for other bytes."""
    out = tmp_path / "out"

    def killed() -> None:
        if list(out.glob("broker-1/orders-0/*.log")):
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        captured(out, *brokers, signer=signer, meanwhile=killed)
    assert list(out.glob(".capture-*"))
    for log in out.glob("broker-1/orders-0/*.log"):
        _bit(log)
    captured(out, *brokers, signer=signer)
    open_verified(local(out), cluster=None, trusted=trusted)
    copied, data = (sorted(d.glob("orders-0/*.log")) for d in (out / "broker-1", tmp_path / "data-1"))
    assert [p.read_bytes() for p in copied] == [p.read_bytes() for p in data]


def test_a_snapshot_that_is_not_signed_has_no_signature_of_an_earlier_try(
    tmp_path: Path, brokers: list[str], signer: Signer
) -> None:
    out = tmp_path / "out"
    out.mkdir()
    (out / SIGNATURE).write_text(signer.signature("of a try that was given up"))
    captured(out, *brokers)
    assert not (out / SIGNATURE).exists()


# --------------------------------------------------------------------------------------------------------- key files


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o660])
def test_a_private_key_that_others_can_read_is_refused(mode: int, keys: tuple[Path, Path]) -> None:
    keys[0].chmod(mode)
    with pytest.raises(SnapshotError, match="chmod 600"):
        Signer.of_key_file(keys[0])


def test_public_keys_that_anybody_can_write_are_refused(keys: tuple[Path, Path]) -> None:
    keys[1].chmod(0o666)
    with pytest.raises(SnapshotError, match="chmod 644"):
        Trusted.of_key_file(keys[1])


def test_what_is_no_key_of_the_kind_that_is_asked_for_is_refused(keys: tuple[Path, Path], tmp_path: Path) -> None:
    private, public = keys
    elliptic, locked, nothing, huge = (tmp_path / name for name in ("elliptic", "locked", "nothing", "huge"))
    for path in (elliptic, locked, nothing, huge):
        path.touch(mode=0o600)
    curve = generate_private_key(SECP256R1())
    elliptic.write_bytes(curve.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()))
    key = Signer.of_key_file(private).key
    locked.write_bytes(key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, BestAvailableEncryption(b"x")))
    huge.write_bytes(b"x" * 100_000)
    os.mkfifo(pipe := tmp_path / "pipe", 0o600)
    for path in (elliptic, locked, nothing, huge, pipe, tmp_path, tmp_path / "gone"):
        with pytest.raises(SnapshotError):
            Signer.of_key_file(path)
    public.chmod(0o600)
    with pytest.raises(SnapshotError, match="holds no private key"):
        Signer.of_key_file(public)
    for path in (private, nothing, huge, pipe, tmp_path, tmp_path / "gone"):
        with pytest.raises(SnapshotError):
            Trusted.of_key_file(path)
    (mixed := tmp_path / "mixed.pub").write_bytes(
        public.read_bytes() + b"-----BEGIN PUBLIC KEY-----\nx\n-----END PUBLIC KEY-----\n"
    )
    with pytest.raises(SnapshotError, match="cannot be read"):
        Trusted.of_key_file(mixed)
