"""Keys that several connectors share."""

from __future__ import annotations

from ruslo.pipeline.files.keys import Key
from ruslo.pipeline.files.value_types import Options, Schema, Text

BOOTSTRAP = Key("bootstrap", Text(), "`HOST:PORT,…` of the cluster, if it is not the pipeline's")
OPTIONS = Key("options", Options(), "options of the Spark format, passed unchanged", default={})
SCHEMA = Key("schema", Schema(), "the columns; required by `ruslo pipeline test`")
