"""Offsets in a file: the CSV that Kafka's own tool writes and reads, or JSON.

A line is ``topic,partition,offset``, or ``group,topic,partition,offset`` where a file holds several groups;
JSON is a list of objects with these names.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition


def parse_offsets(text: str, group_id: str) -> dict[TopicPartition, int]:
    """What the file says about the group; ConfigError names the line that is wrong."""
    rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text)
    offsets: dict[TopicPartition, int] = {}
    others = set()
    for place, (group, topic, partition, offset) in rows:
        if group is not None and group != group_id:
            others.add(group)
            continue
        key = TopicPartition(topic, _number(partition, f"{place}: the partition"))
        if key in offsets:
            raise ConfigError(f"{place}: {key} is there twice; leave one of them")
        offsets[key] = _number(offset, f"{place}: the offset")
    if not offsets:
        about = f"; it is about {', '.join(map(repr, sorted(others)))}" if others else ""
        raise ConfigError(f"the file says nothing about group {group_id!r}{about}")
    return offsets


def format_csv(offsets: Mapping[TopicPartition, int]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for partition, offset in sorted(offsets.items()):
        writer.writerow([partition.topic, partition.partition, offset])
    return out.getvalue()


def as_rows(offsets: Mapping[TopicPartition, int]) -> list[dict[str, object]]:
    """For JSON."""
    return [
        {"topic": partition.topic, "partition": partition.partition, "offset": offset}
        for partition, offset in sorted(offsets.items())
    ]


_Row = tuple[str, tuple[str | None, str, object, object]]


def _csv_rows(text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text))
    for fields in reader:
        place = f"line {reader.line_num}"
        match [field.strip() for field in fields]:
            case []:
                continue
            case [topic, partition, offset]:
                yield place, (None, topic, partition, offset)
            case [group, topic, partition, offset]:
                yield place, (group, topic, partition, offset)
            case _:
                raise ConfigError(
                    f"{place} has {len(fields)} fields; write topic,partition,offset "
                    "or group,topic,partition,offset"
                )


def _json_rows(text: str) -> Iterator[_Row]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"line {error.lineno} is no JSON: {error.msg}") from None
    if not isinstance(rows, list):
        raise ConfigError('the JSON is no list of {"topic": …, "partition": …, "offset": …}')
    for number, row in enumerate(rows, 1):
        place = f"entry {number}"
        if not isinstance(row, dict) or not isinstance(row.get("topic"), str):
            raise ConfigError(f'{place} is no object with "topic", "partition" and "offset"')
        group = row.get("group")
        yield (
            place,
            (None if group is None else str(group), row["topic"], row.get("partition"), row.get("offset")),
        )


def _number(value: object, what: str) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ConfigError(f"{what} must be a number from 0 on, not {value!r}")
    return number
