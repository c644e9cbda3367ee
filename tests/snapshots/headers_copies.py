"""A plain copy of log directories as the headers snapshot that a capture of them would be.

In: a capture. Out: a directory with its manifest, made file by file as `snapshots.headers` says. Tests of the audit's
side stand on it, whatever the capture itself does about order, holes and live files.
"""

import os
from dataclasses import replace
from pathlib import Path

from tidegauge.snapshots.adopt import open_snapshot
from tidegauge.snapshots.headers import How, Treatment, treatment, write_treated
from tidegauge.snapshots.manifest import MANIFEST_NAME, BrokerCapture, FileEntry, LeftOut, Manifest, Mode, to_json
from tidegauge.snapshots.topic_names import TopicNames


def headers_copy(source: Path, target: Path, names: TopicNames | None = None) -> Manifest:
    """Writes the headers snapshot of what `source` holds."""
    plain = open_snapshot(source).manifest
    brokers, left_out = [], []
    for broker in plain.brokers:
        files = []
        for file in broker.files:
            home = _log_dir(broker, file.path)
            treated = treatment(file.path[len(home) + 1 :], names)
            path = f"{home}/{treated.path}"
            if treated.how is How.LEFT_OUT:
                left_out.append(LeftOut(path=path, reason=treated.reason or ""))
            else:
                files.append(_write(source / file.path, target, path, treated, names))
        brokers.append(replace(broker, files=tuple(files)))
    manifest = replace(
        plain,
        mode=Mode.HEADERS,
        brokers=tuple(brokers),
        left_out=(*plain.left_out, *left_out),
        hashed_topics=names is not None,
    )
    (target / MANIFEST_NAME).write_text(to_json(manifest), encoding="utf-8")
    return manifest


def _log_dir(broker: BrokerCapture, path: str) -> str:
    names = [broker.directory if d.name == "." else f"{broker.directory}/{d.name}" for d in broker.log_dirs]
    return max((n for n in names if path.startswith(n + "/")), key=len, default=broker.directory)


def _write(source: Path, root: Path, path: str, treated: Treatment, names: TopicNames | None) -> FileEntry:
    target = root / path
    target.parent.mkdir(parents=True, exist_ok=True)
    if treated.how is How.COPIED:
        os.link(source, target)  # Copies are only read, and indexes are large and mostly holes.
    else:
        with source.open("rb") as given, target.open("xb") as file:
            write_treated(treated, given.readinto, file.write, names)
    return FileEntry(
        path=path,
        size_bytes=target.stat().st_size,
        source_size_bytes=source.stat().st_size if treated.how is not How.COPIED else None,
    )
