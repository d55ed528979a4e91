/* SPDX-License-Identifier: Apache-2.0 */
#include "crc32.h"

/* TABLE[i]: the CRC register after shifting out the four bits i. A table of bytes would take 1 KB of flash, and of the
 * instructions save a fifth where data begins at a word, as pages and records do. */
static const uint32_t TABLE[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

static inline uint32_t shifted_out(uint32_t crc, uint32_t bytes)
{
    _Pragma("GCC unroll 8")
    for (uint32_t i = 0u; i < 2u * bytes; i++) {
        crc = crc >> 4 ^ TABLE[crc & 15u];
    }
    return crc;
}

uint32_t poet_crc32(uint32_t crc, const void *data, uint32_t bytes)
{
    const uint8_t *byte = data;
    const uint8_t *const end = byte + bytes;
    crc = ~crc;
    while (byte != end) {
        if ((uintptr_t)byte % 4u == 0u && end - byte >= 4) {
            crc = shifted_out(crc ^ *(const uint32_t *)(const void *)byte, 4u);
            byte += 4;
        } else {
            crc = shifted_out(crc ^ *byte++, 1u);
        }
    }
    return ~crc;
}
