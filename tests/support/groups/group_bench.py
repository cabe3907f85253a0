"""A group shard with a list as its log and a clock that the test advances.

The log holds bytes, so records pass through their codecs too.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import count
from typing import NamedTuple, Protocol

from ruslo.machines.groups.consumer.ports import AssignorPort, InlineAssignors
from ruslo.machines.groups.errors import error_response
from ruslo.machines.groups.events import GroupQuery, MetadataChanged, RequestInfo
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.records import EndTxnMarker, GroupRecord, Producer
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.groups.topics_view import TopicInfo
from ruslo.machines.machine import (
    AppendCommitted,
    AppendFailed,
    Loaded,
    Unloaded,
)
from ruslo.model.ids import Uuid
from ruslo.protocol.coordinator_records import GROUP_RECORDS
from ruslo.protocol.message import Message
from tests.support.machines.coordinator_bench import CoordinatorBench, MessageT


def topic_id(number: int) -> Uuid:
    return number.to_bytes(16, "big")


class Topics:
    """A topics view made of a dict of partition counts."""

    def __init__(self, partitions: dict[str, int], version: int = 0, first_id: int = 1_000) -> None:
        self.version = version
        self._by_name = {
            name: TopicInfo(name, topic_id(first_id + number), size)
            for number, (name, size) in enumerate(partitions.items())
        }
        self._by_id = {topic.id: topic for topic in self._by_name.values()}

    def by_name(self, name: str) -> TopicInfo | None:
        return self._by_name.get(name)

    def by_id(self, topic_id: Uuid) -> TopicInfo | None:
        return self._by_id.get(topic_id)

    def all_names(self) -> Iterable[str]:
        return self._by_name

    def id_of(self, name: str) -> Uuid:
        return self._by_name[name].id

    def without(self, *names: str) -> Topics:
        """The next version, in which these topics are deleted and the others keep their ids."""
        left = Topics({}, self.version + 1)
        left._by_name = {name: topic for name, topic in self._by_name.items() if name not in names}
        left._by_id = {topic.id: topic for topic in left._by_name.values()}
        return left


class Coordinator(Protocol):
    """A coordinator of groups: the machine on a bench, or a whole broker."""

    def send(self, request: Message, version: int | None = None, client: str = "app") -> int:
        """Send a request and return its token; the response may come later."""
        ...

    def call(
        self, request: Message, response: type[MessageT], version: int | None = None, client: str = "app"
    ) -> MessageT:
        """Send a request that gets its response at once."""
        ...

    def response(self, token: int, response: type[MessageT]) -> MessageT:
        """The response to an earlier request."""
        ...

    def is_parked(self, token: int) -> bool:
        """Whether the request still waits for its response."""
        ...

    def topic_id(self, name: str) -> Uuid: ...


class Logged(NamedTuple):
    """A record or a transaction marker in the log."""

    key: bytes
    value: bytes | None
    producer_id: int = -1
    commits: bool | None = None
    """Set for a marker."""


class GroupBench(CoordinatorBench):
    shard: GroupShard

    def __init__(
        self,
        settings: GroupSettings | None = None,
        topics: Topics | None = None,
        assignors: AssignorPort | None = None,
    ) -> None:
        super().__init__(error_response)
        self.settings = settings or GroupSettings()
        self.topics = topics or Topics({"orders": 4, "parcels": 2})
        self.assignors = assignors or InlineAssignors()
        self.log: list[Logged] = []
        self.queries: list[GroupQuery] = []
        self._uuids = count(1)
        self.shard = self._new_shard()
        self.run(Loaded(0))

    # -- for tests -------------------------------------------------------------------------------------------

    def send(self, request: Message, version: int | None = None, client: str = "app") -> int:
        """Send a request and return its token; the response may come later."""
        return self._send(request, version, lambda v: RequestInfo(v, client, f"/10.0.0.{len(client)}"))

    def call(
        self, request: Message, response: type[MessageT], version: int | None = None, client: str = "app"
    ) -> MessageT:
        """Send a request that gets its response at once."""
        return self.response(self.send(request, version, client), response)

    def topic_id(self, name: str) -> Uuid:
        return self.topics.id_of(name)

    def change_topics(self, topics: Topics, deleted: Iterable[str] = ()) -> None:
        old, new = set(self.topics.all_names()), set(topics.all_names())
        changed = (
            (old ^ new)
            | set(deleted)
            | {name for name in old & new if self.topics.by_name(name) != topics.by_name(name)}
        )
        deleted_ids = frozenset(
            topic.id for name in deleted if (topic := self.topics.by_name(name)) is not None
        )
        self.topics = topics
        self.run(MetadataChanged(topics, frozenset(changed), frozenset(deleted), deleted_ids))
        self.advance(0)

    def end_transaction(self, producer_id: int, *, commit: bool) -> None:
        offset = len(self.log)
        self.log.append(Logged(b"", None, producer_id, commit))
        self.shard.replay(EndTxnMarker(producer_id, commit), offset)

    def reload(self, log: list[Logged] | None = None) -> None:
        """Unload the shard and load it again, from another log if one is given."""
        self.run(Unloaded())
        if log is not None:
            self.log = log
        self.shard = self._new_shard()
        for offset, logged in enumerate(self.log):
            if logged.commits is not None:
                self.shard.replay(EndTxnMarker(logged.producer_id, logged.commits), offset)
            else:
                self.shard.replay(_decoded(logged), offset)
        self.run(Loaded(0))

    def records(self, since: int = 0) -> list[GroupRecord]:
        """The decoded records of the log."""
        return [_decoded(each) for each in self.log[since:] if each.commits is None]

    # -- driving the machine ---------------------------------------------------------------------------------

    def _execute(self, outcome: GroupOutcome) -> None:
        self.queries += outcome.effects
        if outcome.records:
            if self.append_error is None:
                self._append(outcome)
            failure = self.append_error or self.commit_error
            if failure is not None:
                self.append_error = self.commit_error = None
                self.run(AppendFailed([outcome], failure))
                return
        self._release(outcome.replies)
        if outcome.records:
            self.run(AppendCommitted([outcome]))

    def _append(self, outcome: GroupOutcome) -> None:
        base_offset = len(self.log)
        for record in outcome.records:
            value = None if record.value is None else GROUP_RECORDS.encode_value(record.value, record.version)
            producer_id = -1 if record.producer is None else record.producer.id
            self.log.append(Logged(GROUP_RECORDS.encode_key(record.key), value, producer_id))
        for offset, record in enumerate(outcome.records, base_offset):
            self.shard.replay(record, offset)

    def _new_shard(self) -> GroupShard:
        return GroupShard(self.settings, self.assignors, self.topics, lambda: topic_id(next(self._uuids)))


def _decoded(logged: Logged) -> GroupRecord:
    key = GROUP_RECORDS.decode_key(logged.key)
    producer = None if logged.producer_id < 0 else Producer(logged.producer_id, 0)
    if logged.value is None:
        return GroupRecord(key, None, producer=producer)
    value, version = GROUP_RECORDS.decode_value(key.API_KEY, logged.value)
    return GroupRecord(key, value, version, producer)
