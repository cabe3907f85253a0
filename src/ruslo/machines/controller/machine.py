"""The controller: decides everything about the cluster, one event at a time, and touches only its own state.

The driver's part is small: give it an event, append what it says, ``replay`` the appended records at once,
and release its replies when they are committed. So the machine's state runs ahead of the commit; whoever
follows the log sees each record only once it is committed. When leadership is lost the state may hold
records that never commit: the driver throws the machine's image away and loads it again.

Only ``replay`` changes the image. Beside it the machine remembers when it last heard of each broker
(``sessions``); that is no record's business and dies with the leadership.
"""

from __future__ import annotations

from collections.abc import Generator, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TypeAlias

from ruslo.machines.controller.brokers import fence, heartbeat, register_broker, unregister_broker
from ruslo.machines.controller.configs import alter_configs, incremental_alter_configs
from ruslo.machines.controller.controllers import register_controller
from ruslo.machines.controller.directories import assign_replicas_to_dirs
from ruslo.machines.controller.events import Activated, BrokerGone, Requested, TimerFired
from ruslo.machines.controller.features import elr_safety_records, update_features
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.leader_elections import (
    elect_leaders,
    preferred_leader_changes,
    unclean_leader_changes,
)
from ruslo.machines.controller.partitions import alter_partition
from ruslo.machines.controller.producer_ids import allocate_producer_ids
from ruslo.machines.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from ruslo.machines.controller.records import TRANSACTIONS_SUPPORTED, MetadataRecord, VersionedRecord
from ruslo.machines.controller.sessions import CHECKS_PER_SESSION
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.machines.controller.topics import create_partitions, create_topics, delete_topics
from ruslo.machines.outcome import Reply
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest
from ruslo.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ruslo.protocol.messages.alter_partition_request import AlterPartitionRequest
from ruslo.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ruslo.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.register_broker_record import RegisterBrokerRecord
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ruslo.protocol.messages.update_features_request import UpdateFeaturesRequest

ControllerEvent: TypeAlias = Activated | BrokerGone | Requested | TimerFired
Answer: TypeAlias = Message | KafkaError
"""A KafkaError stands for an answer that is nothing but an error; who asked translates it."""

MAX_ELECTIONS_PER_ROUND = 1_000
"""When nobody has asked for them: requests are served between two rounds."""


@dataclass(frozen=True, slots=True)
class ControllerOutcome:
    """As in ``machines/outcome.py``, but the records may be worked out as they are asked for, partition by
    partition: the driver may do so in slices, and gives the machine no event until it has replayed them."""

    append: Iterable[VersionedRecord] | None = None
    """One atomic batch; nothing in it: only wait for what was appended before."""
    replies: tuple[Reply[Hashable, Answer], ...] = ()


class ControllerMachine:
    def __init__(self, state: ControllerState, bootstrap: Sequence[MetadataRecord]) -> None:
        """``bootstrap``: what formatting left to be written first; metadata.version leads."""
        self.state = state
        self._bootstrap = bootstrap
        self._active = False
        self._next_check_ms = 0
        self._next_rebalance_ms = 0
        self._next_unclean_ms = 0

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    def handle(self, event: ControllerEvent, now_ms: int) -> ControllerOutcome:
        if isinstance(event, Requested):
            return self._answer(event, now_ms)
        if isinstance(event, Activated):
            return self._activate(event, now_ms)
        if isinstance(event, BrokerGone):
            return self._fence_gone(event, now_ms)
        return self._look_around(now_ms)

    def replay(self, base_offset: int, records: Iterable[MetadataRecord]) -> None:
        """Replay one batch, at its offset in the log. The only way the image changes."""
        for _ in self.replay_steps(base_offset, records):
            pass

    def replay_steps(self, base_offset: int, records: Iterable[MetadataRecord]) -> Iterator[None]:
        """The same, a record in each step; the machine must be given no event before the last one."""
        image, sessions = self.state.image, self.state.sessions
        offset = base_offset - 1
        stopping: list[int] = []
        for offset, record in enumerate(records, base_offset):
            image.replay(record)
            if isinstance(record, RegisterBrokerRecord):
                sessions.registration_offsets[record.broker_id] = offset
                sessions.shutdown_offsets.pop(record.broker_id, None)
            elif isinstance(record, BrokerRegistrationChangeRecord) and record.in_controlled_shutdown:
                stopping.append(record.broker_id)
            yield
        for broker_id in stopping:
            sessions.shutdown_offsets[broker_id] = offset
        image.offset = max(image.offset, offset)

    def load(self, image: MetadataImage) -> None:
        """Forget everything and begin with this state, which nobody else changes."""
        state = self.state
        state.image = image
        state.sessions.clear()
        state.sessions.shutdown_offsets.clear()
        # Where exactly a broker's registration stood is gone, but it was not behind this.
        state.sessions.registration_offsets = dict.fromkeys(image.cluster.brokers, image.offset)
        self._active = False

    def deactivate(self) -> None:
        self._active = False

    def deadline_ms(self) -> int | None:
        """When ``TimerFired`` is due; None while there is nobody to watch."""
        if not self._active:
            return None
        expiry_ms = self.state.sessions.next_expiry_ms()
        if expiry_ms is None:
            return None
        deadline_ms = min(max(expiry_ms, self._next_check_ms), self._next_unclean_ms)
        if self.state.settings.auto_leader_rebalance:
            deadline_ms = min(deadline_ms, self._next_rebalance_ms)
        return deadline_ms

    def _activate(self, event: Activated, now_ms: int) -> ControllerOutcome:
        state = self.state
        self._active = True
        self._next_rebalance_ms = now_ms + state.settings.leader_imbalance_check_ms
        self._next_unclean_ms = now_ms + state.settings.unclean_election_check_ms
        state.kraft_version = event.kraft_version
        state.sessions.clear()
        for broker in state.image.cluster.brokers.values():
            if not broker.fenced:
                # This node's own broker runs in this very process, so whatever was registered under its id
                # before has ended; it need not wait for that session to run out.
                state.sessions.start(broker.id, now_ms, confirmed=broker.id != state.settings.node_id)
        if not state.image.is_empty:
            return ControllerOutcome()
        return ControllerOutcome(append=self._bootstrap_records())

    def _bootstrap_records(self) -> list[VersionedRecord]:
        # What the records themselves will have set by the time the last of them is read.
        preview = ControllerState(
            self.state.settings, self.state.rules, self.state.supported_features, self.state.random
        )
        records: list[VersionedRecord] = []
        for record in self._bootstrap:
            preview.image.replay(record)
            records.append((record, 0))
        if preview.elr_enabled:
            records += elr_safety_records(preview)
        if preview.metadata_version >= TRANSACTIONS_SUPPORTED:
            begin: VersionedRecord = (BeginTransactionRecord(name="Bootstrap records"), 0)
            records = [begin, *records, (EndTransactionRecord(), 0)]
        return records

    def _answer(self, event: Requested, now_ms: int) -> ControllerOutcome:
        try:
            records, response = self._decide(event, now_ms)
        except KafkaError as error:
            return ControllerOutcome(replies=(Reply(event.token, error),))
        # Even without records the answer may rest on some that are not yet committed: it waits for them.
        return ControllerOutcome(append=records, replies=(Reply(event.token, response),))

    def _decide(self, event: Requested, now_ms: int) -> Decision[Message]:
        state, request = self.state, event.request
        if not self._active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "this node is not the active controller")
        if isinstance(request, BrokerHeartbeatRequest):
            return heartbeat(state, request, now_ms)
        if isinstance(request, CreateTopicsRequest):
            return create_topics(state, request)
        if isinstance(request, DeleteTopicsRequest):
            return delete_topics(state, request)
        if isinstance(request, CreatePartitionsRequest):
            return create_partitions(state, request)
        if isinstance(request, IncrementalAlterConfigsRequest):
            return incremental_alter_configs(state, request)
        if isinstance(request, AlterConfigsRequest):
            return alter_configs(state, request)
        if isinstance(request, AlterPartitionRequest):
            return alter_partition(state, request)
        if isinstance(request, AlterPartitionReassignmentsRequest):
            return alter_partition_reassignments(state, request)
        if isinstance(request, ListPartitionReassignmentsRequest):
            return list_partition_reassignments(state, request)
        if isinstance(request, ElectLeadersRequest):
            return elect_leaders(state, request)
        if isinstance(request, AssignReplicasToDirsRequest):
            return assign_replicas_to_dirs(state, request)
        if isinstance(request, AllocateProducerIdsRequest):
            return allocate_producer_ids(state, request)
        if isinstance(request, BrokerRegistrationRequest):
            return register_broker(state, request, event.next_offset, now_ms)
        if isinstance(request, ControllerRegistrationRequest):
            return register_controller(state, request)
        if isinstance(request, UnregisterBrokerRequest):
            return unregister_broker(state, request)
        if isinstance(request, UpdateFeaturesRequest):
            return update_features(state, request)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"the controller does not serve {type(request).__name__}"
        )

    def _fence_gone(self, event: BrokerGone, now_ms: int) -> ControllerOutcome:
        """The process is known to be gone: what its session would show later is done now."""
        broker = self.state.image.cluster.brokers.get(event.broker_id)
        if not self._active or broker is None or broker.epoch != event.broker_epoch:
            return ControllerOutcome()
        if broker.fenced:
            self.state.sessions.end(broker.id)
            return ControllerOutcome()
        self.state.sessions.run_out(broker.id, now_ms)
        return ControllerOutcome(append=fence(self.state, broker))

    def _look_around(self, now_ms: int) -> ControllerOutcome:
        """What is due: silent brokers, leaders that could lead again, partitions that nobody leads."""
        state = self.state
        if not self._active:
            return ControllerOutcome()
        for broker_id in state.sessions.expired(now_ms):
            broker = state.image.cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                state.sessions.end(broker_id)
                continue
            # One at a time: what the next one changes depends on what this one leaves behind.
            state.sessions.run_out(broker_id, now_ms)
            return ControllerOutcome(append=fence(state, broker))
        self._next_check_ms = now_ms + state.settings.broker_session_timeout_ms // CHECKS_PER_SESSION
        if state.settings.auto_leader_rebalance and now_ms >= self._next_rebalance_ms:
            return ControllerOutcome(append=self._rebalance(now_ms))
        if now_ms >= self._next_unclean_ms:
            return ControllerOutcome(append=self._elect_uncleanly(now_ms))
        return ControllerOutcome()

    def _rebalance(self, now_ms: int) -> Iterator[VersionedRecord]:
        if (yield from _one_round(preferred_leader_changes(self.state))):
            self._next_rebalance_ms = now_ms + self.state.settings.leader_imbalance_check_ms

    def _elect_uncleanly(self, now_ms: int) -> Iterator[VersionedRecord]:
        if (yield from _one_round(unclean_leader_changes(self.state))):
            self._next_unclean_ms = now_ms + self.state.settings.unclean_election_check_ms


def _one_round(elections: Iterator[VersionedRecord]) -> Generator[VersionedRecord, None, bool]:
    """Returns whether that was all; if not, the next round follows at once."""
    count = 0
    for change in islice(elections, MAX_ELECTIONS_PER_ROUND):
        count += 1
        yield change
    return count < MAX_ELECTIONS_PER_ROUND
