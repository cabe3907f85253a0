"""What a client raises besides the errors that a broker answered.

::

    KafkaError
    ├── (BrokerUnreachable, ConnectionLost, RequestTimedOut: see ``net.errors``)
    ├── RequestTimedOut
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
    def __init__(self, part: str, partition: TopicPartition, offset: int, cause: Exception) -> None:
        super().__init__(
            f"the {part} of {partition} at offset {offset} cannot be decoded: {cause}; "
            f"seek to {offset + 1} to go on behind it"
        )
        self.partition = partition
        self.offset = offset
