# SPDX-License-Identifier: Apache-2.0
"""From plans to a C project: view models, templates, project writer, storage image."""

from poetfw.firmware.lower import Lowering, lower, statement_numbers
from poetfw.firmware.project import (
    IMAGE,
    Project,
    check_output_folder,
    hal_families,
    read_sources,
    refuse_links,
    render_project,
    twin_environments,
    write_project,
)
from poetfw.firmware.sample_order import sample_order
from poetfw.firmware.slots import BLOCK_BYTES, Slot, SlotPurpose, assign_slots
from poetfw.firmware.storage_image import (
    RunRequest,
    Samples,
    image_blocks,
    read_request,
    read_samples,
    read_slots,
    set_request,
    write_image,
)
from poetfw.firmware.trace import (
    TracedOp,
    TraceRequest,
    TraceTable,
    append_request,
    read_trace,
    traced_project,
)

__all__ = [
    "BLOCK_BYTES",
    "IMAGE",
    "Lowering",
    "Project",
    "RunRequest",
    "Samples",
    "Slot",
    "SlotPurpose",
    "TraceRequest",
    "TraceTable",
    "TracedOp",
    "append_request",
    "assign_slots",
    "check_output_folder",
    "hal_families",
    "image_blocks",
    "lower",
    "read_request",
    "read_samples",
    "read_slots",
    "read_sources",
    "read_trace",
    "refuse_links",
    "render_project",
    "sample_order",
    "set_request",
    "statement_numbers",
    "traced_project",
    "twin_environments",
    "write_image",
    "write_project",
]
