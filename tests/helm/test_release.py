"""A release of the chart by Kubernetes' own controllers: what they make of it becomes ready, since a test says of each
pod what a kubelet would.
"""

from collections.abc import Callable, Iterator

import pytest

from tests.helm import kubelet
from tests.helm.api_client import Document
from tests.helm.api_server import ApiServer, controllers, until
from tests.helm.chart import OWN_CLUSTER, of_kind, rendered

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

CONTROLLERS = ("deployment", "replicaset", "job", "disruption", "serviceaccount")


@pytest.fixture(scope="module")
def namespace(
    kubernetes: ApiServer, new_namespace: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[str]:
    """In which controllers are at work."""
    names = (f"{each}-controller" for each in CONTROLLERS)
    with controllers(kubernetes, tmp_path_factory.mktemp("controllers"), *names):
        yield new_namespace()


@pytest.fixture(scope="module")
def documents(kubernetes: ApiServer, namespace: str) -> list[Document]:
    """What a team with all of it on has."""
    made = rendered(OWN_CLUSTER, namespace=namespace)
    for document in made:
        kubernetes.admin.apply(document, namespace)
    return made


def pods(kubernetes: ApiServer, namespace: str, component: str) -> list[Document]:
    label = f"app.kubernetes.io/component={component}"
    return kubernetes.admin.items("v1", "Pod", namespace, labelSelector=label)


def test_the_migration_is_complete(kubernetes: ApiServer, namespace: str, documents: list[Document]) -> None:
    until(lambda: bool(pods(kubernetes, namespace, "migration")), "the Job has no pod")
    (pod,) = pods(kubernetes, namespace, "migration")
    kubelet.end(kubernetes.admin, pod, 0)

    def is_complete() -> bool:
        jobs = {each["metadata"]["name"]: each for each in kubernetes.admin.items("batch/v1", "Job", namespace)}
        (wanted,) = of_kind(documents, "Job")
        conditions = jobs[wanted["metadata"]["name"]]["status"].get("conditions", [])
        return "Complete" in {each["type"] for each in conditions}

    until(is_complete, "the Job is not complete")


def test_the_console_is_available_and_may_lose_one_pod(
    kubernetes: ApiServer, namespace: str, documents: list[Document]
) -> None:
    (deployment,) = of_kind(documents, "Deployment")
    count = deployment["spec"]["replicas"]
    until(lambda: len(pods(kubernetes, namespace, "console")) == count, "the Deployment lacks pods")
    for pod in pods(kubernetes, namespace, "console"):
        kubelet.begin(kubernetes.admin, pod)

    def is_available() -> bool:
        (there,) = kubernetes.admin.items("apps/v1", "Deployment", namespace)
        return bool(there["status"].get("availableReplicas") == count)

    def may_lose_one() -> bool:
        (budget,) = kubernetes.admin.items("policy/v1", "PodDisruptionBudget", namespace)
        return bool(budget.get("status", {}).get("disruptionsAllowed") == 1)

    until(is_available, "the Deployment is not available")
    until(may_lose_one, "the PodDisruptionBudget knows no pod of it")
