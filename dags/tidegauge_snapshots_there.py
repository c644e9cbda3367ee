"""Which snapshots are there, for the forms and the clock: settings in, names of clusters and places of snapshots out.

A directory is listed, and no file in it is opened: this happens each time that Airflow reads the DAGs. An object store
is never asked; there nothing is known before a run looks.
"""

import os
from collections.abc import Iterator, Mapping
from typing import Final

from airflow.sdk.exceptions import AirflowFailException

from tidegauge_capture_clusters import snapshots_root

_MANIFEST: Final = "MANIFEST.json"
_MOST: Final = 1000
"""Entries of one directory that are looked at."""
_OFFERED: Final = 20


def can_be_listed(environ: Mapping[str, str]) -> bool:
    """Whether the root is a directory of this machine."""
    return "://" not in snapshots_root(environ)


def clusters_there(environ: Mapping[str, str]) -> list[str]:
    """Clusters that have a snapshot, by name."""
    return sorted({cluster for cluster, _, _ in _snapshots(environ)})


def snapshots_there(environ: Mapping[str, str]) -> list[str]:
    """The places of the newest snapshots of all clusters."""
    found = sorted(_snapshots(environ), key=lambda one: one[1], reverse=True)
    return [place for _, _, place in found[:_OFFERED]]


def named(cluster: str | None, environ: Mapping[str, str]) -> str:
    """The cluster of a form. Raises `AirflowFailException` where it names none."""
    if cluster:
        return cluster
    raise AirflowFailException(
        f"Name a cluster. None has a snapshot below {snapshots_root(environ)} yet: make one with `tidegauge capture` "
        "or `tidegauge snapshot adopt`, or say where they are with TIDEGAUGE_SNAPSHOTS."
    )


def _snapshots(environ: Mapping[str, str]) -> Iterator[tuple[str, float, str]]:
    """Cluster, when its manifest was written, place."""
    if not can_be_listed(environ):
        return
    for cluster in _directories(snapshots_root(environ)):
        for place in _directories(cluster):
            try:
                written = os.lstat(f"{place}/{_MANIFEST}").st_mtime
            except OSError:
                continue  # Not finished, or not ours to see: a run that names it says so.
            yield os.path.basename(cluster), written, place


def _directories(directory: str) -> list[str]:
    try:
        with os.scandir(directory) as entries:
            return [e.path for _, e in zip(range(_MOST), entries, strict=False) if e.is_dir(follow_symlinks=False)]
    except OSError:
        return []  # None yet.
