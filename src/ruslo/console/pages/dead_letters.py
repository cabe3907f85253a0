"""Dead letters go back to the topic they came from, a bounded number at a time."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.librdkafka.consumer import ConsumedRecord
from ruslo.client.wire.raw import RawClient
from ruslo.console.confirming import Preview, is_confirmed
from ruslo.console.console import Console, console_of, form_of
from ruslo.console.formats import count, plural
from ruslo.console.forms import Form, FormMistake
from ruslo.console.messages.reading import PARTITIONS_MAX, Budget, Filter, RecordReader
from ruslo.console.problems import reason
from ruslo.console.render import link
from ruslo.model.errors import KafkaError
from ruslo.model.topics import TopicPartition
from ruslo.records.builder import build_batch
from ruslo.records.record import Record
from ruslo.runs.dead_letters import ABOUT_IT, Origin, origin_of

_LETTERS_MAX = 1000
_BATCH_BYTES = 512 * 1024
_REPLAY_S = 12.0
_REASONS_SHOWN = 8


class Letters(NamedTuple):
    records: tuple[ConsumedRecord, ...]
    origins: Mapping[tuple[int, int], Origin]
    """By partition and offset of the letter."""
    strangers: int
    """Records without a word on where they came from."""
    places: Mapping[int, int]
    """By partition where reading ended."""
    has_more: bool


async def replay(request: Request) -> Response:
    console, form = console_of(request), form_of(request)
    topic = request.query_params.get("topic", "")
    preview, mistake = None, None
    try:
        letters = await _read(console, topic)
        if not letters.records:
            raise FormMistake(f"There are no dead letters in {topic}.")
        if request.method == "POST" and is_confirmed(form):
            sent = await _send(console, letters)
            text = f"{plural(sent, 'dead letter')} went back."
            if form.flag("remove"):
                await console.admin.topics.delete_records(
                    {TopicPartition(topic, number): place for number, place in letters.places.items()}
                )
                text += f" {'It was' if sent == 1 else 'They were'} removed from {topic}."
            return console.done("/pipelines", text)
        preview = _preview(topic, letters)
    except (FormMistake, KafkaError) as error:
        mistake = reason(error)
    return console.page(
        request,
        "dead_letters.html",
        status=422 if mistake else 200,
        action=link("/dead-letters/replay", topic=topic),
        topic=topic,
        preview=preview,
        mistake=mistake,
    )


async def _read(console: Console, topic: str) -> Letters:
    info = await console.admin.topics.describe(topic)
    numbers = [each.partition for each in info.partitions if each.leader_id >= 0][:PARTITIONS_MAX]
    reader = RecordReader(console.admin)
    ranges = await reader.ranges(topic, numbers)
    starts = {number: first for number, (first, _) in ranges.items()}
    found = await reader.forwards(topic, starts, ranges, Filter(), _LETTERS_MAX, Budget(_REPLAY_S))
    origins = {
        (record.partition, record.offset): origin
        for record in found.records
        if (origin := origin_of(record.headers)) is not None
    }
    places = {number: found.places.get(number, end) for number, (_, end) in ranges.items()}
    return Letters(
        tuple(record for record in found.records if (record.partition, record.offset) in origins),
        origins,
        len(found.records) - len(origins),
        places,
        bool(found.places),
    )


def _preview(topic: str, letters: Letters) -> Preview:
    targets = Counter(origin.topic for origin in letters.origins.values())
    reasons = Counter(origin.reason for origin in letters.origins.values()).most_common(_REASONS_SHOWN)
    notes = ["They will fail again unless the pipeline or the reason has changed."]
    if letters.strangers:
        notes.append(f"{plural(letters.strangers, 'record')} without a word on their origin are left out.")
    if letters.has_more:
        notes.append(f"There are more: these are the first {count(len(letters.records))}.")
    return Preview(
        title=f"Replay {plural(len(letters.records), 'dead letter')} of {topic}",
        facts=[(f"To {name}", plural(number, "record")) for name, number in targets.items()],
        warning=" ".join(notes),
        button="Replay them",
        form=Form({}),
        back="/pipelines",
        headings=("Reason", "Letters"),
        rows=reasons,
    )


async def _send(console: Console, letters: Letters) -> int:
    """Key, value and headers as they were, to the partition they came from, now."""
    raw = RawClient(console.admin.cluster)
    by_place: dict[TopicPartition, list[ConsumedRecord]] = {}
    for record in letters.records:
        origin = letters.origins[record.partition, record.offset]
        by_place.setdefault(TopicPartition(origin.topic, origin.partition), []).append(record)
    for place, records in by_place.items():
        for part in _batches(records):
            await raw.produce({place: build_batch(part)})
    return len(letters.records)


def _batches(records: Iterable[ConsumedRecord]) -> Iterable[list[Record]]:
    waiting: list[Record] = []
    size_bytes = 0
    for record in records:
        headers = tuple(header for header in record.headers if header[0] not in ABOUT_IT)
        length = len(record.key or b"") + len(record.value or b"") + sum(len(v or b"") for _, v in headers)
        if waiting and size_bytes + length > _BATCH_BYTES:
            yield waiting
            waiting, size_bytes = [], 0
        waiting.append(Record(len(waiting), record.timestamp_ms, record.key, record.value, headers))
        size_bytes += length
    if waiting:
        yield waiting
