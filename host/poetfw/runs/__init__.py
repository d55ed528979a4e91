# SPDX-License-Identifier: Apache-2.0
"""Runs of built projects, emulated and on boards, and their verification."""
