"""The lifecycle of this broker towards the controller: register, catch up, serve, shut down.

========== ====================================================== ==========================
state      heartbeats say                                         left when
========== ====================================================== ==========================
STARTING   want to stay fenced                                    caught up
RECOVERY   want to stay fenced (logs are being loaded)            ``unfence`` is called
RUNNING    nothing special                                        ``shut_down``
STOPPING   want to shut down                                      the controller agrees, or
                                                                  the timeout has passed
========== ====================================================== ==========================

- Heartbeats also carry failed log directories, at once when one fails. A broker that cannot report it within
  ``log.dir.failure.timeout.ms`` stops: it must not count as the leader of lost partitions (KIP-858).
- Cordoned log directories (KIP-1066) are reported once the broker knows its dynamic configs, and at once when
  they change.
- A broker that is unregistered while it runs registers again, with a new epoch. (Apache Kafka's stays out of
  service until it is restarted.)
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Callable, Coroutine, Iterable, Mapping, Sequence
from dataclasses import KW_ONLY, dataclass, field

from ruslo.broker.controller.broker_session import BrokerSession, Quorum
from ruslo.broker.controller.controller_channel import ControllerChannel
from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.config.listeners import Endpoint as ListenerEndpoint
from ruslo.machines.controller.broker_image import (
    Endpoint,
    FeatureRange,
    endpoint_structs,
    feature_structs,
)
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.records import CORDONED_LOG_DIRS_SUPPORTED
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, random_uuid
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse

logger = logging.getLogger(__name__)

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_RETRY_BACKOFF_MS = 100
_POLL_INTERVAL_MS = 10
"""Interval of heartbeats while the broker waits for their effect."""
_NO_PROGRESS_TIMEOUT_MS = 2_000
"""A controlled shutdown gives up when nothing is committed for this long: the whole cluster may be shutting
down. Moving thousands of leaderships may take longer, but a live controller commits something every half
second, at least a NoOp record (KIP-835)."""
_PROGRESS_CHECKS = 8
"""How often the metadata offset is checked within that time."""


class LifecycleState(enum.Enum):
    STARTING = "starting"
    RECOVERY = "recovery"
    RUNNING = "running"
    STOPPING = "stopping"


@dataclass(frozen=True, slots=True)
class BrokerIdentity:
    broker_id: int
    cluster_id: str
    endpoints: Sequence[Endpoint]
    """The advertised listeners."""
    log_dirs: Sequence[Uuid]
    rack: str | None = None
    previous_epoch: int = -1
    """From the clean-shutdown files; -1 unless every log directory had one."""
    incarnation_id: Uuid = field(default_factory=random_uuid)
    features: Mapping[str, FeatureRange] = field(default_factory=lambda: SUPPORTED_FEATURES)


def registered_endpoints(advertised: Iterable[ListenerEndpoint]) -> list[Endpoint]:
    return [
        Endpoint(each.listener_name, each.host, each.port, SECURITY_PROTOCOL_IDS[each.security_protocol])
        for each in advertised
    ]


@dataclass(eq=False)
class BrokerLifecycle:
    identity: BrokerIdentity
    _controller: ControllerChannel
    _metadata: MetadataLoader
    _quorum: Quorum
    _: KW_ONLY
    clock: Clock
    heartbeat_interval_ms: int = 2000
    session_timeout_ms: int = 9000
    registration_timeout_ms: int = 60_000
    offline_log_dirs: Callable[[], Sequence[Uuid]] = tuple
    cordoned_log_dirs: Callable[[], Sequence[Uuid]] = tuple
    lost_directory_timeout_ms: int = 30_000
    on_failure: Callable[[str], None] = logger.critical
    """Called with the reason why this broker must stop."""

    def __post_init__(self) -> None:
        self.incarnation_id = self.identity.incarnation_id
        self.epoch = -1
        """The broker epoch once it is registered; written to the clean-shutdown file."""
        self.state = LifecycleState.STARTING
        self.is_fenced = True
        self._session = BrokerSession(
            self._quorum, self.clock, broker_id=self.identity.broker_id, timeout_ms=self.session_timeout_ms
        )
        self._reported_cordons: list[Uuid] | None = None
        """The cordoned directories in the last heartbeat."""
        self._has_caught_up = False
        """Whether the metadata, and with it the dynamic configs, has reached the registration."""
        self._unacknowledged_since_ms: int | None = None
        """Since when there is a failed directory that the controller has not acknowledged."""
        self._heartbeat_now = asyncio.Event()
        self._heartbeats: asyncio.Task[None] | None = None
        self._metadata.subscribe(self._on_metadata_change)

    @property
    def has_session(self) -> bool:
        """Whether no other broker can lead this broker's partitions (``BrokerSession``)."""
        return self._session.is_valid

    async def register(self) -> None:
        """Register and wait until this broker has replayed its registration. Raises KafkaError on timeout."""
        try:
            await self._register_and_catch_up()
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"Broker {self.identity.broker_id} could not register within "
                f"initial.broker.registration.timeout.ms={self.registration_timeout_ms}: no active "
                "controller responded. Check that a majority of the controllers runs and that "
                "controller.quorum.voters or controller.quorum.bootstrap.servers contains them",
            ) from None
        self._has_caught_up = True
        self.state = LifecycleState.RECOVERY
        self._heartbeats = asyncio.create_task(self._send_heartbeats())

    async def _register_and_catch_up(self) -> None:
        async with asyncio.timeout(self.registration_timeout_ms / 1000):
            registered = caught_up = False
            while not registered:
                registered = await self._try_register()
                if not registered:
                    await asyncio.sleep(_RETRY_BACKOFF_MS / 1000)
            while not caught_up:
                try:
                    caught_up = (await self._heartbeat(want_fence=True)).is_caught_up
                except KafkaError as error:
                    if not _is_transient(error):
                        raise
                if not caught_up:
                    await asyncio.sleep(_POLL_INTERVAL_MS / 1000)

    async def unfence(self) -> None:
        """The logs are loaded: wait until the controller has unfenced this broker."""
        self.state = LifecycleState.RUNNING
        while True:
            try:
                if not (await self._heartbeat()).is_fenced:
                    break
            except KafkaError as error:
                logger.warning("broker %d is still fenced: %s", self.identity.broker_id, error)
                await asyncio.sleep(_RETRY_BACKOFF_MS / 1000)
                continue
            await asyncio.sleep(_POLL_INTERVAL_MS / 1000)
        await self._session.wait_until_caught_up()
        logger.info("broker %d is unfenced with epoch %d", self.identity.broker_id, self.epoch)

    def report_failed_directory(self) -> None:
        """Send a heartbeat now, because a log directory has failed."""
        if self._unacknowledged_since_ms is None:
            self._unacknowledged_since_ms = self.clock.monotonic_ms()
        self._heartbeat_now.set()

    def report_cordons(self) -> None:
        """Send a heartbeat now if the cordoned directories have changed."""
        if self._has_caught_up and self._reported_cordons != list(self.cordoned_log_dirs()):
            self._heartbeat_now.set()

    def abandon(self) -> None:
        """Stop without a controlled shutdown: the node has failed, or it is disabled."""
        self._cancel_tasks()

    def _cancel_tasks(self) -> list[asyncio.Task[None]]:
        self.state = LifecycleState.STOPPING
        tasks = self._session.cancel()
        if self._heartbeats is not None:
            self._heartbeats.cancel()
            tasks.append(self._heartbeats)
            self._heartbeats = None
        return tasks

    async def shut_down(self, timeout_ms: int = 5 * 60_000) -> bool:
        """Controlled shutdown: True when the controller has moved all leaderships away."""
        was_registered = self.epoch >= 0
        await asyncio.gather(*self._cancel_tasks(), return_exceptions=True)
        if not was_registered:
            return True
        deadline_ms = self.clock.monotonic_ms() + timeout_ms
        while (remaining_ms := deadline_ms - self.clock.monotonic_ms()) > 0:
            try:
                async with asyncio.timeout(remaining_ms / 1000):
                    response = await self._while_progressing(self._heartbeat(want_shut_down=True))
                if response.should_shut_down:
                    return True
            except TimeoutError:
                logger.warning(
                    "controlled shutdown of broker %d timed out: there is no controller, or leaderships "
                    "could "
                    "not be moved in time. Stopping anyway",
                    self.identity.broker_id,
                )
                return False
            except KafkaError as error:
                logger.warning("controlled shutdown request failed: %s", error)
                if not _is_transient(error):
                    return False
                await asyncio.sleep(_RETRY_BACKOFF_MS / 1000)
                continue
            await asyncio.sleep(_POLL_INTERVAL_MS / 1000)
        return False

    async def _while_progressing(
        self, heartbeat: Coroutine[None, None, BrokerHeartbeatResponse]
    ) -> BrokerHeartbeatResponse:
        """The response; TimeoutError if it does not arrive and nothing is committed either."""
        response = asyncio.ensure_future(heartbeat)
        offset, progress_ms = self._metadata.image.offset, self.clock.monotonic_ms()
        try:
            while True:
                await asyncio.wait([response], timeout=_NO_PROGRESS_TIMEOUT_MS / 1000 / _PROGRESS_CHECKS)
                if response.done():
                    return response.result()
                now_ms = self.clock.monotonic_ms()
                if self._metadata.image.offset != offset:
                    offset, progress_ms = self._metadata.image.offset, now_ms
                elif now_ms - progress_ms >= _NO_PROGRESS_TIMEOUT_MS:
                    raise TimeoutError
        finally:
            response.cancel()

    async def _try_register(self) -> bool:
        identity = self.identity
        request = BrokerRegistrationRequest(
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=endpoint_structs(Listener, identity.endpoints),
            features=feature_structs(Feature, identity.features),
            rack=identity.rack,
            log_dirs=list(identity.log_dirs),
            previous_broker_epoch=identity.previous_epoch,
        )
        try:
            response = await self._controller.submit(request)
        except KafkaError as error:
            # Another process may hold the id until its session expires, or no controller is elected yet.
            if error.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION and not _is_transient(error):
                raise
            logger.info("broker %d is not registered yet: %s", identity.broker_id, error)
            return False
        assert isinstance(response, BrokerRegistrationResponse)
        self.epoch = response.broker_epoch
        return True

    async def _send_heartbeats(self) -> None:
        interval_ms = self.heartbeat_interval_ms
        returning = False
        """The broker has registered again and may not have replayed it yet."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(interval_ms / 1000):
                    await self._heartbeat_now.wait()
            self._heartbeat_now.clear()
            try:
                response = await self._heartbeat(want_fence=self.state is LifecycleState.RECOVERY)
            except KafkaError as error:
                logger.warning("heartbeat of broker %d failed: %s", self.identity.broker_id, error)
                interval_ms = self.heartbeat_interval_ms
                if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED and await self._register_again():
                    returning, interval_ms = True, _POLL_INTERVAL_MS
                if self._unacknowledged_since_ms is not None:
                    interval_ms = min(interval_ms, _RETRY_BACKOFF_MS)
                    self._check_lost_directories(self._unacknowledged_since_ms)
                continue
            except Exception:
                # Without heartbeats this broker would be fenced for good.
                logger.exception("heartbeat of broker %d failed", self.identity.broker_id)
                continue
            interval_ms = self.heartbeat_interval_ms
            returning = returning and not response.is_caught_up
            if returning:
                interval_ms = _POLL_INTERVAL_MS
            elif response.is_fenced and self.state is LifecycleState.RUNNING:
                logger.warning(
                    "broker %d is fenced by the controller; waiting to be unfenced", self.identity.broker_id
                )

    def _on_metadata_change(self, delta: MetadataDelta, image: MetadataImage) -> None:
        broker_id = self.identity.broker_id
        if (
            broker_id in delta.changed_brokers
            and broker_id not in image.cluster.brokers
            and self.state in (LifecycleState.RECOVERY, LifecycleState.RUNNING)
        ):
            # Other brokers have taken over; the next heartbeat would show it too.
            self._session.end()
            self._heartbeat_now.set()

    async def _register_again(self) -> bool:
        """The broker is no longer registered: an operator has unregistered it."""
        self.is_fenced = True
        self._session.end()
        try:
            registered = await self._try_register()
        except KafkaError as error:
            logger.error("broker %d cannot register again: %s", self.identity.broker_id, error)
            return False
        if registered:
            logger.warning(
                "broker %d was unregistered while running; it registered again with epoch %d",
                self.identity.broker_id,
                self.epoch,
            )
        return registered

    def _check_lost_directories(self, since_ms: int) -> None:
        if self.clock.monotonic_ms() - since_ms >= self.lost_directory_timeout_ms:
            self.on_failure(
                "A log directory has failed, and it could not be reported to a controller within "
                f"log.dir.failure.timeout.ms={self.lost_directory_timeout_ms}"
            )

    async def _heartbeat(
        self, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        sent_ms = self._session.heartbeat_sent_ms()
        image = self._metadata.image
        offline_dirs = self.offline_log_dirs()
        request = BrokerHeartbeatRequest(
            broker_id=self.identity.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=image.offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(offline_dirs),
        )
        if self._has_caught_up and image.features.metadata_version >= CORDONED_LOG_DIRS_SUPPORTED:
            request.cordoned_log_dirs = self._reported_cordons = list(self.cordoned_log_dirs())
        # A later response would arrive after the session has expired.
        response = await self._controller.submit(request, timeout_ms=self._session.timeout_ms)
        assert isinstance(response, BrokerHeartbeatResponse)
        self.is_fenced = response.is_fenced
        self._session.renew(
            sent_ms, is_fenced=response.is_fenced, catch_up=self.state is not LifecycleState.STOPPING
        )
        if set(offline_dirs) >= set(self.offline_log_dirs()):
            self._unacknowledged_since_ms = None
        return response


def _is_transient(error: KafkaError) -> bool:
    """There is no active controller at the moment, or it does not respond: another will be elected."""
    return error.code.retriable or error.code is ErrorCode.NOT_CONTROLLER
