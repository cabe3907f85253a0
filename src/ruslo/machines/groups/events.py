"""The events of a group shard, and the queries that its driver executes for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ruslo.machines.assignors.streams.model import GroupSpec, Topology
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.share.events import ShareQuery, ShareResult
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.machine import AppendCommitted, AppendFailed, Loaded, Requested, TimerFired, Unloaded
from ruslo.model.errors import KafkaError
from ruslo.model.ids import Uuid
from ruslo.model.principals import ANONYMOUS, Principal
from ruslo.protocol.message import Message


class RequestInfo(NamedTuple):
    """The properties of a request besides its body."""

    api_version: int
    client_id: str = ""
    """Empty if the client did not send one."""
    client_host: str = "/127.0.0.1"
    """The form of records and descriptions: ``/`` and the address."""
    principal: Principal = ANONYMOUS


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """The cluster's topics changed; the machine looks them up in ``view`` from now on."""

    view: TopicsView
    changed_topics: frozenset[str] = field(default=frozenset())
    """Topics that were created or deleted, or have other partitions or replica racks than before."""
    deleted_topics: frozenset[str] = field(default=frozenset())
    """Deleted topics, even if they were recreated at once: their committed offsets are removed."""
    deleted_topic_ids: frozenset[Uuid] = field(default=frozenset())


class ResolvedRegex(NamedTuple):
    topics: tuple[str, ...]
    """The matching topic names, sorted."""
    metadata_version: int
    """The ``TopicsView.version`` of the match."""
    resolved_ms: int
    """The wall-clock time of the match."""


@dataclass(frozen=True, slots=True)
class RegexResolved:
    """The result of ``ResolveRegex``."""

    group_id: str
    resolved: Mapping[str, ResolvedRegex]
    """By pattern."""


@dataclass(frozen=True, slots=True)
class TargetComputed:
    """The result of ``ComputeTarget`` or ``ComputeTasks``: what assignors return that run inline."""

    group_id: str
    group_epoch: int
    result: object
    """The assignor's result or its failure; only the ``target.py`` of the group's kind reads it."""


@dataclass(frozen=True, slots=True)
class ResolveRegex:
    """A query: match these regular expressions against all topics, outside the event loop."""

    group_id: str
    patterns: tuple[str, ...]
    principal: Principal = ANONYMOUS
    """The result contains only topics that this client may describe."""
    host: str = ""


@dataclass(frozen=True, slots=True)
class ComputeTarget:
    """A query: run an assignor outside the event loop."""

    group_id: str
    group_epoch: int
    assignor: str
    spec: object


@dataclass(frozen=True, slots=True)
class ComputeTasks:
    """A query: run a task assignor outside the event loop. ``TargetComputed`` has its result."""

    group_id: str
    group_epoch: int
    assignor: str
    spec: GroupSpec
    topology: Topology


GroupQuery: TypeAlias = ResolveRegex | ComputeTarget | ComputeTasks | ShareQuery
GroupEvent: TypeAlias = (
    Requested[Message, RequestInfo]
    | MetadataChanged
    | Loaded
    | Unloaded
    | TimerFired
    | AppendCommitted[GroupRecord, Message | KafkaError, GroupQuery]
    | AppendFailed[GroupRecord, Message | KafkaError, GroupQuery]
    | RegexResolved
    | TargetComputed
    | ShareResult
)
