"""Drops duplicates within the watermark, whatever their timestamps, which Spark's SQL cannot express."""

from __future__ import annotations

from pyspark.sql import DataFrame


def once(payments: DataFrame) -> DataFrame:
    return payments.dropDuplicatesWithinWatermark(["id"])
