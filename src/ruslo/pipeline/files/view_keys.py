"""The names and keys that sources and steps share as views."""

from __future__ import annotations

import re

from ruslo.pipeline.files.finding import Findings, Location
from ruslo.pipeline.files.keys import Key
from ruslo.pipeline.files.model import Watermark
from ruslo.pipeline.files.value_types import Duration, Section, Text

_VIEW_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
WATERMARK = Key(
    "watermark",
    Section(
        "watermark",
        (
            Key("column", Text(), "the column with the event time", required=True),
            Key("delay", Duration(), "how late events may arrive", required=True),
        ),
        lambda column, delay: Watermark(column, delay),
    ),
    "how late events may arrive before they are dropped",
)


def view_name(name: str, location: Location, findings: Findings) -> bool:
    if _VIEW_NAME.match(name):
        return True
    findings.error(
        location, "view-name", f"invalid view name {name!r}", "Use letters, digits and underscores."
    )
    return False
