from __future__ import annotations

import pytest

from ruslo.records import batch as layout
from ruslo.records.batch import read_header
from ruslo.records.builder import build_batch, rebuild_batch
from ruslo.records.compression import Codec
from ruslo.records.describe import describe_batch
from ruslo.records.reader import read_records
from tests.unit.records.examples import KEYED, NOW


def test_a_transactional_batch() -> None:
    batch = build_batch(
        KEYED,
        base_offset=30,
        codec=Codec.SNAPPY,
        producer_id=6,
        producer_epoch=1,
        base_sequence=9,
        leader_epoch=2,
        attributes=layout.TRANSACTIONAL,
    )
    header = read_header(batch)
    assert describe_batch(header, True) == {
        "baseOffset": 30,
        "lastOffset": 34,
        "count": 5,
        "baseSequence": 9,
        "lastSequence": 13,
        "producerId": 6,
        "producerEpoch": 1,
        "partitionLeaderEpoch": 2,
        "isTransactional": True,
        "isControl": False,
        "deleteHorizonMs": None,
        "timestampType": "CreateTime",
        "maxTimestamp": NOW + 4,
        "size": len(batch),
        "magic": 2,
        "compresscodec": "snappy",
        "crc": header.crc,
        "isvalid": True,
    }


def test_horizon_append_time_and_damage() -> None:
    batch = build_batch(KEYED, attributes=layout.LOG_APPEND_TIME)
    marked = rebuild_batch(read_header(batch), list(read_records(batch)), delete_horizon_ms=NOW + 99)
    words = describe_batch(read_header(marked), False)
    assert words["deleteHorizonMs"] == NOW + 99
    assert words["timestampType"] == "LogAppendTime"
    assert words["isvalid"] is False


@pytest.mark.parametrize(("base", "last"), [(-1, -1), (0, 4), (2**31 - 2, 2)])
def test_sequences_wrap(base: int, last: int) -> None:
    header = read_header(build_batch(KEYED, producer_id=1, producer_epoch=0, base_sequence=base))
    assert describe_batch(header, True)["lastSequence"] == last


def test_an_unknown_codec() -> None:
    header = read_header(build_batch(KEYED))._replace(attributes=6)
    assert describe_batch(header, True)["compresscodec"] == "unknown(6)"
