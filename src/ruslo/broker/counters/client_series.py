"""The metrics that clients have pushed (KIP-714), as the series that a scrape exports.

``org.apache.kafka.consumer.fetch.manager.fetch.latency.avg`` becomes
``kafka_client_consumer_fetch_manager_fetch_latency_avg``. Monotonic sums become counters and end with
``_total``; changes since the last push are added up.

A client's push replaces its gauges: those that it leaves out are gone. Its counters and histograms stay until
the state of the client expires. The series of each client, and of all clients together, are limited.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from math import isnan
from typing import Final, Literal, TypeAlias

from ruslo.model.ids import Uuid
from ruslo.protocol.otlp_metrics import HistogramPoint, NumberPoint, Point

MAX_SERIES: Final = 50_000
MAX_SERIES_PER_CLIENT: Final = 1_000
PREFIX: Final = "kafka_client_"

_KAFKA_PREFIX: Final = "org.apache.kafka."
_HISTOGRAM_SUFFIXES: Final = ("_bucket", "_sum", "_count")
_FOREIGN_CHARACTERS: Final = re.compile(r"[^a-zA-Z0-9]+")
_BUCKET_LABEL: Final = "le"
_LEFT_OUT: Final = ("group_member_id", "member_id")
"""Labels that change while the client runs: each rebalance could begin new series."""

Kind: TypeAlias = Literal["counter", "gauge", "histogram"]
Labels: TypeAlias = tuple[tuple[str, str], ...]


@dataclass(slots=True, eq=False)
class Histogram:
    bounds: tuple[float, ...]
    counts: tuple[int, ...]
    total: float


@dataclass(slots=True, eq=False)
class SeriesFamily:
    """The series of all clients with one name."""

    source_name: str
    """The name that clients use."""
    kind: Kind
    series: dict[Labels, float | Histogram] = field(default_factory=dict)


class ClientSeries:
    def __init__(
        self, max_series: int = MAX_SERIES, max_series_per_client: int = MAX_SERIES_PER_CLIENT
    ) -> None:
        self._max_series = max_series
        self._max_series_per_client = max_series_per_client
        self._of_client: dict[Uuid, set[tuple[str, Labels]]] = {}
        self.families: dict[str, SeriesFamily] = {}
        self.count = 0
        self.dropped = 0
        """Data points that were not exported, because of a limit or because other clients use the name for
        another kind of metric."""

    def update(
        self, client: Uuid, labels: Mapping[str, str], points: Sequence[Point], is_known: Callable[[], bool]
    ) -> Iterator[None]:
        """Export a push, in steps. ``is_known``: False once the state of the client is dropped."""
        own = self._of_client.setdefault(client, set())
        pushed: set[tuple[str, Labels]] = set()
        for point in points:
            if self._of_client.get(client) is not own or not is_known():
                break
            key = self._set(own, labels, point)
            if key is not None:
                pushed.add(key)
            yield
        if self._of_client.get(client) is not own:
            # The series were removed meanwhile; a later push may have added others.
            return
        if not is_known():
            self.remove(client)
            return
        for name, each in [key for key in own if key not in pushed]:
            if self.families[name].kind == "gauge":
                own.discard((name, each))
                self._drop(name, each)
        if not own:
            self._of_client.pop(client, None)

    def remove(self, client: Uuid) -> None:
        for name, labels in self._of_client.pop(client, ()):
            self._drop(name, labels)

    def _set(
        self, own: set[tuple[str, Labels]], client_labels: Mapping[str, str], point: Point
    ) -> tuple[str, Labels] | None:
        """Return the key of the exported series; None if the point is not exported."""
        kind = _kind_of(point)
        name = prometheus_name(point.name, is_counter=kind == "counter")
        if name is None or (kind != "histogram" and isnan(_number(point))):
            return None
        labels = _labels(point.attributes, client_labels)
        key = (name, labels)
        family = self.families.get(name)
        if key not in own:
            has_room = self.count < self._max_series and len(own) < self._max_series_per_client
            if not has_room or not self._fits(name, kind, family):
                self.dropped += 1
                return None
            if family is None:
                family = self.families[name] = SeriesFamily(point.name, kind)
            own.add(key)
            self.count += 1
        assert family is not None
        if family.kind != kind:
            self.dropped += 1
            return None
        family.series[labels] = _value(point, family.series.get(labels))
        return key

    def _fits(self, name: str, kind: Kind, family: SeriesFamily | None) -> bool:
        """A name has one kind, and a histogram reserves three more names."""
        if family is not None:
            return family.kind == kind
        if kind == "histogram":
            return not any(name + suffix in self.families for suffix in _HISTOGRAM_SUFFIXES)
        return not any(
            name.endswith(suffix)
            and (base := self.families.get(name.removesuffix(suffix))) is not None
            and base.kind == "histogram"
            for suffix in _HISTOGRAM_SUFFIXES
        )

    def _drop(self, name: str, labels: Labels) -> None:
        family = self.families[name]
        del family.series[labels]
        self.count -= 1
        if not family.series:
            del self.families[name]


@lru_cache(maxsize=4096)
def prometheus_name(name: str, *, is_counter: bool) -> str | None:
    """The exported name of a client's metric; None for a name without letters or digits."""
    short = _FOREIGN_CHARACTERS.sub("_", name.removeprefix(_KAFKA_PREFIX)).strip("_").lower()
    if not short:
        return None
    suffix = "_total" if is_counter and not short.endswith("_total") else ""
    return f"{PREFIX}{short}{suffix}"


@lru_cache(maxsize=4096)
def _label_name(attribute: str) -> str:
    name = _FOREIGN_CHARACTERS.sub("_", attribute).strip("_").lower() or "attribute"
    return f"attribute_{name}" if name[0].isdigit() or name == _BUCKET_LABEL else name


def _labels(attributes: Mapping[str, str], client_labels: Mapping[str, str]) -> Labels:
    """The labels of the client come first, and no attribute replaces them."""
    labels = {_label_name(name): value for name, value in attributes.items()}
    hidden = (*client_labels, *_LEFT_OUT)
    return (*client_labels.items(), *sorted(each for each in labels.items() if each[0] not in hidden))


def _kind_of(point: Point) -> Kind:
    if isinstance(point, HistogramPoint):
        return "histogram"
    return "counter" if point.is_counter else "gauge"


def _number(point: Point) -> float:
    return point.value if isinstance(point, NumberPoint) else point.total


def _value(point: Point, known: float | Histogram | None) -> float | Histogram:
    """A change since the last push is added to the known value."""
    if isinstance(point, NumberPoint):
        return known + point.value if point.is_delta and isinstance(known, int | float) else point.value
    if point.is_delta and isinstance(known, Histogram) and known.bounds == point.bounds:
        counts = tuple(map(int.__add__, known.counts, point.counts)) if known.counts else point.counts
        return Histogram(point.bounds, counts, known.total + point.total)
    return Histogram(point.bounds, point.counts, point.total)
