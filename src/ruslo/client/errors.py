"""Errors of clients, besides the error codes that brokers return.

::

    KafkaError
    ├── (BrokerUnreachable, ConnectionLost, RequestTimedOut: see ``net.errors``)
    ├── RequestTimedOut
    │   └── BufferExhausted     buffer.memory stayed full for max.block.ms; the record was not accepted
    ├── TransactionAborted  the transaction was aborted, nothing of it is committed: start it again
    └── TransactionLost     the coordinator aborted the transaction; nothing of it is or will be committed
        └── ProducerFenced      a newer producer uses the transactional id: close this one
    RusloError
    ├── ClientUnusable      the client was closed, or was created before this process forked
    └── UndecodableRecord   a deserializer failed, or a header name is not UTF-8; ``partition`` and
                            ``offset`` identify the record
"""

from __future__ import annotations

from ruslo.model.errors import KafkaError, RusloError
from ruslo.model.topics import TopicPartition
from ruslo.net.errors import RequestTimedOut


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
    def __init__(
        self, part: str, partition: TopicPartition, offset: int, cause: Exception, *, fix: str | None = None
    ) -> None:
        fix = fix or f"seek to {offset + 1} to skip it"
        super().__init__(f"the {part} of {partition} at offset {offset} cannot be decoded: {cause}; {fix}")
        self.partition = partition
        self.offset = offset
