"""`tidegauge metadata`: the metadata image of an offset, or two images side by side.

In: a snapshot, one or two offsets, a node. Out: `Shown`, and its lines. The rule that must hold: salts, keys and
passwords are not shown; that two of them differ is.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tidegauge.derivation.metadata.metadata_at import ImageAt, image_at
from tidegauge.facts.metadata.image import KINDS, Difference, Entry, differences
from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.listing import listing
from tidegauge.snapshots.location import Location


@dataclass(frozen=True, slots=True, kw_only=True)
class Shown:
    """One image, or two and every entry that they tell differently."""

    at: ImageAt
    against: ImageAt | None
    kinds: tuple[str, ...]

    def differences(self) -> Iterator[Difference]:
        """What the two images tell differently, of the kinds asked for."""
        assert self.against is not None, "there is one image only"
        for difference in differences(self.at.image, self.against.image):
            if difference.kind in self.kinds:
                yield difference


def metadata(
    root: Location,
    *,
    at: int | None = None,
    against: int | None = None,
    node_id: int | None = None,
    kinds: tuple[str, ...] = (),
) -> Shown:
    """The image at an offset; where asked for, beside it that at `against`, or by a node's own snapshot and log."""
    snapshot = open_snapshot(root)
    files = listing(snapshot.manifest)
    first = image_at(snapshot.root, files, offset=at)
    second = None
    if against is not None or node_id is not None:
        # Without an offset each is asked for its own end: a node's log may end a record before the furthest.
        second = image_at(snapshot.root, files, offset=at if against is None else against, node_id=node_id)
    return Shown(at=first, against=second, kinds=kinds or KINDS)


def as_json(shown: Shown) -> dict[str, Any]:
    """The result for a program."""
    if shown.against is None:
        return {**_image(shown.at), "entries": [_entry(*item) for item in _entries(shown)]}
    return {
        "at": _image(shown.at),
        "against": _image(shown.against),
        "differences": [
            {
                "kind": d.kind,
                "name": d.name,
                "at": d.ours.value if d.ours is not None else None,
                "against": d.theirs.value if d.theirs is not None else None,
            }
            for d in shown.differences()
        ],
    }


def as_lines(shown: Shown) -> Iterator[str]:
    """The result for a person."""
    if shown.against is None:
        yield _title(shown.at)
        for (kind, name), entry in _entries(shown):
            yield f"{kind:12}  {name}  {_compact(entry.value)}  (record {entry.metadata_offset})"
        return
    yield f"at:      {_title(shown.at)}"
    yield f"against: {_title(shown.against)}"
    count = 0
    for difference in shown.differences():
        count += 1
        yield f"{difference.kind:12}  {difference.name}  {_told(difference)}"
    yield "they say the same" if count == 0 else f"{count} entries differ"


def _told(difference: Difference) -> str:
    ours, theirs = difference.ours, difference.theirs
    if ours is None or theirs is None:
        there = theirs if ours is None else ours
        assert there is not None, "a difference of nothing"
        return f"only {'against' if ours is None else 'at'}: {_compact(there.value)}"
    parts = sorted(n for n in ours.value.keys() | theirs.value.keys() if ours.value.get(n) != theirs.value.get(n))
    if not parts:
        return "differs in what is not shown"
    return ", ".join(f"{n}: {_compact(ours.value.get(n))} -> {_compact(theirs.value.get(n))}" for n in parts)


def _entries(shown: Shown) -> list[tuple[tuple[str, str], Entry]]:
    wanted = (item for item in shown.at.image.entries.items() if item[0][0] in shown.kinds)
    return sorted(wanted, key=lambda item: (KINDS.index(item[0][0]), item[0][1]))


def _entry(key: tuple[str, str], entry: Entry) -> dict[str, Any]:
    kind, name = key
    return {
        "kind": kind,
        "name": name,
        "value": entry.value,
        "metadata_offset": entry.metadata_offset,
        "at_ms": entry.at_ms,
    }


def _image(one: ImageAt) -> Mapping[str, Any]:
    return {
        "offset": one.offset,
        "node_id": one.node_id,
        "begun_with": one.begun_with,
        "damaged": one.damaged,
    }


def _title(one: ImageAt) -> str:
    source = f"{one.begun_with} and the log behind it" if one.begun_with is not None else "its log"
    doubt = "; records of it could not be read" if one.damaged else ""
    return f"node {one.node_id}, all below offset {one.offset}, by {source}{doubt}"


def _compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"))
