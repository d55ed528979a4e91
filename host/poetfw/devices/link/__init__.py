# SPDX-License-Identifier: Apache-2.0
"""Boards at the other end of a serial line: ports, frames, asking until an answer is whole."""

from poetfw.devices.link.desk import (
    Desk,
    Greeting,
    Summary,
    Trained,
)
from poetfw.devices.link.link import Link
from poetfw.devices.link.pipe import piped
from poetfw.devices.link.port import Line, choose_port, console_lines, open_port, usb_ports
from poetfw.devices.link.profiler import Profiler, ProfilerGreeting
from poetfw.devices.link.values import StatusError

__all__ = [
    "Desk",
    "Greeting",
    "Line",
    "Link",
    "Profiler",
    "ProfilerGreeting",
    "StatusError",
    "Summary",
    "Trained",
    "choose_port",
    "console_lines",
    "open_port",
    "piped",
    "usb_ports",
]
