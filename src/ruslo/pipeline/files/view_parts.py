"""What sources and steps have in common: both are views."""

from __future__ import annotations

import re

from ruslo.pipeline.files.finding import Findings, Place
from ruslo.pipeline.files.model import Watermark
from ruslo.pipeline.files.shapes import Duration, Key, Section, Text

_VIEW_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*\Z")
WATERMARK = Key(
    "watermark",
    Section(
        "watermark",
        (
            Key("column", Text(), "the column that says when it happened", required=True),
            Key("delay", Duration(), "how late events may come", required=True),
        ),
        lambda column, delay: Watermark(column, delay),
    ),
    "how late events may come before they are left out",
)


def view_name(name: str, place: Place, findings: Findings) -> bool:
    if _VIEW_NAME.match(name):
        return True
    findings.error(
        place, "view-name", f"{name!r} cannot be a view's name", "Use letters, digits and underscores."
    )
    return False
