# SPDX-License-Identifier: Apache-2.0
"""Print the sections of ELF files that take memory, as `size -A -d` does: name, size, address."""

import struct
import sys

ALLOCATED = 2
# Formats of the ELF header from e_shoff on, and of a section's header.
CLASSES = {
    1: (32, "I I HHHHHH", "10I"),
    2: (40, "Q I HHHHHH", "2I4Q2I2Q"),
}


def sections(content):
    """Name, size and address of each section that takes memory."""
    order = "<" if content[5] == 1 else ">"
    start, header, section = CLASSES[content[4]]
    table, _, _, _, _, entry, count, names = struct.unpack_from(order + header, content, start)
    entries = [
        struct.unpack_from(order + section, content, table + number * entry)
        for number in range(count)
    ]
    texts = entries[names][4]
    for name, _, flags, address, _, size, *_ in entries:
        if flags & ALLOCATED:
            begin = texts + name
            yield content[begin : content.index(b"\0", begin)].decode(), size, address


if __name__ == "__main__":
    for path in sys.argv[1:]:
        with open(path, "rb") as file:
            found = list(sections(file.read()))
        print(f"{path}  :")
        for name, size, address in found:
            print(f"{name:<20} {size:>10} {address:>12}")
        print(f"{'Total':<20} {sum(size for _, size, _ in found):>10}")
