from __future__ import annotations

import pytest

from ruslo.model.errors import CorruptLogError
from ruslo.storage.txn_index import AbortedTransaction, parse

ABORTED = AbortedTransaction(producer_id=9, first_offset=4, last_offset=11, last_stable_offset=12)


def test_bytes_are_kafkas() -> None:
    assert ABORTED.to_bytes() == bytes.fromhex(
        "0000 0000000000000009 0000000000000004 000000000000000b 000000000000000c"
    )
    assert len(ABORTED.to_bytes()) == 34


def test_round_trip() -> None:
    later = ABORTED._replace(last_offset=20)
    assert list(parse(ABORTED.to_bytes() + later.to_bytes(), "p")) == [ABORTED, later]


@pytest.mark.parametrize("data", [ABORTED.to_bytes()[:-1], b"\x00\x01" + ABORTED.to_bytes()[2:]])
def test_damage_is_detected(data: bytes) -> None:
    with pytest.raises(CorruptLogError):
        list(parse(data, "p"))
