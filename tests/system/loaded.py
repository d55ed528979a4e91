# SPDX-License-Identifier: Apache-2.0
"""Imported last by the server of forks: a fork leaves alone what it need not touch.

Its garbage collector would walk through all that was imported, and so copy it, page by page. It
comes as rarely as that of the tests.
"""

import gc

gc.freeze()
gc.set_threshold(20_000, 20, 20)
gc.enable()
