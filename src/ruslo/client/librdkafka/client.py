"""LibrdkafkaClient: a librdkafka instance with error tracking, probes of its brokers and fork safety."""

from __future__ import annotations

import ctypes
import logging
import os
import re
import weakref
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any, Generic, TypeVar

from ruslo.client.errors import ClientUnusable
from ruslo.client.librdkafka.errors import as_kafka_error
from ruslo.client.settings.checking import unknown_name
from ruslo.client.settings.setting import ClientConfigValue, Setting
from ruslo.client.wire.listener_probe import WrongSecurityProtocol, check_reachable
from ruslo.model.errors import ConfigError, KafkaError

if TYPE_CHECKING:
    import confluent_kafka

H = TypeVar("H")

_UNKNOWN_PROPERTY = re.compile(r'No such configuration property: "(.*)"')
_PROBE_TIMEOUT_S = 1.0
_live: weakref.WeakSet[LibrdkafkaClient[Any]] = weakref.WeakSet()


class LibrdkafkaClient(Generic[H]):
    """Owns a librdkafka producer or consumer (``handle``) and remembers the last error it reported."""

    def __init__(
        self,
        make: Callable[..., H],
        kind: str,
        table: Mapping[str, Setting],
        settings: Mapping[str, ClientConfigValue],
    ) -> None:
        self.last_error: KafkaError | None = None
        self.tls_error: KafkaError | None = None
        """A TLS error, such as a rejected certificate, that was not raised yet; a retry does not fix it."""
        self.unusable: str | None = None
        """The reason why every call fails: the client was closed or forked. None while it works."""
        self._bootstrap = str(settings.get("bootstrap.servers", ""))
        self._encrypted = str(settings.get("security.protocol", "")).upper().endswith("SSL")
        config: dict[str, object] = dict(settings)
        users_callback = config.pop("error_cb", None)

        def on_error(error: confluent_kafka.KafkaError) -> None:
            # "All brokers are down" must not hide the reason why the last one is down.
            if self.last_error is None or error.code() != confluent_kafka.KafkaError._ALL_BROKERS_DOWN:
                self.last_error = as_kafka_error(error)
            if error.code() == confluent_kafka.KafkaError._SSL:
                self.tls_error = self.last_error
            if callable(users_callback):
                users_callback(error)

        config["error_cb"] = on_error
        config.setdefault("logger", logging.getLogger("ruslo.client.librdkafka"))
        import confluent_kafka

        try:
            self.handle = make(config)
        except (confluent_kafka.KafkaException, ValueError, TypeError) as error:
            text = _text(error)
            if match := _UNKNOWN_PROPERTY.search(text):
                raise unknown_name(kind, table, match[1]) from None
            raise ConfigError(f"librdkafka rejects these settings: {text}") from error
        _live.add(self)

    def check_usable(self) -> None:
        if self.unusable is not None:
            raise ClientUnusable(self.unusable)

    def last_error_suffix(self) -> str:
        """The last error, to append to the message of a timeout."""
        return "" if self.last_error is None else f"; last error: {self.last_error.message}"

    def raise_tls_error(self) -> None:
        """Raise a TLS error once for each time that librdkafka reports it."""
        error, self.tls_error = self.tls_error, None
        if error is not None:
            raise KafkaError(error.code, error.message)

    def raise_permanent_error(self) -> None:
        """Raise an error that no retry fixes: TLS, or a wrong security protocol, which this probes for."""
        self.raise_tls_error()
        try:
            check_reachable(self._bootstrap, encrypted=self._encrypted, timeout_s=_PROBE_TIMEOUT_S)
        except WrongSecurityProtocol:
            raise
        except (KafkaError, ConfigError):
            return  # a retry may succeed

    def abandon(self) -> None:
        """Leak the handle in a forked child: destroying it would wait for threads that do not exist there."""
        ctypes.pythonapi.Py_IncRef(ctypes.py_object(self.handle))
        self.unusable = "this client was created before the process forked: create a new one in the child"


def _abandon_all() -> None:
    for client in list(_live):
        client.abandon()


os.register_at_fork(after_in_child=_abandon_all)


def _text(error: Exception) -> str:
    inner = error.args[0] if error.args else error
    return inner.str() if hasattr(inner, "str") else str(inner)
