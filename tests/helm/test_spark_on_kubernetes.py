"""Spark itself before a real API server: what it asks for, by the server's own log, the chart's accounts may do, and
the pods that it makes of the chart's template are admitted where only restricted ones are.
"""

import shlex
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

import pyspark
import pytest

from tests.helm import kubelet
from tests.helm.api_client import Document
from tests.helm.api_server import ApiServer, Request, controllers, until
from tests.helm.chart import OWN_CLUSTER, ROOT, of_kind, rendered
from tests.helm.spark_submission import as_variable, environment, settings
from tests.processes import ended
from tidegauge.spark_jobs.java import find_java

pytestmark = [pytest.mark.slow, pytest.mark.jvm, pytest.mark.airflow]

NETWORK_POLICIES = "networkpolicies.networking.k8s.io"
OTHERS = ("secrets", "serviceaccounts", "pods/exec", "pods/log", "roles.rbac.authorization.k8s.io", "deployments.apps")
EVERY_VERB = ("create", "get", "list", "watch", "update", "patch", "delete", "deletecollection")

# A task of the DAGs, as a worker runs it; it is killed when its standard input says so.
_TASK = """
import sys, threading
from types import SimpleNamespace
from tidegauge_job import spark_step

step = spark_step("index", "derive", arguments=["--run", "/var/lib/tidegauge/runs/1"])

def run():
    ti = SimpleNamespace(dag_id="replication_audit", run_id="manual__1", try_number=int(sys.argv[1]))
    try:
        print("answered", step.execute({"ti": ti}))
    except Exception as error:
        print("failed", type(error).__name__, error)

running = threading.Thread(target=run)
running.start()
if sys.stdin.read():
    step.on_kill()
running.join()
"""

SUBMISSION = {
    "pods": {"create", "get", "watch", "delete"},
    "configmaps": {"patch"},
    "services": {"patch"},
    "networkpolicies": {"patch"},
}
"""What spark-submit asks for: it applies all but the driver's pod, and deletes that one when it is to be killed."""

DRIVER = {
    "pods": {"create", "get", "list", "watch", "delete", "deletecollection"},
    "configmaps": {"create", "deletecollection"},
    "services": {"deletecollection"},
    "persistentvolumeclaims": {"list", "deletecollection"},
}
"""What a driver asks for: executors and their settings, and, at its end, that all of it goes."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Installed:
    """The chart in a namespace."""

    server: ApiServer
    namespace: str
    documents: list[Document]

    def account(self, component: str) -> str:
        """The chart's ServiceAccount for this."""
        (found,) = [
            document["metadata"]["name"]
            for document in of_kind(self.documents, "ServiceAccount")
            if document["metadata"]["labels"]["app.kubernetes.io/component"] == component
        ]
        return str(found)

    def pods(self, role: str) -> list[Document]:
        return self.server.admin.items("v1", "Pod", self.namespace, labelSelector=f"spark-role={role}")

    def end(self, pod: Document, exit_code: int) -> None:
        """As if its container had ended."""
        kubelet.end(self.server.admin, pod, exit_code)

    def allow(self, account: str, rules: list[Document]) -> None:
        """Another account, with these rights."""
        metadata = {"name": account}
        role = {"apiGroup": "rbac.authorization.k8s.io", "kind": "Role", "name": account}
        subject = {"kind": "ServiceAccount", "name": account, "namespace": self.namespace}
        rbac = {"apiVersion": "rbac.authorization.k8s.io/v1", "metadata": metadata}
        self.server.admin.apply({"apiVersion": "v1", "kind": "ServiceAccount", "metadata": metadata}, self.namespace)
        self.server.admin.apply({**rbac, "kind": "Role", "rules": rules}, self.namespace)
        self.server.admin.apply({**rbac, "kind": "RoleBinding", "roleRef": role, "subjects": [subject]}, self.namespace)

    def asked(self, component: str) -> dict[str, set[str]]:
        """What its account asked for; nothing of it was refused."""
        requests = self.server.requests_of(self.account(component), self.namespace)
        assert [each for each in requests if not each.allowed] == []
        return by_resource(requests)


@dataclass(frozen=True, slots=True, kw_only=True)
class Task:
    """A process that runs a task."""

    installed: Installed
    process: "subprocess.Popen[bytes]"
    log: Path
    try_number: int

    @property
    def pod(self) -> str:
        return f"tidegauge-index-and-derive-manual-1-replication-audit-{self.try_number}"

    def driver(self) -> Document:
        """The pod that it makes."""
        found: list[Document] = []

        def is_there() -> bool:
            assert self.process.poll() is None, self.log.read_text()
            found.extend(each for each in self.installed.pods("driver") if each["metadata"]["name"] == self.pod)
            return bool(found)

        until(is_there, f"{self.pod} is not made")
        return found[0]

    def told(self, word: str = "") -> str:
        """Everything that it has said when it is at its end."""
        self.process.communicate(word.encode(), timeout=180)
        return self.log.read_text()


def by_resource(requests: set[Request]) -> dict[str, set[str]]:
    return {
        resource: {r.verb for r in requests if r.resource == resource} for resource in {r.resource for r in requests}
    }


@pytest.fixture(scope="module")
def installed(
    kubernetes: ApiServer, new_namespace: Callable[[], str], tmp_path_factory: pytest.TempPathFactory
) -> Installed:
    """What a team with all of it on has."""
    namespace = new_namespace()
    documents = rendered(OWN_CLUSTER, namespace=namespace)
    for document in documents:
        kubernetes.admin.apply(document, namespace)
    return Installed(server=kubernetes, namespace=namespace, documents=documents)


@pytest.fixture(scope="module")
def given(installed: Installed, tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The example's settings of Spark."""
    return settings(installed.documents, installed.namespace, tmp_path_factory.mktemp("mounted"))


@pytest.fixture(scope="module")
def start_task(
    installed: Installed, given: dict[str, str], tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Callable[..., Task]]:
    """`start_task(account, try_number)`: a task of the DAGs that submits a driver as this account."""
    with ExitStack() as stack:

        def start(account: str, try_number: int) -> Task:
            directory = tmp_path_factory.mktemp(account)
            told = environment(installed.server, account, installed.namespace, directory) | {
                "TIDEGAUGE_SPARK_MASTER": f"k8s://{installed.server.url}",
                "TIDEGAUGE_SPARK_CONF": as_variable(given),
                "PYTHONPATH": str(ROOT / "dags"),
                "JAVA_HOME": str(find_java().home),
            }
            log = directory / "log"
            process = subprocess.Popen(
                [sys.executable, "-c", _TASK, str(try_number)], env=told, stdin=subprocess.PIPE,
                stdout=stack.enter_context(log.open("wb")), stderr=subprocess.STDOUT,
            )  # fmt: skip
            stack.callback(ended, process)
            return Task(installed=installed, process=process, log=log, try_number=try_number)

        yield start


@pytest.fixture(scope="module")
def submitted(installed: Installed, start_task: Callable[..., Task]) -> Document:
    """The driver's pod that a task made, which has ended, and the task with it."""
    task = start_task(installed.account("submitter"), 1)
    driver = task.driver()
    installed.end(driver, 0)
    assert "answered done" in task.told(), task.log.read_text()
    return driver


@pytest.mark.parametrize("code", [2, 137])
def test_a_task_hears_how_its_driver_ended(installed: Installed, start_task: Callable[..., Task], code: int) -> None:
    """By what Kubernetes says of its container: what cannot be used is not tried again, all else is."""
    task = start_task(installed.account("submitter"), code)
    installed.end(task.driver(), code)
    said = (
        "failed AirflowFailException" if code == 2 else f"failed AirflowException The job failed with exit code {code}"
    )
    assert said in task.told(), task.log.read_text()


@pytest.fixture(scope="module")
def killed(installed: Installed, start_task: Callable[..., Task]) -> Task:
    """A task that had a driver when it was killed."""
    task = start_task(installed.account("submitter"), 3)
    task.driver()
    task.told("kill")
    return task


def test_a_task_that_is_killed_takes_its_driver_along(installed: Installed, killed: Task) -> None:
    assert killed.pod not in {each["metadata"]["name"] for each in installed.pods("driver")}, killed.log.read_text()


def test_without_the_right_to_a_network_policy_no_driver_stays(
    installed: Installed, start_task: Callable[..., Task]
) -> None:
    """Spark makes the driver's pod first, and removes it when it may not make the rest."""
    (role,) = [
        d for d in of_kind(installed.documents, "Role") if d["metadata"]["name"] == installed.account("submitter")
    ]
    rules = [each for each in role["rules"] if "networkpolicies" not in each["resources"]]
    installed.allow("lesser", rules)
    task = start_task("lesser", 4)
    assert "failed AirflowException" in task.told(), task.log.read_text()
    refused = {each for each in installed.server.requests_of("lesser", installed.namespace) if not each.allowed}
    assert refused == {Request("patch", "networkpolicies", False)}
    assert not [each for each in installed.pods("driver") if each["metadata"]["name"] == task.pod]


def owned(installed: Installed, by: Document) -> list[str]:
    """What goes when this pod goes."""
    admin, namespace = installed.server.admin, installed.namespace
    kinds = (("v1", "ConfigMap"), ("v1", "Service"), ("networking.k8s.io/v1", "NetworkPolicy"))
    return [
        f"{kind} {each['metadata']['name']}"
        for version, kind in kinds
        for each in admin.items(version, kind, namespace)
        if by["metadata"]["uid"] in {owner["uid"] for owner in each["metadata"].get("ownerReferences", [])}
    ]


def test_what_submitting_makes_is_the_driver_s_own(installed: Installed, submitted: Document) -> None:
    """Whose pod is of the chart's template, which a namespace of restricted pods takes. There are two ConfigMaps: its
    settings, and the template of its executors.
    """
    assert submitted["spec"]["serviceAccountName"] == installed.account("spark")
    made = [each.split()[0] for each in owned(installed, submitted)]
    assert made == ["ConfigMap", "ConfigMap", "Service", "NetworkPolicy"]


@pytest.fixture(scope="module")
def driven(
    installed: Installed, given: dict[str, str], submitted: Document, tmp_path_factory: pytest.TempPathFactory
) -> list[Document]:
    """The executors' pods that a driver made, which has seen one fail, has computed a sum with another and has ended
    since. Driver and executor are processes of this machine, known as the pods that they would be.
    """
    account, directory = installed.account("spark"), tmp_path_factory.mktemp("driver")
    conf = {
        **given, "spark.master": f"k8s://{installed.server.url}", "spark.ui.enabled": "false",
        "spark.kubernetes.driver.pod.name": submitted["metadata"]["name"],
        "spark.driver.host": "127.0.0.1", "spark.driver.bindAddress": "127.0.0.1",
        "spark.executor.instances": "2", "spark.executor.memory": "512m",
        # As a task of the DAGs has it.
        "spark.authenticate": "true", "spark.network.crypto.enabled": "true",
        # So that it does not wait for what never is ready here.
        "spark.kubernetes.allocation.driver.readinessTimeout": "1s",
        "spark.scheduler.maxRegisteredResourcesWaitingTime": "0s",
    }  # fmt: skip
    java = find_java().home
    told = environment(installed.server, account, installed.namespace, directory) | {
        "JAVA_HOME": str(java),
        "SPARK_LOCAL_DIRS": str(directory),
        "PYSPARK_SUBMIT_ARGS": shlex.join(
            [*(word for each in conf.items() for word in ("--conf", "=".join(each))), "pyspark-shell"]
        ),
    }
    log = directory / "log"
    with log.open("wb") as output:
        driver = subprocess.Popen(
            [sys.executable, Path(__file__).with_name("driver_application.py")],
            env=told, stdin=subprocess.PIPE, stdout=output, stderr=subprocess.STDOUT,
        )  # fmt: skip
    try:
        names: set[str] = set()

        def are_made(count: int) -> bool:
            assert driver.poll() is None, log.read_text()
            names.update(each["metadata"]["name"] for each in installed.pods("executor"))
            return len(names) >= count

        until(lambda: are_made(2), "the driver makes no executors")
        executors = installed.pods("executor")
        installed.end(executors[0], 1)
        until(lambda: are_made(3), "the driver makes no executor for the one that failed")
        image = {
            "PATH": f"{java}/bin:/usr/local/bin:/usr/bin:/bin",
            "SPARK_HOME": str(Path(pyspark.__file__).parent),
        }
        kubelet.begin(installed.server.admin, executors[1])
        with kubelet.running(executors[1], image, directory):
            driver.communicate(b"1000\n", timeout=180)
    finally:
        ended(driver)
    assert driver.returncode == 0, log.read_text()
    assert "sum 499500" in log.read_text().splitlines()
    return executors


def test_a_driver_makes_executors_and_clears_up(installed: Installed, driven: list[Document]) -> None:
    for executor in driven:
        (container,) = executor["spec"]["containers"]
        assert container["securityContext"]["capabilities"] == {"drop": ["ALL"]}
        assert executor["spec"]["securityContext"]["runAsNonRoot"] is True
    assert installed.pods("executor") == []


@pytest.mark.usefixtures("submitted", "killed", "driven")
def test_its_accounts_may_do_what_spark_asks_for(installed: Installed) -> None:
    """The server's log has every request: nothing was refused. Another version of Spark may ask for something else."""
    assert installed.asked("submitter") == SUBMISSION
    assert installed.asked("spark") == DRIVER
    for resource in (resource for resource, verbs in SUBMISSION.items() if "patch" in verbs):
        # To apply what is not there yet is to create it: the server asks itself, and its log does not tell.
        name = NETWORK_POLICIES if resource == "networkpolicies" else resource
        assert installed.server.admin.may(installed.account("submitter"), installed.namespace, "create", name)


@pytest.mark.parametrize("component", ["submitter", "spark"])
def test_its_accounts_may_do_nothing_else(
    installed: Installed, component: str, new_namespace: Callable[[], str]
) -> None:
    account, namespace, elsewhere = installed.account(component), installed.namespace, new_namespace()
    admin = installed.server.admin
    for verb in EVERY_VERB:
        for resource in OTHERS:
            assert not admin.may(account, namespace, verb, resource), (verb, resource)
        for resource in ("pods", "configmaps", "services", "persistentvolumeclaims", NETWORK_POLICIES, *OTHERS):
            assert not admin.may(account, namespace, verb, resource, elsewhere), (verb, resource)


@pytest.mark.usefixtures("driven")
def test_when_the_driver_goes_all_of_it_goes(installed: Installed, submitted: Document, tmp_path: Path) -> None:
    """By Kubernetes' own garbage collector."""
    assert owned(installed, submitted)
    admin = installed.server.admin
    with controllers(installed.server, tmp_path, "garbage-collector-controller"):
        admin.request("DELETE", f"/api/v1/namespaces/{installed.namespace}/pods/{submitted['metadata']['name']}")
        until(lambda: not owned(installed, submitted), "what was the driver's is still there")
