"""Plans of reassignments in the JSON that Kafka's own tool writes and reads.

``{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}``; what it may
say about log directories beyond "any" is refused, since only moves between brokers are made.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import TextIO

import click

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition

_VERSION = 1


def plan_as_json(plan: Mapping[TopicPartition, Sequence[int]]) -> dict[str, object]:
    return {
        "version": _VERSION,
        "partitions": [
            {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
            for partition, replicas in sorted(plan.items())
        ],
    }


def format_plan(plan: Mapping[TopicPartition, Sequence[int]]) -> str:
    """One partition on each line, so that people can read and edit it."""
    head = f'{{"version":{_VERSION},"partitions":['
    lines = [
        json.dumps(
            {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)},
            separators=(",", ":"),
        )
        for partition, replicas in sorted(plan.items())
    ]
    return f"{head}\n" + ",\n".join(f"  {line}" for line in lines) + "\n]}\n" if lines else f"{head}]}}\n"


def read_plan(file: TextIO) -> dict[TopicPartition, tuple[int, ...]]:
    try:
        return parse_plan(file.read())
    except (ConfigError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from None


def parse_plan(text: str) -> dict[TopicPartition, tuple[int, ...]]:
    """ConfigError says what is wrong with it."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"this is no JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise ConfigError('a plan is an object with "version" and a list of "partitions"')
    if document.get("version", _VERSION) != _VERSION:
        raise ConfigError(f"version {document['version']!r} of the format is unknown, only 1 is")
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(document["partitions"], 1):
        partition, replicas = _entry(entry, number)
        if partition in plan:
            raise ConfigError(f"{partition} is there twice")
        plan[partition] = replicas
    return plan


def _entry(entry: object, number: int) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise ConfigError(f"partition entry {number} is no object")
    topic, index, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
    if not isinstance(topic, str) or not topic or not _is_number(index):
        raise ConfigError(f'partition entry {number} needs a "topic" and a "partition" number')
    assert isinstance(index, int)
    partition = TopicPartition(topic, index)
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise ConfigError(f'{partition} needs "replicas", a list of broker ids')
    if len(set(replicas)) != len(replicas):
        raise ConfigError(f"{partition} names a broker twice: {replicas}")
    if any(directory != "any" for directory in entry.get("log_dirs") or ()):
        raise ConfigError(
            f'{partition} names log directories: only "any" is supported, the broker chooses one'
        )
    return partition, tuple(replicas)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
