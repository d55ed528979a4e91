# SPDX-License-Identifier: Apache-2.0
"""Power meters: voltage and current of a board's supply over time."""

from poetfw.meters.energy import MeasuredEnergy, idle_power, measured_energy
from poetfw.meters.joulescope import JoulescopeMeter
from poetfw.meters.meter import Meter, ReplayedMeter, open_meter, opened_meter
from poetfw.meters.polled import HwmonMeter, RaplMeter
from poetfw.meters.ppk2 import Ppk2Meter
from poetfw.meters.trace import PowerTrace

__all__ = [
    "HwmonMeter",
    "JoulescopeMeter",
    "MeasuredEnergy",
    "Meter",
    "PowerTrace",
    "Ppk2Meter",
    "RaplMeter",
    "ReplayedMeter",
    "idle_power",
    "measured_energy",
    "open_meter",
    "opened_meter",
]
