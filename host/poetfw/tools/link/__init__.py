# SPDX-License-Identifier: Apache-2.0
"""Boards on a serial line: ports, frames, and commands repeated until an answer is intact."""

from poetfw.tools.link.desk import Desk, Greeting, Summary, Trained
from poetfw.tools.link.link import DeviceLink
from poetfw.tools.link.pipe import piped
from poetfw.tools.link.port import PortLine, choose_port, console_lines, open_port, usb_ports
from poetfw.tools.link.profiler import Profiler, ProfilerGreeting
from poetfw.tools.link.values import StatusError

__all__ = [
    "Desk",
    "DeviceLink",
    "Greeting",
    "PortLine",
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
