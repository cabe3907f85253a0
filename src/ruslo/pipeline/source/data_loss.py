"""Records that were deleted before a query read them."""

from __future__ import annotations

import logging

from ruslo.model.errors import RusloError

_log = logging.getLogger(__name__)


class DataLost(RusloError):
    """Raised under failOnDataLoss=true, the default."""


def report_loss(what: str, *, fail: bool) -> None:
    """Raise if ``fail``, otherwise log and let the query continue."""
    if fail:
        raise DataLost(
            f"{what}. The query stops because failOnDataLoss is true: set failOnDataLoss=false to continue "
            f"with the remaining records, or start again with a new checkpoint"
        )
    _log.warning("%s; continuing with the remaining records", what)
