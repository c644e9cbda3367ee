"""What a program that we start is told of our environment: the names that it needs, and no secret of anybody else's.

In: how names begin, and our environment. Out: the child's. Whoever runs us has an object store's keys, a console's
tokens and passwords in his environment; a program that runs as another user, and what that starts, shows them to that
user (proc(5), environ), and one that dies may write them into a file (a JVM's hs_err_pid.log). So the rule that must
hold: nothing comes through unless it is named. SECURITY.md says what each child gets.
"""

import os
import sys
from collections.abc import Mapping
from typing import Final

from tidegauge.snapshots.safe_path import SAFE_PATH

PLAIN: Final = frozenset(
    {
        "PATH", "HOME", "LANG", "LANGUAGE", "TZ", "TZDIR", "TMPDIR", "LD_LIBRARY_PATH", "LD_PRELOAD",
        "NSS_WRAPPER_PASSWD", "NSS_WRAPPER_GROUP",
    }
)  # fmt: skip
"""Where programs, libraries and temporary files are, and how words and times are written; `LC_*`, too. By the last
three the image says who a user is that its passwd does not know: Java and Postgres refuse to run for nobody.
"""

PYTHON: Final = (
    "PYTHONDONTWRITEBYTECODE", "PYTHONFAULTHANDLER", "PYTHONHASHSEED", "PYTHONIOENCODING", "PYTHONPATH", "PYTHONUTF8",
    "PYTHONWARNINGS", "NUMBA_", "XDG_CACHE_HOME",
)  # fmt: skip
"""How names begin that say how Python runs, and where compiled code is kept."""
LIBPQ: Final = ("PG", "KRB5")
"""That say how a store is reached where its address does not."""
OBJECT_STORES: Final = (
    "AWS_", "FSSPEC_", "GOOGLE_", "CLOUDSDK_", "AZURE_", "BOTO_CONFIG", "SSL_CERT_", "REQUESTS_CA_BUNDLE",
    "CURL_CA_BUNDLE", "HTTP_PROXY", "HTTPS_PROXY", "NO_PROXY", "http_proxy", "https_proxy", "no_proxy",
)  # fmt: skip
"""That say where object stores are, and who asks."""
SPARK: Final = (
    "JAVA_", "JDK_JAVA_OPTIONS", "SPARK_", "PYSPARK_", "HADOOP_", "HDFS_", "YARN_", "KUBECONFIG", "KUBERNETES_", "KRB5",
    "USER", "LOGNAME",
)  # fmt: skip
"""That say which Java and Spark run, and how a cluster's manager is reached."""


def only(*beginnings: str, environ: Mapping[str, str] = os.environ) -> dict[str, str]:
    """`PLAIN`, and what begins so, as far as it is set."""
    return {key: value for key, value in environ.items() if key in PLAIN or key.startswith(("LC_", *beginnings))}


def of_python(*beginnings: str) -> dict[str, str]:
    """The same for a Python that imports what we do, and nothing from the directory that it stands in."""
    modules = os.pathsep.join(place for place in sys.path if place)
    return {**only(*PYTHON, *beginnings), **SAFE_PATH, "PYTHONPATH": modules}
