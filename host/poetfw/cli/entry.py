# SPDX-License-Identifier: Apache-2.0
"""Entry point of the `poetfw` command; an interrupt during imports ends it cleanly."""

from __future__ import annotations

import signal

from poetfw.common.interrupts import leave


def main() -> None:
    """Import the command line and run it."""
    for number in (signal.SIGINT, signal.SIGTERM):
        if signal.getsignal(number) is not signal.SIG_IGN:  # ignored in a shell's background jobs
            signal.signal(number, leave)
    from poetfw.cli import main as command

    command.main()


if __name__ == "__main__":
    main()
