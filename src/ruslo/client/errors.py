"""What a client raises besides the errors that a broker answered.

::

    KafkaError
    ├── BrokerUnreachable   no connection could be made; ``addresses`` says where it was tried
    ├── ConnectionLost      the peer closed, or sent what cannot be understood, while a request was out
    ├── RequestTimedOut     no answer in time; the request may or may not have been carried out
    │   └── BufferExhausted     buffer.memory stayed full for max.block.ms; the record was not taken
    ├── TransactionAborted  the transaction had to be given up; nothing of it was committed, begin it anew
    └── TransactionLost     the transaction was ended by somebody else; nothing of it was or will be committed
        └── ProducerFenced      a newer producer has the transactional id; this one is of no more use
    RusloError
    ├── ClientUnusable      the client was closed, or belongs to the process that this one was forked from
    └── UndecodableRecord   a deserializer failed, or a header's name is not UTF-8; ``partition`` and
                            ``offset`` say where
"""

from __future__ import annotations

import errno
import os
import re
import socket
from collections.abc import Sequence

from ruslo.model.errors import ErrorCode, KafkaError, RusloError
from ruslo.model.topics import TopicPartition


class BrokerUnreachable(KafkaError):
    def __init__(self, message: str, addresses: Sequence[tuple[str, int]], *, refused: bool = False) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)
        self.addresses = tuple(addresses)
        self.refused = refused
        """Every host answered, and said that nobody listens there: proof, unlike silence."""

    @classmethod
    def from_problems(cls, problems: Sequence[tuple[tuple[str, int], BaseException]]) -> BrokerUnreachable:
        causes = [f"{host}:{port} ({_reason(error)})" for (host, port), error in problems]
        return cls(
            f"cannot connect to {', '.join(causes)}",
            [address for address, _ in problems],
            refused=all(is_refusal(error) for _, error in problems),
        )


class ConnectionLost(KafkaError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.NETWORK_EXCEPTION, message)


class RequestTimedOut(KafkaError):
    def __init__(self, message: str) -> None:
        super().__init__(ErrorCode.REQUEST_TIMED_OUT, message)


class BufferExhausted(RequestTimedOut):
    pass


class TransactionAborted(KafkaError):
    pass


class TransactionLost(KafkaError):
    pass


class ProducerFenced(TransactionLost):
    pass


class ClientUnusable(RusloError):
    pass


class UndecodableRecord(RusloError):
    def __init__(self, part: str, partition: TopicPartition, offset: int, cause: Exception) -> None:
        super().__init__(
            f"the {part} of {partition} at offset {offset} cannot be decoded: {cause}; "
            f"seek to {offset + 1} to go on behind it"
        )
        self.partition = partition
        self.offset = offset


def is_refusal(error: BaseException) -> bool:
    """Whether the host said, at every address it has, that nobody listens."""
    if isinstance(error, ConnectionRefusedError):
        return True
    # A name with several addresses: the event loop puts all failures into one text.
    numbers = re.findall(r"\[Errno (\d+)\]", str(error)) if isinstance(error, OSError) else []
    return bool(numbers) and all(int(number) == errno.ECONNREFUSED for number in numbers)


def _reason(error: BaseException) -> str:
    if isinstance(error, ConnectionRefusedError):
        return "connection refused"
    if isinstance(error, TimeoutError):
        return "no answer in time"
    # UnicodeError: a name that no host can have, such as one with two dots in a row.
    if isinstance(error, socket.gaierror | UnicodeError):
        return "unknown host name"
    if isinstance(error, KafkaError):
        return error.message or error.code.name
    if isinstance(error, OSError) and error.errno is not None:
        return os.strerror(error.errno).lower()
    return str(error) or type(error).__name__
