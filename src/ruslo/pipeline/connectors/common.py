"""Keys that several connectors have."""

from __future__ import annotations

from ruslo.pipeline.files.shapes import Key, Options, Schema, Text

BOOTSTRAP = Key("bootstrap", Text(), "`HOST:PORT,…` of another cluster than the pipeline's")
OPTIONS = Key("options", Options(), "options of the Spark format, handed on as they are", default={})
SCHEMA = Key("schema", Schema(), "the columns; needed by `ruslo pipeline test`")
