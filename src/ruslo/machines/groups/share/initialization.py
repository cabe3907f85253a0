"""Initializes the states of share-partitions at the share coordinator before members get them.

A heartbeat finds partitions of subscribed topics that have no state. A record names them as initializing;
when it is committed, the driver sends InitializeShareGroupState, and the result is another record. Failed
partitions are tried again with the next heartbeat. Partitions without a result are tried again after a while,
because a coordinator that sent the request may have stopped.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.share.events import (
    UNINITIALIZED_START_OFFSET,
    InitializeShareState,
    PartitionCodes,
    ShareStateInitialized,
)
from ruslo.machines.groups.share.group import CHECK_NOW_MS, ShareGroup
from ruslo.machines.groups.share.partition_states import NO_PARTITIONS, NamedPartitions, TopicStates
from ruslo.machines.groups.share.records import states_record
from ruslo.machines.groups.state import ShardState
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode
from ruslo.model.ids import Uuid

_NEVER_MS = 1 << 62
_NO_RETRIES: dict[Uuid, int] = {}


def start(
    shard: ShardState,
    group: ShareGroup,
    group_epoch: int,
    topic_names: Collection[str],
    now_ms: int,
    outcome: GroupOutcome,
) -> None:
    """Initialize the partitions of these topics that have no state, if there are any."""
    if now_ms < group.next_initialization_ms:
        return
    missing = _uninitialized(shard, group, topic_names, now_ms)
    if not missing:
        retries_ms = shard.share_retries_ms.get(group.group_id, _NO_RETRIES)
        group.next_initialization_ms = min(
            (retries_ms.get(each, _NEVER_MS) for each in group.states.initializing), default=_NEVER_MS
        )
        return
    offsets = {
        topic_id: dict.fromkeys(sorted(topic.partitions), UNINITIALIZED_START_OFFSET)
        for topic_id, topic in missing.items()
    }
    request(
        shard,
        group,
        InitializeShareState(group.group_id, group_epoch, offsets),
        missing,
        now_ms,
        outcome,
    )


def request(
    shard: ShardState,
    group: ShareGroup,
    query: InitializeShareState,
    topics: TopicStates,
    now_ms: int,
    outcome: GroupOutcome,
) -> None:
    """Add the record of initializing partitions, and the query that follows its commit."""
    outcome.append([states_record(group.group_id, group.states.with_initializing(topics))])
    outcome.effects_on_commit = (*outcome.effects_on_commit, query)
    retry_ms = now_ms + shard.settings.share_initialize_retry_interval_ms
    shard.share_retries_ms.setdefault(group.group_id, {}).update(dict.fromkeys(topics, retry_ms))
    group_id = group.group_id

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        _forget_retries(shard, group_id, topics)
        return Outcome()

    outcome.add(Outcome(on_failure=on_failure))


def finished(shard: ShardState, event: ShareStateInitialized) -> GroupOutcome:
    """Write the result down."""
    outcome: GroupOutcome = Outcome(linearizable=True)
    group = shard.groups.get(event.group_id)
    _forget_retries(shard, event.group_id, event.codes)
    if not isinstance(group, ShareGroup):
        return outcome
    failed = _with_code(event.codes, failed=True)
    states = group.states.with_results(_with_code(event.codes, failed=False), failed)
    if states != group.states:
        outcome.append([states_record(group.group_id, states)])
    return outcome


def loaded(shard: ShardState, group: ShareGroup, now_ms: int) -> None:
    """The former coordinator may still be initializing partitions."""
    if group.states.initializing:
        retry_ms = now_ms + shard.settings.share_initialize_retry_interval_ms
        shard.share_retries_ms[group.group_id] = dict.fromkeys(group.states.initializing, retry_ms)


def _uninitialized(
    shard: ShardState, group: ShareGroup, topic_names: Iterable[str], now_ms: int
) -> TopicStates:
    """The partitions without a state, nor a recent request for one."""
    missing: dict[Uuid, NamedPartitions] = {}
    retries_ms = shard.share_retries_ms.get(group.group_id, _NO_RETRIES)
    for name in sorted(topic_names):
        topic = shard.topics.by_name(name)
        if topic is None:
            continue
        known = group.states.initialized_partitions(topic.id)
        if now_ms < retries_ms.get(topic.id, CHECK_NOW_MS):
            known |= group.states.initializing_partitions(topic.id)
        if len(known) < topic.partition_count:
            partitions = frozenset(range(topic.partition_count)) - known
            missing[topic.id] = NamedPartitions(name, partitions)
    return missing


def _with_code(codes: PartitionCodes, *, failed: bool) -> dict[Uuid, frozenset[int]]:
    chosen = {
        topic_id: frozenset(
            index for index, code in partitions.items() if failed is (code is not ErrorCode.NONE)
        )
        for topic_id, partitions in codes.items()
    }
    return {topic_id: partitions for topic_id, partitions in chosen.items() if partitions != NO_PARTITIONS}


def _forget_retries(shard: ShardState, group_id: str, topic_ids: Iterable[Uuid]) -> None:
    """The request is over. Partitions that it left without a state are initialized by the next heartbeat."""
    retries_ms = shard.share_retries_ms.get(group_id, {})
    for topic_id in topic_ids:
        retries_ms.pop(topic_id, None)
    if not retries_ms:
        shard.share_retries_ms.pop(group_id, None)
    group = shard.groups.get(group_id)
    if isinstance(group, ShareGroup):
        group.next_initialization_ms = CHECK_NOW_MS
