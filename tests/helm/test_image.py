"""The image: the Dockerfile's steps, one by one, in a clean directory and on what `.dockerignore` lets through."""

import json
import os
from pathlib import Path

import pytest

from tests.helm.dockerfile import Image, build, instructions, let_through
from tests.resources import starts

ROOT = Path(__file__).parents[2]
DOCKERFILE = "helm/image/Dockerfile"
AUDIT = ["tidegauge", "audit", "--out", "run", "--store", "none", "--master", "local[1]", "--json"]


@pytest.fixture(scope="module")
@starts("jvm")
def image(tmp_path_factory: pytest.TempPathFactory) -> Image:
    return build(ROOT, DOCKERFILE, tmp_path_factory.mktemp("image") / "root", {})


def content(folder: Path) -> dict[str, tuple[int, int]]:
    """What there is below a folder: sizes and times."""
    found = (Path(place, name) for place, _, names in os.walk(folder) for name in names)
    return {str(path): (path.lstat().st_size, path.lstat().st_mtime_ns) for path in found}


@pytest.mark.slow
def test_its_steps_make_an_image_that_audits(image: Image, tmp_path: Path) -> None:
    """Here with Spark, as in a pod whose root file system is read-only: nothing is written beside the run."""
    (sample,) = (image.root / "opt" / "tidegauge" / "tests" / "golden").iterdir()
    image.run(["tar", "xzf", str(sample)], into=tmp_path)
    before = content(image.root / "opt")
    (snapshot,) = [each for each in tmp_path.iterdir() if each.is_dir()]
    done = image.run([*image.entry_point[3:], *AUDIT, str(snapshot)], into=tmp_path)
    assert done.returncode == 1, done.stderr
    assert json.loads(done.stdout)
    assert content(image.root / "opt") == before


@pytest.mark.slow
def test_it_has_the_archive_of_spark_s_classes(image: Image) -> None:
    program = (
        "from tidegauge.spark_jobs.class_archive import options; from tidegauge.spark_jobs.java import find_java;"
        "print(options(find_java())[0])"
    )
    done = image.run(["python", "-c", program])
    assert done.stdout.startswith(f"-XX:SharedArchiveFile={image.root}/opt/venv/"), done.stderr


@pytest.mark.slow
def test_it_has_what_the_chart_s_pods_run(image: Image) -> None:
    assert image.user == "10001"
    assert image.run(["tidegauge", "--version"]).returncode == 0
    for main in ("spark_jobs/job.py", "tidegauge/__main__.py"):
        assert (image.root / "opt" / "tidegauge" / main).is_file()
    assert (Path(image.environment["SPARK_HOME"]) / "bin" / "spark-submit").is_file()
    asked = image.asked_of_the_system.read_text()
    assert "openjdk-17-jre-headless tini libnss-wrapper" in asked


@pytest.mark.slow
@pytest.mark.postgres
def test_without_airflow_the_demonstration_says_what_to_install(image: Image, tmp_path: Path) -> None:
    done = image.run(["env", f"TIDEGAUGE_HOME={tmp_path}", "tidegauge", "demo"])
    assert (done.returncode, "Traceback" in done.stderr) == (3, False), done.stderr
    assert "pip install 'tidegauge[airflow]'" in done.stderr


def test_every_package_of_it_is_one_whose_digest_is_known() -> None:
    """No step takes the newest of anything: not by pip or uv, and not for building what is here."""
    steps = [rest for word, rest in instructions((ROOT / DOCKERFILE).read_text()) if word == "RUN"]
    installs = [part for step in steps for part in step.split("&&") if "pip install" in part]
    assert len(installs) == 3
    for install in installs:
        ours = {"--no-deps", "--no-build-isolation", "--editable"} <= set(install.split())
        assert ours or "--require-hashes" in install, install


def test_the_ignore_file_is_read_as_docker_reads_it() -> None:
    names = ["a.py", "tests/a.py", "tests/kept.gz", "x/tests/b.py", "x/__pycache__/b.pyc", ".mypy_cache/1", "testsx"]
    ignored = "# nothing\n**/__pycache__\ntests\n.*_cache\n!tests/kept.gz\n"
    assert let_through(names, ignored) == ["a.py", "tests/kept.gz", "x/tests/b.py", "testsx"]


def test_no_cache_and_no_test_is_let_through() -> None:
    names = [".venv/bin/x", ".git/HEAD", "build/site/x", "dags/__pycache__/x", ".ruff_cache/x", "tests/golden/x.tar.gz"]
    assert let_through(names, (ROOT / ".dockerignore").read_text()) == []
