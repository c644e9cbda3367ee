"""Numbers, instants and URLs that no command can work with: each is refused in a paragraph, none is an error of ours.

Whoever fills in a form of Airflow, or the crontab of somebody else, chooses them.
"""

from itertools import product
from pathlib import Path

import pytest
from click.testing import CliRunner

from tidegauge.cli.main import main

NOWHERE = "postgresql://127.0.0.1:1/x"
HUGE = "9" * 30

REFUSED = [
    *(("store", "retain", "--store", NOWHERE, "--keep-days", days) for days in (HUGE, "800000", "-1", "nan")),
    *(("store", "retain", "--store", NOWHERE, "--keep-days", "1", "--facts-days", days) for days in (HUGE, "-1")),
    *(("simulate", "--seed", "1", "--out", "world", "--hours", h) for h in ("nan", "inf", "-inf", "1e308", "0", "-1")),
    *(("score", "--seeds", "1", "--out", "score", "--hours", hours) for hours in ("nan", "inf", "1e308")),
    *(
        ("capture", "--cluster", "c", "--broker", "1=/nowhere", "--out", "root", "--max-mb-per-s", rate)
        for rate in ("nan", "inf", "0")
    ),
    *(
        ("audit", "latest", "--cluster", "c", "--snapshots", "root", "--store", "none", "--out", "run", *when)
        for when in product(
            ("--since", "--before", "--as-of"),
            ("9999-12-31T23:59:59-12:00", "0001-01-01T00:00:00+14:00", "2026-13-01", "now"),
        )
    ),
    *(
        (*command, "--store", "none", option, url)
        for (*command, option) in (("audit", "snapshot", "--out"), ("job", "snapshot", "snapshot", "--run"))
        for url in ("s3://", "http://example.org/x", "s3://bucket::http://example.org/x", "zip://x::s3://bucket/x")
    ),
]  # fmt: skip


@pytest.mark.parametrize("given", REFUSED, ids=lambda given: " ".join(given)[:70])
def test_what_no_command_can_work_with_is_a_usage_error(
    given: tuple[str, ...], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    done = CliRunner().invoke(main, list(given))
    assert done.exit_code == 2, done.output
    assert isinstance(done.exception, SystemExit)
    assert "an error of its own" not in done.output
    assert "Traceback" not in done.output
    assert list(tmp_path.iterdir()) == []
