"""The chart, by Helm's own code: it lints, it renders, Kubernetes' schemas accept what comes out, and what is not right
is refused with a word about it.
"""

import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml

from tests.helm.chart import CHART, OWN_CLUSTER, ROOT, containers_of, helm, of_kind, rendered, with_hooks, written
from tests.helm.spark_application import problems_of

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

KUBERNETES = ("1.27.0", "1.33.0", "1.37.0")
NOT_KUBERNETES = ("sparkoperator.k8s.io/v1beta2", "monitoring.coreos.com/v1")

Render = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def with_values(tmp_path: Path) -> Render:
    """Renders with values given as a mapping, on top of those that cannot be left out."""

    def render(values: Mapping[str, Any]) -> list[dict[str, Any]]:
        return rendered(written(tmp_path, {"store": {"existingSecret": "store"}} | values))

    return render


@pytest.fixture(scope="module")
def everything(tmp_path_factory: pytest.TempPathFactory) -> list[dict[str, Any]]:
    """What a team with all of it on gets."""
    return rendered(OWN_CLUSTER, chart=with_hooks(tmp_path_factory.mktemp("chart")))


def test_it_lints(tmp_path: Path) -> None:
    """As a chart is linted by who packages it: with values that it can be installed with."""
    chart = tmp_path / "tidegauge"
    chart.parent.mkdir(exist_ok=True)
    subprocess.run(["cp", "-rL", str(CHART), str(chart)], check=True)
    values = yaml.safe_load((chart / "values.yaml").read_text())
    values["store"]["existingSecret"] = "store"
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
    done = helm("lint", chart)
    assert done.returncode == 0, done.stdout + done.stderr


def test_it_packages_with_the_dags_and_the_dashboards(tmp_path: Path) -> None:
    done = helm("package", CHART, tmp_path)
    assert done.returncode == 0, done.stderr
    (archive,) = tmp_path.glob("tidegauge-*.tgz")
    held = subprocess.run(["tar", "tzf", str(archive)], capture_output=True, text=True, check=True).stdout.split()
    for folder, pattern in (("dags", "*.py"), ("grafana/dashboards", "*.json")):
        for path in (ROOT / folder).glob(pattern):
            assert f"tidegauge/{Path(folder).name}/{path.name}" in held
    for other in (".airflowignore", "pools.json", "plugins/tidegauge_plugin.py"):
        assert f"tidegauge/dags/{other}" in held
    assert not [name for name in held if "__pycache__" in name]


@pytest.mark.parametrize("version", KUBERNETES)
def test_kubernetes_accepts_every_manifest(version: str) -> None:
    documents = rendered(OWN_CLUSTER, kubernetes=version)
    for document in documents:
        if document["apiVersion"] not in NOT_KUBERNETES:
            kubernetes_validate.validate(document, ".".join(version.split(".")[:2]), strict=True)
    kinds = {document["kind"] for document in documents}
    assert kinds >= {"ConfigMap", "Deployment", "Service", "Job", "PersistentVolumeClaim", "Role", "Ingress"}


def test_a_wrong_manifest_is_not_accepted(everything: list[dict[str, Any]]) -> None:
    (deployment,) = of_kind(everything, "Deployment")
    wrong = json.loads(json.dumps(deployment))
    wrong["spec"]["replicas"] = "two"
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(wrong, "1.33", strict=True)


def test_the_spark_operator_accepts_its_applications(everything: list[dict[str, Any]]) -> None:
    (templates,) = [d for d in of_kind(everything, "ConfigMap") if d["metadata"]["name"].endswith("spark-applications")]
    step = yaml.safe_load(templates["data"]["index-and-derive.yaml"])
    assert problems_of(step) == []
    assert step["spec"]["arguments"] == ["index", "derive", "--run", "__RUN__"]
    scheduled = of_kind(everything, "ScheduledSparkApplication")
    assert [problems_of(each) for each in scheduled] == [[], []]
    assert {each["metadata"]["labels"]["tidegauge/cluster"] for each in scheduled} == {"payments", "orders"}
    for application in (step["spec"], *(each["spec"]["template"] for each in scheduled)):
        name = application["mainApplicationFile"].removeprefix("local:///opt/tidegauge/")
        assert (ROOT / name).is_file()
        for pod in (application["driver"], application["executor"]):
            assert [mount["name"] for mount in pod["volumeMounts"]] == ["runs", "ca"]
        executor = {each["name"] for each in application["executor"]["env"]}
        assert "TIDEGAUGE_STORE_URL" not in executor, "it has no use for the store"


def test_a_mistake_in_an_application_would_be_noticed(everything: list[dict[str, Any]]) -> None:
    wrong = json.loads(json.dumps(of_kind(everything, "ScheduledSparkApplication")[0]))
    wrong["spec"]["template"]["driver"]["cores"] = "one"
    wrong["spec"]["template"]["executors"] = {}
    assert len(problems_of(wrong)) == 2


def test_an_audit_without_a_schedule_runs_once(with_values: Render) -> None:
    documents = with_values({"spark": {"audits": [{"cluster": "a.b"}, {"cluster": "A_B"}]}})
    once = of_kind(documents, "SparkApplication")
    assert [problems_of(each) for each in once] == [[], []]
    names = [each["metadata"]["name"] for each in once]
    assert len(set(names)) == 2
    assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in names)
    assert once[0]["spec"]["arguments"][:4] == ["audit", "latest", "--cluster", "a.b"]


def test_audits_of_clusters_whose_names_begin_alike_have_names_of_their_own(with_values: Render) -> None:
    clusters = [f"payments-of-the-north-sea-{place}" for place in ("aberdeen", "bergen")]
    for schedule in ({}, {"schedule": "0 5 * * *"}):
        documents = with_values({"spark": {"audits": [{"cluster": each, **schedule} for each in clusters]}})
        (kind,) = {"ScheduledSparkApplication"} if schedule else {"SparkApplication"}
        names = {document["metadata"]["name"] for document in of_kind(documents, kind)}
        assert len(names) == 2
        assert all(re.fullmatch(r"[a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?", name) for name in names)


def test_the_console_is_closed_to_all_but_those_who_are_named(with_values: Render) -> None:
    own = {"podSelector": {"matchLabels": {
        "app.kubernetes.io/name": "tidegauge", "app.kubernetes.io/instance": "tidegauge",
        "app.kubernetes.io/component": "test",
    }}}  # fmt: skip
    (policy,) = of_kind(with_values({}), "NetworkPolicy")
    assert policy["spec"]["policyTypes"] == ["Ingress"]
    assert policy["spec"]["ingress"] == [{"from": [own], "ports": [{"port": "http"}]}]
    some = [{"podSelector": {"matchLabels": {"app": "proxy"}}}]
    (policy,) = of_kind(with_values({"console": {"networkPolicy": {"from": some}}}), "NetworkPolicy")
    assert policy["spec"]["ingress"] == [{"from": [own, *some], "ports": [{"port": "http"}]}]
    assert of_kind(with_values({"console": {"networkPolicy": {"enabled": False}}}), "NetworkPolicy") == []


def test_its_commands_are_commands(everything: list[dict[str, Any]]) -> None:
    """What pods run is asked of the command line itself."""
    commands = [container["args"] for document in everything for container in containers_of(document)]
    assert len(commands) == 5
    for words in commands:
        if words[0] == "python":  # `helm test`
            continue
        command = [word for word in words if not word.startswith("-")]
        options = [word for word in words if word.startswith("--")]
        path = command[: 3 if command[1] in {"store", "alerts"} else 2]
        installed = Path(sys.executable).with_name(path[0])
        told = subprocess.run([installed, *path[1:], "--help"], capture_output=True, text=True, check=False)
        assert told.returncode == 0, told.stderr
        assert all(option in told.stdout for option in options)


def test_pods_are_confined_and_the_store_s_address_is_in_no_manifest(tmp_path: Path) -> None:
    secret = "postgresql+psycopg2://tidegauge:hunter2@postgres/tidegauge"
    documents = rendered(written(tmp_path, {"store": {"url": secret}}))
    (made,) = of_kind(documents, "Secret")
    assert made["stringData"] == {"store-url": secret}
    others = [document for document in documents if document["kind"] != "Secret"]
    assert "hunter2" not in json.dumps(others)
    for kind in ("Job", "Deployment"):
        (document,) = of_kind(documents, kind)
        pod = document["spec"]["template"]["spec"]
        assert pod["securityContext"]["runAsNonRoot"] is True
        assert pod["automountServiceAccountToken"] is False
        (container,) = pod["containers"]
        assert container["securityContext"]["readOnlyRootFilesystem"] is True
        reference = next(e for e in container["env"] if e["name"] == "TIDEGAUGE_STORE_URL")["valueFrom"]["secretKeyRef"]
        assert reference == {"name": made["metadata"]["name"], "key": "store-url"}


def test_the_console_may_have_a_store_user_of_its_own(with_values: Render) -> None:
    store = {"existingSecret": "writer", "console": {"existingSecret": "reader", "existingSecretKey": "url"}}
    documents = with_values({"store": store})
    (deployment,), (job,) = of_kind(documents, "Deployment"), of_kind(documents, "Job")

    def reference(document: dict[str, Any]) -> dict[str, str]:
        (container,) = document["spec"]["template"]["spec"]["containers"]
        return next(e for e in container["env"] if e["name"] == "TIDEGAUGE_STORE_URL")["valueFrom"]["secretKeyRef"]

    assert reference(deployment) == {"name": "reader", "key": "url"}
    assert reference(job) == {"name": "writer", "key": "store-url"}


def test_the_console_alone_has_the_secrets_by_which_it_knows_who_asks(with_values: Render) -> None:
    callers = {"existingSecret": "who-may-say-who", "tokensKey": "people"}
    documents = with_values({"store": {"existingSecret": "store"}, "console": {"callers": callers}})
    (deployment,) = of_kind(documents, "Deployment")
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    given = {e["name"]: e["valueFrom"]["secretKeyRef"] for e in container["env"] if "valueFrom" in e}
    assert given["TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN"] == {
        "name": "who-may-say-who",
        "key": "airflow-token",
        "optional": True,
    }
    assert given["TIDEGAUGE_CONSOLE_TOKENS"] == {"name": "who-may-say-who", "key": "people", "optional": True}
    assert "who-may-say-who" not in json.dumps([document for document in documents if document is not deployment])
    (without,) = of_kind(with_values({}), "Deployment")
    assert "TIDEGAUGE_CONSOLE_TOKENS" not in json.dumps(without)
    assert "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN" not in json.dumps(without)


def test_console_probes_and_selectors_fit_together(everything: list[dict[str, Any]]) -> None:
    (deployment,), (service,) = of_kind(everything, "Deployment"), of_kind(everything, "Service")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert service["spec"]["selector"].items() <= labels.items()
    assert deployment["spec"]["selector"]["matchLabels"].items() <= labels.items()
    (container,) = deployment["spec"]["template"]["spec"]["containers"]
    assert container["readinessProbe"]["httpGet"]["path"] == "/readyz"
    assert container["livenessProbe"]["httpGet"]["path"] == "/healthz"
    assert service["spec"]["ports"][0]["targetPort"] == container["ports"][0]["name"]


def test_dashboards_and_dags_travel_whole(everything: list[dict[str, Any]]) -> None:
    maps = of_kind(everything, "ConfigMap")
    dashboards = {
        n: t for d in maps if d["metadata"]["labels"].get("grafana_dashboard") == "1" for n, t in d["data"].items()
    }
    assert dashboards == {p.name: p.read_text() for p in (ROOT / "grafana" / "dashboards").glob("*.json")}
    delivered = {d["metadata"]["name"].removeprefix("tidegauge-"): d["data"] for d in maps}
    files = [*(ROOT / "dags").glob("*.py"), ROOT / "dags" / ".airflowignore"]
    assert delivered["dags"] == {p.name: p.read_text() for p in files}
    assert delivered["plugins"] == {p.name: p.read_text() for p in (ROOT / "dags" / "plugins").glob("*.py")}
    assert delivered["pools"] == {"pools.json": (ROOT / "dags" / "pools.json").read_text()}


def test_the_airflow_example_names_what_the_chart_makes(everything: list[dict[str, Any]]) -> None:
    example = yaml.safe_load((CHART / "examples" / "airflow.yaml").read_text())
    names = {(d["kind"], d["metadata"]["name"]) for d in everything}
    volumes = {v["name"]: v for v in example["volumes"]}
    for volume in volumes.values():
        if "configMap" in volume:
            assert ("ConfigMap", volume["configMap"]["name"]) in names
    assert ("PersistentVolumeClaim", volumes["tidegauge-runs"]["persistentVolumeClaim"]["claimName"]) in names
    (pools,) = example["scheduler"]["extraInitContainers"]
    assert {mount["name"] for mount in example["volumeMounts"] + pools["volumeMounts"]} == set(volumes)
    folder, file = pools["command"][-1].rsplit("/", 1)
    assert pools["command"][:3] == ["airflow", "pools", "import"]
    assert [(m["name"], m["mountPath"]) for m in pools["volumeMounts"]] == [("tidegauge-pools", folder)]
    (brought,) = [
        d["data"] for d in everything if d["metadata"]["name"] == volumes["tidegauge-pools"]["configMap"]["name"]
    ]
    (source,) = yaml.safe_load(example["extraEnvFrom"])
    assert ("ConfigMap", source["configMapRef"]["name"]) in names
    environment = {each["name"]: each.get("value") for each in yaml.safe_load(example["extraEnv"])}
    assert environment["TIDEGAUGE_SPARK_POOL"] in json.loads(brought[file])
    assert ("Service", environment["TIDEGAUGE_CONSOLE_URL"].removeprefix("http://")) in names
    account = re.search(r"serviceAccountName=(\S+)", environment["TIDEGAUGE_SPARK_CONF"])
    assert account is not None
    assert ("ServiceAccount", account[1]) in names
    assert ("ServiceAccount", example["workers"]["serviceAccount"]["name"]) in names


_WHAT_AIRFLOW_FINDS = """
import json
from pathlib import Path
from airflow import plugins_manager
from airflow.configuration import conf
from airflow.dag_processing.dagbag import BundleDagBag

folder = Path(conf.get("core", "dags_folder"))
bag = BundleDagBag(dag_folder=folder, bundle_path=folder, bundle_name="dags-folder")
plugins = [plugin["name"] for plugin in plugins_manager.get_plugin_info(["name"])]
found = {"dags": sorted(bag.dags), "errors": bag.import_errors, "problems": plugins_manager.get_import_errors(),
         "plugins": [name for name in plugins if name == "tidegauge"]}
print(json.dumps(found))
"""


@pytest.mark.airflow
def test_airflow_finds_the_dags_and_the_plugin_where_the_example_mounts_them(
    everything: list[dict[str, Any]], tmp_path: Path
) -> None:
    """ConfigMaps lie as the kubelet lays them: links through `..data` into a directory with a date, or one file."""
    example = yaml.safe_load((CHART / "examples" / "airflow.yaml").read_text())
    held = {d["metadata"]["name"]: d["data"] for d in of_kind(everything, "ConfigMap")}
    maps = {v["name"]: held[v["configMap"]["name"]] for v in example["volumes"] if "configMap" in v}
    for mount in example["volumeMounts"]:
        if mount["name"] in maps:
            _mount(tmp_path / mount["mountPath"].lstrip("/"), maps[mount["name"]], mount.get("subPath"))
    kept = {
        name: value for name, value in os.environ.items() if not name.startswith(("AIRFLOW", "TIDEGAUGE", "PYTHON"))
    }
    home = {"AIRFLOW_HOME": str(tmp_path / "opt" / "airflow"), "AIRFLOW__CORE__LOAD_EXAMPLES": "False"}
    done = subprocess.run(
        [sys.executable, "-c", _WHAT_AIRFLOW_FINDS], cwd=tmp_path, env=kept | home, capture_output=True, text=True,
        check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    found = json.loads(done.stdout.splitlines()[-1])
    names = {path.stem for path in (ROOT / "dags").glob("*.py") if "DAG(" in path.read_text()}
    assert found == {"dags": sorted(names), "errors": {}, "problems": {}, "plugins": ["tidegauge"]}


def _mount(place: Path, data: Mapping[str, str], only: str | None) -> None:
    if only is not None:
        place.parent.mkdir(parents=True)
        place.write_text(data[only])
        return
    dated = place / "..2026_11_21_17_38_24.1"
    dated.mkdir(parents=True)
    (place / "..data").symlink_to(dated.name)
    for name, content in data.items():
        (dated / name).write_text(content)
        (place / name).symlink_to(Path("..data") / name)


@pytest.mark.parametrize(
    ("values", "told"),
    [
        ({}, "Name a Secret by store.existingSecret"),
        ({"store": {"url": "mysql://x"}}, "store"),
        ({"store": {"existingSecret": "s"}, "console": {"replica": 2}}, "replica"),
        ({"store": {"existingSecret": "s"}, "settings": {"TIDEGAUGE_STORE_URL": "x"}}, "TIDEGAUGE_STORE_URL"),
        ({"store": {"existingSecret": "s"}, "settings": {"TIDEGAUGE_CONSOLE_TOKENS": "x"}}, "TIDEGAUGE_CONSOLE_TOKENS"),
        ({"store": {"existingSecret": "s"}, "spark": {"audits": [{"cluster": "a b"}]}}, "cluster"),
        ({"store": {"existingSecret": "s"}, "spark": {"audits": [{"cluster": "a", "schedule": "daily"}]}}, "schedule"),
        ({"store": {"existingSecret": "s"}, "runs": {"create": False}}, "Name a claim by runs.existingClaim"),
        ({"store": {"existingSecret": "s"}, "console": {"ingress": {"enabled": True}}}, "Where does the Ingress's"),
        ({"store": {"existingSecret": "s"}, "serviceMonitor": {"enabled": True}}, "Where does Prometheus run"),
    ],
)  # fmt: skip
def test_wrong_values_are_refused_with_a_word_about_it(tmp_path: Path, values: dict[str, Any], told: str) -> None:
    done = helm("template", CHART, "tidegauge", "kafka", "1.33.0", written(tmp_path, values))
    assert done.returncode == 1
    assert told in done.stderr
