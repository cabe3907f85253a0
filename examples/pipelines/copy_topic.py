"""A pipeline that is a Python module: the same keys as in YAML, and functions can be given directly."""

from __future__ import annotations

from pyspark.sql import DataFrame


def without_secrets(events: DataFrame) -> DataFrame:
    return events.select("value", "_key").where("value NOT LIKE '%password%'")


pipeline = {
    "name": "copy-topic",
    "source": {"name": "events", "type": "topic", "topic": "events", "value": "string"},
    "steps": [{"name": "clean", "python": without_secrets}],
    "sink": {"type": "topic", "topic": "events-copy", "key": "_key", "value_column": "value"},
    "checkpoint": "checkpoints/copy-topic",
    "examples": [
        {
            "name": "records with passwords are dropped",
            "given": [{"value": "hello", "_key": "a"}, {"value": "password=x", "_key": "b"}],
            "expect": [{"value": "hello", "_key": "a"}],
        }
    ],
}
