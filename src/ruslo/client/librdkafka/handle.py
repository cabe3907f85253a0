"""What both clients need of librdkafka beside its calls: its errors as ours, and life across forks."""

from __future__ import annotations

import contextlib
import ctypes
import logging
import os
import re
import weakref
from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ruslo.client.errors import ClientUnusable, ProducerFenced
from ruslo.client.settings.checking import unknown_name
from ruslo.client.settings.setting import ClientConfigValue, ConfigValue, Setting
from ruslo.client.wire.bootstrap import WrongSecurityProtocol, check_reachable
from ruslo.model.errors import ConfigError, ErrorCode, KafkaError
from ruslo.net.errors import RequestTimedOut

if TYPE_CHECKING:
    import confluent_kafka

__all__ = ["ClientConfigValue", "ConfigValue", "LibrdkafkaClient", "as_kafka_error", "translated"]

H = TypeVar("H")

_NO_SUCH = re.compile(r'No such configuration property: "(.*)"')
_PROBE_S = 1.0
_live: weakref.WeakSet[LibrdkafkaClient[Any]] = weakref.WeakSet()


class LibrdkafkaClient(Generic[H]):
    """Holds a client of librdkafka, and the latest trouble that it told of."""

    def __init__(
        self,
        make: Callable[..., H],
        kind: str,
        table: Mapping[str, Setting],
        settings: Mapping[str, ClientConfigValue],
    ) -> None:
        self.trouble: KafkaError | None = None
        self._bootstrap = str(settings.get("bootstrap.servers", ""))
        self._encrypted = str(settings.get("security.protocol", "")).upper().endswith("SSL")
        self.untrusted: KafkaError | None = None
        """That a certificate was refused, a broker's or ours: this does not pass by itself."""
        self.unusable: str | None = None
        config: dict[str, object] = dict(settings)
        tell = config.pop("error_cb", None)

        def on_error(error: confluent_kafka.KafkaError) -> None:
            # That all brokers are down is no news after the reason why the last one is.
            if self.trouble is None or error.code() != confluent_kafka.KafkaError._ALL_BROKERS_DOWN:
                self.trouble = as_kafka_error(error)
            if error.code() == confluent_kafka.KafkaError._SSL:
                self.untrusted = self.trouble
            if callable(tell):
                tell(error)

        config["error_cb"] = on_error
        config.setdefault("logger", logging.getLogger("ruslo.client.librdkafka.handle"))
        import confluent_kafka

        try:
            self.handle = make(config)
        except (confluent_kafka.KafkaException, ValueError, TypeError) as error:
            text = _text(error)
            if match := _NO_SUCH.search(text):
                raise unknown_name(kind, table, match[1]) from None
            raise ConfigError(f"librdkafka refuses these settings: {text}") from error
        _live.add(self)

    def check_usable(self) -> None:
        if self.unusable is not None:
            raise ClientUnusable(self.unusable)

    def why(self) -> str:
        """The latest trouble, to be added to the message of a time-out."""
        return "" if self.trouble is None else f"; the latest trouble: {self.trouble.message}"

    def raise_if_untrusted(self) -> None:
        """Raise that a certificate was refused, once for each time that librdkafka tells of it."""
        untrusted, self.untrusted = self.untrusted, None
        if untrusted is not None:
            raise KafkaError(untrusted.code, untrusted.message)

    def raise_lasting_trouble(self) -> None:
        """Raise what keeps this client from every broker, however long it waits; may ask the brokers."""
        self.raise_if_untrusted()
        try:
            check_reachable(self._bootstrap, encrypted=self._encrypted, timeout_s=_PROBE_S)
        except WrongSecurityProtocol:
            raise
        except (KafkaError, ConfigError):
            return  # this may pass

    def abandon(self) -> None:
        """In a forked child librdkafka's threads are missing, and destroying its client waits for them."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.handle))
        self.unusable = "this client was made before the process forked: make a new one in the child"


def _abandon_all() -> None:
    for client in list(_live):
        client.abandon()


os.register_at_fork(after_in_child=_abandon_all)


@contextlib.contextmanager
def translated() -> Iterator[None]:
    """librdkafka's exceptions as ours."""
    from confluent_kafka import KafkaException

    try:
        yield
    except KafkaException as error:
        raise as_kafka_error(error.args[0]) from error


def as_kafka_error(error: confluent_kafka.KafkaError) -> KafkaError:
    """librdkafka's own codes lie below -1; they are time-outs or troubles with the network for the caller."""
    from confluent_kafka import KafkaError as Theirs

    code, text = error.code(), error.str()
    if code in (Theirs._FENCED, ErrorCode.PRODUCER_FENCED):
        message = (
            "a newer producer uses the transactional id, or the transaction ran out of time "
            f"(transaction.timeout.ms): close this producer ({text})"
        )
        return ProducerFenced(ErrorCode.PRODUCER_FENCED, message)
    if code in ErrorCode._value2member_map_:
        return KafkaError(ErrorCode(code), text)
    if code in (Theirs._TIMED_OUT, Theirs._MSG_TIMED_OUT, Theirs._TIMED_OUT_QUEUE):
        return RequestTimedOut(text)
    if code in (Theirs._PURGE_QUEUE, Theirs._PURGE_INFLIGHT):
        message = "the record was dropped: its transaction was aborted, or the producer closed in time"
        return KafkaError(ErrorCode.OPERATION_NOT_ATTEMPTED, message)
    ours = {
        Theirs._UNKNOWN_TOPIC: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        Theirs._UNKNOWN_PARTITION: ErrorCode.UNKNOWN_TOPIC_OR_PARTITION,
        Theirs._TRANSPORT: ErrorCode.NETWORK_EXCEPTION,
        Theirs._ALL_BROKERS_DOWN: ErrorCode.NETWORK_EXCEPTION,
        Theirs._RESOLVE: ErrorCode.NETWORK_EXCEPTION,
        Theirs._SSL: ErrorCode.NETWORK_EXCEPTION,
        Theirs._AUTO_OFFSET_RESET: ErrorCode.OFFSET_OUT_OF_RANGE,
        Theirs._AUTHENTICATION: ErrorCode.SASL_AUTHENTICATION_FAILED,
        Theirs._STATE: ErrorCode.INVALID_REQUEST,
    }.get(code)
    if ours is not None:
        return KafkaError(ours, text)
    return KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, f"{text} ({error.name()})")


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return inner.str() if hasattr(inner, "str") else str(inner)
