"""Replays dead letters to the topics they came from, a limited number at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.client.wire.raw import RawClient
from ruslo.console.confirmation import Preview, is_confirmed
from ruslo.console.console import Console, FormResult, console_of, form_of
from ruslo.console.formats import count, plural
from ruslo.console.forms import Form, FormError
from ruslo.console.messages.reading import PARTITIONS_MAX, Budget, Filter, RecordReader
from ruslo.console.render import link
from ruslo.model.topics import TopicPartition
from ruslo.records.record import Record
from ruslo.runs.dead_letters import ORIGIN_HEADERS, Origin, origin_of, record_batches

_REPLAY_RECORDS_MAX = 1000
_REPLAY_TIMEOUT_S = 12.0
_REASONS_MAX = 8


class DeadLetters(NamedTuple):
    records: tuple[ConsumedRecord, ...]
    origins: Mapping[tuple[int, int], Origin]
    """Origins by partition and offset of the dead letter."""
    without_origin: int
    """The number of records without origin headers."""
    positions: Mapping[int, int]
    """The offsets after the records that were read, by partition."""
    has_more: bool


async def replay(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    topic = request.query_params.get("topic", "")
    result = FormResult()
    with result:
        letters = await _read(console, topic)
        if not letters.records:
            raise FormError(f"{topic} has no dead letters.")
        if request.method == "POST" and is_confirmed(form):
            sent = await _send(console, letters)
            text = f"{plural(sent, 'dead letter')} {'was' if sent == 1 else 'were'} replayed."
            if form.flag("remove"):
                await console.admin.topics.delete_records(
                    {TopicPartition(topic, number): offset for number, offset in letters.positions.items()}
                )
                text += f" {'It was' if sent == 1 else 'They were'} deleted from {topic}."
            return console.done("/pipelines", text)
        result.preview = _preview(topic, letters)
    return console.form_page(
        request,
        "dead_letters.html",
        result,
        action=link("/dead-letters/replay", topic=topic),
        topic=topic,
    )


async def _read(console: Console, topic: str) -> DeadLetters:
    info = await console.admin.topics.describe(topic)
    numbers = [each.partition for each in info.partitions if each.leader_id >= 0][:PARTITIONS_MAX]
    reader = RecordReader(console.admin)
    ranges = await reader.ranges(topic, numbers)
    starts = {number: first for number, (first, _) in ranges.items()}
    found = await reader.forwards(
        topic, starts, ranges, Filter(), _REPLAY_RECORDS_MAX, Budget(_REPLAY_TIMEOUT_S)
    )
    origins = {
        (record.partition, record.offset): origin
        for record in found.records
        if (origin := origin_of(record.headers)) is not None
    }
    positions = {number: found.positions.get(number, end) for number, (_, end) in ranges.items()}
    return DeadLetters(
        tuple(record for record in found.records if (record.partition, record.offset) in origins),
        origins,
        len(found.records) - len(origins),
        positions,
        bool(found.positions),
    )


def _preview(topic: str, letters: DeadLetters) -> Preview:
    targets = Counter(origin.topic for origin in letters.origins.values())
    reasons = Counter(origin.reason for origin in letters.origins.values()).most_common(_REASONS_MAX)
    notes = ["They fail again unless the cause is fixed."]
    if letters.without_origin:
        notes.append(f"{plural(letters.without_origin, 'record')} without origin headers are left out.")
    if letters.has_more:
        notes.append(f"The topic has more; these are the first {count(len(letters.records))}.")
    return Preview(
        title=f"Replay {plural(len(letters.records), 'dead letter')} of {topic}",
        facts=[(f"To {name}", plural(number, "record")) for name, number in targets.items()],
        warning=" ".join(notes),
        button="Replay",
        form=Form({}),
        back="/pipelines",
        headings=("Reason", "Dead letters"),
        rows=reasons,
    )


async def _send(console: Console, letters: DeadLetters) -> int:
    """Produce the records with their key, value and headers to their original partitions."""
    raw = RawClient(console.admin.cluster)
    by_partition: dict[TopicPartition, list[ConsumedRecord]] = {}
    for record in letters.records:
        origin = letters.origins[record.partition, record.offset]
        by_partition.setdefault(TopicPartition(origin.topic, origin.partition), []).append(record)
    for tp, records in by_partition.items():
        for batch in record_batches(map(_without_origin, records)):
            await raw.produce({tp: batch})
    return len(letters.records)


def _without_origin(record: ConsumedRecord) -> Record:
    headers = tuple(header for header in record.headers if header[0] not in ORIGIN_HEADERS)
    return Record(0, record.timestamp_ms, record.key, record.value, headers)
