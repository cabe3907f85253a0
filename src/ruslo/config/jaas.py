"""Login configurations in JAAS syntax: ``org.example.SomeLoginModule required username="alice" …;``."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from ruslo.model.secret import Secret

_ENTRY: Final = re.compile(
    r"\s*([\w.$]+)\s+(?:required|requisite|sufficient|optional)\b"
    r"((?:\s+[\w.\-]+\s*=\s*(?:\"(?:\\.|[^\"\\])*\"|'(?:\\.|[^'\\])*'|[^\s;\"']+))*)\s*;\s*",
    re.IGNORECASE,
)
_OPTION: Final = re.compile(r"""([\w.\-]+)\s*=\s*(?:"((?:\\.|[^"\\])*)"|'((?:\\.|[^'\\])*)'|([^\s;"']+))""")
_ESCAPE: Final = re.compile(r"\\(.)", re.DOTALL)


class JaasLogin(NamedTuple):
    module: str
    """The login module without its package, such as ``ScramLoginModule``."""
    options: dict[str, Secret]

    def text(self, name: str) -> str | None:
        """An option that is not a secret."""
        value = self.options.get(name)
        return None if value is None else value.reveal()

    def flag(self, name: str) -> bool:
        return (self.text(name) or "").lower() == "true"


def parse_jaas(config: Secret) -> JaasLogin:
    """Parse a configuration of one entry. Raises ValueError, which does not repeat the text."""
    match = _ENTRY.fullmatch(config.reveal())
    if match is None:
        raise ValueError('it is not one JAAS entry; write: LoginModule required name="value" …;')
    options = {
        option[1]: Secret(_ESCAPE.sub(r"\1", option[2] or option[3] or option[4] or ""))
        for option in _OPTION.finditer(match[2])
    }
    return JaasLogin(match[1].rpartition(".")[2], options)
