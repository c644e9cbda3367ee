"""A release of the chart by Helm's own code and Kubernetes' own controllers: it is installed, becomes ready as soon as
a test says of each pod what a kubelet would, and is tested and upgraded.
"""

from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

import pytest
import yaml

from tests.helm import kubelet
from tests.helm.api_client import Client, Document
from tests.helm.api_server import ApiServer, controllers, until
from tests.helm.chart import CHART, OWN_CLUSTER, helm

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

CONTROLLERS = ("deployment", "replicaset", "job", "disruption", "serviceaccount")


@dataclass(frozen=True, slots=True, kw_only=True)
class Release:
    """In a namespace, in which controllers are at work."""

    admin: Client
    namespace: str
    kubeconfig: Path

    def helm(self, command: str, *values: Path) -> str:
        """What Helm says of the release in the end."""
        done = helm(command, CHART, "tidegauge", self.namespace, self.kubeconfig, *values)
        assert done.returncode == 0, done.stderr
        return done.stdout.strip().splitlines()[-1]

    def items(self, version: str, kind: str, component: str) -> list[Document]:
        label = f"app.kubernetes.io/component={component}"
        return self.admin.items(version, kind, self.namespace, labelSelector=label)

    def pods(self, component: str, *, count: int = 1) -> list[Document]:
        """That many, as soon as they are made."""
        until(lambda: len(self.items("v1", "Pod", component)) == count, f"there are not {count} pods: {component}")
        return self.items("v1", "Pod", component)


@pytest.fixture(scope="module")
def release(
    kubernetes: ApiServer, new_namespace: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Release]:
    """What a team with all of it on has installed."""
    directory = tmp_path_factory.mktemp("release")
    with controllers(kubernetes, directory, *(f"{each}-controller" for each in CONTROLLERS)):
        kubeconfig = kubernetes.kubeconfig(directory / "kubeconfig", kubernetes.admin_token)
        made = Release(admin=kubernetes.admin, namespace=new_namespace(), kubeconfig=kubeconfig)
        assert made.helm("install", OWN_CLUSTER) == "deployed"
        yield made


@pytest.fixture(scope="module")
def migrated(release: Release) -> Document:
    """The Job whose pod has brought the store to its version."""
    (pod,) = release.pods("migration")
    kubelet.end(release.admin, pod, 0)
    (job,) = release.items("batch/v1", "Job", "migration")
    return job


def test_the_migration_is_complete(release: Release, migrated: Document) -> None:
    def is_complete() -> bool:
        (job,) = release.items("batch/v1", "Job", "migration")
        return "Complete" in {each["type"] for each in job["status"].get("conditions", [])}

    until(is_complete, "the Job is not complete")


def test_the_console_is_available_and_may_lose_one_pod(release: Release) -> None:
    for pod in release.pods("console", count=2):
        kubelet.begin(release.admin, pod)

    def is_available() -> bool:
        (deployment,) = release.items("apps/v1", "Deployment", "console")
        return bool(deployment["status"].get("availableReplicas") == 2)

    def may_lose_one() -> bool:
        (budget,) = release.items("policy/v1", "PodDisruptionBudget", "console")
        return bool(budget.get("status", {}).get("disruptionsAllowed") == 1)

    until(is_available, "the Deployment is not available")
    until(may_lose_one, "the PodDisruptionBudget knows no pod of it")


def test_its_test_is_a_pod_that_is_admitted(release: Release) -> None:
    with ThreadPoolExecutor(1) as aside:
        told = aside.submit(release.helm, "test")
        (pod,) = release.pods("test")
        kubelet.end(release.admin, pod, 0)
        assert told.result() == "deployed"


def test_an_upgrade_is_another_migration(release: Release, migrated: Document, tmp_path: Path) -> None:
    """Of pods that differ in nothing but a label: Kubernetes lets nobody change those of a Job."""
    changed = tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump({"podLabels": {"team": "streams"}}))
    assert release.helm("upgrade", OWN_CLUSTER, changed) == "deployed"
    (job,) = release.items("batch/v1", "Job", "migration")
    assert job["metadata"]["name"] != migrated["metadata"]["name"]
