"""Topics: the list, a single topic, and the groups that read it."""

from __future__ import annotations

from collections.abc import AsyncIterator
from typing import NamedTuple

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.admin.configs import ConfigSource
from ruslo.client.views.partition_health import risk_of
from ruslo.client.views.topic_view import describe_topic
from ruslo.console.console import Console, console_of
from ruslo.console.events import event, stream
from ruslo.console.formats import rate
from ruslo.console.forms import Form, paged
from ruslo.console.snapshot import Snapshot
from ruslo.model.topics import INTERNAL_TOPICS

_PER_PAGE = 100
_PARTITIONS_PER_PAGE = 200
SORTS = ("name", "partitions", "size", "rate")
_EMBEDDED_ROWS = 10


class TopicRow(NamedTuple):
    name: str
    partitions: int
    replicas: int
    size_bytes: int | None
    records_per_s: float
    worst: str | None
    """The risk of its worst partition, or None."""


async def topics(request: Request) -> Response:
    console, query = console_of(request), Form.of_query(request.query_params)
    snapshot = await console.sampler.fresh()
    search, internal = query.text("q"), query.flag("internal")
    sort = query.choice("sort", SORTS, "name")
    rows = [
        _row(console, snapshot, name)
        for name in snapshot.topics
        if search.lower() in name.lower()
        and (internal or not (snapshot.topics[name].internal or name in INTERNAL_TOPICS))
    ]
    rows.sort(key=lambda row: row.name)
    if sort != "name":
        field = {"partitions": "partitions", "size": "size_bytes", "rate": "records_per_s"}[sort]
        rows.sort(key=lambda row: -(getattr(row, field) or 0))
    return console.page(
        request,
        "topics.html",
        shown=paged(rows, query, _PER_PAGE),
        search=search,
        internal=internal,
        sort=sort,
    )


async def topic(request: Request) -> Response:
    console, name = console_of(request), str(request.path_params["topic"])
    view = await describe_topic(console.admin, name)
    snapshot = await console.sampler.fresh()
    info = snapshot.topics.get(name)
    return console.page(
        request,
        "topic.html",
        topic=name,
        view=view,
        shown=paged(view.partitions, Form.of_query(request.query_params), _PARTITIONS_PER_PAGE),
        records_per_s=console.sampler.topic_rates.get(name, 0.0),
        overrides=[entry for entry in view.configs if entry.source == ConfigSource.TOPIC],
        replicas=len(info.partitions[0].replicas) if info is not None and info.partitions else 0,
    )


async def live(request: Request) -> Response:
    return stream(_updates(console_of(request), str(request.path_params["topic"])))


async def _updates(console: Console, name: str) -> AsyncIterator[str]:
    samples = console.sampler.topic_samples(name)
    yield event("samples", [[round(sample.time_s, 1), sample.records_per_s] for sample in samples])
    last = samples[-1] if samples else None
    async for _ in console.sampler.updates():
        samples = console.sampler.topic_samples(name)
        if samples and samples[-1] is not last:
            newest = last = samples[-1]
            yield event("samples", [[round(newest.time_s, 1), newest.records_per_s]])
            yield event("figures", {"records-rate": f"{rate(newest.records_per_s)}/s"})


def _row(console: Console, snapshot: Snapshot, name: str) -> TopicRow:
    info = snapshot.topics[name]
    return TopicRow(
        name,
        len(info.partitions),
        max((len(each.replicas) for each in info.partitions), default=0),
        snapshot.topic_size(name),
        console.sampler.topic_rates.get(name, 0.0),
        _worst(snapshot, name),
    )


def _worst(snapshot: Snapshot, name: str) -> str | None:
    # min.insync.replicas would need another request per topic; the overview page has it.
    risks = [risk_of(each, 1) for each in snapshot.topics[name].partitions]
    worst = max((risk for risk in risks if risk is not None), default=None)
    return None if worst is None else worst.label


async def topic_groups(request: Request) -> Response:
    """The groups that read a topic, by descending lag; its page embeds the first rows (``few``)."""
    console, name = console_of(request), str(request.path_params["topic"])
    query = Form.of_query(request.query_params)
    await console.admin.topics.describe(name)
    survey = await console.lags.survey()
    found = sorted(survey.readers(name), key=lambda reader: (-(reader.lag or 0), reader.group_id))
    return console.page(
        request,
        "topic_groups.html",
        topic=name,
        shown=paged(found, query, _EMBEDDED_ROWS if query.flag("few") else _PER_PAGE),
        unknown=survey.unknown,
        few=query.flag("few"),
    )
