"""How fast the models are explored, and in how much memory: each model, breadth first, to a million distinct states.

    PYTHONPATH=. python benchmarks/explore.py [--states 1000000] [--replicas 3] [--max-leader-epoch 2]

Prints for each model distinct states a second of processor time, of which the search takes one core's, bytes that it
holds for a state, and how much the process has grown at its largest, all in. The kernels are compiled before the clock
starts. Each model has a process of its own. Exit status 1 if one is slower than the bar, or larger.
"""

import argparse
import json
import resource
import subprocess
import sys
import time

from tidegauge.sim_engine.explore.layout import Constants
from tidegauge.sim_engine.explore.rules import Model
from tidegauge.sim_engine.explore.search import Explorer

BAR_PER_S = 60_000
"""Distinct states a second, at least."""
BAR_BYTES = 1_000
"""Of memory for a state, at most: a million in a gigabyte."""
SMALLEST = Constants(replicas=2, log_size=1, max_records=1, max_leader_epoch=0)


def peak_bytes() -> int:
    """The largest that this process has been."""
    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit


def one_search(model: Model, constants: Constants, states: int) -> None:
    """Run by a process of its own: explores, and prints what it took."""
    Explorer(model, SMALLEST).explore()
    before = peak_bytes()
    explorer = Explorer(model, constants)
    started = time.process_time()
    found = explorer.explore(max_states=states)
    seconds = time.process_time() - started
    grown = peak_bytes() - before
    print(json.dumps([found.distinct_states, seconds, explorer.bytes_in_use, grown]))


def main() -> int:
    """Measures and prints; 1 if a bar is missed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--states", type=int, default=1_000_000, help="where a search ends")
    parser.add_argument("--replicas", type=int, default=3)
    parser.add_argument("--max-leader-epoch", type=int, default=2)
    parser.add_argument("--model", help=argparse.SUPPRESS)
    asked = parser.parse_args()
    sizes = {"replicas": asked.replicas, "max_leader_epoch": asked.max_leader_epoch}
    constants = Constants(log_size=2, max_records=2, **sizes)
    if asked.model:
        one_search(Model[asked.model], constants, asked.states)
        return 0
    print(f"{'model':30}{'states':>12}{'a second':>12}{'of bar':>8}{'held, B':>9}{'grown, B':>10}{'of bar':>8}")
    reached = True
    for model in Model:
        done = subprocess.run(
            [sys.executable, *sys.argv, "--model", model.name], stdout=subprocess.PIPE, text=True, check=True
        )
        states, seconds, held, grown = json.loads(done.stdout)
        speed, size = states / seconds, grown / states
        reached &= speed >= BAR_PER_S and size <= BAR_BYTES
        print(
            f"{model.name:30}{states:12,}{speed:12,.0f}{speed / BAR_PER_S:8.2f}{held / states:9.1f}{size:10.1f}"
            f"{size / BAR_BYTES:8.2f}",
            flush=True,
        )
    print(f"bars: {BAR_PER_S:,} states a second, {BAR_BYTES:,} bytes a state: {'reached' if reached else 'MISSED'}")
    return 0 if reached else 1


if __name__ == "__main__":
    sys.exit(main())
