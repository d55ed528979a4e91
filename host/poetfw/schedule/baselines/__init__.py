# SPDX-License-Identifier: Apache-2.0
"""Schedulers that poetfw's own is measured against, and starts from."""
