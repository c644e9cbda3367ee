"""Reading what the cluster answered while it was captured.

In: a snapshot. Out: the answers, None where nobody asked. Answers that cannot be used are named as unread, and the logs
are audited without them.
"""

from tidegauge.snapshots.cluster_answers import ANSWERS_NAME, CapturedAnswers, from_json
from tidegauge.snapshots.errors import SnapshotError
from tidegauge.snapshots.location import Location
from tidegauge.snapshots.manifest import LeftOut, Manifest


def read_answers(root: Location, manifest: Manifest, unread: list[LeftOut]) -> CapturedAnswers | None:
    """The answers beside the manifest; a plain copy may hold them under the same name."""
    path = manifest.answers or ANSWERS_NAME
    try:
        text = (root / path).read_text(encoding="utf-8")
        return from_json(text, where=path)
    except FileNotFoundError as error:
        if manifest.answers is not None:
            unread.append(LeftOut(path=path, reason=f"cannot be read: {error.strerror or error}"))
    except OSError as error:
        unread.append(LeftOut(path=path, reason=f"cannot be read: {error.strerror or error}"))
    except (SnapshotError, UnicodeDecodeError) as error:
        unread.append(LeftOut(path=path, reason=str(error)))
    return None
