"""Parses TOPIC[:PARTITIONS]: ``orders``, ``orders:0,2`` or ``orders:0-3,7``."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

import click

from ruslo.cli.arguments.options import F

if TYPE_CHECKING:
    from ruslo.client.admin.admin import Admin
    from ruslo.model.topics import TopicPartition

_RANGE = re.compile(r"(\d{1,9})(?:-(\d{1,9}))?\Z")
_MAX_RANGE_PARTITIONS = 100_000


class Scope(NamedTuple):
    topic: str
    partitions: tuple[int, ...] | None
    """None means all partitions."""


def scopes_callback(ctx: click.Context, param: click.Parameter, values: Sequence[str]) -> list[Scope]:
    try:
        return [parse_scope(value) for value in values]
    except ValueError as error:
        raise click.BadParameter(str(error), ctx, param) from None


def scopes_option(purpose: str) -> Callable[[F], F]:
    """``--topic TOPIC[:PARTITIONS]``, which fills the parameter ``scopes``."""
    return click.option(
        "--topic",
        "scopes",
        multiple=True,
        metavar="TOPIC[:PARTITIONS]",
        callback=scopes_callback,
        help=f"{purpose}: orders, orders:0,2 or orders:0-3. Repeatable.",
    )


def parse_scope(text: str) -> Scope:
    topic, separator, numbers = text.partition(":")
    if not topic:
        raise ValueError(f"{text!r} has no topic name. Write TOPIC or TOPIC:PARTITIONS")
    if not separator:
        return Scope(topic, None)
    found: set[int] = set()
    for part in numbers.split(","):
        match = _RANGE.match(part.strip())
        first, last = (0, -1) if match is None else (int(match[1]), int(match[2] or match[1]))
        if not 0 <= last - first < _MAX_RANGE_PARTITIONS:
            raise ValueError(f"{part!r} in {text!r} is not a partition. Write {topic}:0,2 or {topic}:0-3")
        found.update(range(first, last + 1))
    return Scope(topic, tuple(sorted(found)))


async def partitions_in(admin: Admin, scopes: Iterable[Scope]) -> list[TopicPartition]:
    """All partitions of the scopes. Raises KafkaError for a topic that does not exist."""
    from ruslo.model.topics import TopicPartition

    found: dict[TopicPartition, None] = {}
    for scope in scopes:
        topic = await admin.topics.describe(scope.topic)
        numbers = [p.partition for p in topic.partitions] if scope.partitions is None else scope.partitions
        found |= dict.fromkeys(TopicPartition(scope.topic, number) for number in numbers)
    return sorted(found)
