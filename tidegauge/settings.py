"""Settings: environment variables in, values out. `VARIABLES` is their only list; the documentation is made from it.

An option of the command line wins over its variable, a variable over the default; an empty variable counts as not set.
"""

import os
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Final
from urllib.parse import urlsplit

from tidegauge.runs.errors import UnavailableError

if TYPE_CHECKING:
    from tidegauge.snapshots.signing import Trusted


@dataclass(frozen=True, slots=True, kw_only=True)
class Variable:
    """One environment variable: its name, what holds without it, what it means."""

    name: str
    default: str
    meaning: str


VARIABLES: Final = (
    Variable(
        name="TIDEGAUGE_HOME",
        default="the user's data directory",
        meaning="Where all commands keep their state: the embedded Postgres, runs started by Airflow, unpacked "
        "captures. `tidegauge status` shows it.",
    ),
    Variable(
        name="TIDEGAUGE_STORE_URL",
        default="an embedded Postgres under TIDEGAUGE_HOME",
        meaning="The store, as an SQLAlchemy URL (`postgresql+psycopg2://user:password@host/database`), or `none`.",
    ),
    Variable(
        name="TIDEGAUGE_ROOT_POSTGRES",
        default="/var/lib/tidegauge-postgres",
        meaning="Where the embedded Postgres keeps its data if you are root. Postgres refuses to run as root, so the "
        "user `pgserver` runs it there, and the data directory under TIDEGAUGE_HOME is a link.",
    ),
    Variable(
        name="TIDEGAUGE_SNAPSHOTS",
        default="TIDEGAUGE_HOME/snapshots",
        meaning="Directory or URL under which snapshots are found by cluster and id: `<cluster>/<snapshot id>/`.",
    ),
    Variable(
        name="TIDEGAUGE_SUMMARIES",
        default="beside the snapshots, for those of 64 MB and more",
        meaning="Directory or URL where audits keep summaries of the segments that they read, so that the next audit "
        "reads only what is new; `none`: every audit reads everything.",
    ),
    Variable(
        name="TIDEGAUGE_VERIFY_KEY",
        default="",
        meaning="A file of public keys (PEM, Ed25519): audits and `snapshot verify` take only what one of them signed.",
    ),
    Variable(
        name="TIDEGAUGE_LOG_FORMAT",
        default="text",
        meaning="How commands write to standard error: `text`, or `json`: an object a line with the time, the command, "
        "and the cluster, snapshot and run that it is about.",
    ),
    Variable(
        name="TIDEGAUGE_SPARK_MASTER",
        default="local[*]",
        meaning="Where Spark runs: `local[N]`, `spark://host:port`, `yarn` or `k8s://https://host:port`. Unset, "
        "`tidegauge audit` derives small snapshots without Spark.",
    ),
    Variable(
        name="TIDEGAUGE_MANY_ROWS",
        default="1000000",
        meaning="Rows of one relation of facts above which an audit on Spark judges them there: the store then gets "
        "those that breach an invariant or are not known, and relations that pages show, whole.",
    ),
    Variable(
        name="TIDEGAUGE_SCHEDULE",
        default="@daily",
        meaning="When the DAG `replication_audit` runs, besides after each capture, and which intervals a "
        "backfill has: a cron expression, a preset, or `none`, which leaves no dates to backfill.",
    ),
    Variable(
        name="TIDEGAUGE_BREACH_FAILS",
        default="false",
        meaning="Whether the DAGs that audit fail if an invariant is breached, unless a run's form says otherwise.",
    ),
    Variable(
        name="TIDEGAUGE_SPARK_POOL",
        default="",
        meaning="Airflow's pool for Spark applications, such as `tidegauge_spark` of dags/pools.json; without one, two "
        "of each DAG run at once.",
    ),
    Variable(
        name="TIDEGAUGE_RETENTION",
        default="--keep-days 400 --facts-days 30",
        meaning="What the DAG `tidegauge_retention` keeps, as options of `tidegauge store retain`; `none` keeps all.",
    ),
    Variable(
        name="TIDEGAUGE_SCORE_SCHEDULE",
        default="0 2 * * *",
        meaning="When the DAG `simulate_nightly` runs: a cron expression, or `none`.",
    ),
    Variable(
        name="TIDEGAUGE_CLUSTERS",
        default="",
        meaning="The YAML file that lists the clusters to capture, for the DAG `capture_snapshots`.",
    ),
    Variable(
        name="TIDEGAUGE_ALERTS",
        default="",
        meaning="The YAML file that says who gets which alerts, and when.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_URL",
        default="",
        meaning="The console's address for readers, for links from Airflow; `tidegauge up` sets it.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_HOSTS",
        default="",
        meaning="More host names to which the console answers, separated by spaces. It always answers to the machine's "
        "own name, to IP addresses and to the name in TIDEGAUGE_CONSOLE_URL.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_WATCHED",
        default="",
        meaning="A directory of files that the console began with, such as Kubernetes' mounted Secrets. When one of "
        "them changes, `/healthz` answers 503, so that whoever watches over the console starts it anew.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_FRAMED_BY",
        default="",
        meaning="Origins whose pages may show the console in a frame, such as Airflow's, separated by spaces.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN",
        default="",
        meaning="A secret of 32 characters or more that Airflow's API server and the console share, so that the "
        "console trusts Airflow to say who is logged in; `@FILE` names a file that holds it. `tidegauge up` makes one.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_PROXIES",
        default="",
        meaning="Addresses or networks of proxies that the console trusts to name users and addresses, separated by "
        "spaces.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_USER_HEADER",
        default="",
        meaning="The header in which those proxies name who is logged in, such as `X-Forwarded-User`.",
    ),
    Variable(
        name="TIDEGAUGE_CONSOLE_TOKENS",
        default="",
        meaning="`name=token` for each person or program that identifies itself by a token of 32 characters or more, "
        "separated by spaces or lines; `@FILE` names a file that holds them.",
    ),
    Variable(
        name="TIDEGAUGE_COMMAND",
        default="tidegauge",
        meaning="What a DAG's tasks run for steps without Spark, as a shell would split it.",
    ),
    Variable(
        name="TIDEGAUGE_JOB",
        default="spark_jobs/job.py, as installed",
        meaning="What a DAG's tasks give to spark-submit; a `local:///` path if the driver has its own image.",
    ),
    Variable(
        name="TIDEGAUGE_SPARK_CONF",
        default="",
        meaning="`key=value` settings for a DAG's spark-submit, and for `tidegauge audit` on a Spark cluster, "
        "separated by spaces, quoted as for a shell. They appear on no command line.",
    ),
)


def home() -> Path:
    """Where state is kept."""
    if given := os.environ.get("TIDEGAUGE_HOME"):
        return Path(given).expanduser().absolute()
    import platformdirs

    return platformdirs.user_data_path("tidegauge")


def root_postgres() -> Path:
    """Below which the embedded Postgres of root keeps its data."""
    given = os.environ.get("TIDEGAUGE_ROOT_POSTGRES") or "/var/lib/tidegauge-postgres"
    return Path(given).expanduser().absolute()


def store_url() -> str | None:
    """The store; None where the embedded Postgres serves, `"none"` for no store at all."""
    return os.environ.get("TIDEGAUGE_STORE_URL") or None


def chosen_spark_master() -> str | None:
    """Where Spark runs, if anybody said so."""
    return os.environ.get("TIDEGAUGE_SPARK_MASTER") or None


def spark_master() -> str:
    """Where Spark runs."""
    return chosen_spark_master() or "local[*]"


def snapshots_root() -> str:
    """The directory or URL under which `<cluster>/<snapshot id>/` are found."""
    return os.environ.get("TIDEGAUGE_SNAPSHOTS") or str(home() / "snapshots")


def kept_summaries() -> str | None:
    """Where summaries of segments are kept; None: beside large snapshots; `"none"`: nowhere."""
    return os.environ.get("TIDEGAUGE_SUMMARIES") or None


def many_rows() -> int:
    """Rows of a relation above which they are judged where they are. Raises `UnavailableError` for no number."""
    from tidegauge.runs.run import MANY_ROWS

    given = os.environ.get("TIDEGAUGE_MANY_ROWS") or str(MANY_ROWS)
    if not (given.isascii() and given.isdigit() and len(given) < 19):
        raise UnavailableError(
            f"TIDEGAUGE_MANY_ROWS is {given!r}: a number of rows belongs there, such as {MANY_ROWS}."
        )
    return int(given)


def trusted_by(given: Path | None) -> "Trusted | None":
    """Whose signature snapshots need: that of the keys in a file, else in `TIDEGAUGE_VERIFY_KEY`; None: nobody's.

    Raises `SnapshotError` for a file that holds no such keys.
    """
    named = given or os.environ.get("TIDEGAUGE_VERIFY_KEY")
    if not named:
        return None
    from tidegauge.snapshots.signing import Trusted

    return Trusted.of_key_file(Path(named).expanduser())


def schedule_of_up() -> str:
    """When the audits of `tidegauge up` run by themselves: as everywhere, so that there are dates to backfill."""
    return os.environ.get("TIDEGAUGE_SCHEDULE") or "@daily"


def alerts_file() -> Path | None:
    """The file that says who gets which alerts."""
    given = os.environ.get("TIDEGAUGE_ALERTS")
    return Path(given).expanduser() if given else None


def console_hosts() -> tuple[str, ...]:
    """Names by which browsers may ask for the console, beside those of its machine."""
    url = urlsplit(os.environ.get("TIDEGAUGE_CONSOLE_URL", "")).hostname
    return (*os.environ.get("TIDEGAUGE_CONSOLE_HOSTS", "").split(), *([url] if url else []))


def console_watched() -> Path | None:
    """The directory of files with which a console is alive only as long as they stay as they are."""
    given = os.environ.get("TIDEGAUGE_CONSOLE_WATCHED")
    return Path(given) if given else None


def console_framed_by() -> tuple[str, ...]:
    """Origins whose pages may show the console in a frame. What could end the policy that they go into is left out."""
    return tuple(o for o in os.environ.get("TIDEGAUGE_CONSOLE_FRAMED_BY", "").split() if not {";", ","} & set(o))


def console_proxies() -> tuple[str, ...]:
    """Addresses and networks of those whom the console believes about who asks, as they were written."""
    return tuple(os.environ.get("TIDEGAUGE_CONSOLE_PROXIES", "").split())


def console_user_header() -> str | None:
    """The header in which they say so."""
    return os.environ.get("TIDEGAUGE_CONSOLE_USER_HEADER", "").strip() or None


def secret(name: str) -> str:
    """A variable's value, or what the file holds that it names as `@FILE`; "" if it is not set. Raises
    `UnavailableError` for a file that cannot be read.
    """
    given = os.environ.get(name, "")
    if not given.startswith("@"):
        return given
    try:
        return Path(given[1:]).expanduser().read_text(encoding="utf-8").strip()
    except (OSError, UnicodeDecodeError) as error:
        said = error.strerror if isinstance(error, OSError) else "it is no text in UTF-8"
        raise UnavailableError(
            f"{name} names the file {given[1:]}, which cannot be read ({said}). Name one that this process may read."
        ) from None
