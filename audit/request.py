"""What is asked of an audit: the command line's options, the parameters of a DAG's run, a score's wish."""

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime
from typing import Final

from tidegauge.runs.restriction import EVERYTHING, Restriction
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.signing import Trusted

AUTO: Final = "auto"
BEFORE: Final = "before"


@dataclass(frozen=True, slots=True, kw_only=True)
class AuditRequest:
    """Which snapshots, compared with what, and where the results go.

    `previous`: an earlier snapshot to compare with, or one for each of the snapshots that it names. AUTO: each is
    compared with the one that was audited last before it, if any; BEFORE: with the one that was captured last before
    `since`. A restricted audit is published nowhere. `store`: its URL, None for the one of the settings. `trusted`: by
    whose keys snapshots have to be signed. `kept_summaries`: where those of earlier audits are, if anybody said.
    `snapshots_root`: where to look for earlier ones instead of TIDEGAUGE_SNAPSHOTS.
    """

    snapshots: tuple[str, ...]
    out: Location
    fail_on: str
    store: str | None
    cluster: str | None = None
    previous: str | Mapping[str, str] | None = None
    data_docs: bool = True
    restriction: Restriction = EVERYTHING
    snapshots_root: str | None = None
    since: datetime | None = None
    trusted: Trusted | None = None
    kept_summaries: str | None = None
