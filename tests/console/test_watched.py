"""A console whose mounted secrets change is not alive any more, so that its container starts anew with the new ones."""

from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest

from tidegauge.console import server
from tidegauge.runs.errors import UnavailableError

NOWHERE = "postgresql+psycopg2://u@127.0.0.1:1/x"


class Mounted:
    """A Secret as the kubelet mounts it: links through `..data`, which is exchanged in one step."""

    def __init__(self, place: Path) -> None:
        self.place, self._times = place, 0
        place.mkdir()

    def holds(self, files: dict[str, str]) -> None:
        self._times += 1
        dated = self.place / f"..2026_11_26_04_00_{self._times:02}.1"
        dated.mkdir()
        for name, content in files.items():
            (dated / name).write_text(content)
            if not (self.place / name).is_symlink():
                (self.place / name).symlink_to(Path("..data") / name)
        (self.place / "..new").symlink_to(dated.name)
        (self.place / "..new").rename(self.place / "..data")
        for path in self.place.iterdir():
            if not path.name.startswith(".") and path.name not in files:
                path.unlink()


@pytest.fixture
def secrets(tmp_path: Path) -> Mounted:
    mounted = Mounted(tmp_path / "secrets")
    mounted.holds({"store-url": NOWHERE, "tokens": "a=1"})
    return mounted


@pytest.fixture
def console(secrets: Mounted, monkeypatch: pytest.MonkeyPatch) -> Iterator[httpx.Client]:
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_WATCHED", str(secrets.place))
    with (
        server.running(NOWHERE, host="127.0.0.1", port=0, docs=[]) as address,
        httpx.Client(base_url=address, trust_env=False) as client,
    ):
        yield client


@pytest.mark.parametrize(
    ("now", "named"),
    [
        ({"store-url": f"{NOWHERE}2", "tokens": "a=1"}, "store-url"),
        ({"store-url": NOWHERE}, "tokens"),
        ({"store-url": NOWHERE, "tokens": "a=1", "airflow-token": "t"}, "airflow-token"),
    ],
)
def test_a_secret_that_changes_makes_it_begin_anew(
    console: httpx.Client, secrets: Mounted, now: dict[str, str], named: str
) -> None:
    assert console.get("/healthz").status_code == 200
    secrets.holds(now)
    answer = console.get("/healthz")
    assert (answer.status_code, answer.json()["status"]) == (503, "outdated")
    assert answer.json()["reason"].startswith(f"{named} changed")
    assert NOWHERE not in answer.text


def test_the_same_secret_mounted_again_is_no_change(console: httpx.Client, secrets: Mounted) -> None:
    secrets.holds({"store-url": NOWHERE, "tokens": "a=1"})
    assert console.get("/healthz").status_code == 200


def test_a_directory_that_cannot_be_read_is_said_at_the_start(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TIDEGAUGE_CONSOLE_WATCHED", str(tmp_path / "missing"))
    with (
        pytest.raises(UnavailableError, match=r"TIDEGAUGE_CONSOLE_WATCHED: cannot read .*/missing: No such file"),
        server.running(NOWHERE, host="127.0.0.1", port=0, docs=[]),
    ):
        pass
