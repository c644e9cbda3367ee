"""Whether every pinned package has a wheel for this machine, said before an installation begins and ends in a compiler.

In: the Python that runs this. Out: nothing, or a sentence on standard error and exit status 1. This file runs before
anything is installed, so it imports nothing of ours.
"""

import platform
import sys

OLDEST_GLIBC = (2, 28)
"""Of RHEL 8, Debian 10 and Ubuntu 20.04: wheels are made for it (manylinux_2_28)."""


def refusal(system: str, machine: str, libc: tuple[str, str]) -> str | None:
    """Why nothing can be installed there; None if all can. `libc`: as `platform.libc_ver()` tells it."""
    if system == "Darwin":
        if machine == "arm64":
            return None
        return "This Mac has an Intel processor, for which cryptography, pyarrow and others are no longer built."
    if system != "Linux":
        return f"Tidegauge runs on Linux and macOS, and this is {system}."
    if machine not in ("x86_64", "aarch64"):
        return f"The packages that Tidegauge needs are built for x86-64 and ARM64, and this machine is {machine}."
    name, version = libc
    if name != "glibc":
        return (
            "This Linux has no glibc (Alpine has musl), for which confluent-kafka, google-crc32c and others are not "
            "built. Take an image such as python:3.12-slim."
        )
    if tuple(int(word) for word in version.split(".")[:2]) < OLDEST_GLIBC:
        return f"The packages that Tidegauge needs are built for glibc 2.28 and newer, and this machine has {version}."
    return None


if __name__ == "__main__":
    why = refusal(platform.system(), platform.machine(), platform.libc_ver())
    if why is not None:
        print(f"make: {why}", file=sys.stderr)
        sys.exit(1)
