from __future__ import annotations

import pytest

from ruslo.model.errors import CorruptLogError
from ruslo.storage.producer_entry import BatchMetadata, ProducerEntry
from ruslo.storage.producer_snapshot import EMPTY_SIZE, decode_snapshot, encode_snapshot


def entry() -> ProducerEntry:
    producer = ProducerEntry(0x0102, 3)
    producer.add_batch(BatchMetadata(last_sequence=4, last_offset=8, offset_delta=1, timestamp=99))
    producer.add_batch(BatchMetadata(last_sequence=6, last_offset=10, offset_delta=1, timestamp=100))
    producer.coordinator_epoch = 5
    producer.transaction_start = 7
    return producer


def crc32c_bit_by_bit(data: bytes) -> int:
    """The Castagnoli polynomial by definition, to check the library."""
    crc = 0xFFFFFFFF
    for byte in data:
        crc ^= byte
        for _ in range(8):
            crc = (crc >> 1) ^ (0x82F63B78 if crc & 1 else 0)
    return crc ^ 0xFFFFFFFF


def test_bytes_are_kafkas() -> None:
    body = bytes.fromhex(
        "00000001"
        "0000000000000102 0003 00000006 000000000000000a 00000001 0000000000000064 00000005 0000000000000007"
    )
    data = encode_snapshot([entry()])
    assert data[:2] == b"\x00\x01"
    assert data[6:] == body
    assert int.from_bytes(data[2:6], "big") == crc32c_bit_by_bit(body)


def test_only_the_last_batch_survives() -> None:
    (restored,) = decode_snapshot(encode_snapshot([entry()]), "p")
    assert restored.batches == [BatchMetadata(6, 10, 1, 100)]
    assert restored.next_sequence == 7
    assert (restored.epoch, restored.coordinator_epoch, restored.transaction_start) == (3, 5, 7)


def test_a_producer_with_markers_only() -> None:
    producer = ProducerEntry(1, 2)
    producer.last_timestamp = 55
    (restored,) = decode_snapshot(encode_snapshot([producer]), "p")
    assert restored.batches == []
    assert restored.next_sequence == 0
    assert restored.last_timestamp == 55


def test_no_producers() -> None:
    data = encode_snapshot([])
    assert len(data) == EMPTY_SIZE
    assert decode_snapshot(data, "p") == []


@pytest.mark.parametrize(
    "damage",
    [
        lambda data: data[:5],
        lambda data: b"\x00\x02" + data[2:],
        lambda data: data[:-1] + bytes([data[-1] ^ 1]),
        lambda data: data + b"\x00",
    ],
)
def test_damage_is_detected(damage: object) -> None:
    assert callable(damage)
    with pytest.raises(CorruptLogError):
        decode_snapshot(damage(encode_snapshot([entry()])), "p")
