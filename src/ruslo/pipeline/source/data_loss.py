"""Records that a query was to read and that are gone."""

from __future__ import annotations

import logging

from ruslo.model.errors import RusloError

_log = logging.getLogger(__name__)


class DataLost(RusloError):
    """Raised under failOnDataLoss=true, the default."""


def report_loss(what: str, *, fail: bool) -> None:
    """Raise, or log and let the query go on with what is there."""
    if fail:
        raise DataLost(
            f"{what}. The query stops because failOnDataLoss is true; set failOnDataLoss=false to go on "
            f"with the records that are there, or begin anew with another checkpoint"
        )
    _log.warning("%s; going on with the records that are there", what)
