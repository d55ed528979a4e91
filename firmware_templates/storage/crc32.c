/* SPDX-License-Identifier: Apache-2.0 */
#include "crc32.h"

#include "unroll.h"

/* TABLE[i]: CRC register after shifting out the four bits i. */
static const uint32_t TABLE[16] = {
    0x00000000, 0x1db71064, 0x3b6e20c8, 0x26d930ac, 0x76dc4190, 0x6b6b51f4, 0x4db26158, 0x5005713c,
    0xedb88320, 0xf00f9344, 0xd6d6a3e8, 0xcb61b38c, 0x9b64c2b0, 0x86d3d2d4, 0xa00ae278, 0xbdbdf21c,
};

static inline uint32_t shift_out(uint32_t crc, int bytes)
{
    POET_UNROLL(8)
    for (int i = 0; i < 2 * bytes; i++) {
        crc = crc >> 4 ^ TABLE[crc & 15u];
    }
    return crc;
}

/* Aligned data is processed by words: a table of 64 bytes then needs no more instructions than one of 1 KB, by bytes.
 * */
uint32_t poet_crc32(uint32_t crc, const void *data, uint32_t bytes)
{
    const uint8_t *byte = data;
    crc = ~crc;
    for (uint32_t words = (uintptr_t)data % 4u == 0u ? bytes / 4u : 0u; words > 0u; words--) {
        crc = shift_out(crc ^ *(const uint32_t *)(const void *)byte, 4);
        byte += 4;
        bytes -= 4u;
    }
    for (; bytes > 0u; bytes--) {
        crc = shift_out(crc ^ *byte++, 1);
    }
    return ~crc;
}
