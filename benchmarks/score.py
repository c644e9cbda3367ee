"""How well worlds of known truth are judged: random worlds with faults and without, scenarios, whole explored spaces.

    PYTHONPATH=. python benchmarks/score.py [--worlds 2000] [--fault-free 1000] [--seed 1] [--hours H] [--explore]
                                            [--largest] [--out DIR] [--write]

Prints tables: what should have been caught by each invariant and was, what was a false alarm, what no file tells. The
worlds are audited in one Spark run and one validation, as `tidegauge score` does. `--explore` audits every state of
the five models with two replicas, too; `--largest` those with three as well, which takes minutes: most disks are the
same. `--write` keeps the figures in docs/score.json, from which `python docs/generate.py` renews docs/accuracy.md. Exit
status 1 if anything was missed, or an alarm was false.
"""

import argparse
import json
import sys
import tempfile
import time
from dataclasses import asdict
from pathlib import Path

from tidegauge.embedded.store_in_use import store_at
from tidegauge.progress import display_for, show
from tidegauge.runs.run import NO_STORE
from tidegauge.scoring.explored import Explored, explored, table
from tidegauge.scoring.run import Batch, score
from tidegauge.scoring.table import tables
from tidegauge.sim_engine.explore.layout import Constants
from tidegauge.sim_engine.explore.rules import Model
from tidegauge.sim_engine.random_worlds.random_world import DEFAULT_HOURS
from tidegauge.store import migrate

KEPT = Path(__file__).resolve().parents[1] / "docs" / "score.json"
SMALL = Constants(replicas=2, log_size=2, max_records=2, max_leader_epoch=2)
LARGE = Constants(replicas=3, log_size=2, max_records=2, max_leader_epoch=1)


def say(text: str) -> None:
    """Progress."""
    print(text, file=sys.stderr, flush=True)


def spaces(constants: list[Constants]) -> list[Explored]:
    """Every model's space, audited."""
    found: list[Explored] = []
    with store_at(None) as url:
        migrate(url)
        for of_size in constants:
            say(f"explore: {of_size.replicas} replicas")
            found += explored(tuple(Model), of_size, url=url)
    return found


def main() -> int:
    """Score, print; return the exit status."""
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--worlds", type=int, default=2000, help="random worlds with faults")
    options.add_argument("--fault-free", type=int, default=1000, help="random worlds without")
    options.add_argument("--seed", type=int, default=1, help="the first seed")
    options.add_argument("--hours", type=float, default=DEFAULT_HOURS, help="virtual time of each world")
    options.add_argument("--explore", action="store_true", help="every state of the models with two replicas, too")
    options.add_argument("--largest", action="store_true", help="and with three")
    options.add_argument("--out", type=Path, help="where the worlds that failed are kept")
    options.add_argument("--write", action="store_true", help=f"keep the figures in docs/{KEPT.name}")
    asked = options.parse_args()
    show(display_for())
    second = asked.seed + asked.worlds
    batch = Batch(
        seeds=range(asked.seed, second),
        fault_free=range(second, second + asked.fault_free),
        scenarios=True,
        hours=asked.hours,
    )
    out = asked.out or Path(tempfile.mkdtemp(prefix="tidegauge-score-")) / "score"
    started = time.monotonic()
    found = score(batch, out, store=NO_STORE, master=None, progress=say)
    seconds = time.monotonic() - started
    sizes = [*([SMALL] if asked.explore or asked.largest else []), *([LARGE] if asked.largest else [])]
    reached = spaces(sizes)
    print("\n".join([*tables(found), "", *(table(reached) if reached else [])]))
    print(f"\n{found.snapshots:,} snapshots in {seconds:,.0f} s, {seconds / found.snapshots:.2f} s each, all in.")
    print(f"What failed: {out / 'score.json'}" if found.failures else "Nothing failed.")
    if asked.write:
        kept = {
            "command": f"python benchmarks/score.py --worlds {asked.worlds} --fault-free {asked.fault_free} "
            f"--seed {asked.seed}{' --explore' if asked.explore else ''}{' --largest' if asked.largest else ''}",
            "seconds": round(seconds),
            "score": found.to_json(),
            "explored": [asdict(one) for one in reached],
        }
        KEPT.write_text(json.dumps(kept, indent=1) + "\n", encoding="utf-8")
    return 0 if found.perfect and not any(one.missed or one.false for one in reached) else 1


if __name__ == "__main__":
    sys.exit(main())
