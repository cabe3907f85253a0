from __future__ import annotations

import gc

from ruslo.pipeline.source.task import freeze_loaded_objects


def test_nothing_is_frozen_outside_a_spark_task() -> None:
    before = gc.get_freeze_count()
    freeze_loaded_objects()
    assert gc.get_freeze_count() == before
