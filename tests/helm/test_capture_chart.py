"""The chart of one capture: what it makes is taken by Kubernetes, and what its Jobs run makes one snapshot."""

import itertools
import json
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import kubernetes_validate
import pytest
import yaml
from click.testing import CliRunner, Result

from tests.conftest import Golden
from tests.helm.api_client import pods_of
from tests.helm.api_server import ApiServer
from tests.helm.chart import ROOT, containers_of, helm, of_kind, rendered, written
from tidegauge.cli.capture_alone import main

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

CHART = ROOT / "helm" / "tidegauge-capture"
STRIMZI, SIDECAR = (CHART / "examples" / name for name in ("strimzi.yaml", "sidecar.yaml"))
CAPTURE = "hanging-txn"
BROKERS = (1, 2, 3)
VALUES: dict[str, Any] = {
    "cluster": "payments",
    "id": "s1",
    "out": "/out/snapshots",
    "outClaim": "backup",
    "brokers": [
        {"id": id_, "volumes": [{"claim": f"data-{id_}", "logDir": f"broker-{id_}", "size": "10Gi"}]} for id_ in BROKERS
    ],
}

Document = dict[str, Any]


def made(tmp_path: Path, **changed: object) -> list[Document]:
    return rendered(written(tmp_path, VALUES | changed), chart=CHART)


@pytest.mark.parametrize("version", ["1.29.0", "1.33.0", "1.37.0"])
def test_kubernetes_accepts_what_the_example_makes(version: str) -> None:
    documents = rendered(STRIMZI, chart=CHART, kubernetes=version)
    for document in documents:
        if document["kind"] != "VolumeSnapshot":
            kubernetes_validate.validate(document, ".".join(version.split(".")[:2]), strict=True)
    assert [len(of_kind(documents, kind)) for kind in ("VolumeSnapshot", "PersistentVolumeClaim", "Job")] == [6, 6, 7]
    snapshots = {d["metadata"]["name"]: d["spec"]["source"] for d in of_kind(documents, "VolumeSnapshot")}
    claims = {
        d["metadata"]["name"]: d["spec"]["dataSource"]["name"] for d in of_kind(documents, "PersistentVolumeClaim")
    }
    assert claims == {name: name for name in snapshots}
    assert {each["persistentVolumeClaimName"] for each in snapshots.values()} == {
        *(f"data-0-payments-brokers-{n}" for n in range(3)),
        *(f"data-0-payments-controllers-{n}" for n in range(100, 103)),
    }
    for job in of_kind(documents, "Job"):
        volumes = job["spec"]["template"]["spec"]["volumes"]
        mounted = {v["persistentVolumeClaim"]["claimName"] for v in volumes if "persistentVolumeClaim" in v}
        assert mounted <= claims.keys()
        assert all(
            m.get("readOnly") for m in containers_of(job)[0]["volumeMounts"] if m["mountPath"].startswith("/logs")
        )
    kubernetes_validate.validate(yaml.safe_load(SIDECAR.read_text()), "1.33", strict=True)


def test_it_lints_with_its_example(tmp_path: Path) -> None:
    chart = tmp_path / CHART.name
    shutil.copytree(CHART, chart)
    values = yaml.safe_load((CHART / "values.yaml").read_text()) | yaml.safe_load(STRIMZI.read_text())
    (chart / "values.yaml").write_text(yaml.safe_dump(values))
    done = helm("lint", chart)
    assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("first", [0, 1, 2])
def test_its_jobs_make_one_snapshot_whichever_runs_first(first: int, golden: Golden, tmp_path: Path) -> None:
    """Each as the image runs it, with the paths of this machine. What joins them is tried before each other one."""
    documents = made(tmp_path)
    commands = {job["metadata"]["name"]: containers_of(job)[0]["args"] for job in of_kind(documents, "Job")}
    finish = commands.pop("tidegauge-finish")
    assert len(commands) == len(BROKERS)
    places = {"/out": str(tmp_path / "out"), "/logs/volume-0": str(golden(CAPTURE))}
    order = list(itertools.permutations(commands.values()))[first * 2]
    for command in order:
        early = run(finish, places)
        assert (early.exit_code, "holds no share yet of" in early.output) == (3, True), early.output
        assert run(command, places).exit_code == 0
    done = run(finish, places)
    assert done.exit_code == 0, done.output
    manifest = json.loads((tmp_path / "out" / "snapshots" / "payments" / "s1" / "MANIFEST.json").read_text())
    assert [broker["broker_id"] for broker in manifest["brokers"]] == [*BROKERS]
    assert manifest["consistency"] == "fuzzy"
    assert {broker["read_started_at_ms"] for broker in manifest["brokers"]} == {None}, "volumes' snapshots are copies"
    assert run(finish, places).exit_code == 0, "a Job whose pod was lost runs once more"


def run(arguments: list[str], places: Mapping[str, str]) -> Result:
    here = [_here(argument, places) for argument in arguments]
    return CliRunner().invoke(main, here)


def _here(argument: str, places: Mapping[str, str]) -> str:
    for there, here in places.items():
        argument = argument.replace(f"{there}/", f"{here}/")
    return argument


def test_a_volume_may_be_a_snapshot_that_is_there(tmp_path: Path) -> None:
    """Those of a VolumeGroupSnapshot, which are of one instant and have names of their own."""
    broker = {"id": 7, "volumes": [{"snapshot": "group-a", "size": "1Gi"}, {"snapshot": "group-b", "size": "2Gi"}]}
    documents = made(tmp_path, brokers=[broker], consistency="atomic")
    assert of_kind(documents, "VolumeSnapshot") == []
    claims = of_kind(documents, "PersistentVolumeClaim")
    assert [claim["spec"]["dataSource"]["name"] for claim in claims] == ["group-a", "group-b"]
    (arguments,) = (containers_of(j)[0]["args"] for j in of_kind(documents, "Job") if "--part" in str(j))
    assert arguments[-1] == "7=/logs/volume-0,/logs/volume-1"
    assert arguments[arguments.index("--consistency") + 1] == "atomic"


@pytest.mark.parametrize(
    ("changed", "word"),
    [
        ({"brokers": [VALUES["brokers"][0]] * 2}, "brokers has the id 1 twice"),
        ({"outClaim": ""}, "outClaim names no claim"),
        ({"out": "snapshots"}, "out"),
        ({"brokers": []}, "brokers"),
        ({"brokers": [{"id": 1, "volumes": [{"claim": "a", "snapshot": "b", "size": "1Gi"}]}]}, "oneOf|one"),
        ({"brokers": [{"id": 1, "volumes": [{"claim": "a", "logDir": "/abs", "size": "1Gi"}]}]}, "logDir|pattern"),
        ({"consistency": "sure"}, "consistency"),
        ({"clutser": "payments"}, "clutser"),
        ({"id": ""}, "id"),
    ],
)
def test_what_is_not_right_is_refused_with_a_word_about_it(
    changed: Mapping[str, Any], word: str, tmp_path: Path
) -> None:
    done = helm("template", CHART, "tidegauge", "kafka", "1.33.0", written(tmp_path, VALUES | changed))
    assert done.returncode != 0
    assert any(each in done.stderr for each in word.split("|")), done.stderr


def test_a_real_api_server_takes_it_and_admits_its_pods(
    kubernetes: ApiServer, new_namespace: Callable[[], str]
) -> None:
    namespace = new_namespace()
    documents = [*rendered(STRIMZI, chart=CHART, namespace=namespace), yaml.safe_load(SIDECAR.read_text())]
    for document in documents:
        kubernetes.admin.apply(document, namespace)
    pods = dict(pods_of(documents))
    assert len(pods) == 8
    for pod in pods.values():
        kubernetes.admin.create(pod, namespace)
