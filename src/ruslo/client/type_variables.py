"""Type variables of keys and values. Their defaults (PEP 696) are known to type checkers only."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from typing_extensions import TypeVar

    ConsumedK = TypeVar("ConsumedK", default=bytes | None)
    ConsumedV = TypeVar("ConsumedV", default=bytes | None)
    ProducedK = TypeVar("ProducedK", default=bytes | str | None)
    ProducedV = TypeVar("ProducedV", default=bytes | str | None)
    K_co = TypeVar("K_co", default=bytes | None, covariant=True)
    V_co = TypeVar("V_co", default=bytes | None, covariant=True)
else:
    from typing import TypeVar

    ConsumedK = TypeVar("ConsumedK")
    ConsumedV = TypeVar("ConsumedV")
    ProducedK = TypeVar("ProducedK")
    ProducedV = TypeVar("ProducedV")
    K_co = TypeVar("K_co", covariant=True)
    V_co = TypeVar("V_co", covariant=True)
