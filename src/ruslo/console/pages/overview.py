"""The first page: the health and throughput of the cluster."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable
from typing import TypeVar

from starlette.requests import Request
from starlette.responses import Response

from ruslo.client.views.cluster_health import lost_data
from ruslo.client.views.partition_health import partitions_at_risk
from ruslo.console.console import Console, console_of
from ruslo.console.error_texts import AUTHORIZATION_ERRORS, error_text
from ruslo.console.events import event, stream
from ruslo.console.formats import rate, size
from ruslo.console.health import Health, assess_health, unreachable
from ruslo.console.sampler import Sample
from ruslo.model.errors import KafkaError
from ruslo.runs.report import known_reports

T = TypeVar("T")

_BUSIEST_TOPICS = 8


async def overview(request: Request) -> Response:
    console = console_of(request)
    health = await _health(console)
    snapshot, sampler = console.sampler.last, console.sampler
    busiest = sorted(sampler.topic_rates.items(), key=lambda each: -each[1])[:_BUSIEST_TOPICS]
    return console.page(
        request,
        "overview.html",
        health=health,
        snapshot=snapshot,
        busiest=[(name, value) for name, value in busiest if value > 0],
        last=sampler.samples[-1] if sampler.samples else None,
        has_produce_latency=any(sample.produce_ms is not None for sample in sampler.samples),
        disk_bytes=None if snapshot is None else sum(snapshot.sizes.values()),
        pipelines=[report for report in known_reports() if report.running],
    )


async def _health(console: Console) -> Health:
    try:
        snapshot = await console.sampler.fresh()
        at_risk = await _if_authorized(partitions_at_risk(console.admin, snapshot.topics.values()))
        described = await console.admin.brokers.describe_cluster()
        unfenced = [each.node.id for each in described.brokers if not each.fenced]
        lost = await _if_authorized(lost_data(console.admin, unfenced))
    except (KafkaError, TimeoutError) as error:
        return unreachable(error_text(error))
    fenced = [broker.node.id for broker in described.brokers if broker.fenced]
    return assess_health(snapshot, at_risk, fenced, lost)


async def _if_authorized(query: Awaitable[list[T]]) -> list[T]:
    """Nothing if the user may not query it: the rest of the page does not need it."""
    try:
        return await query
    except KafkaError as error:
        if error.code not in AUTHORIZATION_ERRORS:
            raise
        return []


async def live(request: Request) -> Response:
    return stream(_updates(console_of(request)))


async def _updates(console: Console) -> AsyncIterator[str]:
    """The history, then each new sample."""
    samples = list(console.sampler.samples)
    yield event("samples", [_point(sample) for sample in samples])
    last = samples[-1] if samples else None
    async for _ in console.sampler.updates():
        sampler = console.sampler
        if sampler.problem is not None:
            yield event("problem", f"The cluster is unreachable. {sampler.problem}")
        elif sampler.samples and sampler.samples[-1] is not last:
            last = sampler.samples[-1]
            yield event("samples", [_point(last)])
            yield event("figures", _figures(last))


def _point(sample: Sample) -> list[float | None]:
    produce_ms = sample.produce_ms
    return [round(sample.time_s, 1), sample.records_per_s, sample.bytes_per_s, sample.latency_ms, produce_ms]


def _figures(sample: Sample) -> dict[str, str]:
    """Texts by the id of their HTML element."""
    return {
        "records-rate": f"{rate(sample.records_per_s)}/s",
        "bytes-rate": f"{size(sample.bytes_per_s)}/s",
        "latency": _shown_ms(sample.latency_ms),
        "produce-time": _shown_ms(sample.produce_ms),
    }


def _shown_ms(value: float | None) -> str:
    return "–" if value is None else f"{value:.1f} ms"
