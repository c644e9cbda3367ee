"""The folder of a new invariant, to be filled in.

In: a code, a name, a relation. Out: the files of `skeleton/` below `expectations/invariants/`. A code and a name are
used once, for ever, so those of an invariant that is there are never written over.
"""

import re
from difflib import get_close_matches
from importlib.resources import files
from pathlib import Path
from string import Template
from typing import Final

from tidegauge import __version__
from tidegauge.expectations import invariants
from tidegauge.expectations.data_docs import FAMILIES
from tidegauge.expectations.registry import CATALOGUE, folder_name
from tidegauge.relations import RELATIONS

FILL_IN: Final = "FILL IN"
"""What stands where something is still to be said; a test finds it."""
SKELETON: Final = ("__init__.py", "invariant.py", "runbook.md", "cases.yaml", "proof.py")

_CODE: Final = re.compile(r"[A-Z][0-9]{2}")
_NAME: Final = re.compile(r"([A-Z][a-z0-9]+)+")


class SkeletonError(Exception):
    """An invariant that cannot be begun: what is wrong with what was given, and what would be right."""


def write(code: str, name: str, relation: str) -> list[Path]:
    """The files of a new invariant, written into the checkout that runs. Raises `SkeletonError`, and OSError."""
    _check_code(code)
    _check_name(name)
    _check_relation(relation)
    folder = _invariants_of_the_checkout() / folder_name(code, name)
    if folder.exists():
        raise SkeletonError(f"{folder} is there already.")
    words = {
        "code": code,
        "name": name,
        "key": re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).upper(),
        "relation": relation,
        "row": RELATIONS[relation].row.__name__,
        "subject": ", ".join(RELATIONS[relation].subject),
        "since": ".".join(__version__.split(".")[:2]),
    }
    filled = {file: Template(_skeleton(file)).substitute(words) for file in SKELETON}
    folder.mkdir()
    for file, text in filled.items():
        (folder / file).write_text(text, encoding="utf-8")
    return [folder / file for file in SKELETON]


def _check_code(code: str) -> None:
    if not _CODE.fullmatch(code) or code[0] not in FAMILIES:
        raise SkeletonError(
            f"{code} is no code: it takes a family's letter ({', '.join(FAMILIES)}) and two digits, as in D20."
        )
    if code in CATALOGUE:
        newest = max(one for one in CATALOGUE if one[0] == code[0])
        raise SkeletonError(f"{code} is {CATALOGUE[code].name}. The newest code of its family is {newest}.")


def _check_name(name: str) -> None:
    if not _NAME.fullmatch(name):
        raise SkeletonError(f"{name} is no name: it takes words in CamelCase, as in CommittedOnEnoughDisks.")
    bearer = next((one for one in CATALOGUE.values() if one.name == name), None)
    if bearer is not None:
        raise SkeletonError(f"{name} is the name of {bearer.code}.")


def _check_relation(relation: str) -> None:
    if relation not in RELATIONS:
        near = get_close_matches(relation, RELATIONS, n=3)
        meant = f"Is it {' or '.join(near)}?" if near else f"There are {', '.join(sorted(RELATIONS))}."
        raise SkeletonError(f"There is no relation {relation}. {meant}")


def _invariants_of_the_checkout() -> Path:
    """Where invariants are written. Raises `SkeletonError` where Tidegauge runs from an installed package."""
    found = Path(invariants.__path__[0]).resolve()  # the room itself, not its link in the package
    root = found.parents[1]
    if not (root / "pyproject.toml").is_file() or not (root / "tests" / "expectations").is_dir():
        raise SkeletonError(
            f"This Tidegauge runs from {root}, an installed package: an invariant is written in a checkout of the "
            "repository, with the command of the checkout's own environment (make demo makes one)."
        )
    return found


def _skeleton(file: str) -> str:
    # Not named as what they become: nobody is to import, format or render them.
    return (files("tidegauge.dev") / "skeleton" / f"{file}.txt").read_text(encoding="utf-8")
