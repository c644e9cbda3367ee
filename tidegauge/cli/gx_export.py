"""`tidegauge gx export`: the catalogue as a project of Great Expectations, in a directory that a user keeps.

In: a directory. Out: the project in it (`expectations.gx.project`), and `gx/TIDEGAUGE.json`, which names the files that
are ours. The rules that must hold: nothing is written over that an earlier export did not write; what the library and
its user put beside (results, pages, variables of this machine, suites of their own) stays when an export is renewed;
nobody but the user and their group reads any of it.
"""

import json
import tempfile
from collections.abc import Sequence
from pathlib import Path, PurePosixPath
from typing import Final

import click

from tidegauge import __version__
from tidegauge.expectations.registry import CATALOGUE, RULESET_VERSION, by_relation
from tidegauge.snapshots.places_above import check_within, made_safe
from tidegauge.snapshots.whole_files import appearing

_NOTE: Final = PurePosixPath("gx/TIDEGAUGE.json")
_SETTINGS: Final = PurePosixPath("gx/great_expectations.yml")
_KEPT: Final = frozenset({"expectations", "validation_definitions", "checkpoints"})
"""Folders of which the files are all of an export's own making."""
_OF_THE_USER: Final = frozenset({PurePosixPath("gx/uncommitted/config_variables.yml")})
"""Written once, for the user to fill in."""


def export(directory: Path, *, clusters: Sequence[str] = ()) -> str:
    """Writes or renews the project below `directory`; `clusters`: those to judge, none for all. Returns what was done.

    Raises `click.UsageError` if the directory holds anything else, `SnapshotError` where somebody else could exchange
    it, and OSError.
    """
    if any(not cluster.strip() for cluster in clusters) or len(set(clusters)) < len(clusters):
        raise click.UsageError("--cluster names a cluster, and each of them once.")
    check_within(directory)
    earlier = _earlier_files(directory)
    from tidegauge.expectations.gx.project import write  # seconds, which a wrong directory need not take

    with tempfile.TemporaryDirectory(prefix="tidegauge-gx-") as made:
        write(Path(made), clusters=clusters)
        _place(Path(made), directory, earlier or frozenset())
    done = "written" if earlier is None else "renewed"
    return f"{directory}: {done}, {len(CATALOGUE)} expectations in {len(by_relation(CATALOGUE.values()))} suites."


def _earlier_files(directory: Path) -> frozenset[PurePosixPath] | None:
    """The files that an earlier export wrote, None if there was none. Raises `click.UsageError` for anything else."""
    if not directory.exists():
        return None
    if not directory.is_dir():
        raise click.UsageError(f"{directory} is no directory. Name one that is empty, or is not there yet.")
    note = directory / _NOTE
    if not note.exists():
        if next(directory.iterdir(), None) is None:
            return None
        raise click.UsageError(
            f"{directory} is not empty, and no earlier export ({_NOTE} is not there). Name a directory of its own."
        )
    try:
        listed = frozenset(PurePosixPath(name) for name in json.loads(note.read_text(encoding="utf-8"))["files"])
    except (ValueError, TypeError, KeyError) as error:
        raise click.UsageError(f"{note} is not what an export wrote ({error}). Name another directory.") from error
    # Of whoever wrote that file no more is believed than where our files can be.
    return frozenset(path for path in listed if _is_kept(path))


def _is_kept(path: PurePosixPath) -> bool:
    return len(path.parts) == 3 and path.parts[0] == "gx" and path.parts[1] in _KEPT and path.suffix == ".json"


def _place(made: Path, directory: Path, earlier: frozenset[PurePosixPath]) -> None:
    """Brings what was made to where it stays: the settings last, so that a project that opens is whole."""
    files = {PurePosixPath(path.relative_to(made)): path for path in made.rglob("*") if path.is_file()}
    # An id of a store of the library: it makes one where there is none.
    files = {place: path for place, path in files.items() if place.name != ".ge_store_backend_id"}
    ours = sorted(place for place in files if _is_kept(place))
    made_safe(directory)
    for folder in sorted(path.relative_to(made) for path in made.rglob("*") if path.is_dir()):
        if (directory / folder).is_symlink():
            raise click.UsageError(f"{directory / folder} is a link, and nothing is written through it. Remove it.")
        made_safe(directory / folder)
    note = {"written_by": f"tidegauge {__version__}", "ruleset_version": RULESET_VERSION, "files": [*map(str, ours)]}
    # The note first: what is broken off after it is renewed by the same command.
    _write(directory / _NOTE, json.dumps({**note, "files": sorted({*note["files"], *map(str, earlier)})}, indent=1))
    for gone in earlier - set(ours):
        (directory / gone).unlink(missing_ok=True)
    for place, path in sorted(files.items(), key=lambda one: (one[0] == _SETTINGS, one[0])):
        if place not in _OF_THE_USER or not (directory / place).exists():
            _write(directory / place, path.read_text(encoding="utf-8"))
    _write(directory / _NOTE, json.dumps(note, indent=1))


def _write(path: Path, text: str) -> None:
    with appearing(path) as file:
        Path(file.name).chmod(0o640)
        file.write(text.encode("utf-8"))
