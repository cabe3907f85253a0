"""Acknowledgements of members of share groups: of ShareAcknowledge, and those that come with ShareFetch."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Mapping, Sequence
from functools import partial
from typing import Any, Final, NamedTuple, TypeAlias

from ruslo.broker.coordinators.groups.coordinator import share_groups_disabled
from ruslo.broker.handlers.services import Services
from ruslo.broker.handlers.topic_access import may_read
from ruslo.broker.partitions.leader_hints import broker_endpoints
from ruslo.broker.requests.context import RequestContext
from ruslo.broker.scheduling.scheduler import Priority, Steps
from ruslo.machines.groups.share.heartbeat import MAX_MEMBER_ID_CHARS
from ruslo.machines.share_partition.states import AcknowledgeType
from ruslo.machines.share_partition.values import AcknowledgementBatch
from ruslo.machines.share_session import SessionKey, TopicIdPartition
from ruslo.model.acls import Operation, ResourceType
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import uuid_to_text
from ruslo.protocol.leader_hints import NO_LEADER, LeaderAndEpoch, NodeEndpoint

"""The length of a UUID as text."""
RENEWAL_FROM: Final = 2
_WRONG_LEADER: Final = (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.FENCED_LEADER_EPOCH)

Acknowledgements: TypeAlias = Mapping[TopicIdPartition, Sequence[AcknowledgementBatch]]
Errors: TypeAlias = dict[TopicIdPartition, KafkaError | None]
"""The result of each partition; None: success."""


def batches_by_partition(topics: Iterable[Any]) -> Acknowledgements:
    """The acknowledgement batches of a ShareAcknowledge or ShareFetch request."""
    found: dict[TopicIdPartition, list[AcknowledgementBatch]] = {}
    for topic in topics:
        for partition in topic.partitions:
            batches = [
                AcknowledgementBatch(each.first_offset, each.last_offset, each.acknowledge_types)
                for each in partition.acknowledgement_batches
            ]
            found.setdefault((topic.topic_id, partition.partition_index), []).extend(batches)
    return found


class ShareClient(NamedTuple):
    """The member of a share group that sent a request."""

    services: Services
    context: RequestContext
    session_key: SessionKey

    @classmethod
    def of(cls, services: Services, request: Any, context: RequestContext) -> ShareClient:
        """Check group and member of a request; raises KafkaError."""
        if not services.share_partitions.is_enabled:
            raise share_groups_disabled()
        if request.group_id is None:
            raise KafkaError(ErrorCode.INVALID_REQUEST, "GroupId is missing. Send the group id.")
        context.require(Operation.READ, ResourceType.GROUP, request.group_id)
        member = request.member_id
        if not member or len(member) > MAX_MEMBER_ID_CHARS:
            raise KafkaError(
                ErrorCode.INVALID_REQUEST,
                f"MemberId must have 1 to {MAX_MEMBER_ID_CHARS} characters. Use a random UUID.",
            )
        return cls(services, context, SessionKey(request.group_id, member))

    @property
    def group_id(self) -> str:
        return self.session_key.group_id

    @property
    def lock_duration_ms(self) -> int:
        return self.services.share_partitions.config_of(self.group_id).settings.lock_duration_ms

    def access_error(self, tp: TopicIdPartition, unknown_id: ErrorCode) -> KafkaError | None:
        """Why the member may not use a partition; ``unknown_id``: the error for an unknown topic id."""
        topic_id, index = tp
        topics = self.services.metadata.image.topics
        name = topics.name_of(topic_id)
        if name is None:
            return KafkaError(unknown_id, f"No topic has the id {uuid_to_text(topic_id)}.")
        if not may_read(self.context.access, topic_id, self.services.metadata, self.context.api_name):
            return KafkaError(ErrorCode.TOPIC_AUTHORIZATION_FAILED, "READ on the topic is denied.")
        if topics.partition(topic_id, index) is None:
            return KafkaError(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name} has no partition {index}.")
        return None

    def leader_of(self, tp: TopicIdPartition, error: int) -> LeaderAndEpoch:
        """The leader to use instead, if the error says that this broker is not it (KIP-951)."""
        partition = self.services.metadata.image.topics.partition(*tp)
        if error not in _WRONG_LEADER or partition is None:
            return NO_LEADER
        return partition.leader, partition.leader_epoch

    def endpoints(self, leaders: Iterable[LeaderAndEpoch]) -> list[NodeEndpoint]:
        nodes = dict.fromkeys(leader for leader, _ in leaders if leader >= 0)
        return broker_endpoints(self.services.metadata, nodes, self.context.listener_name)

    def acknowledge(self, acknowledgements: Acknowledgements, is_renew_ack: bool) -> Acknowledging:
        return Acknowledging(self, acknowledgements, is_renew_ack)


class Acknowledging:
    """The acknowledgements of one request.

    ``submitted`` is done when the records have changed, as a rule at once; ``done`` when that is persisted.
    """

    def __init__(self, client: ShareClient, acknowledgements: Acknowledgements, is_renew_ack: bool) -> None:
        self._client = client
        self._acknowledgements = acknowledgements
        self._is_renew_ack = is_renew_ack
        self._errors: Errors = {}
        self._without_batches: list[TopicIdPartition] = []
        self._has_valid_batches = False
        self._unwritten = 1
        """Partitions that are not persisted, and one until all are submitted."""
        self.done: asyncio.Future[Errors] = asyncio.get_running_loop().create_future()
        self.submitted = client.services.scheduler.run(
            self._submit(), priority=Priority.REQUEST, name="acknowledgements"
        )
        if self.submitted.done():
            self._on_submitted(self.submitted)
        else:
            self.submitted.add_done_callback(self._on_submitted)

    def _submit(self) -> Steps[None]:
        for tp, batches in self._acknowledgements.items():
            error = self._refusal(tp, batches)
            if error is None and not batches:
                self._without_batches.append(tp)
                continue
            self._errors[tp] = error
            if error is None:
                self._has_valid_batches = True
                try:
                    self._acknowledge(tp, batches)
                except KafkaError as invalid:
                    self._errors[tp] = invalid
            yield

    def _acknowledge(self, tp: TopicIdPartition, batches: Sequence[AcknowledgementBatch]) -> None:
        group_id, member = self._client.session_key
        shares = self._client.services.share_partitions
        led = shares.get(group_id, tp)
        if led is None:
            raise KafkaError(
                ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, "No record of the partition is acquired here."
            )
        written = shares.acknowledge(led, member, batches)
        if written is not None:
            self._unwritten += 1
            written.add_done_callback(partial(self._on_written, tp))

    def _on_written(self, tp: TopicIdPartition, written: asyncio.Future[KafkaError | None]) -> None:
        self._errors[tp] = written.result()
        self._complete_one()

    def _on_submitted(self, work: asyncio.Future[None]) -> None:
        error = work.exception()
        if error is not None:
            self.done.set_exception(error)
        else:
            self._complete_one()

    def _complete_one(self) -> None:
        self._unwritten -= 1
        if self._unwritten or self.done.done():
            return
        self._count()
        # As in Kafka: a response without any valid batch has only errors.
        without_batches = self._without_batches if self._has_valid_batches else ()
        self.done.set_result(self._errors | dict.fromkeys(without_batches))

    def _refusal(self, tp: TopicIdPartition, batches: Sequence[AcknowledgementBatch]) -> KafkaError | None:
        error = self._client.access_error(tp, ErrorCode.UNKNOWN_TOPIC_ID)
        if error is not None and error.code is ErrorCode.UNKNOWN_TOPIC_ID:
            return error
        return self._invalid(batches) or error

    def _invalid(self, batches: Sequence[AcknowledgementBatch]) -> KafkaError | None:
        supports_renewal = self._client.context.api_version >= RENEWAL_FROM
        before = -1
        for first, last, types in batches:
            problem = None
            if first > last:
                problem = f"The offsets {first} to {last} are not a range."
            elif first < before:
                problem = f"The offsets {first} to {last} come after those up to {before}. Sort the batches."
            elif not types:
                problem = f"The offsets {first} to {last} have no acknowledge type."
            elif len(types) > 1 and len(types) != last - first + 1:
                problem = f"{len(types)} acknowledge types do not fit the offsets {first} to {last}."
            elif min(types) < AcknowledgeType.GAP or max(types) > (
                AcknowledgeType.RENEW if supports_renewal else AcknowledgeType.REJECT
            ):
                problem = f"An acknowledge type of the offsets {first} to {last} does not exist."
            elif AcknowledgeType.RENEW in types and not self._is_renew_ack:
                problem = "Locks are renewed only in a request with IsRenewAck."
            if problem is not None:
                return KafkaError(ErrorCode.INVALID_REQUEST, problem)
            before = last
        return None

    def _count(self) -> None:
        counters = self._client.services.share_partitions.counters
        for tp, error in self._errors.items():
            if error is None:
                for first, last, types in self._acknowledgements[tp]:
                    counters.record_acknowledgements(types, last - first + 1)
        failed = {tp[0]: False for tp in self._acknowledgements}
        for (topic_id, _), error in self._errors.items():
            failed[topic_id] |= error is not None
        for topic_id, has_failed in failed.items():
            for partition in self._client.services.partitions.by_id.get(topic_id, {}).values():
                partition.traffic.share_acknowledgements += 1
                partition.traffic.failed_share_acknowledgements += has_failed
                break
