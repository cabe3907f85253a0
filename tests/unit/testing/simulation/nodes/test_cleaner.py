from __future__ import annotations

from pathlib import Path

import pytest

from ruslo.broker.partitions.cleaner_process import Cleaner, CleanerDied
from ruslo.storage.cleaner.cleanable import find_cleanable, make_task
from ruslo.testing.simulation.nodes.host import SimCleaner
from tests.unit.storage.compacting import COMPACTED, LIMITS, keyed, roll
from tests.unit.storage.workbench import NOW, Workbench


def test_cleaner_reports_each_segment(tmp_path: Path) -> None:
    bench = Workbench(tmp_path, COMPACTED)
    for value in range(60):
        bench.append(keyed([(b"%d" % (value % 3), b"%d" % value)]))
    roll(bench)
    found = find_cleanable(bench.log, None, NOW)
    assert found is not None
    cleaner: Cleaner = SimCleaner(bench.disk)
    cleaner.send(make_task(found, LIMITS, NOW))
    reports = [cleaner.receive()]
    while reports[-1].segment is not None:
        reports.append(cleaner.receive())
    assert len(reports) > 2
    assert reports[-1].done is not None
    with pytest.raises(CleanerDied):
        cleaner.receive()
