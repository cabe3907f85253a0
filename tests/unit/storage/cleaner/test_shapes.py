"""Records of different layouts: long runs of one layout, and records that interrupt them.

Bulk reads and reads of single records must give the same result.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import TypeAlias

import pytest

from ruslo.records.batch import TRANSACTIONAL
from ruslo.records.builder import build_batch
from ruslo.records.reader import check_crc, read_records
from ruslo.records.record import Header, Record
from tests.unit.storage.compacting import COMPACTED, LIMITS, batches_in, compact, roll
from tests.unit.storage.workbench import NOW, Workbench

KEYS = 700
CONFIG = replace(COMPACTED, segment_bytes=1 << 19, index_interval_bytes=4096)
HUGE_KEY = bytes(70_000)

Shape: TypeAlias = tuple[int, bytes | None, bytes | None, tuple[Header, ...]]


def shapes(chance: random.Random) -> Iterator[Shape]:
    """An endless sequence of timestamps, keys, values and headers."""
    moment = 0
    while True:
        size = chance.choice([0, 3, 60, 100, 1000])
        headers: tuple[Header, ...] = (
            (("trace", b"x" * chance.randrange(3)),) if chance.random() < 0.2 else ()
        )
        pace = chance.choice([0.0, 0.01, 0.3, 1.0])
        for _ in range(chance.choice([1, 7, 8, 40, 200])):
            moment += chance.random() < pace
            key = b"key-%05d" % chance.randrange(KEYS)
            yield moment, key, None if chance.random() < 0.02 else chance.randbytes(size), headers
        odd = chance.choice([None, b"", b"k", b"k" * 63, b"k" * 64, HUGE_KEY])
        moment += chance.choice([0, 0, 70, 9000])
        yield moment, odd, chance.choice([None, b"", b"odd"]), headers


def write(bench: Workbench, codec: int, attributes: int) -> list[Record]:
    chance = random.Random(codec)
    source = shapes(chance)
    written: list[Record] = []
    sequence = 0
    for _ in range(16):
        records = [
            Record(at, NOW + moment, key, value, headers)
            for at, (moment, key, value, headers) in zip(
                range(chance.choice([1, 9, 150, 900])), source, strict=False
            )
        ]
        first = bench.append(
            build_batch(
                records,
                codec=codec,
                producer_id=5 if attributes else -1,
                producer_epoch=0 if attributes else -1,
                base_sequence=sequence if attributes else -1,
                attributes=attributes,
            )
        ).base_offset
        sequence += len(records)
        written += [record._replace(offset=first + record.offset) for record in records]
    if attributes:
        bench.end_transaction(5, 1, commit=True)
    return written


@pytest.mark.parametrize("memory_bytes", [1 << 20, 120_000])
@pytest.mark.parametrize("attributes", [0, TRANSACTIONAL])
@pytest.mark.parametrize("codec", range(5))
def test_last_record_of_each_key_stays_unchanged(
    tmp_path: Path, codec: int, attributes: int, memory_bytes: int
) -> None:
    bench = Workbench(tmp_path, CONFIG)
    written = write(bench, codec, attributes)
    roll(bench)
    _, stats = compact(bench, limits=LIMITS._replace(memory_bytes=memory_bytes)) or (0, None)
    assert stats is not None
    assert (stats.keys_passes > 1) == (memory_bytes < 1 << 20)
    last = {record.key: record for record in written if record.key is not None}
    found = batches_in(bench.log)
    assert all(check_crc(batch) for _, batch in found)
    kept = [record for header, batch in found if not header.is_control for record in read_records(batch)]
    assert kept == sorted(last.values())
    assert {b"", b"k" * 63, b"k" * 64, HUGE_KEY} < last.keys()
