"""The scan of `tidegauge-capture`, which has no numba: file names on standard input, what each scan found on standard
output, pickled.

Run as a process of its own: what a process has compiled, it cannot take back.
"""

import pickle
import sys
from pathlib import Path

sys.modules["numba"] = sys.modules["llvmlite"] = None  # type: ignore[assignment]  # what is not installed

from tidegauge.kafka_log.kernels import COMPILED  # noqa: E402
from tidegauge.kafka_log.scan import scan_buffer  # noqa: E402

if __name__ == "__main__":
    assert not COMPILED
    for line in sys.stdin.read().splitlines():
        rows, corruptions = scan_buffer(Path(line).read_bytes())
        pickle.dump((rows.tobytes(), corruptions), sys.stdout.buffer)
