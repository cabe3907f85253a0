"""Spares Spark's Python workers the longest part of a short task."""

from __future__ import annotations

import gc

from pyspark import TaskContext

_spared = False


def spare_collections() -> None:
    """Take what is loaded by now out of garbage collection, once in each worker process.

    A worker collects all garbage after every task, and that means looking at each object of each library it
    has loaded: 90 ms with the decoder's, none of which ever becomes garbage.
    """
    global _spared
    if not _spared and TaskContext.get() is not None:
        gc.freeze()
        _spared = True
