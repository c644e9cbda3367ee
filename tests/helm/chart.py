"""The chart as Helm's own code reads it: values in, manifests out."""

import shutil
import subprocess
from collections.abc import Mapping
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import yaml

from tests.java.libraries import classpath, program

ROOT: Final = Path(__file__).parents[2]
CHART: Final = ROOT / "helm" / "tidegauge"
OWN_CLUSTER: Final = CHART / "examples" / "own-cluster.yaml"


def helm(*arguments: object) -> subprocess.CompletedProcess[str]:
    """`helm …`, by the library that the command is made of."""
    classes = program("RunHelm", [Path(__file__).with_name("RunHelm.java")], classpath("helm"))
    return subprocess.run(
        ["java", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-cp", classes, "RunHelm", *map(str, arguments)],
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False, timeout=300,
    )  # fmt: skip


def rendered(
    *values: Path, kubernetes: str = "1.33.0", chart: Path = CHART, namespace: str = "kafka"
) -> list[dict[str, Any]]:
    """What an installation with these files of values makes."""
    told = _template(chart, namespace, kubernetes, tuple(path.read_text(encoding="utf-8") for path in values))
    return [document for document in yaml.safe_load_all(told) if document]


@cache
def _template(chart: Path, namespace: str, kubernetes: str, values: tuple[str, ...]) -> str:
    # A Java starts for each, and many tests look at the same manifests.
    with TemporaryDirectory() as directory:
        files = [Path(directory, f"{number}.yaml") for number in range(len(values))]
        for path, content in zip(files, values, strict=True):
            path.write_text(content, encoding="utf-8")
        done = helm("template", chart, "tidegauge", namespace, kubernetes, *files)
    assert done.returncode == 0, done.stderr
    return done.stdout


def written(directory: Path, values: Mapping[str, Any]) -> Path:
    """A file of values."""
    path = directory / "values.yaml"
    path.write_text(yaml.safe_dump(dict(values)))
    return path


def of_kind(documents: list[dict[str, Any]], kind: str) -> list[dict[str, Any]]:
    """Those of one kind."""
    return [document for document in documents if document["kind"] == kind]


def template_of(document: Mapping[str, Any]) -> dict[str, Any] | None:
    """The pod that a manifest makes, be it later or again and again; None for one that makes none."""
    spec = document.get("spec", {})
    match document["kind"]:
        case "Pod":
            return dict(document)
        case "DaemonSet" | "Deployment" | "Job" | "StatefulSet":
            return dict(spec["template"])
        case "CronJob":
            return dict(spec["jobTemplate"]["spec"]["template"])
    return None


def pod_of(document: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """The spec of its pod."""
    template = template_of(document)
    return None if template is None else template["spec"]


def containers_of(document: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Those of its pod."""
    return list((pod_of(document) or {}).get("containers", ()))


def with_hooks(into: Path) -> Path:
    """A copy of the chart in which hooks are manifests like others: Helm's library leaves them out where it renders."""
    chart = into / "tidegauge"
    shutil.copytree(CHART, chart, ignore=shutil.ignore_patterns("__pycache__"))
    for path in (chart / "templates" / "tests").iterdir():
        path.write_text(path.read_text().replace("helm.sh/hook:", "was-a-hook:"))
    return chart
