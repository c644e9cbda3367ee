"""A real Kubernetes API server for the tests, with its etcd: no kubelet, so nothing that it accepts ever runs.

In: a directory. Out: an `ApiServer` while the block lasts. Both programs listen on the loopback interface only and end
with the block. It authorizes by RBAC and admits by the pod security of a namespace's labels, as a cluster does that is
set up today, and writes down each request with the answer of its authorizer (`requests_of`).
"""

import json
import secrets
import subprocess
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import httpx
import yaml
from cryptography.hazmat.primitives import serialization
from cryptography.hazmat.primitives.asymmetric import rsa

from tests.helm.api_client import Client, Document
from tests.helm.go_modules import program
from tests.real_kafka import processes

_PATIENCE_S: Final = 180
_CONFINED: Final = {f"pod-security.kubernetes.io/{mode}": "restricted" for mode in ("enforce", "warn")}

# Each request once, when it is answered; a watch, which may last, when it begins.
_AUDIT_POLICY: Final = """apiVersion: audit.k8s.io/v1
kind: Policy
omitStages: [RequestReceived]
rules:
  - level: Metadata
"""


@dataclass(frozen=True, slots=True, order=True)
class Request:
    """What the authorizer was asked for one request, and whether it allowed it."""

    verb: str
    resource: str
    allowed: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class ApiServer:
    """Where it listens, by what certificate it is known, and its administrator."""

    url: str
    certificate: Path
    admin: Client
    admin_token: str
    audit_log: Path

    def namespace(self, name: str) -> str:
        """A new namespace that takes restricted pods only, and warns of templates of others."""
        self.admin.apply({"apiVersion": "v1", "kind": "Namespace", "metadata": {"name": name, "labels": _CONFINED}})
        # A controller of a whole cluster makes it; no pod without a word about its account is admitted before.
        self.admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": {"name": "default"}}, name)
        return name

    def define(self, definitions: list[Document]) -> None:
        """Resource definitions of operators: from here on the server takes what fits them."""
        for definition in definitions:
            self.admin.apply(definition)
        for definition in definitions:
            path = f"{self.admin.path(definition, '')}/{definition['metadata']['name']}"
            until(lambda path=path: _is_established(self.admin.request("GET", path)), f"{path} is not established")

    def token_of(self, account: str, namespace: str) -> str:
        """What a pod of this ServiceAccount would have in its file system."""
        path = f"/api/v1/namespaces/{namespace}/serviceaccounts/{account}/token"
        asked = {"apiVersion": "authentication.k8s.io/v1", "kind": "TokenRequest", "spec": {"expirationSeconds": 3600}}
        return str(self.admin.request("POST", path, asked)["status"]["token"])

    def kubeconfig(self, path: Path, token: str) -> Path:
        """A file by which programs reach the server as whom this token is of."""
        cluster = {"server": self.url, "certificate-authority": str(self.certificate)}
        content = {
            "apiVersion": "v1", "kind": "Config", "current-context": "tests",
            "clusters": [{"name": "tests", "cluster": cluster}],
            "users": [{"name": "tests", "user": {"token": token}}],
            "contexts": [{"name": "tests", "context": {"cluster": "tests", "user": "tests"}}],
        }  # fmt: skip
        path.write_text(yaml.safe_dump(content))
        return path

    def requests_of(self, account: str, namespace: str) -> set[Request]:
        """What a ServiceAccount has asked for in its namespace."""
        user, found = f"system:serviceaccount:{namespace}:{account}", set()
        for line in self.audit_log.read_text().splitlines():
            with suppress(json.JSONDecodeError):  # The last line, while it is written.
                event = json.loads(line)
                object_ = event.get("objectRef", {})
                if event["user"].get("username") == user and object_.get("namespace") == namespace:
                    resource = "/".join(object_[key] for key in ("resource", "subresource") if key in object_)
                    allowed = event["annotations"]["authorization.k8s.io/decision"] == "allow"
                    found.add(Request(event["verb"], resource, allowed))
        return found


@contextmanager
def running(directory: Path) -> Iterator[ApiServer]:
    """A server without a namespace of ours, whose files are below `directory`."""
    etcd, server = program("etcd"), program("kube-apiserver")
    directory.mkdir(parents=True, exist_ok=True)
    with ExitStack() as stack:
        store = _start_etcd(etcd, directory, stack)
        port, token = processes.free_port(), secrets.token_hex(16)
        process = _start_server(server, directory, store, port, token, stack)
        url, certificate = f"https://127.0.0.1:{port}", directory / "certificates" / "apiserver.crt"
        _wait(process, directory / "server.log", certificate.exists)
        with Client(url, certificate, token) as admin:
            _wait(process, directory / "server.log", lambda: _is_ready(admin))
            yield ApiServer(
                url=url, certificate=certificate, admin=admin, admin_token=token, audit_log=directory / "audit.log"
            )


@contextmanager
def controllers(server: ApiServer, directory: Path, *names: str) -> Iterator[None]:
    """Those of Kubernetes' controllers that are named are at work while the block lasts."""
    manager = program("kube-controller-manager")
    config = server.kubeconfig(directory / "controllers.kubeconfig", server.admin_token)
    with ExitStack() as stack:
        _start(
            [
                str(manager), f"--kubeconfig={config}", f"--controllers={','.join(names)}", "--leader-elect=false",
                "--secure-port=0",
            ],
            directory / "controllers.log", stack,
        )  # fmt: skip
        yield


def _start_etcd(etcd: Path, directory: Path, stack: ExitStack) -> str:
    clients, peers = (f"http://127.0.0.1:{processes.free_port()}" for _ in range(2))
    _start(
        [
            str(etcd), f"--data-dir={directory / 'etcd'}", "--unsafe-no-fsync", "--logger=zap", "--log-level=warn",
            f"--listen-client-urls={clients}", f"--advertise-client-urls={clients}", f"--listen-peer-urls={peers}",
            f"--initial-advertise-peer-urls={peers}", f"--initial-cluster=default={peers}",
        ],
        directory / "etcd.log", stack,
    )  # fmt: skip
    return clients


def _start_server(
    server: Path, directory: Path, store: str, port: int, token: str, stack: ExitStack
) -> "subprocess.Popen[bytes]":
    (directory / "tokens.csv").write_text(f"{token},admin,admin,system:masters\n")
    (directory / "audit-policy.yaml").write_text(_AUDIT_POLICY)
    key = rsa.generate_private_key(public_exponent=65537, key_size=2048)
    (directory / "accounts.key").write_bytes(
        key.private_bytes(
            serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
        )
    )  # fmt: skip
    return _start(
        [
            str(server), f"--etcd-servers={store}",
            "--bind-address=127.0.0.1", "--advertise-address=127.0.0.1", f"--secure-port={port}",
            # It makes a certificate of its own there, for the address that it listens on.
            f"--cert-dir={directory / 'certificates'}",
            # Nobody is behind the Service `kubernetes`, and 127.0.0.1 may not be.
            "--endpoint-reconciler-type=none", "--service-cluster-ip-range=10.0.0.0/24",
            "--authorization-mode=RBAC", f"--token-auth-file={directory / 'tokens.csv'}", "--anonymous-auth=false",
            "--service-account-issuer=https://kubernetes.default.svc",
            f"--service-account-key-file={directory / 'accounts.key'}",
            f"--service-account-signing-key-file={directory / 'accounts.key'}",
            f"--audit-policy-file={directory / 'audit-policy.yaml'}", f"--audit-log-path={directory / 'audit.log'}",
            # A request is answered when it is written down.
            "--audit-log-mode=blocking-strict",
        ],
        directory / "server.log", stack,
    )  # fmt: skip


def _start(command: list[str], log: Path, stack: ExitStack) -> "subprocess.Popen[bytes]":
    process = processes.start(command, output=stack.enter_context(log.open("wb")))
    stack.callback(processes.kill, process)
    return process


def _is_established(definition: Document) -> bool:
    conditions = definition.get("status", {}).get("conditions") or ()  # null in its first moments
    return any(each["type"] == "Established" and each["status"] == "True" for each in conditions)


def _is_ready(admin: Client) -> bool:
    with suppress(httpx.TransportError):
        return admin.answers("/readyz")
    return False


def _wait(process: "subprocess.Popen[bytes]", log: Path, holds: Callable[[], bool]) -> None:
    def done() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"The API server does not start:\n{log.read_text(errors='replace')[-3000:]}")
        return holds()

    until(done, f"The API server is not ready, see {log}")


def until(holds: Callable[[], bool], otherwise: str) -> None:
    """Waits for what comes by itself."""
    end = time.monotonic() + _PATIENCE_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(otherwise)
        time.sleep(0.1)
