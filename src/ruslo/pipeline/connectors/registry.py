"""All connectors by ``type``. A new connector is a class and an entry here."""

from __future__ import annotations

from typing import Final

from ruslo.pipeline.connectors.base import Sink, Source
from ruslo.pipeline.connectors.files import FilesSink, FilesSource
from ruslo.pipeline.connectors.jdbc import JdbcSink, JdbcSource
from ruslo.pipeline.connectors.spark_format import ConsoleSink, SparkSink, SparkSource
from ruslo.pipeline.connectors.topic_sink import TopicSink
from ruslo.pipeline.connectors.topic_source import TableSource, TopicSource

_SOURCES: tuple[type[Source], ...] = (TopicSource, TableSource, FilesSource, JdbcSource, SparkSource)
_SINKS: tuple[type[Sink], ...] = (TopicSink, FilesSink, JdbcSink, SparkSink, ConsoleSink)

SOURCES: Final = {source.TYPE: source for source in _SOURCES}
SINKS: Final = {sink.TYPE: sink for sink in _SINKS}
