"""Reassignment plans in the JSON format of Kafka's tool.

``{"version": 1, "partitions": [{"topic": "orders", "partition": 0, "replicas": [1, 2, 3]}]}``. An entry may
have ``"log_dirs": ["/data/1", "any", "any"]``: the log directory of each replica on its broker.
"""

from __future__ import annotations

import json
from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TextIO

import click

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition

_VERSION = 1
_ANY = "any"
LogDirs = Mapping[int, Mapping[TopicPartition, str]]
"""Log directories by broker and partition."""


@dataclass(frozen=True, slots=True)
class Plan:
    replicas: Mapping[TopicPartition, tuple[int, ...]]
    log_dirs: LogDirs = field(default_factory=dict)
    """The directories that the plan names; other replicas are in any."""

    def only(self, partitions: Container[TopicPartition]) -> Plan:
        replicas = {partition: new for partition, new in self.replicas.items() if partition in partitions}
        log_dirs = {
            broker: {partition: path for partition, path in paths.items() if partition in partitions}
            for broker, paths in self.log_dirs.items()
        }
        return Plan(replicas, {broker: paths for broker, paths in log_dirs.items() if paths})


def plan_as_json(plan: Plan) -> dict[str, object]:
    return {"version": _VERSION, "partitions": _entries(plan)}


def format_plan(plan: Plan) -> str:
    """One partition per line, so that the plan is easy to read and edit."""
    head = f'{{"version":{_VERSION},"partitions":['
    lines = [json.dumps(entry, separators=(",", ":")) for entry in _entries(plan)]
    return f"{head}\n" + ",\n".join(f"  {line}" for line in lines) + "\n]}\n" if lines else f"{head}]}}\n"


def _entries(plan: Plan) -> list[dict[str, object]]:
    entries = []
    for partition, replicas in sorted(plan.replicas.items()):
        entry: dict[str, object] = {
            "topic": partition.topic,
            "partition": partition.partition,
            "replicas": list(replicas),
        }
        paths = [plan.log_dirs.get(broker, {}).get(partition, _ANY) for broker in replicas]
        if any(path != _ANY for path in paths):
            entry["log_dirs"] = paths
        entries.append(entry)
    return entries


def read_plan(file: TextIO) -> Plan:
    try:
        return parse_plan(file.read())
    except (ConfigError, UnicodeDecodeError) as error:
        raise click.ClickException(f"{file.name}: {error}") from None


def parse_plan(text: str) -> Plan:
    """Raises ConfigError for an invalid plan."""
    try:
        document = json.loads(text)
    except ValueError as error:
        raise ConfigError(f"Invalid JSON: {error}") from None
    if not isinstance(document, dict) or not isinstance(document.get("partitions"), list):
        raise ConfigError('Invalid plan: expected an object with "version" and a list of "partitions"')
    if document.get("version", _VERSION) != _VERSION:
        raise ConfigError(f"Unknown plan version {document['version']!r}: only version 1 is supported")
    replicas_of: dict[TopicPartition, tuple[int, ...]] = {}
    log_dirs: dict[int, dict[TopicPartition, str]] = {}
    for number, entry in enumerate(document["partitions"], 1):
        partition, replicas, paths = _entry(entry, number)
        if partition in replicas_of:
            raise ConfigError(f"{partition} is listed twice. Remove one of the entries")
        replicas_of[partition] = replicas
        for broker, path in zip(replicas, paths, strict=True):
            if path != _ANY:
                log_dirs.setdefault(broker, {})[partition] = path
    return Plan(replicas_of, log_dirs)


def _entry(entry: object, number: int) -> tuple[TopicPartition, tuple[int, ...], Sequence[str]]:
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
    paths = entry.get("log_dirs")
    if paths is None:
        paths = [_ANY] * len(replicas)
    if not isinstance(paths, list) or len(paths) != len(replicas):
        raise ConfigError(f'{partition} needs as many "log_dirs" as "replicas": a directory for each')
    wrong = [path for path in paths if not isinstance(path, str) or (path != _ANY and path[:1] != "/")]
    if wrong:
        raise ConfigError(f'{partition} has the log directory {wrong[0]!r}. Write an absolute path, or "any"')
    return partition, tuple(replicas), paths


def _is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0
