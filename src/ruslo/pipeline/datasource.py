"""``format("ruslo")``: topics as a source and a sink of Spark queries.

Spark pickles this class to the processes that plan and run queries. Each method imports what it needs, so a
query that only writes never loads the decoder.
"""

from __future__ import annotations

from pyspark.sql.datasource import (
    DataSource,
    DataSourceReader,
    DataSourceStreamReader,
    DataSourceStreamWriter,
    DataSourceWriter,
)
from pyspark.sql.types import StructType


class RusloDataSource(DataSource):
    @classmethod
    def name(cls) -> str:
        return "ruslo"

    def schema(self) -> str:
        from ruslo.pipeline.source.options import SourceOptions
        from ruslo.pipeline.source.schema import schema_ddl

        return schema_ddl(SourceOptions.parse(self.options, streaming=None))

    def reader(self, schema: StructType) -> DataSourceReader:
        from ruslo.pipeline.source.options import SourceOptions
        from ruslo.pipeline.source.reader import new_batch_reader

        return new_batch_reader(SourceOptions.parse(self.options, streaming=False), schema)

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ruslo.pipeline.source.options import SourceOptions

        options = SourceOptions.parse(self.options, streaming=True)
        if options.share is not None:
            from ruslo.pipeline.source.share.stream_reader import ShareStreamReader

            return ShareStreamReader(options, options.share, schema)
        from ruslo.pipeline.source.stream_reader import StreamReader

        return StreamReader(options, schema)

    def writer(self, schema: StructType, overwrite: bool) -> DataSourceWriter:
        from ruslo.pipeline.sink.writer import new_batch_writer

        return new_batch_writer(self.options, schema, overwrite)

    def streamWriter(self, schema: StructType, overwrite: bool) -> DataSourceStreamWriter:
        from ruslo.pipeline.sink.writer import new_stream_writer

        return new_stream_writer(self.options, schema, overwrite)


class ConnectDataSource(RusloDataSource):
    """The same format for Spark Connect, where the source publishes consumer groups instead of a listener."""

    def streamReader(self, schema: StructType) -> DataSourceStreamReader:
        from ruslo.pipeline.source.options import SourceOptions
        from ruslo.pipeline.source.publishing_reader import PublishingReader

        options = SourceOptions.parse(self.options, streaming=True)
        return super().streamReader(schema) if options.group_id is None else PublishingReader(options, schema)
