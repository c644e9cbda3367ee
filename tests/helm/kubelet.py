"""What a kubelet would write and start: the API server has no node, so that a test says what becomes of a pod."""

import subprocess
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Final

from tests.helm.api_client import Client, Document
from tests.helm.chart import ROOT
from tests.processes import ended

_WHEN: Final = "2026-11-21T02:12:01Z"


@contextmanager
def running(pod: Document, image: Mapping[str, str], directory: Path) -> Iterator["subprocess.Popen[bytes]"]:
    """Its container's process on this machine while the block lasts, by the image's entry point. `image` is the
    environment that the image would bring; empty volumes are folders of `directory`, and Secrets are not there.
    """
    (container,) = pod["spec"]["containers"]
    empty = {each["name"] for each in pod["spec"]["volumes"] if "emptyDir" in each}
    places = {m["mountPath"]: str(directory / m["name"]) for m in container["volumeMounts"] if m["name"] in empty}
    known = {"status.podIP": "127.0.0.1", "metadata.name": pod["metadata"]["name"]}
    said = dict(image)
    for each in container["env"]:
        value = each.get("value", known.get(each.get("valueFrom", {}).get("fieldRef", {}).get("fieldPath")))
        if value is not None:
            said[each["name"]] = places.get(value, value)
    with (directory / f"{pod['metadata']['name']}.log").open("wb") as log:
        process = subprocess.Popen(
            ["/bin/bash", ROOT / "helm" / "image" / "entrypoint.sh", *container["args"]],
            cwd=directory, env=said, stdin=subprocess.DEVNULL, stdout=log, stderr=subprocess.STDOUT,
        )  # fmt: skip
        try:
            yield process
        finally:
            ended(process)


def end(admin: Client, pod: Document, exit_code: int) -> None:
    """Its container has ended."""
    reason = "Error" if exit_code else "Completed"
    ended = {"exitCode": exit_code, "reason": reason, "startedAt": _WHEN, "finishedAt": _WHEN}
    _write(admin, pod, "Failed" if exit_code else "Succeeded", {"terminated": ended}, ready=False)


def begin(admin: Client, pod: Document) -> None:
    """Its container runs and is ready."""
    _write(admin, pod, "Running", {"running": {"startedAt": _WHEN}}, ready=True)


def _write(admin: Client, pod: Document, phase: str, state: Document, *, ready: bool) -> None:
    (container,) = pod["spec"]["containers"]
    known = {"name": container["name"], "image": container["image"], "imageID": "", "restartCount": 0}
    condition = {"type": "Ready", "status": str(ready), "lastTransitionTime": _WHEN}
    told = {**known, "ready": ready, "state": state}
    status = {"phase": phase, "conditions": [condition], "containerStatuses": [told]}
    place = f"/api/v1/namespaces/{pod['metadata']['namespace']}/pods/{pod['metadata']['name']}/status"
    admin.request("PATCH", place, {"status": status}, "application/strategic-merge-patch+json")
