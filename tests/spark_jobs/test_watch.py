"""How far a Spark step is, by a Spark that works: what is told only rises, and nothing is told once it is over."""

import json
import subprocess
import sys

import pytest

pytestmark = [pytest.mark.slow, pytest.mark.jvm]

WATCHES = """
import json, time
from contextlib import contextmanager
from tidegauge.progress import show
from tidegauge.spark_jobs import session, watch
told = []

class Kept:
    @contextmanager
    def shown(self, work):
        yield lambda done: told.append((work.what, done.parts, done.size_bytes))

show(Kept())
watch._EVERY_S = 0.05
spark = session.start("local[2]")
spark.range(1).count()
with watch.watched(spark, "index", "segments", parts=100, size_bytes=1_000_000):
    rows = spark.sparkContext.parallelize([0] * 20, 20).map(lambda row: (time.sleep(0.1), row)[1]).count()
meanwhile = len(told)
spark.sparkContext.parallelize([0] * 20, 20).map(lambda row: (time.sleep(0.02), row)[1]).count()
try:
    with watch.watched(spark, "derive", "partitions", parts=100):
        spark.stop()
        time.sleep(0.3)
        raise KeyError("the step's own words")
except KeyError as error:
    said = str(error)
print(json.dumps({"told": told, "after": len(told) - meanwhile, "rows": rows, "said": said}))
"""


@pytest.fixture(scope="module")
def watched() -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", WATCHES], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_parts_and_bytes_rise_while_a_step_is_at_work(watched):
    assert watched["rows"] == 20
    told = watched["told"]
    assert told
    parts = [parts for _, parts, _ in told]
    assert parts == sorted(parts)
    assert 0 < parts[-1] <= 100
    assert all(what == "index" and size == parts * 10_000 for what, parts, size in told)


def test_nothing_is_told_of_another_step(watched):
    assert watched["after"] == 0


def test_a_spark_that_is_gone_leaves_the_word_to_the_step(watched):
    assert watched["said"] == '"the step\'s own words"'
