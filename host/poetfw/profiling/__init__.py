# SPDX-License-Identifier: Apache-2.0
"""Measurement of the costs of ops and transfers on a board: docs/profiling.md."""

from poetfw.profiling.cases import cases_of
from poetfw.profiling.measuring import ProfileReport, ProfileSettings, profile, shape_of
from poetfw.profiling.metering import Metered, Metering
from poetfw.profiling.session import Refused
from poetfw.profiling.store import MemoryStore, Store

__all__ = [
    "MemoryStore",
    "Metered",
    "Metering",
    "ProfileReport",
    "ProfileSettings",
    "Refused",
    "Store",
    "cases_of",
    "profile",
    "shape_of",
]
