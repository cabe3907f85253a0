"""Families of bytes and messages by topic, of requests and of connections."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

from ruslo.broker.metrics import catalog
from ruslo.broker.metrics.exposition import Family, Sample, histogram_samples, labels_text, single
from ruslo.model.errors import ErrorCode

if TYPE_CHECKING:
    from ruslo.broker.counters.api_stats import RequestStats
    from ruslo.broker.counters.traffic import TopicTraffic, Traffic
    from ruslo.net.server import Server

MILLISECOND_NS = 1e6


def traffic_families(traffic: Traffic) -> Iterator[Family]:
    rows = [("", traffic.total())]
    rows += [(labels_text({"topic": topic}), each) for topic, each in traffic.topics.items()]

    def samples(*fields: str) -> Iterator[Sample]:
        return (Sample(labels, sum(_values(each, fields))) for labels, each in rows)

    yield Family(catalog.BYTES_IN, samples("bytes_in"))
    yield Family(catalog.BYTES_OUT, samples("bytes_out"))
    yield Family(catalog.MESSAGES_IN, samples("messages_in"))
    yield Family(catalog.PRODUCE_REQUESTS, samples("appends", "failed_produces"))
    yield Family(catalog.FAILED_PRODUCES, samples("failed_produces"))
    yield Family(catalog.FETCH_REQUESTS, samples("fetches"))
    yield Family(catalog.FAILED_FETCHES, samples("failed_fetches"))
    yield Family(catalog.SHARE_FETCH_REQUESTS, samples("share_fetches"))
    yield Family(catalog.FAILED_SHARE_FETCHES, samples("failed_share_fetches"))
    yield Family(catalog.SHARE_ACKNOWLEDGE_REQUESTS, samples("share_acknowledgements"))
    yield Family(catalog.FAILED_SHARE_ACKNOWLEDGES, samples("failed_share_acknowledgements"))
    yield Family(catalog.REPLICATION_BYTES_IN, samples("replication_bytes_in"))
    yield Family(catalog.REPLICATION_BYTES_OUT, samples("replication_bytes_out"))


def _values(traffic: TopicTraffic, fields: Sequence[str]) -> Iterator[int]:
    return (getattr(traffic, field) for field in fields)


def request_families(requests: RequestStats) -> Iterator[Family]:
    stats = [(name, each) for name, each in requests.by_api.items() if each.durations.count or each.errors]
    yield Family(
        catalog.REQUESTS,
        [Sample(labels_text({"request": name}), each.durations.count) for name, each in stats],
    )
    yield Family(
        catalog.REQUEST_ERRORS,
        [
            Sample(labels_text({"request": name, "error": ErrorCode(code).name}), count)
            for name, each in stats
            for code, count in each.errors.items()
        ],
    )
    yield Family(
        catalog.REQUEST_TIME,
        [
            sample
            for name, each in stats
            for sample in histogram_samples(each.durations, {"request": name}, MILLISECOND_NS)
        ],
    )


def connection_families(servers: Sequence[Server]) -> Iterator[Family]:
    connections = [connection for server in servers for connection in server.connections]
    open_on = Counter(connection.listener_name for connection in connections)
    listeners = {name for server in servers for name in server.listener_names}
    yield Family(
        catalog.CONNECTIONS,
        [Sample(labels_text({"listener": name}), open_on[name]) for name in sorted(listeners)],
    )
    succeeded, failed = Counter[str](), Counter[str]()
    for server in servers:
        succeeded += server.successful_authentications
        failed += server.failed_authentications
    for metric, counts in (
        (catalog.SUCCESSFUL_AUTHENTICATIONS, succeeded),
        (catalog.FAILED_AUTHENTICATIONS, failed),
    ):
        yield Family(
            metric, [Sample(labels_text({"listener": name}), counts[name]) for name in sorted(listeners)]
        )
    pending = sum(connection.pending_responses for connection in connections)
    yield single(catalog.PENDING_REQUESTS, pending)
