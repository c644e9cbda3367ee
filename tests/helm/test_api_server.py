"""The chart before a real API server: it takes every manifest by strict rules, and every pod into a namespace of
restricted pods.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.helm.api_client import RefusedError, pods_of
from tests.helm.api_server import ApiServer
from tests.helm.chart import CHART, OWN_CLUSTER, of_kind, rendered

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

Document = dict[str, Any]

VALUES = {"values.yaml": (), **{path.stem: (path,) for path in (OWN_CLUSTER, *sorted(CHART.glob("ci/*-values.yaml")))}}
"""Every file of values that are this chart's own; with none it wants a Secret's name, which each test adds."""


@pytest.fixture(scope="module")
def secret(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("values") / "secret.yaml"
    path.write_text(yaml.safe_dump({"store": {"existingSecret": "tidegauge-store"}}))
    return path


Installed = tuple[str, list[Document]]


@pytest.fixture(scope="module", params=VALUES)
def installed(
    request: pytest.FixtureRequest, kubernetes: ApiServer, new_namespace: Callable[[], str], secret: Path
) -> Installed:
    """A namespace with everything that these values make, and what that is."""
    namespace = new_namespace()
    documents = rendered(secret, *VALUES[request.param], namespace=namespace)
    for document in documents:
        kubernetes.admin.apply(document, namespace)
    return namespace, documents


def test_every_manifest_is_taken(kubernetes: ApiServer, installed: Installed) -> None:
    """Without a warning, too, of an unknown field or of a pod that would be refused. What a ConfigMap holds for the
    Spark operator is made as who submits it makes it.
    """
    namespace, documents = installed
    for document in documents:
        path = kubernetes.admin.path(document, namespace)
        kept = kubernetes.admin.request("GET", f"{path}/{document['metadata']['name']}")
        assert kept["kind"] == document["kind"]
    (held,) = [d for d in of_kind(documents, "ConfigMap") if d["metadata"]["name"].endswith("spark-applications")]
    made = kubernetes.admin.create(yaml.safe_load(held["data"]["index-and-derive.yaml"]), namespace)
    assert made["metadata"]["namespace"] == namespace


def test_every_pod_is_admitted(kubernetes: ApiServer, installed: Installed) -> None:
    namespace, documents = installed
    pods = dict(pods_of(documents))
    assert len(pods) >= 2
    for about, pod in pods.items():
        made = kubernetes.admin.create(pod, namespace)
        assert made["metadata"]["namespace"] == namespace, about


def test_every_pod_of_the_spark_operator_is_admitted(kubernetes: ApiServer, installed: Installed) -> None:
    """As the operator makes them: its webhook lays a driver's and an executor's security contexts on Spark's pods."""
    namespace, documents = installed
    applications = [d["spec"].get("template", d["spec"]) for d in documents if d["kind"].endswith("SparkApplication")]
    (held,) = [d for d in of_kind(documents, "ConfigMap") if d["metadata"]["name"].endswith("spark-applications")]
    applications.append(yaml.safe_load(held["data"]["index-and-derive.yaml"])["spec"])
    for application in applications:
        for role in ("driver", "executor"):
            kubernetes.admin.create(_spark_pod(application, role), namespace)


def _spark_pod(application: Document, role: str) -> Document:
    said = application[role]
    container = {key: said[key] for key in ("securityContext", "env", "envFrom", "volumeMounts") if key in said}
    spec = {
        "serviceAccountName": said.get("serviceAccount", "default"),
        "securityContext": said["podSecurityContext"],
        "containers": [{"name": f"spark-kubernetes-{role}", "image": application["image"], **container}],
        "volumes": application["volumes"],
    }
    return {"apiVersion": "v1", "kind": "Pod", "metadata": {"generateName": f"{role}-"}, "spec": spec}


def test_what_is_wrong_is_refused(kubernetes: ApiServer, installed: Installed) -> None:
    """A field that the server or the Spark operator's definition does not know, and a pod that is not confined."""
    namespace, documents = installed
    (deployment,) = of_kind(documents, "Deployment")
    misspelt = {**deployment, "spec": {**deployment["spec"], "replica": 2}}
    with pytest.raises(RefusedError, match="replica"):
        kubernetes.admin.apply(misspelt, namespace)
    (held,) = [d for d in of_kind(documents, "ConfigMap") if d["metadata"]["name"].endswith("spark-applications")]
    application = yaml.safe_load(held["data"]["index-and-derive.yaml"])
    application["spec"]["driver"]["core"] = 2
    with pytest.raises(RefusedError, match="core"):
        kubernetes.admin.create(application, namespace)
    pod = dict(pods_of(documents))[f"Deployment {deployment['metadata']['name']}"]
    with pytest.raises(RefusedError, match="violates PodSecurity"):
        kubernetes.admin.create({**pod, "spec": {**pod["spec"], "securityContext": {}}}, namespace)


CHANGES: dict[str, Document] = {
    "resources": {"migration": {"resources": {"limits": {"memory": "1Gi"}}}, "console": {"replicas": 3}},
    "extraEnv": {"extraEnv": [{"name": "TIDEGAUGE_LOG", "value": "x"}]},
    "extraEnvFrom": {"extraEnvFrom": [{"secretRef": {"name": "another"}}]},
    "pods' labels": {"podLabels": {"team": "streams"}, "podAnnotations": {"audited": "yes"}},
    "image": {"image": {"tag": "next"}},
    "settings": {"settings": {"TIDEGAUGE_SNAPSHOTS": "s3://another/kafka"}},
    "secret": {"store": {"existingSecret": "another"}},
    "users": {"podSecurityContext": {"runAsUser": 20001}},
    "pull secrets": {"imagePullSecrets": [{"name": "registry"}]},
}
"""What an upgrade may change."""


@pytest.mark.parametrize("change", CHANGES)
def test_an_upgrade_is_taken(
    kubernetes: ApiServer, new_namespace: Callable[[], str], secret: Path, tmp_path: Path, change: str
) -> None:
    """Kubernetes does not let a Job's pods be changed: where they would be, the Job has another name."""
    namespace, changed = new_namespace(), tmp_path / "changed.yaml"
    changed.write_text(yaml.safe_dump(CHANGES[change]))
    for values in ((secret, OWN_CLUSTER), (secret, OWN_CLUSTER, changed)):
        for document in rendered(*values, namespace=namespace):
            kubernetes.admin.apply(document, namespace)
