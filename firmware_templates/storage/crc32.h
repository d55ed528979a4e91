/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32 as in IEEE 802.3 and zlib (reflected polynomial 0xedb88320). */
#ifndef POET_CRC32_H
#define POET_CRC32_H

#include <stdint.h>

/* CRC of `bytes` of data that follow data whose CRC is `crc`; 0 to begin. */
uint32_t poet_crc32(uint32_t crc, const void *data, uint32_t bytes);

#endif
