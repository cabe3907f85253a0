"""Files of offsets: the CSV format of Kafka's tool, or JSON.

A CSV line is ``topic,partition,offset``, or ``group,topic,partition,offset`` for several groups. JSON is a
list of objects with these fields.
"""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterator, Mapping

from ruslo.model.errors import ConfigError
from ruslo.model.topics import TopicPartition


def parse_offsets(text: str, group_id: str) -> dict[TopicPartition, int]:
    """The offsets of the group. Raises ConfigError, which names the invalid line."""
    rows = _json_rows(text) if text.lstrip().startswith(("[", "{")) else _csv_rows(text)
    offsets: dict[TopicPartition, int] = {}
    others = set()
    for location, (group, topic, partition, offset) in rows:
        if group is not None and group != group_id:
            others.add(group)
            continue
        key = TopicPartition(topic, _number(partition, f"{location}: the partition"))
        if key in offsets:
            raise ConfigError(f"{location}: {key} is listed twice. Remove one of the entries")
        offsets[key] = _number(offset, f"{location}: the offset")
    if not offsets:
        about = f"; it has offsets of {', '.join(map(repr, sorted(others)))}" if others else ""
        raise ConfigError(f"The file has no offsets of group {group_id!r}{about}")
    return offsets


def format_csv(offsets: Mapping[TopicPartition, int]) -> str:
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    for partition, offset in sorted(offsets.items()):
        writer.writerow([partition.topic, partition.partition, offset])
    return out.getvalue()


def as_rows(offsets: Mapping[TopicPartition, int]) -> list[dict[str, object]]:
    """The JSON rows of the offsets."""
    return [
        {"topic": partition.topic, "partition": partition.partition, "offset": offset}
        for partition, offset in sorted(offsets.items())
    ]


_Row = tuple[str, tuple[str | None, str, object, object]]


def _csv_rows(text: str) -> Iterator[_Row]:
    reader = csv.reader(io.StringIO(text))
    for fields in reader:
        location = f"line {reader.line_num}"
        match [field.strip() for field in fields]:
            case []:
                continue
            case [topic, partition, offset]:
                yield location, (None, topic, partition, offset)
            case [group, topic, partition, offset]:
                yield location, (group, topic, partition, offset)
            case _:
                raise ConfigError(
                    f"{location} has {len(fields)} fields. Write topic,partition,offset "
                    "or group,topic,partition,offset"
                )


def _json_rows(text: str) -> Iterator[_Row]:
    try:
        rows = json.loads(text)
    except json.JSONDecodeError as error:
        raise ConfigError(f"Invalid JSON in line {error.lineno}: {error.msg}") from None
    if not isinstance(rows, list):
        raise ConfigError('Invalid JSON: expected a list of {"topic": …, "partition": …, "offset": …}')
    for number, row in enumerate(rows, 1):
        location = f"entry {number}"
        if not isinstance(row, dict) or not isinstance(row.get("topic"), str):
            raise ConfigError(f'{location} is not an object with "topic", "partition" and "offset"')
        group = row.get("group")
        yield (
            location,
            (None if group is None else str(group), row["topic"], row.get("partition"), row.get("offset")),
        )


def _number(value: object, what: str) -> int:
    number = int(value) if isinstance(value, str) and value.isdecimal() else value
    if not isinstance(number, int) or isinstance(number, bool) or number < 0:
        raise ConfigError(f"{what} must be an integer of 0 or more, not {value!r}")
    return number
