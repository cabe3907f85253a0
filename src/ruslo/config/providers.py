"""Config providers (KIP-297): values such as ``${file:/etc/secrets.properties:password}`` in a property file.

=================  ==========================  ============================================================
class              reference                   value
=================  ==========================  ============================================================
FileConfigProvider ``${NAME:FILE:KEY}``        a key of another property file
DirectoryConfig…   ``${NAME:DIRECTORY:FILE}``  the content of a file, as Kubernetes mounts secrets
EnvVarConfig…      ``${NAME:VARIABLE}``        an environment variable
=================  ==========================  ============================================================

``config.providers`` names the providers, ``config.providers.NAME.class`` the class of each. A provider that
does not exist here, or a reference that cannot be resolved, refuses the whole file.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Mapping
from typing import Final

from ruslo.config.properties import decode_properties, parse_properties
from ruslo.model.errors import ConfigError

_REFERENCE: Final = re.compile(r"\$\{([^}:]*?):(?:([^}]*?):)?([^}]*?)\}")
_PACKAGE: Final = "org.apache.kafka.common.config.provider."


def resolve_providers(properties: Mapping[str, str]) -> dict[str, str]:
    """Replace the references to config providers by their values. Raises ConfigError."""
    names = [name.strip() for name in properties.get("config.providers", "").split(",") if name.strip()]
    providers = {name: _provider(name, properties) for name in names}
    if not providers:
        return dict(properties)

    def replace(match: re.Match[str]) -> str:
        provider = providers.get(match[1])
        # As in Kafka, a reference to an unknown provider is text.
        return match[0] if provider is None else provider(match[2] or "", match[3])

    return {
        name: value if name.startswith("config.providers") else _REFERENCE.sub(replace, value)
        for name, value in properties.items()
    }


def _provider(name: str, properties: Mapping[str, str]) -> Callable[[str, str], str]:
    key = f"config.providers.{name}.class"
    class_name = properties.get(key, "").strip()
    new = _PROVIDERS.get(class_name.removeprefix(_PACKAGE))
    if new is None:
        known = ", ".join(f"{_PACKAGE}{each}" for each in _PROVIDERS)
        raise ConfigError(
            f"The config provider {name!r} has the class {class_name or 'none'}, which this release does not "
            "have. "
            f"Set {key} to one of {known}, or remove {name!r} from config.providers"
        )
    prefix = f"config.providers.{name}.param."
    return new(
        {key.removeprefix(prefix): value for key, value in properties.items() if key.startswith(prefix)}
    )


def _file_provider(parameters: Mapping[str, str]) -> Callable[[str, str], str]:
    allowed = _allowed_paths(parameters)

    def value(path: str, key: str) -> str:
        text = decode_properties(_content(path, allowed))
        values = parse_properties(text)
        if key not in values:
            raise ConfigError(
                f"{path} has no key {key!r}, which a config provider refers to. Add it, or correct the "
                "reference"
            )
        return values[key]

    return value


def _directory_provider(parameters: Mapping[str, str]) -> Callable[[str, str], str]:
    allowed = _allowed_paths(parameters)

    def value(path: str, key: str) -> str:
        if os.path.basename(key) != key:
            raise ConfigError(
                f"{key!r} is not the name of a file in {path}. Correct the reference of the config provider"
            )
        return decode_properties(_content(os.path.join(path, key), allowed))

    return value


def _variable_provider(parameters: Mapping[str, str]) -> Callable[[str, str], str]:
    pattern = re.compile(parameters.get("allowlist.pattern", ".*"))

    def value(path: str, key: str) -> str:
        if path:
            raise ConfigError(f"The environment variable {key} has no path. Write ${{NAME:{key}}}")
        if not pattern.fullmatch(key):
            raise ConfigError(
                f"allowlist.pattern does not allow the environment variable {key}. Extend the pattern"
            )
        if key not in os.environ:
            raise ConfigError(
                f"The environment variable {key} is not set, but a config provider refers to it. Set it"
            )
        return os.environ[key]

    return value


_PROVIDERS: Final[Mapping[str, Callable[[Mapping[str, str]], Callable[[str, str], str]]]] = {
    "FileConfigProvider": _file_provider,
    "DirectoryConfigProvider": _directory_provider,
    "EnvVarConfigProvider": _variable_provider,
}


def _allowed_paths(parameters: Mapping[str, str]) -> tuple[str, ...]:
    listed = (path.strip() for path in parameters.get("allowed.paths", "").split(","))
    return tuple(os.path.realpath(path) for path in listed if path)


def _content(path: str, allowed: tuple[str, ...]) -> bytes:
    resolved = os.path.realpath(path)
    if allowed and not any(os.path.commonpath([resolved, each]) == each for each in allowed):
        raise ConfigError(
            f"allowed.paths of the config provider does not contain {path}. Extend it, or move the file"
        )
    try:
        with open(resolved, "rb") as file:
            return file.read()
    except OSError as error:
        raise ConfigError(
            f"A config provider cannot read {path}: {error.strerror}. Check the path and its owner"
        ) from None
