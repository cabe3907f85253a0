"""The hand-written encoder of transaction log records writes the same bytes as the generated messages."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from ruslo.machines.txns.metadata import TxnMetadata
from ruslo.machines.txns.record_bytes import state_bytes, tombstone_bytes
from ruslo.machines.txns.records import PLAIN_VERSION, TAGGED_VERSION, by_topic, state_of
from ruslo.machines.txns.states import LOGGED, TxnState
from ruslo.model.topics import TopicPartition
from ruslo.protocol.coordinator_records import TRANSACTION_RECORDS
from ruslo.protocol.messages.transaction_log_key import TransactionLogKey
from ruslo.protocol.messages.transaction_log_value import PartitionsSchema, TransactionLogValue

IDS = st.text(min_size=1, max_size=200)
INT64 = st.integers(-(1 << 63), (1 << 63) - 1)
PRODUCER_IDS = st.integers(-1, (1 << 63) - 1)
PARTITIONS = st.frozensets(
    st.builds(
        TopicPartition,
        st.sampled_from(["t", "orders", "a" * 126, "b" * 127, "заказы"]),
        st.integers(0, (1 << 31) - 1),
    ),
    max_size=6,
)
STATES = st.builds(
    TxnMetadata,
    producer_id=PRODUCER_IDS,
    epoch=st.integers(-1, 32_767),
    state=st.sampled_from(sorted(LOGGED)),
    timeout_ms=st.integers(0, (1 << 31) - 1),
    last_update_ms=INT64,
    start_ms=INT64,
    partitions=PARTITIONS,
    previous_producer_id=PRODUCER_IDS,
    next_producer_id=PRODUCER_IDS,
    client_version=st.integers(0, 2),
)


def generated(metadata: TxnMetadata, version: int) -> bytes:
    value = TransactionLogValue(
        producer_id=metadata.producer_id,
        producer_epoch=metadata.epoch,
        transaction_timeout_ms=metadata.timeout_ms,
        transaction_status=metadata.state,
        transaction_partitions=None
        if metadata.state is TxnState.EMPTY
        else [
            PartitionsSchema(topic=topic, partition_ids=indexes)
            for topic, indexes in by_topic(metadata.partitions)
        ],
        transaction_last_update_timestamp_ms=metadata.last_update_ms,
        transaction_start_timestamp_ms=metadata.start_ms,
    )
    if version >= TAGGED_VERSION:
        value.previous_producer_id = metadata.previous_producer_id
        value.next_producer_id = metadata.next_producer_id
        value.client_transaction_version = metadata.client_version
    return TRANSACTION_RECORDS.encode_value(value, version)


@given(IDS, STATES, st.sampled_from([PLAIN_VERSION, TAGGED_VERSION]))
def test_encoder_matches_the_generated_messages(
    transactional_id: str, metadata: TxnMetadata, version: int
) -> None:
    key, value = state_bytes(transactional_id, metadata, version)
    assert key == TRANSACTION_RECORDS.encode_key(TransactionLogKey(transactional_id=transactional_id))
    assert value == generated(metadata, version)
    assert tombstone_bytes(transactional_id) == (key, None)


@given(STATES)
def test_round_trip(metadata: TxnMetadata) -> None:
    if metadata.state is TxnState.EMPTY:
        metadata = metadata._replace(partitions=frozenset())
    _, value = state_bytes("t", metadata, TAGGED_VERSION)
    assert value is not None
    decoded, version = TRANSACTION_RECORDS.decode_value(TransactionLogKey.API_KEY, value)
    assert isinstance(decoded, TransactionLogValue)
    assert (state_of(decoded), version) == (metadata, TAGGED_VERSION)


def test_topic_with_many_partitions_has_a_long_length() -> None:
    many = frozenset(TopicPartition("t", index) for index in range(1_000))
    metadata = TxnMetadata(1, 0, TxnState.ONGOING, 1_000, 5, 5, many, 1)
    assert state_bytes("t", metadata, TAGGED_VERSION)[1] == generated(metadata, TAGGED_VERSION)
