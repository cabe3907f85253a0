"""A share group on a cluster of whole nodes under faults, in virtual time, determined by a seed.

``python -m tests.support.share.share_chaos FIRST-LAST [MUTANT]`` runs seeds and prints the invariant that a
seed breaks, or that all have held. Members fetch and acknowledge, hang until their locks expire, close their
sessions or lose their connections, while leaders and share coordinators are killed, paused and isolated.
"""

from __future__ import annotations

import asyncio
import random
import sys
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import Final

from ruslo.broker.share_partitions.led_partition import LedSharePartition
from ruslo.broker.share_partitions.state_writer import StateWriter
from ruslo.client.admin.admin import Admin
from ruslo.client.admin.topics import NewTopic
from ruslo.client.wire.cluster import Cluster
from ruslo.client.wire.raw import RawClient
from ruslo.machines.share_coordinator.records import ShareKey
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, uuid_to_text
from ruslo.model.topics import SHARE_STATE_TOPIC, TopicPartition
from ruslo.protocol.messages import share_acknowledge_request as acknowledge_request
from ruslo.protocol.messages import share_fetch_request as fetch_request
from ruslo.protocol.messages.find_coordinator_request import FindCoordinatorRequest
from ruslo.protocol.messages.find_coordinator_response import FindCoordinatorResponse
from ruslo.protocol.messages.initialize_share_group_state_response import InitializeShareGroupStateResponse
from ruslo.protocol.messages.share_acknowledge_response import ShareAcknowledgeResponse
from ruslo.protocol.messages.share_fetch_response import ShareFetchResponse
from ruslo.testing.simulation.clock import SimClock
from ruslo.testing.simulation.nodes.clients.client import SimClient
from ruslo.testing.simulation.nodes.clients.writers import batch_of
from ruslo.testing.simulation.nodes.cluster import SimCluster
from ruslo.testing.simulation.nodes.host import SimHost
from ruslo.testing.simulation.raft.invariants import InvariantBrokenError
from ruslo.testing.simulation.txns.process import History
from tests.support.share.state_requests import initialize_request

ACCEPTED_ONCE: Final = "an accepted record is never delivered again"
DELIVERED: Final = "every record is delivered until it is accepted"
DELIVERY_LIMIT: Final = "no delivery count is above the limit"
START_INCREASES: Final = "the start offset of a share-partition never decreases"
PROGRESS: Final = "the group makes progress once faults have ended"

GROUP = "shared"
PARTITIONS = [TopicPartition("work", 0), TopicPartition("work", 1)]
LIMIT, LOW_LIMIT = 10, 3
"""With the low delivery limit, a record may be archived by deliveries whose responses are lost."""
LOCK_MS = 1_000
FAULTS_MS = 6_000
RECOVERY_MS = 60_000
PROPERTIES = {
    "share.coordinator.state.topic.num.partitions": "2",
    "share.coordinator.state.topic.replication.factor": "3",
    "share.coordinator.state.topic.min.isr": "2",
    "share.coordinator.snapshot.update.records.per.snapshot": "10",
    "group.share.min.record.lock.duration.ms": str(LOCK_MS),
    "group.share.record.lock.duration.ms": str(LOCK_MS),
}
ACCEPT, RELEASE = 1, 2
_RETRIED = (
    ErrorCode.NOT_COORDINATOR,
    ErrorCode.COORDINATOR_NOT_AVAILABLE,
    ErrorCode.COORDINATOR_LOAD_IN_PROGRESS,
)


class Deliveries:
    """What members have seen, and the checks of it."""

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self.produced: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        """The offsets of acknowledged records."""
        self.accepted: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        self.undecided: defaultdict[TopicPartition, set[int]] = defaultdict(set)
        """Accepted by a request whose outcome is unknown."""
        self.counts: defaultdict[TopicPartition, dict[int, int]] = defaultdict(dict)
        """The last delivery count that a member has seen."""
        self.deliveries = 0
        self.redeliveries = 0
        self.persisted: dict[ShareKey, int] = {}
        """The start offset of the last write that succeeded."""
        self._starts: dict[int, tuple[LedSharePartition, int]] = {}

    def delivered(self, tp: TopicPartition, offset: int, count: int, accepted_before: set[int]) -> None:
        """``accepted_before``: the offsets that were accepted when the fetch was sent."""
        self.deliveries += 1
        self.redeliveries += count > 1
        if offset in accepted_before:
            raise InvariantBrokenError(ACCEPTED_ONCE, f"{tp} {offset} with delivery count {count}")
        if not 1 <= count <= self._limit:
            raise InvariantBrokenError(DELIVERY_LIMIT, f"{tp} {offset}: {count}")
        self.counts[tp][offset] = count

    def check_starts(self, host: SimHost) -> None:
        if host.node is None or not host.ready:
            return
        for led in host.node.broker.share_partitions:
            if led.machine is None:
                continue
            start = led.machine.start_offset
            known = self._starts.get(id(led))
            least = known[1] if known is not None else self.persisted.get(led.key, 0)
            if start < least and led.is_current and (known is not None or self._is_newest(led)):
                raise InvariantBrokenError(START_INCREASES, f"{led}: {start} after {least}")
            self._starts[id(led)] = led, start

    def _is_newest(self, led: LedSharePartition) -> bool:
        """Whether no leader of a later epoch is known: an isolated one may still believe that it leads."""
        return all(
            other.leader_epoch <= led.leader_epoch
            for other, _ in self._starts.values()
            if other.key == led.key
        )

    def missing(self) -> dict[TopicPartition, list[int]]:
        """Acknowledged records that were neither accepted nor delivered as often as the limit allows."""
        if self._limit == LOW_LIMIT:
            return {}
        return {
            tp: lost
            for tp, offsets in self.produced.items()
            if (
                lost := sorted(
                    offset
                    for offset in offsets - self.accepted[tp] - self.undecided[tp]
                    if self.counts[tp].get(offset, 0) < self._limit - 1
                )
            )
        }


class Producer(SimClient):
    def __init__(self, cluster: SimCluster, deliveries: Deliveries) -> None:
        super().__init__("producer", cluster, History())
        self._deliveries = deliveries

    async def run(self) -> None:
        number = 0
        async with self.connect() as cluster:
            raw = RawClient(cluster)
            while not self.stopping:
                await self.pause(120)
                tp = self.random.choice(PARTITIONS)
                values = [f"{number + at}" for at in range(self.random.randint(1, 5))]
                number += len(values)
                try:
                    result = (await raw.produce({tp: batch_of(self.now_ms(), "k", *values)}))[tp]
                except KafkaError:
                    continue
                base = result.base_offset
                self._deliveries.produced[tp].update(range(base, base + len(values)))


class Member(SimClient):
    """Each incarnation is another member, with a connection of its own."""

    def __init__(self, name: str, cluster: SimCluster, deliveries: Deliveries) -> None:
        super().__init__(name, cluster, History())
        self._deliveries = deliveries
        self.is_draining = False
        """Accept everything, as fast as possible."""

    async def run(self) -> None:
        incarnation = 0
        while not self.stopping:
            incarnation += 1
            async with self.connect() as cluster:
                try:
                    leaders = await cluster.leaders(PARTITIONS)
                    node = self.random.choice(sorted(leaders))
                    topic = await cluster.topic_id("work")
                    await self._consume(cluster, node, topic, leaders[node], f"{self.name}.{incarnation}")
                except KafkaError:
                    await self.pause(200)

    async def _consume(
        self, cluster: Cluster, node: int, topic: Uuid, tps: list[TopicPartition], member: str
    ) -> None:
        epoch = 0
        for _ in range(self.random.randint(2, 8)):
            accepted_before = {tp: set(offsets) for tp, offsets in self._deliveries.accepted.items()}
            request = fetch_request.ShareFetchRequest(
                group_id=GROUP,
                member_id=member,
                share_session_epoch=epoch,
                max_wait_ms=self.random.choice((20, 200)),
                min_bytes=1,
                max_bytes=1 << 20,
                max_records=self.random.choice((1, 4, 50)),
                batch_size=self.random.choice((1, 100)),
                topics=[
                    fetch_request.FetchTopic(
                        topic_id=topic,
                        partitions=[fetch_request.FetchPartition(partition_index=tp.partition) for tp in tps],
                    )
                ]
                if epoch == 0
                else [],
            )
            response = await cluster.node(node, request, ShareFetchResponse)
            if response.error_code:
                return
            epoch += 1
            acquired: dict[int, list[tuple[int, int]]] = {}
            for found in response.responses:
                for result in found.partitions:
                    tp = TopicPartition("work", result.partition_index)
                    for each in result.acquired_records:
                        acquired.setdefault(tp.partition, []).append((each.first_offset, each.last_offset))
                        for offset in range(each.first_offset, each.last_offset + 1):
                            self._deliveries.delivered(
                                tp, offset, each.delivery_count, accepted_before.get(tp, set())
                            )
            if acquired and not await self._acknowledge(cluster, node, topic, member, epoch, acquired):
                return
            epoch += bool(acquired)
            if not self.is_draining:
                await self.pause(60)
        if self.random.random() < 0.5:
            await self._acknowledge(cluster, node, topic, member, -1, {})

    async def _acknowledge(
        self,
        cluster: Cluster,
        node: int,
        topic: Uuid,
        member: str,
        epoch: int,
        acquired: dict[int, list[tuple[int, int]]],
    ) -> bool:
        """False: the member keeps its records until its connection or their locks end."""
        if not self.is_draining and epoch > 0:
            mishap = self.random.random()
            if mishap < 0.06:
                await asyncio.sleep((LOCK_MS + 200) / 1000)
            if mishap < 0.12:
                return False
        chosen = {
            index: [
                (first, last, [self._type() for _ in range(first, last + 1)])
                for first, last in sorted(ranges)
            ]
            for index, ranges in acquired.items()
        }
        accepted = {
            TopicPartition("work", index): {
                first + at for first, _, types in batches for at, kind in enumerate(types) if kind == ACCEPT
            }
            for index, batches in chosen.items()
        }
        request = acknowledge_request.ShareAcknowledgeRequest(
            group_id=GROUP,
            member_id=member,
            share_session_epoch=epoch,
            topics=[
                acknowledge_request.AcknowledgeTopic(
                    topic_id=topic,
                    partitions=[
                        acknowledge_request.AcknowledgePartition(
                            partition_index=index,
                            acknowledgement_batches=[
                                acknowledge_request.AcknowledgementBatch(
                                    first_offset=first, last_offset=last, acknowledge_types=types
                                )
                                for first, last, types in batches
                            ],
                        )
                        for index, batches in chosen.items()
                    ],
                )
            ],
        )
        for tp, offsets in accepted.items():
            self._deliveries.undecided[tp] |= offsets
        response = await cluster.node(node, request, ShareAcknowledgeResponse)
        for found in response.responses:
            for result in found.partitions:
                tp = TopicPartition("work", result.partition_index)
                if result.error_code == ErrorCode.NONE:
                    self._deliveries.accepted[tp] |= accepted.get(tp, set())
                elif result.error_code == ErrorCode.INVALID_RECORD_STATE:
                    # Rejected before anything was written.
                    self._deliveries.undecided[tp] -= accepted.get(tp, set())
        return response.error_code == ErrorCode.NONE

    def _type(self) -> int:
        return ACCEPT if self.is_draining or self.random.random() < 0.85 else RELEASE


class ShareChaos:
    def __init__(self, seed: int) -> None:
        random.seed(seed)
        self.clock = SimClock(seed)
        self._random = random.Random(seed)
        self._limit = LOW_LIMIT if seed % 3 == 0 else LIMIT
        self.deliveries = Deliveries(self._limit)
        self._failure: InvariantBrokenError | None = None

    def run(self) -> None:
        with _persisted_starts(self.deliveries.persisted):
            properties = PROPERTIES | {"group.share.delivery.count.limit": str(self._limit)}
            self.cluster = SimCluster(self.clock, properties=properties, on_step=self._check)
            self.cluster.partitions = [*PARTITIONS]
            self.cluster.start()
            self._prepare()
            producer = Producer(self.cluster, self.deliveries)
            members = [Member(f"m{number}", self.cluster, self.deliveries) for number in range(3)]
            for client in (producer, *members):
                client.start()
            self._inject_faults()
            self._end_faults()
            self._finish([producer])
            for member in members:
                member.is_draining = True
            self._run_until(
                lambda: not self.deliveries.missing(), lambda: f"{DELIVERED}: {self.deliveries.missing()}"
            )
            self._finish(members)
            for client in (producer, *members):
                assert client.process is not None
                for error in client.process.unhandled():
                    raise error

    # -- phases ----------------------------------------------------------------------------------------------

    def _prepare(self) -> None:
        done: list[bool] = []

        async def prepare() -> None:
            async with Admin(self.cluster.bootstrap) as admin:
                await admin.topics.create([NewTopic("work", len(PARTITIONS), 3, {})])
            async with Cluster(self.cluster.bootstrap) as cluster:
                topic = await cluster.topic_id("work")
                for tp in PARTITIONS:
                    await _initialize(cluster, topic, tp.partition)
            done.append(True)

        process = self.cluster.spawn("admin", prepare)
        self._run_until(lambda: bool(done), lambda: f"topics and states exist: {list(process.unhandled())}")

    def _inject_faults(self) -> None:
        end_ms = self.clock.monotonic_ms() + FAULTS_MS
        network = self.cluster.network
        while self.clock.monotonic_ms() < end_ms:
            self.clock.run_for(self._random.choice((100, 300, 700)))
            led = self._random.choice(
                [*PARTITIONS, *(TopicPartition(SHARE_STATE_TOPIC, at) for at in (0, 1))]
            )
            host = self.cluster.leader(led)
            fault = self._random.choice(("kill", "kill", "pause", "isolate", "heal", "heal", "heal"))
            up = [each for each in self.cluster.hosts.values() if each.is_up]
            if fault == "heal":
                network.heal()
                for each in self.cluster.hosts.values():
                    each.resume()
            elif host is None or len(up) < len(self.cluster.hosts):
                continue
            elif fault == "kill":
                host.kill()
                self.clock.call_later(self._random.choice((100, 800)), host.start)
            elif fault == "pause":
                host.pause()
            elif fault == "isolate":
                network.isolate(host.address)

    def _end_faults(self) -> None:
        self.cluster.network.heal()
        for host in self.cluster.hosts.values():
            host.resume()
            host.start()
        self._run_until(self.cluster.is_healthy, lambda: "all replicas are in sync")

    def _finish(self, clients: list[Producer] | list[Member]) -> None:
        for client in clients:
            client.stopping = True
        self._run_until(lambda: all(client.done for client in clients), lambda: "clients end")

    def _run_until(self, condition: Callable[[], bool], what: Callable[[], str]) -> None:
        if not self.cluster.run_until(lambda: self._failure is not None or condition(), RECOVERY_MS):
            raise InvariantBrokenError(PROGRESS, what())
        self._raise_failure()
        for process in self.cluster._clients:
            for error in process.unhandled():
                raise error

    def _check(self, host: SimHost) -> None:
        try:
            self.deliveries.check_starts(host)
        except InvariantBrokenError as error:
            self._failure = self._failure or error

    def _raise_failure(self) -> None:
        if self._failure is not None:
            raise self._failure


async def _initialize(cluster: Cluster, topic: Uuid, partition: int) -> None:
    key = f"{GROUP}:{uuid_to_text(topic)}:{partition}"
    find = FindCoordinatorRequest(key_type=2, coordinator_keys=[key])
    while True:
        (found,) = (await cluster.any_broker(find, FindCoordinatorResponse)).coordinators
        if found.error_code == ErrorCode.NONE:
            request = initialize_request(1, 0, topic=topic, partition=partition, group=GROUP)
            response = await cluster.node(found.node_id, request, InitializeShareGroupStateResponse)
            code = response.results[0].partitions[0].error_code
            if code == ErrorCode.NONE:
                return
            assert code in _RETRIED, code
        await asyncio.sleep(0.1)


class _persisted_starts:
    """Records the start offset of every write that succeeds, on whichever node."""

    def __init__(self, persisted: dict[ShareKey, int]) -> None:
        self._persisted = persisted

    def __enter__(self) -> None:
        self._real = real = StateWriter._complete
        persisted = self._persisted

        def complete(writer: StateWriter, led: LedSharePartition, error: KafkaError | None) -> None:
            if error is None:
                start = led.writes_in_progress[-1].write.start_offset
                persisted[led.key] = max(persisted.get(led.key, 0), start)
            real(writer, led, error)

        StateWriter._complete = complete  # type: ignore[method-assign,assignment]

    def __exit__(self, *_: object) -> None:
        StateWriter._complete = self._real  # type: ignore[method-assign]


def seeds_of(text: str) -> Iterator[int]:
    first, _, last = text.rpartition("-")
    return iter(range(int(first or last), int(last) + 1))


def main(arguments: list[str]) -> int:
    from tests.support.share.share_mutants import MUTANTS

    if len(arguments) > 1:
        MUTANTS[arguments[1]].inject()
    for seed in seeds_of(arguments[0]):
        chaos = ShareChaos(seed)
        try:
            chaos.run()
        except InvariantBrokenError as error:
            print(f"seed {seed} breaks: {error}")
            return 1
        total = sum(len(offsets) for offsets in chaos.deliveries.accepted.values())
        print(
            f"seed {seed}: {chaos.deliveries.deliveries} deliveries, {chaos.deliveries.redeliveries} of them "
            f"again, {total} records accepted",
            flush=True,
        )
    return 0


if __name__ == "__main__":
    raise SystemExit(main(sys.argv[1:]))
