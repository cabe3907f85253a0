"""The options ``deadLetterTopic``, ``stagingPath`` and ``sinkName``, as the source and the sink read them."""

from __future__ import annotations

from typing import NamedTuple

from ruslo.model.errors import ConfigError
from ruslo.model.topics import topic_name_problem
from ruslo.pipeline.option_values import OptionValues


class StagingTarget(NamedTuple):
    """Identifies the dead-letter staging of the query's sink."""

    path: str
    sink_name: str


def source_topic(values: OptionValues, *, enabled: bool) -> str | None:
    """``enabled`` tells whether onDecodeError is deadletter."""
    if enabled and "deadLetterTopic" not in values:
        raise ConfigError(
            "onDecodeError=deadletter needs a topic for undecodable records: set deadLetterTopic"
        )
    if not enabled and "deadLetterTopic" in values:
        raise ConfigError("deadLetterTopic has no effect: set onDecodeError=deadletter as well")
    return _topic(values)


def source_staging(values: OptionValues, *, enabled: bool) -> StagingTarget | None:
    path, sink_name = values.text("stagingPath"), values.text("sinkName")
    if path is None and sink_name is None:
        return None
    if not enabled or path is None or sink_name is None:
        raise ConfigError(
            "stagingPath and sinkName hand dead letters to the sink: set both to the sink's values, together "
            "with onDecodeError=deadletter"
        )
    return StagingTarget(path, sink_name)


def sink_topic(values: OptionValues, *, exactly_once: bool) -> str | None:
    staged = "stagingPath" in values and "sinkName" in values
    if "deadLetterTopic" in values and not (exactly_once and staged):
        raise ConfigError(
            "deadLetterTopic: the sink sends dead letters in its transaction: set delivery=exactly_once, and "
            "stagingPath and sinkName to the same values as in the source"
        )
    return _topic(values)


def _topic(values: OptionValues) -> str | None:
    topic = values.text("deadLetterTopic")
    problem = None if topic is None else topic_name_problem(topic)
    if problem is not None:
        raise ConfigError(f"deadLetterTopic: {problem}")
    return topic
