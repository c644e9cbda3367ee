"""What Spark is started with; and that it starts."""

import os
import shlex
import subprocess
import sys
from pathlib import Path

import pytest
from pyspark.errors import PythonException

from tidegauge.runs.errors import SparkError
from tidegauge.spark_jobs import class_archive, session
from tidegauge.spark_jobs.java import Java
from tidegauge.spark_jobs.spark_home import spark_home

JAVA = Java(home=Path("/no/java"), version=17, found="test")

READS_ROWS = """
from tidegauge.spark_jobs import session
from tidegauge.spark_jobs.rehearsal import Rows
spark = session.start("local[2]")
spark.dataSource.register(Rows)
print(spark.read.format("rehearsal").load().toArrow().num_rows, spark.conf.get("spark.sql.session.timeZone"))
spark.stop()
"""


KILLS_ITS_JVM = """
from pyspark import SparkContext
from tidegauge.spark_jobs import session
from tidegauge.runs.errors import SparkError
spark = session.start("local[2]")
SparkContext._gateway.proc.kill()
try:
    with session.spark_errors("read the segments"):
        spark.range(3).count()
except SparkError as error:
    print(error)
session.stop(spark)
"""

LISTENS_TO_CTRL_C = """
import signal
from tidegauge.spark_jobs import session
def ours(number, frame): ...
signal.signal(signal.SIGINT, ours)
session.stop(session.start("local[2]"))
print(signal.getsignal(signal.SIGINT) is ours)
"""


@pytest.mark.parametrize(
    ("master", "local"),
    [("local", True), ("local[*]", True), ("local[4,2]", True), ("spark://h:7077", False), ("k8s://https://h", False)],
)
def test_a_local_master_is_known(master, local):
    assert session.is_local(master) is local


def test_a_local_session_listens_on_this_machine_only():
    settings = session.settings("local[3]")
    assert settings["spark.driver.bindAddress"] == "127.0.0.1"
    assert settings["spark.ui.enabled"] == "false"
    assert settings["spark.sql.shuffle.partitions"] == "3"


def test_a_cluster_keeps_its_own_flags_and_addresses():
    assert session.java_options("spark://h:7077", JAVA) == ""
    assert not [key for key in session.settings("yarn") if key.startswith("spark.driver")]
    assert set(session.environment(JAVA, "yarn")) == {"JAVA_HOME", "PYTHONSAFEPATH"}


def test_a_standalone_cluster_runs_this_python_unless_another_is_named(monkeypatch):
    monkeypatch.delenv("PYSPARK_PYTHON", raising=False)
    assert session.environment(JAVA, "spark://h:7077")["PYSPARK_PYTHON"] == sys.executable
    assert session.environment(JAVA, "local-cluster[2,1,1024]")["PYSPARK_PYTHON"] == sys.executable
    monkeypatch.setenv("PYSPARK_PYTHON", "/opt/python/bin/python3")
    assert session.environment(JAVA, "spark://h:7077")["PYSPARK_PYTHON"] == "/opt/python/bin/python3"


def test_without_an_archive_the_jvm_is_told_of_none():
    assert class_archive.options(JAVA) == ()
    assert "SharedArchiveFile" not in session.java_options("local[2]", JAVA)


def test_another_java_has_another_archive(tmp_path):
    homes = [tmp_path / name for name in ("a", "b")]
    assert len({class_archive.path(Java(home=home, version=17, found="test")) for home in homes}) == 2


@pytest.mark.jvm
def test_spark_submit_gets_the_same_settings():
    environ = session.submit_environment("local[2]")
    pairs = dict(pair.split("=", 1) for pair in shlex.split(environ["TIDEGAUGE_SPARK_CONF"]))
    assert session.settings("local[2]").items() <= pairs.items()
    assert environ["PYSPARK_PYTHON"] == sys.executable


@pytest.mark.parametrize("master", ["spark://master:7077", "yarn", "k8s://https://api:6443"])
def test_on_a_cluster_nobody_is_shown_anything_and_nobody_let_in_where_spark_makes_secrets(master):
    found = session.settings(master)
    assert found["spark.ui.enabled"] == "false"
    secrets = {"spark.authenticate": "true", "spark.network.crypto.enabled": "true"}
    assert (secrets.items() <= found.items()) is (master != "spark://master:7077")


def test_a_setting_that_is_none_is_told_by_its_number(monkeypatch):
    monkeypatch.setenv("TIDEGAUGE_SPARK_CONF", "spark.a=b s3cret")
    with pytest.raises(SparkError, match="its word 2 is no key=value") as told:
        session.start("spark://127.0.0.1:1")
    assert "s3cret" not in str(told.value)


def test_the_spark_home_holds_no_zipped_pyspark():
    home = spark_home()
    assert (home / "bin" / "spark-submit").is_file()
    assert (home / "jars").is_dir()
    assert not (home / "python").exists()


@pytest.mark.slow
@pytest.mark.jvm
def test_a_session_reads_a_python_data_source_and_says_nothing():
    run = subprocess.run([sys.executable, "-c", READS_ROWS], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["6", "UTC"]
    assert run.stderr == ""


@pytest.mark.slow
@pytest.mark.jvm
def test_a_jvm_that_is_killed_is_the_environments_fault_and_leaves_nothing(tmp_path):
    environ = {**os.environ, "TMPDIR": str(tmp_path)}
    run = subprocess.run(
        [sys.executable, "-c", KILLS_ITS_JVM], capture_output=True, text=True, check=False, env=environ
    )
    assert "could not read the segments: its Java process was killed" in run.stdout
    assert (run.returncode, run.stderr) == (0, "")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.slow
@pytest.mark.jvm
def test_ctrl_c_is_not_sparks_to_hear():
    run = subprocess.run([sys.executable, "-c", LISTENS_TO_CTRL_C], capture_output=True, text=True, check=True)
    assert run.stdout.split() == ["True"]


@pytest.mark.slow
@pytest.mark.jvm
def test_a_jvm_that_does_not_start_is_a_spark_error_with_its_words():
    code = "from tidegauge.spark_jobs import session; session.start(extra={'spark.driver.extraJavaOptions': '-Xmx1g'})"
    run = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert run.returncode != 0
    assert SparkError.__name__ in run.stderr
    assert "Java said" in run.stderr
    assert "Xmx" in run.stderr


def test_a_machine_that_fails_spark_is_the_environments_fault_and_a_mistake_of_ours_is_not():
    with pytest.raises(SparkError, match="No space left on device"), session.spark_errors("read"):
        raise PythonException(message="OSError: [Errno 28] No space left on device")
    no_room_for_snappy = (
        "[TASK_WRITE_FAILED] Caused by: java.lang.NoClassDefFoundError: Could not initialize class "
        "org.xerial.snappy.Snappy\nCaused by: java.lang.ExceptionInInitializerError: Exception "
        "java.lang.UnsatisfiedLinkError: no snappyjava in java.library.path: /usr/lib"
    )
    with pytest.raises(SparkError, match="Check free disk"), session.spark_errors("read"):
        raise PythonException(message=no_room_for_snappy)
    with pytest.raises(PythonException), session.spark_errors("read"):
        raise PythonException(message="KeyError: 'topic'")
