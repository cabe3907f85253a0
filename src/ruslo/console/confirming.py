"""Changes happen in two steps: what would be done is shown, and done when it is confirmed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ruslo.console.formats import visible
from ruslo.console.forms import Form, FormMistake

_OF_THE_STEP = frozenset({"step", "form_token", "typed"})


@dataclass(frozen=True, slots=True)
class Preview:
    """What is about to happen, in facts, and the form that lets it."""

    title: str
    facts: Sequence[tuple[str, object]]
    button: str
    form: Form
    warning: str | None = None
    must_type: str | None = None
    """What has to be typed, for what cannot be undone."""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = field(default_factory=tuple)
    """A table, where facts are not enough."""
    back: str | None = None
    """Where whoever thinks better of it goes, when there is no form to go back to."""
    extra: Sequence[tuple[str, str]] = ()
    """Values that the confirmation carries besides what was filled in."""

    @property
    def carried(self) -> list[tuple[str, str]]:
        return [pair for pair in self.form.pairs() if pair[0] not in _OF_THE_STEP] + list(self.extra)


def is_confirmed(form: Form, must_type: str | None = None) -> bool:
    """Whether this is the second step; raises when what had to be typed was not."""
    if form.text("step") != "confirm":
        return False
    if must_type is not None and form.text("typed") not in (must_type, visible(must_type)):
        raise FormMistake(f"Nothing was changed: type {must_type!r} to confirm.")
    return True
