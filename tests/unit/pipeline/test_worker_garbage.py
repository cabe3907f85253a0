from __future__ import annotations

import gc

from ruslo.pipeline.worker_garbage import spare_collections


def test_nothing_is_frozen_outside_of_a_spark_task() -> None:
    before = gc.get_freeze_count()
    spare_collections()
    assert gc.get_freeze_count() == before
