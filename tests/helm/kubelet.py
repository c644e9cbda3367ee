"""What a kubelet would write: the tests' API server has no node, so that a test says what becomes of a pod."""

from typing import Final

from tests.helm.api_client import Client, Document

_WHEN: Final = "2026-11-21T02:12:01Z"


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
