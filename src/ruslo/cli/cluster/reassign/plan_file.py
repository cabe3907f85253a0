"""Reassignment plans in the JSON format of Kafka's tool.

``{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}``; log
directories other than "any" are rejected: ``ruslo cluster reassign log-dir`` moves replicas between them.
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
    """One partition per line, so that the plan is easy to read and edit."""
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
    """Raises ConfigError for an invalid plan."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"Invalid JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise ConfigError('Invalid plan: expected an object with "version" and a list of "partitions"')
    if document.get("version", _VERSION) != _VERSION:
        raise ConfigError(f"Unknown plan version {document['version']!r}: only version 1 is supported")
    plan: dict[TopicPartition, tuple[int, ...]] = {}
    for number, entry in enumerate(document["partitions"], 1):
        partition, replicas = _entry(entry, number)
        if partition in plan:
            raise ConfigError(f"{partition} is listed twice. Remove one of the entries")
        plan[partition] = replicas
    return plan


def _entry(entry: object, number: int) -> tuple[TopicPartition, tuple[int, ...]]:
    if not isinstance(entry, dict):
        raise ConfigError(f"Partition entry {number} is not an object")
    topic, index, replicas = entry.get("topic"), entry.get("partition"), entry.get("replicas")
    if not isinstance(topic, str) or not topic or not _is_number(index):
        raise ConfigError(f'Partition entry {number} needs a "topic" and a "partition" number')
    assert isinstance(index, int)
    partition = TopicPartition(topic, index)
    if not isinstance(replicas, list) or not replicas or not all(map(_is_number, replicas)):
        raise ConfigError(f'{partition} needs "replicas", a list of broker IDs')
    if len(set(replicas)) != len(replicas):
        raise ConfigError(f"{partition} lists a broker twice: {replicas}")
    if any(directory != "any" for directory in entry.get("log_dirs") or ()):
        raise ConfigError(
            f'{partition} lists log directories. Only "any" is supported here: use '
            "'ruslo cluster reassign log-dir' to move replicas between them"
        )
    return partition, tuple(replicas)


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
