# SPDX-License-Identifier: Apache-2.0
"""Comparisons of schedulers over budgets, boards and models."""
