"""Simulations on virtual time: the same seed gives the same run."""

from __future__ import annotations

from ruslo.testing.simulation.clock import SimClock, Timer
from ruslo.testing.simulation.connection import Line, LineFaults

__all__ = ["Line", "LineFaults", "SimClock", "Timer"]
