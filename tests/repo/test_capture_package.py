"""The package `tidegauge-capture`: all that its command imports and asks for, and nothing else.

`tests/helm/test_capture_image.py` installs it and captures with it.
"""

import re
import subprocess
import sys
import tomllib
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
PACKAGE = ROOT / "tools" / "capture_package"
HEAVY = ("numba", "llvmlite", "pyarrow", "pandas", "scipy", "pyspark", "great_expectations", "sqlalchemy", "psycopg2")


def told(of: Path) -> dict[str, Any]:
    return tomllib.loads(of.read_text(encoding="utf-8"))


def imported() -> tuple[set[str], set[str]]:
    """Modules of ours and packages of others that the command imports, what it asks of a cluster included, in a process
    without what is heavy.
    """
    program = (
        f"import sys\nfor name in {HEAVY}: sys.modules[name] = None\n"
        "import tidegauge.cli.start, tidegauge.cli.capture_alone, tidegauge.cli.capture\n"
        "import tidegauge.snapshots.ask_apart, tidegauge.snapshots.ask, tidegauge.snapshots.client_config\n"
        "loaded = {n: m for n, m in sys.modules.items() if m is not None}\n"
        "places = {n.partition('.')[0]: getattr(m, '__file__', '') or '' for n, m in loaded.items()}\n"
        "print(*(n for n in loaded if n.partition('.')[0] == 'tidegauge'))\n"
        "print(*(n for n, place in places.items() if 'site-packages' in place))"
    )
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    ours, others = done.stdout.splitlines()
    return set(ours.split()), set(others.split())


def test_the_package_has_what_the_command_imports_and_nothing_else() -> None:
    included = told(PACKAGE / "pyproject.toml")["tool"]["hatch"]["build"]["targets"]["wheel"]["force-include"]
    rooms = {target for target in included.values() if "." not in target.rpartition("/")[2]}
    modules = {target.removesuffix(".py").replace("/", ".") for target in included.values() if target.endswith(".py")}
    ours, _ = imported()
    outside = {name for name in ours if not name.startswith(tuple(room.replace("/", ".") for room in rooms))}
    assert outside == {name.removesuffix(".__init__") for name in modules}


def test_it_asks_for_what_the_command_imports_and_for_no_other_versions_than_tidegauge_does() -> None:
    package, whole = told(PACKAGE / "pyproject.toml")["project"], told(ROOT / "pyproject.toml")["project"]
    asked = {*package["dependencies"], *package["optional-dependencies"]["s3"]}
    assert asked <= set(whole["dependencies"])
    assert {package[name] for name in ("version", "requires-python")} == {
        whole[name] for name in ("version", "requires-python")
    }
    names = {re.split(r"[<>=]", each)[0].replace("-", "_") for each in asked}
    modules = {"kafka": "kafka_python", "upath": "universal_pathlib"}
    # What these bring with them, and the machine's own.
    brought = {"_cffi_backend", "cffi", "pathlib_abc", "typing_extensions", "_distutils_hack", "zstandard"}
    _, others = imported()
    assert {modules.get(name, name) for name in others} - brought <= names
