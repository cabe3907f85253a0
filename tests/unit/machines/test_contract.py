"""Every machine keeps the contract of ``ruslo.machines.machine``; ADR 14 lists the exceptions."""

from __future__ import annotations

import ast
import importlib
import inspect
import pkgutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import ruslo.machines
from ruslo.machines.controller.machine import ControllerMachine
from ruslo.machines.groups.events import GroupEvent, GroupQuery
from ruslo.machines.groups.outcome import Response
from ruslo.machines.groups.records import GroupRecord
from ruslo.machines.groups.shard import GroupShard
from ruslo.machines.machine import Machine
from ruslo.machines.raft.machine import RaftMachine
from ruslo.machines.share_coordinator.events import PruneLog, ShareEvent
from ruslo.machines.share_coordinator.records import ShareRecord
from ruslo.machines.share_coordinator.shard import ShareCoordinatorShard
from ruslo.machines.share_coordinator.state import ShareCoordinatorSettings
from ruslo.machines.txns.events import TxnEffect, TxnEvent
from ruslo.machines.txns.records import TxnRecord
from ruslo.machines.txns.shard import TxnShard
from ruslo.protocol.messages.create_topics_request import CreatableTopic, CreateTopicsRequest
from tests.support.groups.group_bench import GroupBench
from tests.support.groups.group_chaos import GroupChaos
from tests.support.groups.share_requests import delete_request
from tests.support.groups.share_transcript import ShareConsumer, ShareTranscript
from tests.support.groups.streams_transcript import StreamsTranscript, StreamThread
from tests.support.machines.controller_bench import MachineBench
from tests.support.machines.logged_state import check_every_event, logged_state
from tests.support.share.coordinator_bench import ShareCoordinatorBench
from tests.support.share.state_requests import TOPIC, initialize_request, read_request, write_request
from tests.support.txns.txn_simulation import TxnSimulation

MACHINES: set[type[Any]] = {ControllerMachine, GroupShard, RaftMachine, ShareCoordinatorShard, TxnShard}
FORBIDDEN_MODULES = {"asyncio", "os", "socket", "threading", "time"}


def modules() -> Iterator[str]:
    for module in pkgutil.walk_packages(ruslo.machines.__path__, "ruslo.machines."):
        yield module.name


def test_every_machine_is_known_here() -> None:
    found = {
        value
        for name in modules()
        for value in vars(importlib.import_module(name)).values()
        if inspect.isclass(value)
        and value is not Machine
        and all(hasattr(value, method) for method in ("handle", "replay", "deadline_ms"))
    }
    assert found == MACHINES


@pytest.mark.parametrize("machine", sorted(MACHINES, key=str))
def test_machines_have_the_signatures_of_the_contract(machine: type[Any]) -> None:
    for method in ("handle", "replay", "deadline_ms"):
        expected = list(inspect.signature(getattr(Machine, method)).parameters)
        assert list(inspect.signature(getattr(machine, method)).parameters) == expected


def coordinators_satisfy_the_protocol(
    groups: GroupShard, txns: TxnShard, shares: ShareCoordinatorShard
) -> None:
    """The type checker tests this."""
    _groups: Machine[GroupEvent, GroupRecord, Response, GroupQuery] = groups
    _txns: Machine[TxnEvent, TxnRecord, Response, TxnEffect] = txns
    _shares: Machine[ShareEvent, ShareRecord, Response, PruneLog] = shares


def test_a_group_event_does_not_change_logged_state(monkeypatch: pytest.MonkeyPatch) -> None:
    count = check_every_event(monkeypatch, GroupShard)
    chaos = GroupChaos(0)
    chaos._begin_faults()
    chaos.clock.run_for(400_000)
    assert count() > 1_000
    assert chaos.coordinator.shard is None or logged_state(chaos.coordinator.shard) != logged_state(
        GroupBench().shard
    )


def test_an_event_of_a_streams_group_does_not_change_logged_state(monkeypatch: pytest.MonkeyPatch) -> None:
    count = check_every_event(monkeypatch, GroupShard)
    transcript = StreamsTranscript()
    a, b = StreamThread(transcript, "a", version=1), StreamThread(transcript, "b", instance_id="i")
    a.join()
    transcript.create_missing_topics()
    a.heartbeat()
    b.join()
    for _ in range(3):
        a.report_tasks()
        b.report_tasks()
    b.leave(-2)
    served = logged_state(transcript.bench.shard)
    transcript.reload()
    assert logged_state(transcript.bench.shard) == served
    transcript.wait(45_000)
    assert count() > 10


def test_an_event_of_a_share_group_does_not_change_logged_state(monkeypatch: pytest.MonkeyPatch) -> None:
    count = check_every_event(monkeypatch, GroupShard)
    transcript = ShareTranscript()
    members = [ShareConsumer(transcript, name, "orders", "parcels") for name in "abc"]
    for member in members:
        member.join()
    transcript.answer()
    for _ in range(2):
        transcript.wait(1_000)
        for member in members:
            member.heartbeat()
    transcript.change_topics("a topic is deleted", transcript.bench.topics.without("parcels"), ["parcels"])
    transcript.wait(60_000)
    token = transcript.bench.send(delete_request("orders"))
    transcript.answer()
    assert not transcript.bench.is_parked(token)
    served = logged_state(transcript.bench.shard)
    assert "ShareMember" not in served
    transcript.reload()
    assert logged_state(transcript.bench.shard) == served
    assert count() > 15


def test_a_transaction_event_does_not_change_logged_state(monkeypatch: pytest.MonkeyPatch) -> None:
    count = check_every_event(monkeypatch, TxnShard)
    run = TxnSimulation(1)
    run.run(4_000)
    assert count() > 500
    assert run.completed > 10


def test_a_share_coordinator_event_does_not_change_logged_state(monkeypatch: pytest.MonkeyPatch) -> None:
    count = check_every_event(monkeypatch, ShareCoordinatorShard)
    bench = ShareCoordinatorBench(ShareCoordinatorSettings(updates_per_snapshot=2))
    bench.call(initialize_request())
    for offset in range(5):
        bench.call(write_request((offset, offset, 2, 1)))
        bench.call(read_request(offset))
        bench.advance(300_000)
    served = logged_state(bench.shard)
    bench.reload()
    assert logged_state(bench.shard) == served
    bench.delete_topic(TOPIC)
    bench.advance(0)
    assert count() > 20


def test_a_controller_event_does_not_change_logged_state(monkeypatch: pytest.MonkeyPatch) -> None:
    count = check_every_event(monkeypatch, ControllerMachine)
    bench = MachineBench.started(3)
    bench.submit(
        CreateTopicsRequest(topics=[CreatableTopic(name="t", num_partitions=4, replication_factor=3)])
    )
    bench.wait(60_000)
    assert count() > 10
    assert len(bench.image.topics.by_name) == 1


def test_the_same_records_give_the_same_group_state() -> None:
    chaos = GroupChaos(0)
    chaos._begin_faults()
    chaos.clock.run_for(100_000)
    chaos._end_faults()
    chaos.clock.run_for(100_000)
    assert logged_state(chaos.coordinator.replayed()) == logged_state(chaos.coordinator.replayed())
    assert chaos.coordinator.shard is not None
    assert logged_state(chaos.coordinator.replayed()) == logged_state(chaos.coordinator.shard)


def test_the_same_records_give_the_same_transaction_state() -> None:
    run = TxnSimulation(2)
    run.run(600)
    served = logged_state(run.bench.shard)
    run.bench.reload()
    assert logged_state(run.bench.shard) == served


def test_the_same_records_give_the_same_metadata() -> None:
    bench, replayed = MachineBench.started(3), MachineBench.started(0)
    replayed.machine.load(type(bench.image)())
    for offset, (record, _) in enumerate(bench.log):
        replayed.machine.replay(record, offset)
    assert logged_state(replayed.machine) == logged_state(bench.machine)


@pytest.mark.parametrize("name", sorted(modules()))
def test_machines_import_no_io(name: str) -> None:
    file = importlib.import_module(name).__file__
    assert file is not None
    imported = {
        module.partition(".")[0]
        for node in ast.walk(ast.parse(Path(file).read_text()))
        for module in (
            [alias.name for alias in node.names]
            if isinstance(node, ast.Import)
            else [node.module or ""]
            if isinstance(node, ast.ImportFrom)
            else []
        )
    }
    assert imported.isdisjoint(FORBIDDEN_MODULES)
