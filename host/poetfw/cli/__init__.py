# SPDX-License-Identifier: Apache-2.0
"""Command line: thin commands without logic of their own."""
