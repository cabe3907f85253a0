"""Client quotas as people write and read them: their keys, numbers and entities."""

from __future__ import annotations

from collections.abc import Mapping

KEYS = ("producer_byte_rate", "consumer_byte_rate", "request_percentage", "controller_mutation_rate")
IP_KEYS = ("connection_creation_rate",)
ENTITY_TYPES = ("user", "client-id", "ip")


def check_entity(entity: Mapping[str, str | None]) -> None:
    """Raises ValueError if the entity cannot have quotas."""
    if not entity:
        raise ValueError("A quota needs an entity. Choose a user, a client id, both, or an IP address")
    if "ip" in entity and len(entity) > 1:
        raise ValueError("An IP address excludes user and client id. Choose one")


def valid_keys(entity: Mapping[str, str | None]) -> tuple[str, ...]:
    return IP_KEYS if "ip" in entity else KEYS


def check_key(entity: Mapping[str, str | None], key: str) -> None:
    """Raises ValueError unless the entity can have this quota."""
    valid = valid_keys(entity)
    if key not in valid:
        raise ValueError(f"Unknown quota {key!r} of {entity_text(entity)}. Use one of {', '.join(valid)}")


def parse_limit(key: str, text: str) -> float:
    """Raises ValueError unless the text is a number above 0."""
    try:
        number = float(text)
    except ValueError:
        number = -1.0
    if not 0 < number < float("inf"):
        raise ValueError(f"{key}={text} is not a number above 0. Write one like {key}=1048576")
    return number


def entity_text(entity: Mapping[str, str | None]) -> str:
    return ", ".join(
        f"{kind} {name}" if name is not None else f"the default {kind}" for kind, name in entity.items()
    )
