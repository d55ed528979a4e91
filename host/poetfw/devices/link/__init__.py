# SPDX-License-Identifier: Apache-2.0
"""Boards at the other end of a serial line: ports, frames, asking until an answer is whole."""

from poetfw.devices.link.desk import (
    Desk,
    Greeting,
    StatusError,
    Summary,
    Trained,
)
from poetfw.devices.link.link import Link
from poetfw.devices.link.port import Line, choose_port, console_lines, open_port, usb_ports

__all__ = [
    "Desk",
    "Greeting",
    "Line",
    "Link",
    "StatusError",
    "Summary",
    "Trained",
    "choose_port",
    "console_lines",
    "open_port",
    "usb_ports",
]
