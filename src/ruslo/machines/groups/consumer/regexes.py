"""Subscriptions by regular expression: when they are resolved, and what the result changes.

Matching against all topics may take long, so the driver does it outside the event loop (``ResolveRegex``),
for all patterns of the group at once. A timer of the group stands for the pending query: it prevents a second
one, and if no result arrives before it fires, the next heartbeat starts another query.
"""

from __future__ import annotations

import enum

from ruslo.machines.groups.consumer import topic_hash
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.consumer.member import ConsumerMember
from ruslo.machines.groups.consumer.patterns import check_pattern
from ruslo.machines.groups.consumer.records import epoch_record, regex_record, regex_tombstone
from ruslo.machines.groups.events import RegexResolved, ResolvedRegex, ResolveRegex
from ruslo.machines.groups.outcome import GroupOutcome
from ruslo.machines.groups.state import ShardState
from ruslo.machines.groups.timers import TimerKey, TimerKind
from ruslo.machines.machine import Instant, Outcome
from ruslo.model.errors import ErrorCode
from ruslo.model.principals import Principal

REFRESH_INTERVAL_MIN_MS = 10_000
QUERY_TIMEOUT_MS = 60_000


class RegexChange(enum.Enum):
    """The change of a member's pattern by its request."""

    NONE = 0
    UNRESOLVED = 1
    """Another pattern whose topics are not known yet: the result will bump the group epoch."""
    RESOLVED = 2
    """Another pattern whose topics are known, or none."""


def changed(
    shard: ShardState,
    group: ConsumerGroup,
    old: ConsumerMember,
    new: ConsumerMember,
    now_ms: int,
    outcome: GroupOutcome,
    principal: Principal,
) -> RegexChange:
    """Check a member's new pattern, and start a query if that is due."""
    change = RegexChange.NONE
    must_query = False
    if old.regex != new.regex:
        change = RegexChange.UNRESOLVED
        if old.regex and group.regex_count(old.regex) == 1:
            outcome.append([regex_tombstone(group.group_id, old.regex)])
        if not new.regex:
            change = RegexChange.RESOLVED
        elif group.regex_count(new.regex) == 0:
            check_pattern(new.regex)
            must_query = True
        elif new.regex in group.resolved:
            change = RegexChange.RESOLVED
    patterns = group.regexes_with(old, new)
    if patterns and (must_query or _is_due(shard, group, patterns)) and _may_query(shard, group):
        host = new.client_host.removeprefix("/")
        _query(
            shard,
            group,
            ResolveRegex(group.group_id, tuple(sorted(patterns)), principal, host),
            now_ms,
            outcome,
        )
    return change


def resolved(shard: ShardState, group: ConsumerGroup, event: RegexResolved) -> GroupOutcome:
    """Add the records of the result; bump the group epoch if the topics differ."""
    shard.timers.cancel(TimerKey(group.group_id, None, TimerKind.REGEX))
    # The last member with a pattern may have left meanwhile.
    fresh = {regex: found for regex, found in event.resolved.items() if group.regex_count(regex)}
    outcome: GroupOutcome = Outcome(linearizable=True)
    bump = False
    for regex, found in fresh.items():
        known = group.resolved.get(regex)
        bump |= set(known.topics if known is not None else ()) != set(found.topics)
        outcome.append([regex_record(group.group_id, regex, found)])
    metadata_hash = topic_hash.of_topics(shard.topics, group.topics_of_regexes(fresh))
    if bump or metadata_hash != group.metadata_hash:
        outcome.append([epoch_record(group.group_id, group.epoch + 1, metadata_hash)])
        group.refreshed_epoch = group.epoch + 1
    return outcome


def _may_query(shard: ShardState, group: ConsumerGroup) -> bool:
    if shard.timers.get(TimerKey(group.group_id, None, TimerKind.REGEX)) is not None:
        return False
    last = next(iter(group.resolved.values()), None)
    return last is None or _is_older(shard, last, REFRESH_INTERVAL_MIN_MS)


def _is_due(shard: ShardState, group: ConsumerGroup, patterns: set[str]) -> bool:
    last = next(iter(group.resolved.values()), None)
    if last is None or len(patterns) != len(group.resolved):
        return True
    return last.metadata_version < group.topics_created_version or _is_older(
        shard, last, shard.settings.consumer_regex_refresh_interval_ms
    )


def _is_older(shard: ShardState, last: ResolvedRegex, age_ms: int) -> bool:
    """Whether it is older, or from the future because the wall clock was set back."""
    return not last.resolved_ms <= shard.wall_ms <= last.resolved_ms + age_ms


def _query(
    shard: ShardState, group: ConsumerGroup, query: ResolveRegex, now_ms: int, outcome: GroupOutcome
) -> None:
    group_id = group.group_id
    shard.timers.set(TimerKey(group_id, None, TimerKind.REGEX), now_ms + QUERY_TIMEOUT_MS)
    outcome.effects.append(query)

    def on_failure(code: ErrorCode, now: Instant) -> GroupOutcome:
        shard.timers.cancel(TimerKey(group_id, None, TimerKind.REGEX))
        return Outcome()

    outcome.add(Outcome(on_failure=on_failure))
