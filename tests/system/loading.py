# SPDX-License-Identifier: Apache-2.0
"""Imported first by the server of forks: nothing that an import makes is garbage."""

import gc

gc.disable()
