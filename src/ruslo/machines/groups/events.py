"""What can happen to a group shard, and what it may ask its driver to find out for it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import NamedTuple, TypeAlias

from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.topics_view import TopicsView
from ruslo.machines.machine import AppendCommitted, AppendFailed, Loaded, Requested, TimerFired, Unloaded
from ruslo.model.errors import KafkaError
from ruslo.protocol.message import Message


class RequestInfo(NamedTuple):
    """What is known of a request besides its body."""

    api_version: int
    client_id: str = ""
    """Empty when the client gave none."""
    client_host: str = "/127.0.0.1"
    """As it stands in records and descriptions: ``/`` and the address."""


@dataclass(frozen=True, slots=True)
class MetadataChanged:
    """The cluster's topics changed; from now on ``view`` is what the machine looks topics up in."""

    view: TopicsView
    changed_topics: frozenset[str] = field(default=frozenset())
    """Created, deleted, or with other partitions or replica racks than before."""
    deleted_topics: frozenset[str] = field(default=frozenset())
    """Deleted ones, even if the name was taken again at once: their committed offsets go."""


class ResolvedRegex(NamedTuple):
    topics: tuple[str, ...]
    """Names that match, sorted."""
    metadata_version: int
    """``TopicsView.version`` they were matched against."""
    resolved_ms: int
    """Wall clock."""


@dataclass(frozen=True, slots=True)
class RegexResolved:
    """Answer to ``ResolveRegex``."""

    group_id: str
    resolved: Mapping[str, ResolvedRegex]
    """By pattern."""


@dataclass(frozen=True, slots=True)
class TargetComputed:
    """Answer to ``ComputeTarget``: what ``AssignorPort`` would have given, had it been asked inline."""

    group_id: str
    group_epoch: int
    result: object
    """The assignor's result or its failure; only ``consumer/target.py`` looks inside."""


@dataclass(frozen=True, slots=True)
class ResolveRegex:
    """Match these patterns against all topics, in linear time and off the loop."""

    group_id: str
    patterns: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class ComputeTarget:
    """Run a user's assignor where it can do no harm."""

    group_id: str
    group_epoch: int
    assignor: str
    spec: object


GroupQuery: TypeAlias = ResolveRegex | ComputeTarget
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
)
