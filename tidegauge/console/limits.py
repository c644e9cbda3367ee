"""How often something may be done: an address in, leave or a time to wait out.

The rules that must hold: no address may do it more often than one may, and all together not more often than all may,
whatever the window's edges; what is remembered is bounded by what all may do, whoever asks and from how many addresses.
"""

import time
from collections import Counter, deque
from collections.abc import Callable
from ipaddress import IPv6Address, ip_address
from math import ceil
from threading import Lock

_OF_ONE_NETWORK = 64


class Limit:
    """So many times in each window: `each` from one address, `overall` from all of them. `window_s` in seconds, as
    `now` is, which must never go back.
    """

    def __init__(
        self, *, each: int, overall: int, window_s: float = 60.0, now: Callable[[], float] = time.monotonic
    ) -> None:
        self._each, self._overall, self._window_s, self._now = each, overall, window_s, now
        self._done: deque[tuple[float, str]] = deque()
        self._by_address: Counter[str] = Counter()
        self._lock = Lock()

    def take(self, address: str | None) -> int:
        """Does it once: 0, or how many seconds to wait before trying again, and then it was not counted."""
        with self._lock:
            wait = self._wait(key := _key(address))
            if not wait:
                self._done.append((self._now(), key))
                self._by_address[key] += 1
            return wait

    def wait(self, address: str | None) -> int:
        """What `take` would say, without counting."""
        with self._lock:
            return self._wait(_key(address))

    def __len__(self) -> int:
        return len(self._done)

    def _wait(self, key: str) -> int:
        now = self._now()
        while self._done and self._done[0][0] <= now - self._window_s:
            _, gone = self._done.popleft()
            self._by_address[gone] -= 1
            if not self._by_address[gone]:
                del self._by_address[gone]
        if self._by_address[key] >= self._each:
            first = next(at for at, of in self._done if of == key)
        elif len(self._done) >= self._overall:
            first = self._done[0][0]
        else:
            return 0
        return max(1, ceil(first + self._window_s - now))


def _key(address: str | None) -> str:
    """Whoever has one address of IPv6 has its network: 64 bits of it are the guest's to choose."""
    try:
        ip = ip_address(address or "")
    except ValueError:
        return ""
    return f"{int(ip) >> _OF_ONE_NETWORK:x}" if isinstance(ip, IPv6Address) else str(ip)
