"""This broker's life towards the controller: register, catch up, serve, leave.

========== ====================================================== =====================
state      heartbeats say                                         leaves when
========== ====================================================== =====================
STARTING   want to stay fenced                                    caught up
RECOVERY   want to stay fenced (logs are being loaded)            ``unfence`` is called
RUNNING    nothing special                                        ``shut_down``
STOPPING   want to shut down                                      told to, or time is up
========== ====================================================== =====================

Heartbeats also name log directories that have failed, at once when one does. A broker that cannot say so
within ``log.dir.failure.timeout.ms`` stops: nobody must take it for the leader of what it lost (KIP-858).
Cordoned log directories (KIP-1066) are reported from the moment on at which the broker knows its dynamic
configs, and at once when they change.

A broker that is unregistered while it runs registers again, with a new epoch. (Apache Kafka's stays out of
service until it is restarted.)
"""

from __future__ import annotations

import asyncio
import contextlib
import enum
import logging
from collections.abc import Callable, Coroutine, Sequence
from dataclasses import dataclass, field
from typing import Protocol

from ruslo.broker.metadata.loader import MetadataLoader
from ruslo.machines.controller.broker_image import Endpoint
from ruslo.machines.controller.delta import MetadataDelta
from ruslo.machines.controller.features import SUPPORTED_FEATURES
from ruslo.machines.controller.image import MetadataImage
from ruslo.machines.controller.records import CORDONED_LOG_DIRS_SUPPORTED
from ruslo.model.clock import Clock
from ruslo.model.errors import ErrorCode, KafkaError
from ruslo.model.ids import Uuid, random_uuid
from ruslo.protocol.message import Message
from ruslo.protocol.messages.broker_heartbeat_request import BrokerHeartbeatRequest
from ruslo.protocol.messages.broker_heartbeat_response import BrokerHeartbeatResponse
from ruslo.protocol.messages.broker_registration_request import BrokerRegistrationRequest, Feature, Listener
from ruslo.protocol.messages.broker_registration_response import BrokerRegistrationResponse

logger = logging.getLogger(__name__)

SECURITY_PROTOCOL_IDS = {"PLAINTEXT": 0, "SSL": 1, "SASL_PLAINTEXT": 2, "SASL_SSL": 3}

_RETRY_MS = 100
_CATCH_UP_MS = 10
"""Between heartbeats while the broker waits for something that a heartbeat brings about."""
_STANDSTILL_MS = 2_000
"""A broker that stops does not wait longer for somebody to hand over to: the whole cluster may stop. To hand
over thousands of leaderships may take longer on a busy machine, but a controller that is alive commits
something every half a second, be it an empty record (KIP-835)."""
_LOOKS = 8
"""At the metadata, in that time."""


class ControllerChannel(Protocol):
    """The way to the active controller: the driver in this process, or a connection to another node."""

    def submit(self, request: Message, *, timeout_ms: int = 0) -> asyncio.Future[Message]: ...


class Quorum(Protocol):
    """The part of RaftDriver that tells how far this broker can trust what it knows."""

    async def catch_up(self) -> None:
        """Return when everything that is committed by now is known here; raises KafkaError."""
        ...

    def last_contact_ms(self) -> int:
        """Now; if this node is the controller, when the others last took it for that."""
        ...


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
    """What clients and other brokers are told, one for each listener."""
    log_dirs: Sequence[Uuid]
    rack: str | None = None
    previous_epoch: int = -1
    """From the clean-shutdown files; -1 unless every log directory had one."""
    incarnation_id: Uuid = field(default_factory=random_uuid)


class BrokerLifecycle:
    def __init__(
        self,
        identity: BrokerIdentity,
        controller: ControllerChannel,
        metadata: MetadataLoader,
        quorum: Quorum,
        *,
        clock: Clock,
        heartbeat_interval_ms: int = 2000,
        session_timeout_ms: int = 9000,
        registration_timeout_ms: int = 60_000,
        offline_log_dirs: Callable[[], Sequence[Uuid]] = tuple,
        cordoned_log_dirs: Callable[[], Sequence[Uuid]] = tuple,
        lost_directory_timeout_ms: int = 30_000,
        on_failure: Callable[[str], None] = logger.critical,
    ) -> None:
        """``on_failure``: told why this broker must stop."""
        self.identity = identity
        self.incarnation_id = identity.incarnation_id
        self.epoch = -1
        """The broker's epoch once it is registered; goes into the clean-shutdown file."""
        self.state = LifecycleState.STARTING
        self.is_fenced = True
        self._controller = controller
        self._metadata = metadata
        self._clock = clock
        self._heartbeat_interval_ms = heartbeat_interval_ms
        self._session_timeout_ms = session_timeout_ms
        self._session_ends_ms: int | None = None
        """Not before this will the controller fence a broker that falls silent; None: there is no session."""
        self._quorum = quorum
        self._lapses = 0
        """How often there was no session when a heartbeat was answered."""
        self._lapses_known = -1
        """After which of them everything that was decided without this broker is known here."""
        self._catching_up: asyncio.Task[None] | None = None
        self._registration_timeout_ms = registration_timeout_ms
        self._offline_log_dirs = offline_log_dirs
        self._cordoned_log_dirs = cordoned_log_dirs
        self._reported_cordons: list[Uuid] | None = None
        """The cordoned directories that the last heartbeat named."""
        self._has_caught_up = False
        """Whether the metadata, and so the dynamic configs, were once as new as the registration."""
        self._lost_directory_timeout_ms = lost_directory_timeout_ms
        self._on_failure = on_failure
        self._unacknowledged_since_ms: int | None = None
        """Since when a directory has failed of which the controller has not heard yet."""
        self._beat_now = asyncio.Event()
        self._heartbeats: asyncio.Task[None] | None = None
        metadata.subscribe(self._metadata_changed)

    @property
    def has_session(self) -> bool:
        """Whether this broker can be sure of not being fenced: what it leads, nobody else does.

        A broker that is cut off does not hear that others took over. But that is not before its session has
        run out at the controller, which began when its last heartbeat arrived, so after it was sent; to the
        controller's own broker a successor, once elected, gives a whole session. With the next session it
        must first learn who took over while there was none.
        """
        return self._session_lasts and self._lapses_known == self._lapses

    @property
    def _session_lasts(self) -> bool:
        return self._session_ends_ms is not None and self._clock.monotonic_ms() < self._session_ends_ms

    async def register(self) -> None:
        """Register, and wait until this broker has replayed that. Raises KafkaError if it takes too long."""
        try:
            await self._register_in_time()
        except TimeoutError:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"broker {self.identity.broker_id} could not register within "
                f"initial.broker.registration.timeout.ms={self._registration_timeout_ms}: no active "
                "controller answered. Check that a majority of the controllers runs and that "
                "controller.quorum.voters or controller.quorum.bootstrap.servers names them",
            ) from None
        self._has_caught_up = True
        self.state = LifecycleState.RECOVERY
        self._heartbeats = asyncio.create_task(self._heartbeat_forever())

    async def _register_in_time(self) -> None:
        async with asyncio.timeout(self._registration_timeout_ms / 1000):
            registered = caught_up = False
            while not registered:
                registered = await self._try_to_register()
                if not registered:
                    await asyncio.sleep(_RETRY_MS / 1000)
            while not caught_up:
                try:
                    caught_up = (await self._heartbeat(want_fence=True)).is_caught_up
                except KafkaError as error:
                    if not _is_passing(error):
                        raise
                if not caught_up:
                    await asyncio.sleep(_CATCH_UP_MS / 1000)

    async def unfence(self) -> None:
        """The logs are loaded: ask to serve, and wait for it."""
        self.state = LifecycleState.RUNNING
        while True:
            try:
                if not (await self._heartbeat()).is_fenced:
                    break
            except KafkaError as error:
                logger.warning("broker %d is not unfenced yet: %s", self.identity.broker_id, error)
                await asyncio.sleep(_RETRY_MS / 1000)
                continue
            await asyncio.sleep(_CATCH_UP_MS / 1000)
        if self._catching_up is not None:
            await asyncio.wait([self._catching_up])
        logger.info("broker %d serves with epoch %d", self.identity.broker_id, self.epoch)

    def directory_lost(self) -> None:
        """A log directory has failed: the controller is told now, not with the next heartbeat."""
        if self._unacknowledged_since_ms is None:
            self._unacknowledged_since_ms = self._clock.monotonic_ms()
        self._beat_now.set()

    def report_cordons(self) -> None:
        """If the cordoned directories have changed, tell the controller now, not with the next heartbeat."""
        if self._has_caught_up and self._reported_cordons != list(self._cordoned_log_dirs()):
            self._beat_now.set()

    def abandon(self) -> None:
        """Stop without a controlled shutdown: the node has failed, or was told not to hand over."""
        self.state = LifecycleState.STOPPING
        for task in (self._heartbeats, self._catching_up):
            if task is not None:
                task.cancel()
        self._heartbeats = None

    async def shut_down(self, timeout_ms: int = 5 * 60_000) -> bool:
        """Controlled shutdown: hand over leaderships; True when the controller has let this broker go."""
        was_registered = self.epoch >= 0
        running = [task for task in (self._heartbeats, self._catching_up) if task is not None]
        self.abandon()
        await asyncio.gather(*running, return_exceptions=True)
        if not was_registered:
            return True
        deadline_ms = self._clock.monotonic_ms() + timeout_ms
        while (left_ms := deadline_ms - self._clock.monotonic_ms()) > 0:
            try:
                async with asyncio.timeout(left_ms / 1000):
                    response = await self._unless_standstill(self._heartbeat(want_shut_down=True))
                if response.should_shut_down:
                    return True
            except TimeoutError:
                logger.warning(
                    "nobody has taken over from broker %d: there is no controller, or the time is up. It "
                    "stops all the same",
                    self.identity.broker_id,
                )
                return False
            except KafkaError as error:
                logger.warning("the controller did not take the wish to stop: %s", error)
                if not _is_passing(error):
                    return False
                await asyncio.sleep(_RETRY_MS / 1000)
                continue
            await asyncio.sleep(_CATCH_UP_MS / 1000)
        return False

    async def _unless_standstill(
        self, heartbeat: Coroutine[None, None, BrokerHeartbeatResponse]
    ) -> BrokerHeartbeatResponse:
        """Its answer; TimeoutError if it does not come and nothing is committed any more either."""
        asking = asyncio.ensure_future(heartbeat)
        seen, moved_ms = self._metadata.image.offset, self._clock.monotonic_ms()
        try:
            while True:
                await asyncio.wait([asking], timeout=_STANDSTILL_MS / 1000 / _LOOKS)
                if asking.done():
                    return asking.result()
                now_ms = self._clock.monotonic_ms()
                if self._metadata.image.offset != seen:
                    seen, moved_ms = self._metadata.image.offset, now_ms
                elif now_ms - moved_ms >= _STANDSTILL_MS:
                    raise TimeoutError
        finally:
            asking.cancel()

    async def _try_to_register(self) -> bool:
        identity = self.identity
        request = BrokerRegistrationRequest(
            broker_id=identity.broker_id,
            cluster_id=identity.cluster_id,
            incarnation_id=self.incarnation_id,
            listeners=[
                Listener(
                    name=each.name, host=each.host, port=each.port, security_protocol=each.security_protocol
                )
                for each in identity.endpoints
            ],
            features=[
                Feature(
                    name=name, min_supported_version=span.min_version, max_supported_version=span.max_version
                )
                for name, span in SUPPORTED_FEATURES.items()
            ],
            rack=identity.rack,
            log_dirs=list(identity.log_dirs),
            previous_broker_epoch=identity.previous_epoch,
        )
        try:
            response = await self._controller.submit(request)
        except KafkaError as error:
            # Another process may hold the id until its session runs out; a controller may not be elected yet.
            if error.code is not ErrorCode.DUPLICATE_BROKER_REGISTRATION and not _is_passing(error):
                raise
            logger.info("broker %d is not registered yet: %s", identity.broker_id, error)
            return False
        assert isinstance(response, BrokerRegistrationResponse)
        self.epoch = response.broker_epoch
        return True

    async def _heartbeat_forever(self) -> None:
        pause_ms = self._heartbeat_interval_ms
        returning = False
        """Whether the broker has registered again, and may not know of it yet."""
        while True:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(pause_ms / 1000):
                    await self._beat_now.wait()
            self._beat_now.clear()
            try:
                response = await self._heartbeat(want_fence=self.state is LifecycleState.RECOVERY)
            except KafkaError as error:
                logger.warning("heartbeat of broker %d failed: %s", self.identity.broker_id, error)
                pause_ms = self._heartbeat_interval_ms
                if error.code is ErrorCode.BROKER_ID_NOT_REGISTERED and await self._register_again():
                    returning, pause_ms = True, _CATCH_UP_MS
                if self._unacknowledged_since_ms is not None:
                    pause_ms = min(pause_ms, _RETRY_MS)
                    self._check_lost_directories(self._unacknowledged_since_ms)
                continue
            except Exception:
                # Nobody foresaw it, but without heartbeats this broker would be fenced for good.
                logger.exception("heartbeat of broker %d failed", self.identity.broker_id)
                continue
            pause_ms = self._heartbeat_interval_ms
            returning = returning and not response.is_caught_up
            if returning:
                pause_ms = _CATCH_UP_MS
            elif response.is_fenced and self.state is LifecycleState.RUNNING:
                logger.warning(
                    "broker %d is fenced by the controller; it asks to return", self.identity.broker_id
                )

    def _metadata_changed(self, delta: MetadataDelta, image: MetadataImage) -> None:
        broker_id = self.identity.broker_id
        if (
            broker_id in delta.changed_brokers
            and broker_id not in image.cluster.brokers
            and self.state in (LifecycleState.RECOVERY, LifecycleState.RUNNING)
        ):
            # Other brokers have taken over. The next heartbeat finds that out too.
            self._session_ends_ms = None
            self._beat_now.set()

    async def _register_again(self) -> bool:
        """The controller does not know this broker any more: an operator has unregistered it."""
        self.is_fenced = True
        self._session_ends_ms = None
        try:
            registered = await self._try_to_register()
        except KafkaError as error:
            logger.error("broker %d cannot register again: %s", self.identity.broker_id, error)
            return False
        if registered:
            logger.warning(
                "broker %d was unregistered while it runs: it has registered again with epoch %d",
                self.identity.broker_id,
                self.epoch,
            )
        return registered

    def _check_lost_directories(self, since_ms: int) -> None:
        if self._clock.monotonic_ms() - since_ms >= self._lost_directory_timeout_ms:
            self._on_failure(
                "a log directory has failed, and no controller could be told within "
                f"log.dir.failure.timeout.ms={self._lost_directory_timeout_ms}"
            )

    async def _heartbeat(
        self, *, want_fence: bool = False, want_shut_down: bool = False
    ) -> BrokerHeartbeatResponse:
        last_contact_ms = self._quorum.last_contact_ms()
        image = self._metadata.image
        offline_dirs = self._offline_log_dirs()
        request = BrokerHeartbeatRequest(
            broker_id=self.identity.broker_id,
            broker_epoch=self.epoch,
            current_metadata_offset=image.offset,
            want_fence=want_fence,
            want_shut_down=want_shut_down,
            offline_log_dirs=list(offline_dirs),
        )
        if self._has_caught_up and image.features.metadata_version >= CORDONED_LOG_DIRS_SUPPORTED:
            request.cordoned_log_dirs = self._reported_cordons = list(self._cordoned_log_dirs())
        # One that took longer would have come too late.
        response = await self._controller.submit(request, timeout_ms=self._session_timeout_ms)
        assert isinstance(response, BrokerHeartbeatResponse)
        self.is_fenced = response.is_fenced
        self._lapses += not self._session_lasts
        self._session_ends_ms = None if response.is_fenced else last_contact_ms + self._session_timeout_ms
        if (
            not (response.is_fenced or self.has_session)
            and self._catching_up is None
            and self.state is not LifecycleState.STOPPING
        ):
            self._catching_up = asyncio.create_task(self._learn_what_was_decided())
        if set(offline_dirs) >= set(self._offline_log_dirs()):
            self._unacknowledged_since_ms = None
        return response

    async def _learn_what_was_decided(self) -> None:
        lapses = self._lapses
        try:
            await self._quorum.catch_up()
            self._lapses_known = lapses
        except KafkaError as error:
            # With the next heartbeat it is tried again.
            logger.info(
                "broker %d cannot learn what was decided without it: %s", self.identity.broker_id, error
            )
        finally:
            self._catching_up = None


def _is_passing(error: KafkaError) -> bool:
    """Nobody is the active controller at the moment, or it does not answer: there will be another."""
    return error.code.retriable or error.code is ErrorCode.NOT_CONTROLLER
