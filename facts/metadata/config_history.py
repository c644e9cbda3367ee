"""The history of settings: which values were in force, and since which record of the metadata log.

In: each config's changes, as the replay of the metadata log tells them. Out: `SettingCourse`, what a topic's setting
was from one record to the next: its own value, a broker's or the cluster's dynamic default, else what stands in the
brokers' properties. What was done in the past was done under the value of then. Where only a metadata snapshot states a
value, nothing is known of what was in force before it, and a default that a broker's properties may change is marked as
assumed.

    record      0 ..... 210 ............ 950 ..... 955 ............. log's end
    course      604800000   86400000     1000      86400000
                (broker)    (topic)      (topic)   (topic)

Source: ConfigurationControlManager, ConfigRecord, KafkaConfigSchema#resolveEffectiveTopicConfig; KIP-226.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final

ConfigKey = tuple[int, str, str]
"""Resource type, resource name, config name."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ConfigChange:
    """A record that sets a config, or takes it away (None).

    `in_force_offset`: the last record of its batch or metadata transaction, with which it comes into force. `at_ms` is
    None where a metadata snapshot states it: since when is not known.
    """

    metadata_offset: int
    in_force_offset: int
    at_ms: int | None
    value: str | None


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingStep:
    """A value, from a record on. `assumed`: it is Kafka's default, where a broker's properties may say otherwise."""

    value: str
    assumed: bool
    since_offset: int
    since_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Since:
    """From when on values count: what came into force at or behind this record, or at or after this instant.

    Either may be missing; without both everything counts that is known. The instant is of another machine's clock than
    the records', so whoever gives it leaves room for that.
    """

    offset: int | None = None
    at_ms: int | None = None


EVER: Final = Since()


@dataclass(frozen=True, slots=True, kw_only=True)
class SettingCourse:
    """A setting's values in order, oldest first; there is always one.

    `from_offset` and `from_ms`: since when it is known. It is `whole` where that is as long as its topic exists.
    `beside` are the values in order of each broker that has the setting for itself.
    """

    steps: tuple[SettingStep, ...]
    from_offset: int
    from_ms: int | None
    whole: bool
    beside: tuple[tuple[SettingStep, ...], ...] = ()

    def in_force(self, since: Since = EVER) -> tuple[SettingStep, ...]:
        """The values that were in force at some time since then, the one that was when it began among them."""
        return tuple(step for steps in (self.steps, *self.beside) for step in _in_force(steps, since))

    def reaches(self, since: Since = EVER) -> bool:
        """Whether all values are known that were in force since then."""
        if self.whole:
            return True
        by_offset = since.offset is not None and self.from_offset <= since.offset
        by_clock = since.at_ms is not None and self.from_ms is not None and self.from_ms <= since.at_ms
        return by_offset or by_clock

    def known(self, since: Since = EVER) -> bool:
        """Whether none of these values is a mere default."""
        return not any(step.assumed for step in self.in_force(since))

    def ever(self, value: str, since: Since = EVER) -> bool:
        """Whether one of these values names another: a policy may be a list of two."""
        return any(value in map(str.strip, step.value.split(",")) for step in self.in_force(since))

    def numbers(self, since: Since = EVER) -> tuple[int, ...]:
        """These values as whole numbers; what is none is without limit."""
        return tuple(_number(step.value) for step in self.in_force(since))


def _in_force(steps: tuple[SettingStep, ...], since: Since) -> tuple[SettingStep, ...]:
    first = 0
    for at, step in enumerate(steps[1:] if since != EVER else (), 1):
        over_by_offset = since.offset is None or step.since_offset < since.offset
        over_by_clock = since.at_ms is None or step.since_ms is None or step.since_ms < since.at_ms
        if not (over_by_offset and over_by_clock):
            break
        first = at
    return steps[first:]


def _number(text: str) -> int:
    return int(text) if text.lstrip("-").isascii() and text.lstrip("-").isdigit() else -1


@dataclass(frozen=True, slots=True, kw_only=True)
class Birth:
    """Since when a topic's settings are known: since it was `created`, or since the metadata log tells of it.

    `known_from_offset`, `known_from_ms`: behind what could not be read of the metadata log.
    """

    offset: int
    at_ms: int | None
    created: bool
    known_from_offset: int
    known_from_ms: int | None


def course(
    layers: Sequence[Sequence[ConfigChange]],
    birth: Birth,
    *,
    static: str,
    static_assumed: bool,
    beside: tuple[tuple[SettingStep, ...], ...] = (),
) -> SettingCourse:
    """One setting's course. `layers`: the changes of each config that may say it, the one that goes first, first.

    `static`: what is in force where none of them says anything.
    """
    moments = sorted({c.in_force_offset for of_layer in layers for c in of_layer if c.in_force_offset > birth.offset})
    steps: list[SettingStep] = []
    for offset in (birth.offset, *moments):
        said = next((v for of_layer in layers if (v := _value_at(of_layer, offset)) is not None), None)
        value, assumed = (static, static_assumed) if said is None else (said, False)
        if steps and (steps[-1].value, steps[-1].assumed) == (value, assumed):
            continue
        at_ms = birth.at_ms if offset == birth.offset else _instant_of(layers, offset)
        steps.append(SettingStep(value=value, assumed=assumed, since_offset=offset, since_ms=at_ms))
    return SettingCourse(
        steps=tuple(steps),
        from_offset=birth.known_from_offset,
        from_ms=birth.known_from_ms,
        whole=birth.created and birth.known_from_offset <= birth.offset,
        beside=beside,
    )


def _value_at(changes: Sequence[ConfigChange], offset: int) -> str | None:
    found = None
    for change in changes:
        if change.in_force_offset > offset:
            break
        found = change.value
    return found


def _instant_of(layers: Sequence[Sequence[ConfigChange]], offset: int) -> int | None:
    instants = (c.at_ms for of_layer in layers for c in of_layer if c.in_force_offset == offset and c.at_ms is not None)
    return max(instants, default=None)
