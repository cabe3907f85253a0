"""Records of coordinators in the internal topics: a key that names the type, and a versioned value.

A key starts with an int16, the record type, and has no other version; a value starts with an int16, its
version. A null value is a tombstone.
"""

from __future__ import annotations

from struct import Struct

from ruslo.model.buffers import ReadBuffer
from ruslo.model.errors import ProtocolError
from ruslo.protocol._api_table import GROUP_RECORDS as _GROUP_ROWS
from ruslo.protocol._api_table import SHARE_RECORDS as _SHARE_ROWS
from ruslo.protocol._api_table import TRANSACTION_RECORDS as _TRANSACTION_ROWS
from ruslo.protocol.message import Message
from ruslo.protocol.modules import message_class

_PREFIX = Struct(">h")
_KEY_VERSION = 0


class UnknownRecordTypeError(ProtocolError):
    """A key whose type this release does not support; loaders skip such records."""

    def __init__(self, topic: str, record_type: int) -> None:
        super().__init__(f"record type {record_type} of {topic} is not supported")
        self.record_type = record_type


class CoordinatorRecords:
    """The record types of one internal topic."""

    def __init__(self, topic: str, rows: tuple[tuple[int, str], ...]) -> None:
        self.topic = topic
        self._names = dict(rows)
        self._classes: dict[int, tuple[type[Message], type[Message]]] = {}

    def classes(self, record_type: int) -> tuple[type[Message], type[Message]]:
        """The classes of the key and the value."""
        known = self._classes.get(record_type)
        if known is None:
            name = self._names.get(record_type)
            if name is None:
                raise UnknownRecordTypeError(self.topic, record_type)
            known = message_class(f"{name}Key"), message_class(f"{name}Value")
            self._classes[record_type] = known
        return known

    def encode_key(self, key: Message) -> bytes:
        if not isinstance(key, self.classes(key.API_KEY)[0]):
            raise ProtocolError(f"{type(key).__name__} is not a key of {self.topic}")
        out = bytearray(_PREFIX.pack(key.API_KEY))
        key.write(out, _KEY_VERSION)
        return bytes(out)

    def encode_value(self, value: Message, version: int) -> bytes:
        if not isinstance(value, self.classes(value.API_KEY)[1]):
            raise ProtocolError(f"{type(value).__name__} is not a value of {self.topic}")
        body = value.to_bytes(version)
        return _PREFIX.pack(version) + body

    def decode_key(self, data: ReadBuffer) -> Message:
        key_class, _ = self.classes(self._prefix(data))
        key, end = key_class.read(data, _PREFIX.size, _KEY_VERSION)
        return self._whole(key, data, end)

    def decode_value(self, record_type: int, data: ReadBuffer) -> tuple[Message, int]:
        """The value of a key of this type, and its version."""
        _, value_class = self.classes(record_type)
        version = self._prefix(data)
        value, end = value_class.read(data, _PREFIX.size, version)
        return self._whole(value, data, end), version

    def decode(self, key: ReadBuffer, value: ReadBuffer | None) -> tuple[Message, Message | None]:
        decoded = self.decode_key(key)
        return decoded, None if value is None else self.decode_value(decoded.API_KEY, value)[0]

    def _prefix(self, data: ReadBuffer) -> int:
        if len(data) < _PREFIX.size:
            raise ProtocolError(
                f"malformed record of {self.topic}: {len(data)} bytes are too few for a type or version"
            )
        prefix: int = _PREFIX.unpack_from(data)[0]
        return prefix

    def _whole(self, message: Message, data: ReadBuffer, end: int) -> Message:
        if end != len(data):
            left, name = len(data) - end, type(message).__name__
            raise ProtocolError(f"malformed record of {self.topic}: {left} bytes follow the {name}")
        return message


GROUP_RECORDS = CoordinatorRecords("__consumer_offsets", _GROUP_ROWS)
TRANSACTION_RECORDS = CoordinatorRecords("__transaction_state", _TRANSACTION_ROWS)
SHARE_RECORDS = CoordinatorRecords("__share_group_state", _SHARE_ROWS)
