"""The share-partitions whose partitions this broker leads, and the share sessions of their members.

A share-partition is loaded by the first fetch. It is unloaded when the leadership moves, the topic is
deleted, the group has no session here any more, or nothing has used it for a while.

One timer serves the acquisition locks of all share-partitions: each has a deadline in a heap, and the locks
of one expire in one step of the scheduler.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterator, Sequence

from ruslo.broker.coordinators.share.persister import SharePersister
from ruslo.broker.counters.share_counters import ShareCounters
from ruslo.broker.metadata.dynamic_config import DynamicConfig
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.broker.partitions.manager import PartitionManager
from ruslo.broker.scheduling.deadline_timer import DeadlineTimer
from ruslo.broker.scheduling.scheduler import Priority, Scheduler, Steps
from ruslo.broker.share_partitions.dead_letter_copier import DeadLetterCopier
from ruslo.broker.share_partitions.dead_letter_topic import DeadLetterTopics
from ruslo.broker.share_partitions.group_config import ShareGroupConfig, share_group_config
from ruslo.broker.share_partitions.led_partition import LedSharePartition, Written
from ruslo.broker.share_partitions.loading import ShareLoader
from ruslo.broker.share_partitions.persister_errors import FENCING
from ruslo.broker.share_partitions.state_writer import StateWriter
from ruslo.machines.controller.config_image import GROUP
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.feature_image import SHARE_VERSION
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.share_coordinator.records import ShareKey
from ruslo.machines.share_partition.partition import SharePartition
from ruslo.machines.share_partition.values import AcknowledgementBatch, StateWrite
from ruslo.machines.share_session import SessionKey, ShareSession, ShareSessionCache, TopicIdPartition
from ruslo.machines.timers import Timers
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError, StorageError
from ruslo.model.ids import Uuid

logger = logging.getLogger(__name__)

IDLE_MS = 300_000
"""A share-partition that no request has used for this time is unloaded; the next fetch loads it again."""
_IDLE_CHECK_S = 60


class SharePartitionManager:
    def __init__(
        self,
        dynamic_config: DynamicConfig,
        metadata: MetadataLoader,
        partitions: PartitionManager,
        persister: SharePersister,
        dead_letter_topics: DeadLetterTopics,
        clock: Clock,
        scheduler: Scheduler,
    ) -> None:
        """Subscribe to the metadata; the partition manager must have done so before."""
        self._dynamic_config = dynamic_config
        self._metadata = metadata
        self._partitions = partitions
        self._clock = clock
        self._scheduler = scheduler
        self.counters = ShareCounters()
        self.sessions = ShareSessionCache(dynamic_config.current.int("group.share.max.share.sessions"))
        self._by_group: dict[str, dict[TopicIdPartition, LedSharePartition]] = {}
        self._by_topic: dict[Uuid, dict[LedSharePartition, None]] = {}
        self._configs: dict[str, ShareGroupConfig] = {}
        """The configs of the groups in ``_by_group``."""
        loop = asyncio.get_running_loop()
        self._writer = StateWriter(persister, self._on_written, loop.call_soon, self.now_ms)
        self._loader = ShareLoader(persister, clock, self._on_loaded, self._on_load_failed, loop.call_soon)
        self._copier = DeadLetterCopier(
            dead_letter_topics,
            self.counters,
            scheduler,
            clock,
            self._submit_write,
            self._unload_if_unwanted,
            self.storage_failed,
        )
        self._deadlines: Timers[LedSharePartition] = Timers()
        self._timer = DeadlineTimer(clock, self._deadlines.deadline_ms, self._expire_locks)
        self._idle_check = loop.call_later(_IDLE_CHECK_S, self._unload_unused)
        metadata.subscribe(self.apply)

    async def stop(self) -> None:
        self._timer.stop()
        self._idle_check.cancel()
        await self._loader.stop()
        await self._copier.stop()
        await self._writer.stop()

    def __iter__(self) -> Iterator[LedSharePartition]:
        for partitions in self._by_group.values():
            yield from partitions.values()

    def now_ms(self) -> int:
        return self._clock.monotonic_ms()

    def wall_ms(self) -> int:
        return self._clock.now_ms()

    @property
    def is_enabled(self) -> bool:
        return self._metadata.image.features.level(SHARE_VERSION) > 0

    def config_of(self, group_id: str) -> ShareGroupConfig:
        found = self._configs.get(group_id)
        if found is None:
            overrides = self._metadata.image.configs.of(GROUP, group_id)
            found = share_group_config(self._dynamic_config.current, overrides)
        return found

    def storage_failed(self, error: StorageError) -> None:
        self._partitions.storage_failed(error)

    # -- share-partitions ------------------------------------------------------------------------------------

    def open(self, group_id: str, tp: TopicIdPartition) -> LedSharePartition:
        """The share-partition, which may have to load first; raises KafkaError if it is not led here."""
        led = self.get(group_id, tp)
        if led is None:
            led = self._load(group_id, tp)
        led.used_ms = self.now_ms()
        return led

    def get(self, group_id: str, tp: TopicIdPartition) -> LedSharePartition | None:
        """The share-partition, if it is in memory and this broker still leads it."""
        led = self._by_group.get(group_id, {}).get(tp)
        if led is not None:
            self.check(led)
            if led.failure is not None:
                return None
        return led

    def check(self, led: LedSharePartition) -> None:
        """Unload the share-partition if this broker does not lead it in the same leader epoch any more."""
        if led.failure is None and not led.is_current:
            self._unload(
                led, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"The leader of {led.partition} changed.")
            )

    def _load(self, group_id: str, tp: TopicIdPartition) -> LedSharePartition:
        topic_id, index = tp
        partition = self._partitions.by_id.get(topic_id, {}).get(index)
        if partition is None:
            raise self._partitions.missing(topic_id, index)
        partition.require_leader()
        config = self._configs[group_id] = self.config_of(group_id)
        led = LedSharePartition(
            ShareKey(group_id, topic_id, index),
            partition,
            config,
            partition.leader_epoch,
            self.now_ms(),
            self._clock.monotonic_ns(),
        )
        self._by_group.setdefault(group_id, {})[tp] = led
        self._by_topic.setdefault(topic_id, {})[led] = None
        self._loader.load(led)
        return led

    def _on_loaded(self, led: LedSharePartition, machine: SharePartition) -> None:
        self.counters.load_times.observe(self._clock.monotonic_ns() - led.created_ns)
        if led.failure is None:
            machine.settings = led.config.settings
            led.machine = machine
            self._copier.wake(led)
            led.wake_all_fetches()
            self._unload_if_unwanted(led)

    def _on_load_failed(self, led: LedSharePartition, error: KafkaError | StorageError) -> None:
        logger.info("Loading the share-partition %s failed: %s", led, error)
        if isinstance(error, StorageError):
            self.storage_failed(error)
            error = KafkaError(ErrorCode.KAFKA_STORAGE_ERROR, str(error))
        self._unload(led, error)

    def _unload(self, led: LedSharePartition, reason: KafkaError) -> None:
        if led.failure is not None:
            return
        group = self._by_group.get(led.key.group_id, {})
        tp = (led.key.topic_id, led.key.partition)
        if group.get(tp) is led:
            del group[tp]
            if not group:
                del self._by_group[led.key.group_id]
                self._configs.pop(led.key.group_id, None)
        of_topic = self._by_topic.get(led.key.topic_id, {})
        of_topic.pop(led, None)
        if not of_topic:
            self._by_topic.pop(led.key.topic_id, None)
        self._deadlines.cancel(led)
        led.fail(reason)

    # -- acknowledgements ------------------------------------------------------------------------------------

    def acknowledge(
        self, led: LedSharePartition, member: str, batches: Sequence[AcknowledgementBatch]
    ) -> Written | None:
        """Acknowledge records; the result is known when they are persisted. None: nothing has to be.

        Raises KafkaError; then nothing has changed.
        """
        machine = led.machine
        if machine is None:
            raise KafkaError(
                ErrorCode.INVALID_RECORD_STATE, f"No record of {led} is acquired: it is being loaded."
            )
        led.used_ms = self.now_ms()
        write = machine.acknowledge(member, batches, self.now_ms())
        if led.config.settings.has_dead_letters:
            self._copier.note_rejections(led, batches)
        return self._submit(led, write)

    def _submit(self, led: LedSharePartition, write: StateWrite | None) -> Written | None:
        self.changed(led)
        return None if write is None else self._submit_write(led, write)

    def _submit_write(self, led: LedSharePartition, write: StateWrite) -> Written:
        written: Written = asyncio.get_running_loop().create_future()
        self._writer.submit(led, write, written)
        return written

    def _on_written(self, led: LedSharePartition, error: KafkaError | None) -> None:
        if error is None:
            led.has_persisted_start = True
        else:
            logger.warning("Writing the state of the share-partition %s failed: %s", led, error)
            if error.code in FENCING:
                self._unload(led, error)
        if led.failure is None:
            self.changed(led)
            self._copier.wake(led)
            led.wake_fetches()
            self._unload_if_unwanted(led)

    # -- sessions --------------------------------------------------------------------------------------------

    def close_session(self, key: SessionKey) -> None:
        """Close the session of a member and release its records."""
        session = self.sessions.remove(key)
        if session is not None:
            self._release(session)

    def connection_lost(self, connection: object) -> None:
        for session in self.sessions.connection_lost(connection):
            self._release(session)

    def _release(self, session: ShareSession) -> None:
        self._scheduler.run(self._release_steps(session), priority=Priority.CLUSTER, name="closed session")

    def _release_steps(self, session: ShareSession) -> Steps[None]:
        group_id, member = session.key
        for tp in session.partitions:
            if self.sessions.get(session.key) is not None:
                # The member has opened another session: its new locks look like the old ones, which expire.
                return
            led = self.get(group_id, tp)
            if led is not None and led.machine is not None:
                self._submit(led, led.machine.release(member, self.now_ms()))
                led.wake_fetches()
            yield
        for led in tuple(self._by_group.get(group_id, {}).values()):
            self._unload_if_unwanted(led)
            yield

    def _unload_if_unwanted(self, led: LedSharePartition) -> None:
        """Unload a share-partition that no session uses, or that must reload, when its writes have ended."""
        is_busy = led.queued_writes or led.writes_in_progress or led.is_copying
        is_unwanted = led.must_reload or not self.sessions.has_members(led.key.group_id)
        if not is_busy and led.machine is not None and is_unwanted:
            self._unload(led, _unloaded(led))

    def _unload_unused(self) -> None:
        self._idle_check = asyncio.get_running_loop().call_later(_IDLE_CHECK_S, self._unload_unused)
        self._scheduler.run(
            self._unload_steps(), priority=Priority.BACKGROUND, name="unused share-partitions"
        )

    def _unload_steps(self) -> Steps[None]:
        now_ms = self.now_ms()
        for led in tuple(self):
            if led.is_idle and not led.delayed_fetches and now_ms - led.used_ms >= IDLE_MS:
                self._unload(led, _unloaded(led))
            yield

    # -- acquisition locks -----------------------------------------------------------------------------------

    def changed(self, led: LedSharePartition) -> None:
        """Records of a share-partition have changed."""
        if led.failure is not None or led.machine is None:
            return
        has_writes = led.queued_writes or led.writes_in_progress
        if led.config.settings.has_dead_letters and not has_writes:
            self._copier.wake(led)
        if led.machine.breaker_state is not led.breaker_state:
            led.breaker_state = led.machine.breaker_state
            logger.warning("The circuit breaker of %s is %s.", led, led.breaker_state.value)
        deadline_ms = led.machine.deadline_ms()
        if deadline_ms is None:
            self._deadlines.cancel(led)
        else:
            self._deadlines.set(led, deadline_ms)
            self._timer.arm()

    def _expire_locks(self) -> None:
        self._scheduler.run(self._expire_steps(), priority=Priority.CLUSTER, name="expired record locks")

    def _expire_steps(self) -> Steps[None]:
        while (led := self._deadlines.pop_due(self.now_ms())) is not None:
            assert led.machine is not None
            write = led.machine.expire_locks(self.now_ms())
            if write is not None:
                count = sum(last - first + 1 for first, last, _, _ in write.batches)
                led.lock_timeouts += count
                self.counters.lock_timeouts += count
                self._writer.submit(led, write)
            self.changed(led)
            led.wake_fetches()
            yield
        self._timer.arm()

    # -- metadata --------------------------------------------------------------------------------------------

    def apply(self, delta: MetadataDelta, image: MetadataImage) -> None:
        for topic_id in delta.deleted_topics:
            for led in tuple(self._by_topic.get(topic_id, ())):
                self._unload(led, self._partitions.missing(topic_id, led.key.partition))
        for topic_id, changed in delta.changed_partitions.items():
            for led in tuple(self._by_topic.get(topic_id, ())):
                now = image.topics.partition(topic_id, led.key.partition)
                if led.key.partition in changed and (
                    now is None or (now.leader, now.leader_epoch) != (led.partition.node_id, led.leader_epoch)
                ):
                    problem = f"The leader of {led.partition} changed."
                    self._unload(led, KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, problem))
        for resource_type, group_id in delta.changed_configs:
            if resource_type == GROUP and group_id in self._configs:
                del self._configs[group_id]
                config = self._configs[group_id] = self.config_of(group_id)
                for led in tuple(self._by_group[group_id].values()):
                    if config.is_ordered_by_key and not led.config.is_ordered_by_key:
                        # The order needs the keys of all records in flight, so it starts with none.
                        led.must_reload = True
                        self._unload_if_unwanted(led)
                    else:
                        led.configure(config)
                        self.changed(led)
                        led.wake_fetches()
        if SHARE_VERSION in delta.changed_features and not self.is_enabled:
            self.sessions.clear()
            for led in tuple(self):
                self._unload(led, _unloaded(led))


def _unloaded(led: LedSharePartition) -> KafkaError:
    return KafkaError(ErrorCode.NOT_LEADER_OR_FOLLOWER, f"The share-partition {led} was unloaded.")
