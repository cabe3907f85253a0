"""A canonical dump of the state that a machine's log holds, without its soft state."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, TypeVar

import pytest

from ruslo.machines.controller.machine import ControllerMachine
from ruslo.machines.groups.consumer.group import ConsumerGroup
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.groups.share.group import ShareGroup
from ruslo.machines.groups.streams.group import StreamsGroup
from ruslo.machines.machine import Instant
from ruslo.machines.share_coordinator.shard import ShareCoordinatorShard
from ruslo.machines.txns.shard import TxnShard

T = TypeVar("T")


def logged_state(machine: object) -> str:
    if isinstance(machine, TxnShard):
        return repr({each.id: each.metadata for each in machine.state.transactions.values() if each.exists})
    if isinstance(machine, ShareCoordinatorShard):
        shares = machine.state.shares
        return repr({key: (each.snapshot, each.offset, each.updates) for key, each in shares.items()})
    if isinstance(machine, GroupShard):
        store = machine.state.offsets
        offsets = {group_id: store.of_group(group_id) for group_id in sorted(store.group_ids())}
        # A classic group is authoritative in memory (ADR 14).
        groups = {
            group.group_id: (
                group.epoch,
                group.metadata_hash,
                group.target_epoch,
                group.target,
                group.members,
                group.resolved if isinstance(group, ConsumerGroup) else group.states,
            )
            for group in machine.state.groups.values()
            if isinstance(group, ConsumerGroup | ShareGroup)
        }
        streams = {
            group.group_id: (
                group.epoch,
                group.metadata_hash,
                group.target_epoch,
                group.target,
                group.members,
                group.validated_topology_epoch,
                group.assignment_configs,
                group.topology is None or sorted(group.topology.required_topics),
            )
            for group in machine.state.groups.values()
            if isinstance(group, StreamsGroup)
        }
        return repr((offsets, store._pending, groups, streams))
    assert isinstance(machine, ControllerMachine)
    records = [] if machine.image.is_empty else machine.image.to_records()
    return repr([(type(record), record.to_bytes(version)) for record, version in records])


def check_every_event(monkeypatch: pytest.MonkeyPatch, machine_class: type[Any]) -> Callable[[], int]:
    """Assert for every event of such machines that ``handle`` and ``deadline_ms`` keep the logged state.

    Returns a function that counts the events so far.
    """
    real = machine_class.handle
    events = 0

    def handle(machine: Any, event: object, now: Instant) -> Any:
        nonlocal events
        events += 1
        before = logged_state(machine)
        outcome = real(machine, event, now)
        deadline_ms = machine.deadline_ms()
        assert machine.deadline_ms() == deadline_ms
        # Unloading discards the state.
        assert logged_state(machine) == before or type(event).__name__ == "Unloaded", event
        return outcome

    monkeypatch.setattr(machine_class, "handle", handle)
    return lambda: events
