"""What people fill in: words of a form or of an address, with the mistakes they make."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from starlette.datastructures import QueryParams

from ruslo.model.errors import RusloError


class FormMistake(RusloError):
    """Something was filled in that cannot be; the message is for whoever did."""


class Form:
    def __init__(self, values: Mapping[str, Sequence[str]]) -> None:
        self._values = values

    @classmethod
    def of_query(cls, query: QueryParams) -> Form:
        return cls({name: query.getlist(name) for name in query})

    def text(self, name: str, default: str = "") -> str:
        values = self._values.get(name)
        return values[-1].strip() if values else default

    def raw(self, name: str) -> str:
        """As it was typed; browsers send line ends as CR LF, which nobody typed."""
        values = self._values.get(name)
        return values[-1].replace("\r\n", "\n") if values else ""

    def all(self, name: str) -> list[str]:
        return list(self._values.get(name, ()))

    def flag(self, name: str) -> bool:
        return bool(self.text(name))

    def number(
        self, name: str, label: str, *, least: int | None = None, most: int | None = None
    ) -> int | None:
        """None when nothing was filled in."""
        text = self.text(name).replace(" ", "").replace("_", "")
        if not text:
            return None
        try:
            number = int(text)
        except ValueError:
            raise FormMistake(f"{label}: {text!r} is not a whole number.") from None
        if (least is not None and number < least) or (most is not None and number > most):
            bounds = f"at least {least}" if most is None else f"from {least} to {most}"
            raise FormMistake(f"{label}: {number} is out of range, it must be {bounds}.")
        return number

    def choice(self, name: str, allowed: Iterable[str], default: str) -> str:
        text = self.text(name, default)
        return text if text in allowed else default

    def pairs(self) -> list[tuple[str, str]]:
        """All that was filled in, for a form that asks to confirm it."""
        return [(name, value) for name, values in self._values.items() for value in values]


def settings_of(text: str) -> dict[str, str]:
    """Lines of ``name=value``, as in a property file; empty lines and those that begin with # say nothing."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        line = line.strip()
        if not line or line.startswith("#"):
            continue
        name, separator, value = line.partition("=")
        if not separator or not name.strip():
            raise FormMistake(f"{line!r} is not name=value.")
        found[name.strip()] = value.strip()
    return found
