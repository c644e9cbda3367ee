"""What Airflow's worker does on Kubernetes, done from here: spark-submit, as the DAGs call it, with the settings of
`examples/airflow.yaml`, against the tests' API server; and a driver, which there would be a pod.

In: a namespace in which the chart is installed. Out: settings and environments.
"""

import os
import shlex
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

import yaml

from tests.helm.api_client import Document
from tests.helm.api_server import ApiServer
from tests.helm.chart import CHART

EXAMPLE: Final = CHART / "examples" / "airflow.yaml"
_NAMESPACE: Final = "tidegauge"
"""Into which the example takes the chart to be installed."""


def settings(documents: list[Document], namespace: str, directory: Path) -> dict[str, str]:
    """Spark's settings in the example, for a release in this namespace. What they name of a mounted ConfigMap is a file
    below `directory`, as it is one in a worker.
    """
    example = yaml.safe_load(EXAMPLE.read_text())
    environment = {each["name"]: each.get("value") for each in yaml.safe_load(example["extraEnv"])}
    said = dict(part.split("=", 1) for part in shlex.split(environment["TIDEGAUGE_SPARK_CONF"]))
    assert said["spark.kubernetes.namespace"] == _NAMESPACE
    said["spark.kubernetes.namespace"] = namespace
    for mount, file in _mounted(example, documents, directory):
        said = {key: value.replace(mount, str(file)) for key, value in said.items()}
    return said


def _mounted(example: Document, documents: list[Document], directory: Path) -> Iterator[tuple[str, Path]]:
    held = {d["metadata"]["name"]: d["data"] for d in documents if d["kind"] == "ConfigMap"}
    volumes = {each["name"]: each["configMap"]["name"] for each in example["volumes"] if "configMap" in each}
    for mount in example["volumeMounts"]:
        if mount["name"] in volumes and "subPath" not in mount:
            place = directory / mount["name"]
            place.mkdir(parents=True)
            for name, text in held[volumes[mount["name"]]].items():
                (place / name).write_text(text)
            yield mount["mountPath"], place


def environment(server: ApiServer, account: str, namespace: str, directory: Path) -> dict[str, str]:
    """Of a process that is known to the server as a pod of this account would be. What a pod finds in its file system,
    where no test can write, Spark's client takes from a kubeconfig too, in the same way.
    """
    path = server.kubeconfig(directory / "kubeconfig", server.token_of(account, namespace))
    kept = {name: value for name, value in os.environ.items() if not name.startswith(("KUBE", "SPARK_", "TIDEGAUGE_"))}
    return kept | {"KUBECONFIG": str(path), "AIRFLOW_HOME": str(directory / "airflow"), "SPARK_LOCAL_IP": "127.0.0.1"}


def as_variable(given: Mapping[str, str]) -> str:
    """Settings as TIDEGAUGE_SPARK_CONF has them."""
    return shlex.join(f"{key}={value}" for key, value in given.items())
