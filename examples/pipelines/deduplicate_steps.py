"""Spark's SQL cannot say this: duplicates within the watermark, whatever their own times are."""

from __future__ import annotations

from pyspark.sql import DataFrame


def once(payments: DataFrame) -> DataFrame:
    return payments.dropDuplicatesWithinWatermark(["id"])
