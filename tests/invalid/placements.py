# SPDX-License-Identifier: Apache-2.0
"""What `poetfw place` reads: buffers, and the banks they prefer."""

from __future__ import annotations

from invalid.case import Case, cases
from invalid.makers import both, text

BUFFERS = text("buffers.csv", "id,lower,upper,size,bank\na,0,1,8,fast\n")

CASES = (
    *cases(
        "place buffers.csv",
        (
            "two banks of one name in the settings",
            both(BUFFERS, text("poetfw.toml", "[place]\nbank = 'fast=0:5,fast=5:9'\n")),
            "poetfw.toml: Invalid value for '--bank': the bank 'fast' occurs twice",
        ),
        (
            "unknown bank",
            BUFFERS,
            "buffers.csv, line 2: the bank 'fast' does not exist",
            "--bank fast=LOWER:UPPER",
        ),
        (
            "bank that no option can give",
            text("buffers.csv", 'id,lower,upper,size,bank\na,0,1,8,"a,b"\n'),
            "buffers.csv, line 2: the bank 'a,b' must not hold a comma",
        ),
        (
            "buffers with semicolons between them",
            text("buffers.csv", "id;lower;upper;size\na;0;1;8\n"),
            "line 1: 'id;lower;upper;size' is not the header; expected the header id,lower,",
        ),
        (
            "buffers in UTF-16",
            text("buffers.csv", "id,lower,upper,size\n".encode("utf-16")),
            "buffers.csv: is not UTF-8 text (byte 0)",
            "save it as UTF-8",
        ),
    ),
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
)
