"""What the chart's pods are: confined, told what they need and no more, watched, and made anew when secrets change."""

import re
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from fastapi.testclient import TestClient

from tests.helm.chart import CHART, OWN_CLUSTER, containers_of, of_kind, pod_of, rendered, with_hooks, written
from tidegauge.console.app import create_app
from tidegauge.store import migrate

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

STORE = {"store": {"existingSecret": "store"}}


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    return rendered(OWN_CLUSTER, chart=with_hooks(tmp_path_factory.mktemp("chart")))


def template(documents: list[dict[str, Any]]) -> dict[str, Any]:
    """What spark-submit makes drivers and executors from."""
    (held,) = [d for d in of_kind(documents, "ConfigMap") if d["metadata"]["name"].endswith("-spark-pod")]
    found: dict[str, Any] = yaml.safe_load(held["data"]["pod.yaml"])
    return found


def test_every_pod_fits_a_restricted_namespace(everything: list[dict[str, Any]]) -> None:
    """What Kubernetes' pod security standard `restricted` asks for."""
    pods = [*everything, template(everything)]
    confined = [(d["metadata"].get("name"), pod_of(d)) for d in pods if pod_of(d) is not None]
    assert len(confined) == 6
    for name, pod in confined:
        assert pod is not None
        assert pod["securityContext"]["runAsNonRoot"] is True, name
        assert pod["securityContext"]["seccompProfile"]["type"] == "RuntimeDefault", name
        for container in pod["containers"]:
            assert container["securityContext"]["allowPrivilegeEscalation"] is False, name
            assert container["securityContext"]["capabilities"]["drop"] == ["ALL"], name


def test_a_submitted_driver_knows_its_settings_and_not_the_store(everything: list[dict[str, Any]]) -> None:
    pod = template(everything)
    kubernetes_validate.validate({**pod, "spec": pod["spec"]}, "1.33", strict=True)
    (container,) = pod["spec"]["containers"]
    assert {each["name"] for each in container["env"]} == {"TIDEGAUGE_HOME", "AWS_CA_BUNDLE"}
    assert container["envFrom"] == [
        {"configMapRef": {"name": "tidegauge-settings"}},
        {"secretRef": {"name": "object-store"}},
    ]
    mounted = {mount["name"]: mount["mountPath"] for mount in container["volumeMounts"]}
    assert mounted == {"runs": "/var/lib/tidegauge", "ca": "/etc/ssl/company"}
    assert {volume["name"] for volume in pod["spec"]["volumes"]} == set(mounted)


def test_airflow_s_workers_and_spark_s_pods_are_one_user(everything: list[dict[str, Any]]) -> None:
    """Else what one of them wrote the other may not read."""
    example = yaml.safe_load((CHART / "examples" / "airflow.yaml").read_text())
    ours = template(everything)["spec"]["securityContext"]
    for key in ("runAsUser", "runAsGroup", "fsGroup"):
        assert example["securityContexts"]["pod"][key] == ours[key]
    assert (example["uid"], example["gid"]) == (ours["runAsUser"], ours["runAsGroup"])
    settings = next(e["value"] for e in yaml.safe_load(example["extraEnv"]) if e["name"] == "TIDEGAUGE_SPARK_CONF")
    (mount,) = [m for m in example["volumeMounts"] if m["name"] == "tidegauge-spark-pod"]
    for role in ("driver", "executor"):
        assert f"spark.kubernetes.{role}.podTemplateFile={mount['mountPath']}/pod.yaml" in settings.split()


def test_extra_volumes_reach_every_pod(everything: list[dict[str, Any]]) -> None:
    for document in everything:
        pod = pod_of(document)
        if pod is None or document["kind"] == "Pod":
            continue
        assert "ca" in {volume["name"] for volume in pod["volumes"]}
        assert all("ca" in {m["name"] for m in container["volumeMounts"]} for container in containers_of(document))


def test_every_volume_that_is_mounted_is_there_and_the_other_way_round(everything: list[dict[str, Any]]) -> None:
    for document in everything:
        if pod := pod_of(document):
            there = [volume["name"] for volume in pod.get("volumes", ())]
            mounted = {m["name"] for container in pod["containers"] for m in container.get("volumeMounts", ())}
            assert len(there) == len(set(there))
            assert set(there) == mounted


def test_an_image_may_be_named_by_its_digest(tmp_path: Path) -> None:
    digest = "sha256:" + "0f" * 32
    documents = rendered(written(tmp_path, {**STORE, "image": {"repository": "r.example/t", "digest": digest}}))
    images = {container["image"] for document in documents for container in containers_of(document)}
    assert images == {f"r.example/t@{digest}"}


def test_a_finished_migration_stays_unless_asked_to_go(tmp_path: Path) -> None:
    """GitOps would make a Job again that went by itself."""
    (job,) = of_kind(rendered(written(tmp_path, STORE)), "Job")
    assert "ttlSecondsAfterFinished" not in job["spec"]
    for seconds in (0, 600):
        values = {**STORE, "migration": {"ttlSecondsAfterFinished": seconds}}
        (job,) = of_kind(rendered(written(tmp_path, values)), "Job")
        assert job["spec"]["ttlSecondsAfterFinished"] == seconds


def test_the_console_watches_the_secrets_that_it_began_with(tmp_path: Path) -> None:
    values = {
        "store": {"existingSecret": "all", "console": {"existingSecret": "reader", "existingSecretKey": "url"}},
        "console": {"callers": {"existingSecret": "callers"}},
    }
    (deployment,) = of_kind(rendered(written(tmp_path, values)), "Deployment")
    (container,) = containers_of(deployment)
    watched = next(e["value"] for e in container["env"] if e["name"] == "TIDEGAUGE_CONSOLE_WATCHED")
    (mount,) = [m for m in container["volumeMounts"] if m["mountPath"] == watched]
    (volume,) = [v for v in deployment["spec"]["template"]["spec"]["volumes"] if v["name"] == mount["name"]]
    assert [source["secret"]["name"] for source in volume["projected"]["sources"]] == ["reader", "callers"]
    assert "subPath" not in mount, "such a mount never changes"


def test_replicas_of_the_console_keep_apart(tmp_path: Path) -> None:
    (deployment,) = of_kind(rendered(written(tmp_path, STORE)), "Deployment")
    pod = deployment["spec"]["template"]
    for constraint in pod["spec"]["topologySpreadConstraints"]:
        assert constraint["labelSelector"]["matchLabels"].items() <= pod["metadata"]["labels"].items()
    (alone,) = of_kind(rendered(written(tmp_path, {**STORE, "console": {"spread": []}})), "Deployment")
    assert "topologySpreadConstraints" not in alone["spec"]["template"]["spec"]


def test_alerts_and_retention_run_without_airflow(everything: list[dict[str, Any]]) -> None:
    jobs = {d["metadata"]["name"]: d for d in of_kind(everything, "CronJob")}
    assert jobs.keys() == {"tidegauge-alerts", "tidegauge-retention"}
    (alerts,), (retention,) = (containers_of(jobs[name]) for name in sorted(jobs))
    file = next(e["value"] for e in alerts["env"] if e["name"] == "TIDEGAUGE_ALERTS")
    (mount,) = [m for m in alerts["volumeMounts"] if file.startswith(f"{m['mountPath']}/")]
    pod = pod_of(jobs["tidegauge-alerts"])
    assert pod is not None
    (volume,) = [v for v in pod["volumes"] if v["name"] == mount["name"]]
    assert volume["secret"]["items"] == [{"key": "alerts.yaml", "path": file.rsplit("/", 1)[1]}]
    assert retention["args"] == ["tidegauge", "store", "retain", "--keep-days", "180", "--facts-days", "30"]
    assert [job["spec"]["concurrencyPolicy"] for job in jobs.values()] == ["Forbid", "Forbid"]


OF_THIS_CHART = sorted(path for path in CHART.glob("examples/*.yaml") if path.stem != "airflow")


@pytest.mark.parametrize("example", OF_THIS_CHART, ids=lambda path: path.stem)
def test_every_example_installs(example: Path) -> None:
    assert of_kind(rendered(example), "Deployment")


def test_alerts_without_a_file_are_refused(tmp_path: Path) -> None:
    with pytest.raises(AssertionError, match="Whom do alerts go to"):
        rendered(written(tmp_path, {**STORE, "alerts": {"enabled": True}}))


@pytest.mark.postgres
def test_rules_go_by_metrics_that_there_are(everything: list[dict[str, Any]], empty_store: str) -> None:
    (rules,) = of_kind(everything, "PrometheusRule")
    asked = {
        name
        for group in rules["spec"]["groups"]
        for rule in group["rules"]
        for name in re.findall(r"tidegauge_\w+", rule["expr"])
    }
    migrate(empty_store)
    with TestClient(create_app(empty_store)) as console:
        told = set(re.findall(r"^# TYPE (\w+)", console.get("/metrics").text, re.MULTILINE))
    assert len(asked) == 5
    assert asked <= told


def test_rules_tell_which_cluster(everything: list[dict[str, Any]]) -> None:
    (rules,) = of_kind(everything, "PrometheusRule")
    for group in rules["spec"]["groups"]:
        for rule in group["rules"]:
            assert "{{ $labels.cluster }}" in rule["annotations"]["summary"] or "absent(" in rule["expr"]


def test_helm_s_test_asks_the_console_s_service(everything: list[dict[str, Any]]) -> None:
    (pod,) = of_kind(everything, "Pod")
    assert pod["metadata"]["annotations"]["was-a-hook"] == "test"
    (service,) = of_kind(everything, "Service")
    port = service["spec"]["ports"][0]["port"]
    assert containers_of(pod)[0]["args"][-1] == f"http://{service['metadata']['name']}:{port}/readyz"
