# SPDX-License-Identifier: Apache-2.0
"""Imported last by the server of forks, so that a fork need not do what all of them would.

Templates are compiled and boards read. A fork's garbage collector would walk through all that was
imported, and so copy it, page by page. It comes as rarely as that of the tests.
"""

import gc

from poetfw.boards import list_boards
from poetfw.common.resources import firmware_templates_dir
from poetfw.firmware.project import template_environment

for template in firmware_templates_dir().rglob("*.j2"):
    name = template.relative_to(firmware_templates_dir()).as_posix()
    template_environment().get_template(name)
list_boards(refused=lambda error: None)

gc.freeze()
gc.set_threshold(20_000, 20, 20)
gc.enable()
