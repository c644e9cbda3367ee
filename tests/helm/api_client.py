"""A client of Kubernetes' API, of the few requests that tests make: HTTPS and JSON, so that no kubectl is needed.

In: manifests as mappings. Out: what the server keeps of them; what it refuses is raised with its own words, and so is
what it accepts with a warning.
"""

import json
import ssl
from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Self

import httpx

from tests.helm.chart import template_of

Document = dict[str, Any]


class RefusedError(Exception):
    """The server's answer to what it does not take."""

    def __init__(self, status: int, told: str) -> None:
        super().__init__(f"{status}: {told}")
        self.status = status


class WarnedError(Exception):
    """It takes this, and says what will come of it: an API that goes, a pod that it will refuse."""


class Client:
    """Requests of one user."""

    def __init__(self, url: str, certificate: Path, token: str) -> None:
        self._url, self._certificate, self._token = url, certificate, token
        self._kinds: dict[str, dict[str, Document]] = {}

    @cached_property
    def _http(self) -> httpx.Client:
        # No proxy of this machine's environment: the server listens on the loopback interface.
        trust = ssl.create_default_context(cafile=str(self._certificate))
        headers = {"Authorization": f"Bearer {self._token}", "Accept": "application/json"}
        return httpx.Client(base_url=self._url, headers=headers, verify=trust, trust_env=False, timeout=60)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self._http.close()

    def answers(self, path: str) -> bool:
        """Whether a path answers with 200."""
        return self._http.get(path).status_code == 200

    def request(
        self, method: str, path: str, body: Document | None = None, kind: str = "application/json", **query: str
    ) -> Document:
        """One request. Raises `RefusedError`, or `WarnedError` if the server did it and has a word about it."""
        content = None if body is None else json.dumps(body)
        answer = self._http.request(method, path, content=content, params=query, headers={"Content-Type": kind})
        told: Document = answer.json()
        if answer.status_code >= 400:
            raise RefusedError(answer.status_code, str(told.get("message", told)))
        if warnings := answer.headers.get_list("warning"):
            raise WarnedError("; ".join(warnings))
        return told

    def apply(self, document: Document, namespace: str = "") -> Document:
        """As `kubectl apply --server-side --validate=strict`."""
        path = f"{self.path(document, namespace)}/{document['metadata']['name']}"
        return self.request(
            "PATCH", path, document, "application/apply-patch+yaml", fieldManager="tests", fieldValidation="Strict"
        )

    def create(self, document: Document, namespace: str = "") -> Document:
        """As `kubectl create --validate=strict`: the name may be left to the server."""
        return self.request("POST", self.path(document, namespace), document, fieldValidation="Strict")

    def items(self, version: str, kind: str, namespace: str, **query: str) -> list[Document]:
        """All of a kind in a namespace."""
        path = self.path({"apiVersion": version, "kind": kind}, namespace)
        return list(self.request("GET", path, **query)["items"])

    def path(self, document: Mapping[str, Any], namespace: str) -> str:
        """Where documents of this kind are; a namespace that one names itself is the one that counts."""
        version = document["apiVersion"]
        root = f"/apis/{version}" if "/" in version else f"/api/{version}"
        kind = self._kind(root, document["kind"])
        namespace = document.get("metadata", {}).get("namespace", namespace)
        place = f"/namespaces/{namespace}" if kind["namespaced"] else ""
        return f"{root}{place}/{kind['name']}"

    def _kind(self, root: str, kind: str) -> Document:
        if kind not in self._kinds.get(root, {}):
            listed = self.request("GET", root)["resources"]
            self._kinds[root] = {each["kind"]: each for each in listed if "/" not in each["name"]}
        return self._kinds[root][kind]

    def may(self, account: str, namespace: str, verb: str, resource: str, within: str | None = None) -> bool:
        """Whether a ServiceAccount may do this, in its own namespace or within another: what RBAC says of it.
        `resource` is `pods`, `pods/log`, `networkpolicies.networking.k8s.io`.
        """
        name, _, group = resource.partition(".")
        plural, _, subresource = name.partition("/")
        asked = {
            "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
            "spec": {
                "user": f"system:serviceaccount:{namespace}:{account}",
                "groups": ["system:authenticated", "system:serviceaccounts", f"system:serviceaccounts:{namespace}"],
                "resourceAttributes": {
                    "namespace": within or namespace, "verb": verb, "group": group, "resource": plural,
                    "subresource": subresource,
                },
            },
        }  # fmt: skip
        return bool(self.create(asked)["status"]["allowed"])


def pods_of(documents: list[Document]) -> Iterator[tuple[str, Document]]:
    """Every pod that these manifests will make: of what, and the pod."""
    for document in documents:
        name, template = document["metadata"]["name"], template_of(document)
        if document["kind"] == "Pod":
            yield f"Pod {name}", document
        elif template is not None:
            metadata = {**template.get("metadata", {}), "generateName": f"{name[:50]}-"}
            claims = [each["metadata"]["name"] for each in document["spec"].get("volumeClaimTemplates", ())]
            mounted = [{"name": each, "persistentVolumeClaim": {"claimName": f"{each}-{name}-0"}} for each in claims]
            spec = {**template["spec"], "volumes": [*template["spec"].get("volumes", ()), *mounted]}
            yield (
                f"{document['kind']} {name}",
                {"apiVersion": "v1", "kind": "Pod", "metadata": metadata, "spec": spec},
            )
