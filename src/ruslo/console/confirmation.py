"""Changes take two steps: a preview, then a confirmation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from ruslo.console.formats import visible
from ruslo.console.forms import Form, FormError

PASSWORD_FIELD, PASSWORD_AGAIN_FIELD = "new_password", "new_password_again"
_STEP_FIELDS = frozenset({"step", "form_token", "typed", PASSWORD_FIELD, PASSWORD_AGAIN_FIELD})


@dataclass(frozen=True, slots=True)
class Preview:
    """The effects of a change, and the form that confirms it."""

    title: str
    facts: Sequence[tuple[str, object]]
    button: str
    form: Form
    warning: str | None = None
    must_type: str | None = None
    """The text that the user must type to confirm an irreversible change."""
    asks_new_password: bool = False
    """Whether the user types a new password, twice, to confirm. No page contains it."""
    headings: Sequence[str] = ()
    rows: Sequence[Sequence[object]] = field(default_factory=tuple)
    """A table of details."""
    back: str | None = None
    """The page to return to on cancel; None if the form is on the same page."""
    extra: Sequence[tuple[str, str]] = ()
    """Form fields of the confirmation in addition to those of the form."""

    @property
    def carried(self) -> list[tuple[str, str]]:
        return [pair for pair in self.form.pairs() if pair[0] not in _STEP_FIELDS] + list(self.extra)


def is_confirmed(form: Form, must_type: str | None = None) -> bool:
    """Whether the change is confirmed; raises FormError if the required text was not typed."""
    if form.text("step") != "confirm":
        return False
    if must_type is not None and form.text("typed") not in (must_type, visible(must_type)):
        raise FormError(f"Nothing was changed: type {must_type!r} to confirm.")
    return True
