# SPDX-License-Identifier: Apache-2.0
"""What `poetfw place` reads: buffers, and the banks they prefer."""

from __future__ import annotations

from invalid.case import Case
from invalid.makers import both, text

BUFFERS = text("buffers.csv", "id,lower,upper,size,bank\na,0,1,8,fast\n")

CASES = (
    *(
        Case(name, f"place buffers.csv {banks}", 2, ("Invalid value for '--bank'", says), BUFFERS)
        for name, banks, says in (
            ("bank without a range", "--bank fast", "'fast' is not NAME=LOWER:UPPER"),
            ("bank of negative bytes", "--bank fast=-1:5", "is not NAME=LOWER:UPPER"),
            ("bank without a name", "--bank =0:5", "a bank has no name"),
            ("empty bank", "--bank fast=5:5", "the bank 'fast' has the bytes [5, 5)"),
            ("two banks of one name", "--bank fast=0:5,fast=5:9", "'fast' occurs twice"),
        )
    ),
    Case(
        "two banks of one name in the settings",
        "place buffers.csv",
        1,
        ("poetfw.toml: Invalid value for '--bank': the bank 'fast' occurs twice",),
        both(BUFFERS, text("poetfw.toml", "[place]\nbank = 'fast=0:5,fast=5:9'\n")),
    ),
    Case(
        "unknown bank",
        "place buffers.csv",
        1,
        ("buffers.csv, line 2: the bank 'fast' does not exist", "--bank fast=LOWER:UPPER"),
        BUFFERS,
    ),
    Case(
        "bank that no option can give",
        "place buffers.csv",
        1,
        ("buffers.csv, line 2: the bank 'a,b' must not hold a comma",),
        text("buffers.csv", 'id,lower,upper,size,bank\na,0,1,8,"a,b"\n'),
    ),
    Case(
        "buffers with semicolons between them",
        "place buffers.csv",
        1,
        ("line 1: 'id;lower;upper;size' is not the header; expected the header id,lower,",),
        text("buffers.csv", "id;lower;upper;size\na;0;1;8\n"),
    ),
    Case(
        "buffers in UTF-16",
        "place buffers.csv",
        1,
        ("buffers.csv: is not UTF-8 text (byte 0)", "save it as UTF-8"),
        text("buffers.csv", "id,lower,upper,size\n".encode("utf-16")),
    ),
)
