"""The controller: decides everything about the cluster, one event at a time, and touches only its own state.

The driver replays records as soon as they are appended, so the machine's state runs ahead of the commit;
listeners of the log see a record only when it is committed. When leadership is lost, the state may contain
records that will never be committed: the driver discards the image and loads it again.

Only ``replay`` changes the image. Besides the image the machine keeps the time of each broker's last
heartbeat (``sessions``), which no record holds and which is dropped with the leadership.
"""

from __future__ import annotations

from collections.abc import Generator, Iterator, Sequence
from itertools import islice
from typing import Never, TypeAlias

from ruslo.machines.controller.acls import create_acls, delete_acls
from ruslo.machines.controller.alter_partition import alter_partition
from ruslo.machines.controller.brokers import fence, heartbeat, register_broker, unregister_broker
from ruslo.machines.controller.client_quotas import alter_client_quotas
from ruslo.machines.controller.configs import alter_configs, incremental_alter_configs
from ruslo.machines.controller.controllers import register_controller
from ruslo.machines.controller.delegation_tokens import (
    create_delegation_token,
    expire_delegation_token,
    expired_tokens,
    renew_delegation_token,
)
from ruslo.machines.controller.directories import assign_replicas_to_dirs
from ruslo.machines.controller.events import Activated, BrokerGone, ControllerEvent, ControllerRequest
from ruslo.machines.controller.features import elr_safety_records, update_features
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.leader_elections import (
    elect_leaders,
    preferred_leader_changes,
    unclean_leader_changes,
)
from ruslo.machines.controller.producer_ids import allocate_producer_ids
from ruslo.machines.controller.reassignments import (
    alter_partition_reassignments,
    list_partition_reassignments,
)
from ruslo.machines.controller.records import TRANSACTIONS_SUPPORTED, MetadataRecord, VersionedRecord
from ruslo.machines.controller.scram_users import alter_user_scram_credentials
from ruslo.machines.controller.sessions import CHECKS_PER_SESSION
from ruslo.machines.controller.state import ControllerState, Decision
from ruslo.machines.controller.topics import create_partitions, create_topics, delete_topics
from ruslo.machines.machine import Instant, Outcome, Reply, Requested
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.protocol.message import Message
from ruslo.protocol.messages.allocate_producer_ids_request import AllocateProducerIdsRequest
from ruslo.protocol.messages.alter_client_quotas_request import AlterClientQuotasRequest
from ruslo.protocol.messages.alter_configs_request import AlterConfigsRequest
from ruslo.protocol.messages.alter_partition_reassignments_request import AlterPartitionReassignmentsRequest
from ruslo.protocol.messages.alter_partition_request import AlterPartitionRequest
from ruslo.protocol.messages.alter_user_scram_credentials_request import AlterUserScramCredentialsRequest
from ruslo.protocol.messages.assign_replicas_to_dirs_request import AssignReplicasToDirsRequest
from ruslo.protocol.messages.begin_transaction_record import BeginTransactionRecord
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_registration_change_record import BrokerRegistrationChangeRecord
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest
from ruslo.protocol.messages.controller_registration_request import ControllerRegistrationRequest
from ruslo.protocol.messages.create_acls_request import CreateAclsRequest
from ruslo.protocol.messages.create_delegation_token_request import CreateDelegationTokenRequest
from ruslo.protocol.messages.create_partitions_request import CreatePartitionsRequest
from ruslo.protocol.messages.create_topics_request import CreateTopicsRequest
from ruslo.protocol.messages.delete_acls_request import DeleteAclsRequest
from ruslo.protocol.messages.delete_topics_request import DeleteTopicsRequest
from ruslo.protocol.messages.elect_leaders_request import ElectLeadersRequest
from ruslo.protocol.messages.end_transaction_record import EndTransactionRecord
from ruslo.protocol.messages.expire_delegation_token_request import ExpireDelegationTokenRequest
from ruslo.protocol.messages.incremental_alter_configs_request import IncrementalAlterConfigsRequest
from ruslo.protocol.messages.list_partition_reassignments_request import ListPartitionReassignmentsRequest
from ruslo.protocol.messages.partition_change_record import PartitionChangeRecord
from ruslo.protocol.messages.register_broker_record import RegisterBrokerRecord
from ruslo.protocol.messages.renew_delegation_token_request import RenewDelegationTokenRequest
from ruslo.protocol.messages.unregister_broker_request import UnregisterBrokerRequest
from ruslo.protocol.messages.update_features_request import UpdateFeaturesRequest

Response: TypeAlias = Message | KafkaError
"""A KafkaError stands for a response that is only an error; the handler translates it."""
ControllerOutcome: TypeAlias = Outcome[VersionedRecord, Response, Never]

MAX_ELECTIONS_PER_ROUND = 1_000
"""The limit of periodic elections in one event; requests are served between two rounds."""


class ControllerMachine:
    def __init__(self, state: ControllerState, bootstrap: Sequence[MetadataRecord]) -> None:
        """``bootstrap``: the records of ``bootstrap.checkpoint``, the first of the log; metadata.version
        leads."""
        self.state = state
        self._bootstrap = bootstrap
        self._active = False
        self._next_check_ms = 0
        self._next_rebalance_ms = 0
        self._next_unclean_ms = 0
        self._next_token_check_ms = 0

    @property
    def image(self) -> MetadataImage:
        return self.state.image

    def handle(self, event: ControllerEvent, now: Instant) -> ControllerOutcome:
        now_ms = now.monotonic_ms
        if isinstance(event, Requested):
            return self._respond(event, now)
        if isinstance(event, Activated):
            return self._activate(event, now_ms)
        if isinstance(event, BrokerGone):
            return self._fence_dead_broker(event, now_ms)
        return self._run_periodic_tasks(now)

    def replay(self, record: MetadataRecord, offset: int) -> None:
        image, sessions = self.state.image, self.state.sessions
        if sessions.shutdown_offsets and isinstance(record, PartitionChangeRecord):
            sessions.note_partition_change(record, image.topics, offset)
        image.replay(record)
        if isinstance(record, RegisterBrokerRecord):
            sessions.registration_offsets[record.broker_id] = offset
            sessions.shutdown_offsets.pop(record.broker_id, None)
        elif isinstance(record, BrokerRegistrationChangeRecord) and record.in_controlled_shutdown:
            sessions.shutdown_offsets[record.broker_id] = offset
        image.offset = offset

    def load(self, image: MetadataImage) -> None:
        """Replace the state by this image, which only the machine changes from now on."""
        state = self.state
        state.image = image
        state.sessions.clear()
        state.sessions.shutdown_offsets.clear()
        # The exact offsets of the registrations are unknown, but they are not after this one.
        state.sessions.registration_offsets = dict.fromkeys(image.cluster.brokers, image.offset)
        self._active = False

    def deactivate(self) -> None:
        self._active = False

    def deadline_ms(self) -> int | None:
        """When ``TimerFired`` is due; None while no broker has a session."""
        if not self._active:
            return None
        expiry_ms = self.state.sessions.next_expiry_ms()
        if expiry_ms is None:
            return None
        deadline_ms = min(
            max(expiry_ms, self._next_check_ms), self._next_unclean_ms, self._next_token_check_ms
        )
        if self.state.settings.auto_leader_rebalance:
            deadline_ms = min(deadline_ms, self._next_rebalance_ms)
        return deadline_ms

    def _activate(self, event: Activated, now_ms: int) -> ControllerOutcome:
        state = self.state
        self._active = True
        self._next_rebalance_ms = now_ms + state.settings.leader_imbalance_check_ms
        self._next_unclean_ms = now_ms + state.settings.unclean_election_check_ms
        self._next_token_check_ms = now_ms + state.settings.token_check_interval_ms
        state.kraft_version = event.kraft_version
        state.sessions.clear()
        for broker in state.image.cluster.brokers.values():
            if not broker.fenced:
                # This node's own broker runs in this process, so an earlier registration of its id has
                # ended; the broker need not wait for that session to expire.
                state.sessions.start(broker.id, now_ms, confirmed=broker.id != state.settings.node_id)
        if not state.image.is_empty:
            return Outcome()
        return Outcome(records=self._bootstrap_records())

    def _bootstrap_records(self) -> list[VersionedRecord]:
        # The state after the bootstrap records have been replayed.
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

    def _respond(self, event: ControllerRequest, now: Instant) -> ControllerOutcome:
        try:
            records, response = self._decide(event, now)
        except KafkaError as error:
            return Outcome(replies=[Reply(event.token, error)])
        # Even without records the response may depend on some that are not committed yet.
        return Outcome(records, [Reply(event.token, response)], linearizable=True)

    def _decide(self, event: ControllerRequest, now: Instant) -> Decision[Message]:
        state, request = self.state, event.request
        if not self._active:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "This node is not the active controller")
        if isinstance(request, BrokerHeartbeatRequest):
            return heartbeat(state, request, now.monotonic_ms)
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
            return register_broker(state, request, event.context.next_offset, now.monotonic_ms)
        if isinstance(request, ControllerRegistrationRequest):
            return register_controller(state, request)
        if isinstance(request, UnregisterBrokerRequest):
            return unregister_broker(state, request)
        if isinstance(request, UpdateFeaturesRequest):
            return update_features(state, request)
        return self._decide_security(event, now)

    def _decide_security(self, event: ControllerRequest, now: Instant) -> Decision[Message]:
        """ACLs, users, quotas and delegation tokens."""
        state, request, principal = self.state, event.request, event.context.principal
        if isinstance(request, CreateAclsRequest):
            return create_acls(state, request)
        if isinstance(request, DeleteAclsRequest):
            return delete_acls(state, request)
        if isinstance(request, AlterUserScramCredentialsRequest):
            return alter_user_scram_credentials(state, request)
        if isinstance(request, AlterClientQuotasRequest):
            return alter_client_quotas(state, request)
        if isinstance(request, CreateDelegationTokenRequest):
            return create_delegation_token(state, request, principal, now.wall_ms)
        if isinstance(request, RenewDelegationTokenRequest):
            return renew_delegation_token(state, request, principal, now.wall_ms)
        if isinstance(request, ExpireDelegationTokenRequest):
            return expire_delegation_token(state, request, principal, now.wall_ms)
        raise KafkaError(
            ErrorCode.UNSUPPORTED_VERSION, f"The controller does not serve {type(request).__name__}"
        )

    def _fence_dead_broker(self, event: BrokerGone, now_ms: int) -> ControllerOutcome:
        """Fence the broker now instead of waiting for its session to expire."""
        broker = self.state.image.cluster.brokers.get(event.broker_id)
        if not self._active or broker is None or broker.epoch != event.broker_epoch:
            return Outcome()
        if broker.fenced:
            self.state.sessions.end(broker.id)
            return Outcome()
        self.state.sessions.expire(broker.id, now_ms)
        return Outcome(records=fence(self.state, broker))

    def _run_periodic_tasks(self, now: Instant) -> ControllerOutcome:
        """Fence brokers whose session expired, rebalance preferred leaders, elect leaders uncleanly, remove
        expired delegation tokens."""
        state, now_ms = self.state, now.monotonic_ms
        if not self._active:
            return Outcome()
        for broker_id in state.sessions.expired(now_ms):
            broker = state.image.cluster.brokers.get(broker_id)
            if broker is None or broker.fenced:
                state.sessions.end(broker_id)
                continue
            # One at a time: the changes for the next broker depend on those for this one.
            state.sessions.expire(broker_id, now_ms)
            return Outcome(records=fence(state, broker))
        self._next_check_ms = now_ms + state.settings.broker_session_timeout_ms // CHECKS_PER_SESSION
        if state.settings.auto_leader_rebalance and now_ms >= self._next_rebalance_ms:
            return Outcome(records=self._rebalance(now_ms))
        if now_ms >= self._next_unclean_ms:
            return Outcome(records=self._elect_uncleanly(now_ms))
        if now_ms >= self._next_token_check_ms:
            expired = expired_tokens(state, now.wall_ms)
            if not expired:
                self._next_token_check_ms = now_ms + state.settings.token_check_interval_ms
            return Outcome(records=expired)
        return Outcome()

    def _rebalance(self, now_ms: int) -> Iterator[VersionedRecord]:
        if (yield from _one_round(preferred_leader_changes(self.state))):
            self._next_rebalance_ms = now_ms + self.state.settings.leader_imbalance_check_ms

    def _elect_uncleanly(self, now_ms: int) -> Iterator[VersionedRecord]:
        if (yield from _one_round(unclean_leader_changes(self.state))):
            self._next_unclean_ms = now_ms + self.state.settings.unclean_election_check_ms


def _one_round(elections: Iterator[VersionedRecord]) -> Generator[VersionedRecord, None, bool]:
    """Returns whether the round was complete; if not, the next one follows at once."""
    count = 0
    for change in islice(elections, MAX_ELECTIONS_PER_ROUND):
        count += 1
        yield change
    return count < MAX_ELECTIONS_PER_ROUND
