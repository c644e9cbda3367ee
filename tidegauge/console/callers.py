"""Who asks: a request in, an address and, where somebody vouches for it, a name out.

    Airflow's plugin, by a secret that it shares with the console, for who is logged in there     airflow
    a proxy, by its address, for who is logged in to it (a header)                                proxy
    whoever has a token, for the name that the token was given                                    token
    nobody: a form's name is what was typed                                                       unverified

The rules that must hold: nobody is believed by default; what a request says of itself counts only if the one who sent
it is believed; secrets are compared in constant time, and guessing them is limited, wherever a secret may be given.
"""

import hmac
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import sha256
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final
from urllib.parse import unquote

from starlette.requests import Request

from tidegauge import settings
from tidegauge.console.limits import Limit
from tidegauge.console.refusal import RefusalError
from tidegauge.runs.errors import UnavailableError
from tidegauge.store import Verification

AIRFLOW_TOKEN: Final = "x-tidegauge-airflow-token"  # noqa: S105 - a header's name
AIRFLOW_USER: Final = "x-tidegauge-user"
"""Percent-encoded UTF-8; missing where Airflow itself asks nobody for a password."""

LONGEST_NAME: Final = 200
SHORTEST_SECRET: Final = 32
"""Characters. What is shorter can be guessed by trying."""

_AIRFLOW_VARIABLE: Final = "TIDEGAUGE_CONSOLE_AIRFLOW_TOKEN"
_TOKENS_VARIABLE: Final = "TIDEGAUGE_CONSOLE_TOKENS"


@dataclass(frozen=True, slots=True, kw_only=True)
class Caller:
    """Who asks. `address`: an IP address, None where it is not known; `name`: None where nobody vouches for one."""

    address: str | None
    name: str | None = None
    verification: Verification = "unverified"


def who_says(form: Mapping[str, str], caller: Caller) -> str | None:
    """Whose word a form is: a name that somebody vouches for wins over one that was typed. None where neither can be
    kept.
    """
    who = caller.name or form.get("who", "").strip()
    return who if who and len(who) <= LONGEST_NAME and "\0" not in who else None


@dataclass(frozen=True, slots=True, kw_only=True)
class Trust:
    """Whom the console believes about who asks: by default nobody."""

    airflow_token: str | None = field(default=None, repr=False)
    proxies: tuple[IPv4Network | IPv6Network, ...] = ()
    user_header: str | None = None
    tokens: Mapping[str, str] = field(default_factory=dict, repr=False)
    """By token, the name that it stands for."""


def trust_of_settings() -> Trust:
    """What the environment says. Raises `UnavailableError` for what cannot be meant."""
    airflow_token = settings.secret(_AIRFLOW_VARIABLE) or None
    if airflow_token is not None:
        _check_secret(airflow_token, _AIRFLOW_VARIABLE)
    proxies, user_header = settings.console_proxies(), settings.console_user_header()
    if user_header is not None and not proxies:
        raise UnavailableError(
            f"TIDEGAUGE_CONSOLE_USER_HEADER is {user_header}, and no proxy is trusted to send it. Name the proxy's "
            "address or network in TIDEGAUGE_CONSOLE_PROXIES."
        )
    return Trust(
        airflow_token=airflow_token,
        proxies=tuple(map(_network, proxies)),
        user_header=user_header,
        tokens=_tokens(settings.secret(_TOKENS_VARIABLE)),
    )


def _network(given: str) -> IPv4Network | IPv6Network:
    try:
        return ip_network(given)
    except ValueError as error:
        raise UnavailableError(
            f"TIDEGAUGE_CONSOLE_PROXIES holds {given!r}, which is no address and no network ({error}). Write them as "
            "10.1.2.3 or 10.1.0.0/16, separated by spaces."
        ) from None


def _tokens(given: str) -> Mapping[str, str]:
    found: dict[str, str] = {}
    for number, entry in enumerate(given.split(), start=1):
        name, _, token = entry.partition("=")
        if not name or len(name) > LONGEST_NAME or not token:
            raise UnavailableError(
                f"Entry {number} of {_TOKENS_VARIABLE} is not `name=token`. A name has no spaces and at most "
                f"{LONGEST_NAME} characters."
            )
        _check_secret(token, f"{_TOKENS_VARIABLE} (entry {number}, {name})")
        if token in found:
            raise UnavailableError(f"{_TOKENS_VARIABLE} gives {found[token]} and {name} one token. Make one for each.")
        found[token] = name
    return found


def _check_secret(secret: str, where: str) -> None:
    if len(secret) < SHORTEST_SECRET or not secret.isascii() or not secret.isprintable():
        raise UnavailableError(
            f"The secret in {where} is shorter than {SHORTEST_SECRET} characters, or has others than ASCII's. Make one "
            "by `openssl rand -hex 32`."
        )


class Door:
    """Tells who asks. Remembers how often secrets were guessed wrong, and nothing else."""

    def __init__(self, trust: Trust) -> None:
        self._trust = trust
        # Each kind of secret has its own: who guesses at tokens keeps nobody out who comes through Airflow.
        self._wrong = {variable: Limit(each=10, overall=100) for variable in (_AIRFLOW_VARIABLE, _TOKENS_VARIABLE)}

    @property
    def takes_tokens(self) -> bool:
        """Whether anybody has one."""
        return bool(self._trust.tokens)

    def caller(self, request: Request, *, token: str = "") -> Caller:
        """Who asks; `token`: what a form gave besides. Raises `RefusalError` for a wrong secret (401), for one that is
        given after too many wrong ones (429), and for a name that cannot be one (400).
        """
        trust = self._trust
        peer = _address(request.client.host if request.client else "")
        forwarded = request.headers.getlist("x-forwarded-for")
        given = request.headers.get(AIRFLOW_TOKEN)
        if given is not None and trust.airflow_token is not None:
            self._found(given, {trust.airflow_token: "Airflow"}, peer, _AIRFLOW_VARIABLE)
            address = self._client(peer, forwarded, is_believed=True)
            if name := _name(unquote(request.headers.get(AIRFLOW_USER, "")), AIRFLOW_USER):
                return Caller(address=_text(address), name=name, verification="airflow")
        else:
            address = self._client(peer, forwarded, is_believed=self._is_proxy(peer))
            if self._is_proxy(peer) and trust.user_header and (name := _of_header(request, trust.user_header)):
                return Caller(address=_text(address), name=name, verification="proxy")
        token = token or bearer(request) or ""
        if token and trust.tokens:
            name = self._found(token, trust.tokens, address, _TOKENS_VARIABLE)
            return Caller(address=_text(address), name=name, verification="token")
        return Caller(address=_text(address))

    def _found(
        self, given: str, secrets: Mapping[str, str], address: IPv4Address | IPv6Address | None, variable: str
    ) -> str:
        """Whose secret it is."""
        if wait := self._wrong[variable].wait(_text(address)):
            raise too_often("Secrets were guessed wrong too often.", wait)
        digest, found = sha256(given.encode()).digest(), None
        for secret, name in secrets.items():
            if hmac.compare_digest(sha256(secret.encode()).digest(), digest):
                found = name  # and on: how long it takes tells nobody which one it was
        if found is None:
            self._wrong[variable].take(_text(address))
            raise RefusalError(
                401,
                "Not known",
                f"The token that came with the request is none of this console's. {variable} says which there are.",
                headers={"WWW-Authenticate": "Bearer"},
            )
        return found

    def _is_proxy(self, address: IPv4Address | IPv6Address | None) -> bool:
        return address is not None and any(address in network for network in self._trust.proxies)

    def _client(
        self, peer: IPv4Address | IPv6Address | None, forwarded: Sequence[str], *, is_believed: bool
    ) -> IPv4Address | IPv6Address | None:
        """From where it was asked: each proxy adds on the right who asked it, and what is left of the first that is not
        believed may be anything.
        """
        address = peer
        for word in reversed([word for header in forwarded for word in header.split(",")]):
            if not is_believed or (before := _address(word.strip())) is None:
                break
            address, is_believed = before, self._is_proxy(before)
        return address


def bearer(request: Request) -> str | None:
    """The token of the header Authorization, if it is one."""
    scheme, _, token = request.headers.get("authorization", "").partition(" ")
    return token.strip() or None if scheme.lower() == "bearer" else None


def too_often(what: str, wait_s: int) -> RefusalError:
    """An answer that says when to try again."""
    return RefusalError(
        429, "Too often", f"{what} Try again in {wait_s} s; nothing was changed.", headers={"Retry-After": str(wait_s)}
    )


def _of_header(request: Request, header: str) -> str | None:
    values = [value for name, value in request.headers.raw if name.decode("latin-1") == header.lower()]
    if len(values) > 1:
        raise RefusalError(
            400,
            "Not understood",
            f"The header {header} came {len(values)} times, so who asks is not known. Have the proxy replace what a "
            "browser sends under that name, not add to it.",
        )
    return _name(values[0].decode("utf-8", "replace"), header) if values else None


def _name(given: str, where: str) -> str | None:
    name = given.strip()
    if len(name) > LONGEST_NAME or not all(c.isprintable() for c in name):
        raise RefusalError(
            400, "Not understood", f"The name in {where} is longer than {LONGEST_NAME} characters, or no plain text."
        )
    return name or None


def _address(text: str) -> IPv4Address | IPv6Address | None:
    """Without a zone, which only one machine understands, and as IPv4 where it is that."""
    try:
        found = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    return (found.ipv4_mapped or found) if isinstance(found, IPv6Address) else found


def _text(address: IPv4Address | IPv6Address | None) -> str | None:
    return None if address is None else str(address)
