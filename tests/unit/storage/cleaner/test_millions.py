"""Many updates and deletes of many keys, written and compacted alternately, equal a plain dict.

RUSLO_COMPACTION_UPDATES sets their number; 3000000 takes minutes.
"""

from __future__ import annotations

import os
import random
from dataclasses import replace
from pathlib import Path

from tests.unit.storage.compacting import COMPACTED, LIMITS, compact, kept_records, keyed, roll
from tests.unit.storage.workbench import Workbench

UPDATES = int(os.environ.get("RUSLO_COMPACTION_UPDATES", "120000"))
BATCH = 200
ROUNDS = 4


def test_updates_and_deletes_equal_a_dict(tmp_path: Path) -> None:
    config = replace(COMPACTED, segment_bytes=1 << 20, index_interval_bytes=4096, delete_retention_ms=0)
    bench = Workbench(tmp_path, config)
    chance = random.Random(8)
    keys = UPDATES // 8
    expected: dict[bytes, bytes] = {}
    checkpoint: int | None = None
    for round_ in range(ROUNDS):
        for _ in range(UPDATES // ROUNDS // BATCH):
            pairs: list[tuple[bytes | None, bytes | None]] = []
            for _ in range(BATCH):
                # Some keys are far more popular than others.
                key = b"user-%d" % int(keys * chance.random() ** 3)
                value = (
                    None if chance.random() < 0.1 else b"%x" % chance.getrandbits(chance.randrange(8, 200))
                )
                pairs.append((key, value))
                if value is None:
                    expected.pop(key, None)
                else:
                    expected[key] = value
            bench.append(keyed(pairs, codec=(0, 3)[round_ % 2], timestamp=bench.clock.ms))
        roll(bench)
        # The memory is too small for all keys at once.
        done = compact(bench, checkpoint, LIMITS._replace(memory_bytes=keys * 20))
        assert done is not None
        checkpoint, stats = done
        assert stats.keys_passes > 1
        bench.clock.ms += 1
    bench.append(keyed([(b"last", b"one")], timestamp=bench.clock.ms))
    expected[b"last"] = b"one"
    roll(bench)
    compact(bench, checkpoint)
    kept = kept_records(bench.log)
    # After tombstones were removed every key has exactly one record.
    assert {key: value for _, key, value in kept if value is not None} == expected
    assert len(kept) == len({key for _, key, _ in kept})
    assert not [key for _, key, value in kept if value is None]
    bench.reopen(clean=False)
    assert kept_records(bench.log) == kept
