"""Kubernetes' own programs, built once from the Go modules that `kubernetes/go.mod` pins, and files of other modules.

In: the name of a program, or of a module's folder. Out: where it is. A machine without Go is told so, and the test
fails; nothing is skipped. What was built or brought is kept beside the jars (`tests/java/libraries.py`) under its
version; Go takes the modules from where it is set up to.
"""

import hashlib
import json
import os
import re
import shutil
import subprocess
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import Final

import yaml

from tests.java.libraries import kept

_MODULE: Final = Path(__file__).with_name("kubernetes")
_PACKAGES: Final[Mapping[str, str]] = {
    "etcd": "go.etcd.io/etcd/server/v3",
    "kube-apiserver": "k8s.io/kubernetes/cmd/kube-apiserver",
    "kube-controller-manager": "k8s.io/kubernetes/cmd/kube-controller-manager",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Definitions:
    """The module in which an operator keeps its resource definitions, its digest as go.sum has it, and those we use."""

    name: str
    module: str
    version: str
    digest: str
    folder: str
    files: tuple[str, ...]


SPARK_OPERATOR: Final = Definitions(
    name="spark-operator",
    module="github.com/kubeflow/spark-operator/v2",
    version="v2.4.0",
    digest="h1:Bo5rz5dlhqYEa7e/TLtUEVXDMNRotnVaQ4VLCyeLeOc=",
    folder="config/crd/bases",
    files=("sparkoperator.k8s.io_sparkapplications.yaml", "sparkoperator.k8s.io_scheduledsparkapplications.yaml"),
)
PROMETHEUS_OPERATOR: Final = Definitions(
    name="prometheus-operator",
    module="github.com/prometheus-operator/prometheus-operator",
    version="v0.85.0",
    digest="h1:M5xLCLEoaW2IJfnuCwFzzpL+jSVQu3KGT84Pye+fW8s=",
    folder="example/prometheus-operator-crd",
    files=("monitoring.coreos.com_servicemonitors.yaml", "monitoring.coreos.com_prometheusrules.yaml"),
)
VOLUME_SNAPSHOTS: Final = Definitions(
    name="external-snapshotter",
    module="github.com/kubernetes-csi/external-snapshotter/client/v8",
    version="v8.2.0",
    digest="h1:Q3jQ1NkFqv5o+F8dMmHd8SfEmlcwNeo1immFApntEwE=",
    folder="config/crd",
    files=("snapshot.storage.k8s.io_volumesnapshots.yaml",),
)


def version() -> str:
    """Of Kubernetes: `1.34.4`."""
    found = re.search(r"^require k8s\.io/kubernetes v(\S+)$", (_MODULE / "go.mod").read_text(), re.MULTILINE)
    assert found is not None
    return found[1]


@cache
def program(name: str) -> Path:
    """A program of `_PACKAGES`; builds it if these very modules have not been built yet, which takes minutes."""
    pins = b"".join((_MODULE / each).read_bytes() for each in ("go.mod", "go.sum"))
    digest = hashlib.sha256(pins).hexdigest()[:12]
    return kept(f"{name}-{version()}-{digest}", partial(_build, name)) / name


def definitions(of: Definitions) -> list[dict[str, object]]:
    """An operator's resource definitions, as it publishes them."""
    folder = kept(f"{of.name}-{of.version}", partial(_bring, of))
    return [yaml.load((folder / name).read_text(), Loader=yaml.CSafeLoader) for name in of.files]


def _build(name: str, target: Path) -> None:
    target.mkdir(parents=True)
    # Without these a server says that it is v0.0.0, which clients compare.
    major, minor, _ = version().split(".")
    said = {"gitVersion": f"v{version()}", "gitMajor": major, "gitMinor": minor}
    flags = " ".join(f"-X k8s.io/component-base/version.{key}={value}" for key, value in said.items())
    _go(
        "build", "-mod=readonly", "-trimpath", "-buildvcs=false", "-ldflags", f"-s -w {flags}",
        "-o", str(target / name), _PACKAGES[name], where=_MODULE,
    )  # fmt: skip


def _bring(of: Definitions, target: Path) -> None:
    target.mkdir(parents=True)
    # Outside of a module, so that no go.mod has a say in it.
    told = json.loads(_go("mod", "download", "-json", f"{of.module}@{of.version}", where=target))
    assert told["Sum"] == of.digest, f"{of.module} {of.version} is not what it was: {told['Sum']}"
    for name in of.files:
        shutil.copyfile(Path(told["Dir"], of.folder, name), target / name)


def _go(*arguments: str, where: Path) -> str:
    go = shutil.which("go")
    if go is None:
        raise RuntimeError(
            "These tests build Kubernetes' API server and etcd, and there is no `go` on the PATH. They need Go 1.24 or "
            "newer: install it as https://go.dev/doc/install says, or by your distribution's package if that is as new."
        )
    done = subprocess.run(
        [go, *arguments], cwd=where, env=os.environ | {"CGO_ENABLED": "0", "GOWORK": "off"},
        stdin=subprocess.DEVNULL, capture_output=True, text=True, check=False,
    )  # fmt: skip
    if done.returncode != 0:
        raise RuntimeError(
            f"`go {' '.join(arguments[:2])}` failed. It needs Go 1.24 or newer, and modules from where Go is set "
            f"up to take them:\n{done.stderr[-3000:]}"
        )
    return done.stdout
