"""A coordinator of one shard: the real machine on a log in memory, under virtual time.

It works like the broker's runtime: it appends, replays at once, releases replies when the append is
committed, and fires timers. And it fails like brokers: appends fail or commit too late, the coordinator
crashes with the tail of its log, or loses its leadership.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from functools import partial
from itertools import count
from typing import TypeAlias, cast

from ruslo.machines.assignors.builtin import BUILTIN_ASSIGNORS
from ruslo.machines.assignors.spec import GroupSpec
from ruslo.machines.groups.consumer.patterns import matching_topics
from ruslo.machines.groups.consumer.ports import AssignorFailure, InlineAssignors
from ruslo.machines.groups.errors import error_response
from ruslo.machines.groups.events import (
    ComputeTarget,
    GroupEvent,
    GroupQuery,
    MetadataChanged,
    RegexResolved,
    RequestInfo,
    ResolvedRegex,
    ResolveRegex,
    TargetComputed,
)
from ruslo.machines.groups.outcome import GroupOutcome, GroupReply
from ruslo.machines.groups.settings import GroupSettings
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.machine import AppendFailed, Instant, Loaded, Requested, TimerFired, Unloaded
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.group_metadata_key import GroupMetadataKey
from ruslo.testing.simulation.clock import SimClock, Timer
from ruslo.testing.simulation.groups.log import Batch, SimGroupLog
from ruslo.testing.simulation.groups.topics import SimTopics

COMMIT_TIMEOUT_MS = 5_000
LOAD_MS = 300
QUERY_MS = 200
TRACE_LENGTH = 200

OnReply: TypeAlias = Callable[[Message | None], None]
"""None: the connection is closed."""


@dataclass(slots=True)
class CoordinatorFaults:
    """The probabilities of faults; they may be changed at any time."""

    failed_appends: float = 0.0
    """The fraction of appends that fail."""
    slow: float = 0.0
    """The fraction of appends that commit only after up to ``slow_ms``, which may be too late."""
    slow_ms: int = 8_000
    failing_assignor: float = 0.0
    """The fraction of external assignor runs that fail."""


@dataclass(slots=True)
class _Call:
    request: Message
    api_version: int
    since_ms: int
    on_reply: OnReply


class SimCoordinator:
    def __init__(
        self,
        clock: SimClock,
        topics: SimTopics,
        settings: GroupSettings,
        faults: CoordinatorFaults | None = None,
        *,
        on_committed: Callable[[Batch], None] = lambda batch: None,
        on_step: Callable[[SimCoordinator, GroupEvent], None] = lambda coordinator, event: None,
    ) -> None:
        """``on_committed``: a batch is committed; ``on_step``: an event was handled."""
        self.clock = clock
        self.topics = topics
        self.settings = settings
        self.faults = faults or CoordinatorFaults()
        self.log = SimGroupLog()
        self.shard: GroupShard | None = None
        """None while the coordinator is down or loading."""
        self.calls: dict[Hashable, _Call] = {}
        """Pending requests by token, oldest first."""
        self.uncommitted_groups: set[str] = set()
        """Classic groups whose last record was not committed in time, so their state differs from it."""
        self.trace: deque[tuple[int, object]] = deque(maxlen=TRACE_LENGTH)
        """The last events and responses with their times."""
        self._on_committed = on_committed
        self._on_step = on_step
        self._waiting: deque[tuple[int, GroupOutcome]] = deque()
        """Outcomes whose replies wait until the log is committed up to this offset."""
        self._committed_at_ms = 0
        self._tokens = count(1)
        self._timer: Timer | None = None
        self._timer_at_ms = 0
        self._reachable = True
        self._incarnation = 0
        self._load()

    # -- requests and operations -----------------------------------------------------------------------------

    def submit(self, request: Message, api_version: int, client_id: str, on_reply: OnReply) -> None:
        if not self._reachable:
            on_reply(None)
            return
        if self.shard is None:
            on_reply(error_response(request, api_version, ErrorCode.COORDINATOR_LOAD_IN_PROGRESS))
            return
        token = next(self._tokens)
        self.calls[token] = _Call(request, api_version, self.clock.monotonic_ms(), on_reply)
        self.run(Requested(token, request, RequestInfo(api_version, client_id)))

    def change_topics(self, topics: SimTopics, *changed: str) -> None:
        self.topics = topics
        deleted = frozenset(name for name in changed if topics.by_name(name) is None)
        if self.shard is not None:
            self.run(MetadataChanged(topics, frozenset(changed), deleted))

    def crash(self, down_ms: int) -> None:
        """Crash; uncommitted records may be lost."""
        self._stop()
        self.log.lose_tail(self.clock.random)
        self._restart_later(down_ms)

    def move(self, down_ms: int) -> None:
        """Lose the leadership: the shard is unloaded."""
        shard = self.shard
        if shard is not None:
            outcomes = [outcome for _, outcome in self._waiting]
            self._waiting.clear()
            for outcome in outcomes:
                self._fail_append(shard, outcome, ErrorCode.NOT_LEADER_OR_FOLLOWER)
            unloaded = shard.handle(Unloaded(), self._now())
            self._release(unloaded.replies)
        self._stop()
        self._restart_later(down_ms)

    def replayed(self) -> GroupShard:
        """A machine that has replayed the log."""
        random = self.clock.random
        shard = GroupShard(self.settings, InlineAssignors(), self.topics, lambda: random.randbytes(16))
        for record in self.log:
            shard.replay(record.decode(), record.offset)
        return shard

    # -- driving the machine ---------------------------------------------------------------------------------

    def run(self, event: GroupEvent) -> None:
        shard = self.shard
        assert shard is not None
        self.trace.append((self.clock.monotonic_ms(), event))
        outcome = shard.handle(event, self._now())
        self._carry_out(shard, outcome)
        self._arm_timer(shard)
        self._on_step(self, event)

    def _carry_out(self, shard: GroupShard, outcome: GroupOutcome) -> None:
        records = list(outcome.records)
        if not records and (not outcome.linearizable or self.log.all_committed):
            self._release(outcome.replies)
        elif not records:
            self._wait(shard, outcome)
        elif self.clock.random.random() < self.faults.failed_appends:
            self._fail_append(shard, outcome, ErrorCode.NOT_ENOUGH_REPLICAS)
        else:
            batch = self.log.append(records)
            self.trace.append((self.clock.monotonic_ms(), records))
            for logged, record in zip(batch, records, strict=True):
                shard.replay(record, logged.offset)
            self.uncommitted_groups.difference_update(_logged_groups(outcome))
            self._wait(shard, outcome)
            self._commit_later()
        for query in outcome.effects:
            self.clock.call_later(QUERY_MS, self._unless_restarted(partial(self._execute, query)))

    def _commit_later(self) -> None:
        random = self.clock.random
        delay_ms = random.randint(0, self.faults.slow_ms) if random.random() < self.faults.slow else 0
        self._committed_at_ms = max(self._committed_at_ms, self.clock.monotonic_ms() + delay_ms)
        if self._committed_at_ms == self.clock.monotonic_ms():
            self._commit(self.log.end_offset)
        else:
            commit = partial(self._commit, self.log.end_offset)
            self.clock.call_at(self._committed_at_ms, self._unless_restarted(commit))

    def _unless_restarted(self, action: Callable[[], None]) -> Callable[[], None]:
        """The action, unless the coordinator has crashed or moved by then."""
        incarnation = self._incarnation
        return lambda: action() if incarnation == self._incarnation else None

    def _commit(self, offset: int) -> None:
        for batch in self.log.commit(offset):
            self._on_committed(batch)
        while self._waiting and self._waiting[0][0] <= offset:
            self._release(self._waiting.popleft()[1].replies)

    def _wait(self, shard: GroupShard, outcome: GroupOutcome) -> None:
        entry = (self.log.end_offset, outcome)
        self._waiting.append(entry)
        if self.faults.slow:
            self.clock.call_later(COMMIT_TIMEOUT_MS, partial(self._on_commit_timeout, shard, entry))

    def _on_commit_timeout(self, shard: GroupShard, entry: tuple[int, GroupOutcome]) -> None:
        for index, each in enumerate(self._waiting):
            if each is entry:
                del self._waiting[index]
                self._fail_append(shard, entry[1], ErrorCode.REQUEST_TIMED_OUT)
                self._arm_timer(shard)
                return

    def _fail_append(self, shard: GroupShard, outcome: GroupOutcome, code: ErrorCode) -> None:
        self.trace.append((self.clock.monotonic_ms(), code))
        failed = shard.handle(AppendFailed([outcome], code), self._now())
        self.uncommitted_groups.update(_logged_groups(outcome))
        assert not failed.records, "a failed append is not replaced by another one"
        self._release(failed.replies)

    def _release(self, replies: list[GroupReply]) -> None:
        for reply in replies:
            call = self.calls.pop(reply.token, None)
            assert call is not None, f"two responses to one request: {reply}"
            message = reply.message
            if isinstance(message, KafkaError):
                message = error_response(call.request, call.api_version, message.code)
            self.trace.append((self.clock.monotonic_ms(), message))
            call.on_reply(message)

    def _execute(self, query: GroupQuery) -> None:
        if self.shard is None:
            return
        if isinstance(query, ResolveRegex):
            names = list(self.topics.all_names())
            resolved = {
                pattern: ResolvedRegex(
                    matching_topics(pattern, names), self.topics.version, self.clock.now_ms()
                )
                for pattern in query.patterns
            }
            self.run(RegexResolved(query.group_id, resolved))
        elif not isinstance(query, ComputeTarget):
            raise AssertionError("no simulated client uses share groups")
        elif self.clock.random.random() < self.faults.failing_assignor:
            self.run(
                TargetComputed(query.group_id, query.group_epoch, AssignorFailure(query.assignor, "chance"))
            )
        else:
            result = InlineAssignors(BUILTIN_ASSIGNORS).assign("uniform", cast(GroupSpec, query.spec))
            self.run(TargetComputed(query.group_id, query.group_epoch, result))

    # -- up and down -----------------------------------------------------------------------------------------

    def _stop(self) -> None:
        self._incarnation += 1
        self._reachable = False
        self.shard = None
        self._waiting.clear()
        self._committed_at_ms = 0
        if self._timer is not None:
            self._timer.cancel()
            self._timer = None
        calls = list(self.calls.values())
        self.calls.clear()
        for call in calls:
            call.on_reply(None)

    def _restart_later(self, down_ms: int) -> None:
        self.clock.call_later(down_ms, self._unless_restarted(self._start_loading))
        self.clock.call_later(down_ms + LOAD_MS, self._unless_restarted(self._load))

    def _start_loading(self) -> None:
        self._reachable = True

    def _load(self) -> None:
        """Load the log; all of it is committed by then."""
        self._commit(self.log.end_offset)
        self.uncommitted_groups.clear()
        self.shard = self.replayed()
        self._reachable = True
        self.run(Loaded(self._incarnation))

    def _arm_timer(self, shard: GroupShard) -> None:
        deadline_ms = shard.deadline_ms()
        if shard is not self.shard or deadline_ms is None:
            return
        if self._timer is not None:
            if self._timer_at_ms <= deadline_ms:
                return
            self._timer.cancel()
        self._timer_at_ms = deadline_ms
        self._timer = self.clock.call_at(deadline_ms, self._timer_fired)

    def _timer_fired(self) -> None:
        self._timer = None
        shard = self.shard
        if shard is None:
            return
        deadline_ms = shard.deadline_ms()
        if deadline_ms is not None and deadline_ms <= self.clock.monotonic_ms():
            self.run(TimerFired())
        self._arm_timer(shard)

    def _now(self) -> Instant:
        return Instant(self.clock.monotonic_ms(), self.clock.now_ms())


def _logged_groups(outcome: GroupOutcome) -> list[str]:
    return [record.key.group for record in outcome.records if isinstance(record.key, GroupMetadataKey)]
