"""From plans to a C project: view models, templates, project writer, storage image."""

from poetfw.firmware.lower import Lowering, lower
from poetfw.firmware.project import (
    Project,
    check_output_folder,
    refuse_links,
    render_project,
    write_project,
)
from poetfw.firmware.sample_order import sample_order
from poetfw.firmware.slots import BLOCK_BYTES, Slot, SlotPurpose, assign_slots
from poetfw.firmware.storage_image import (
    RunRequest,
    Samples,
    read_request,
    read_samples,
    read_slots,
    set_request,
    write_image,
)

__all__ = [
    "BLOCK_BYTES",
    "Lowering",
    "Project",
    "RunRequest",
    "Samples",
    "Slot",
    "SlotPurpose",
    "assign_slots",
    "check_output_folder",
    "lower",
    "read_request",
    "read_samples",
    "read_slots",
    "refuse_links",
    "render_project",
    "sample_order",
    "set_request",
    "write_image",
    "write_project",
]
