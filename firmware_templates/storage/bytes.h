/* SPDX-License-Identifier: Apache-2.0 */
/* Little-endian numbers in byte arrays. */
#ifndef POET_BYTES_H
#define POET_BYTES_H

#include <stdint.h>

/* Functions rather than inline code, which would take 20 bytes on a Cortex-M0+; a load where unaligned access is
 * allowed. */
#define POET_CALLED __attribute__((noinline, unused))
#ifdef __ARM_FEATURE_UNALIGNED
#define POET_CALLED_OR_LOADED inline __attribute__((always_inline))
#else
#define POET_CALLED_OR_LOADED POET_CALLED
#endif

static POET_CALLED_OR_LOADED uint32_t poet_get_u32(const uint8_t *bytes)
{
    return (uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 | (uint32_t)bytes[2] << 16 |
           (uint32_t)bytes[3] << 24;
}

static POET_CALLED_OR_LOADED void poet_put_u32(uint8_t *bytes, uint32_t value)
{
#if defined(__ARM_FEATURE_UNALIGNED) && __BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__
    __builtin_memcpy(bytes, &value, sizeof value);
#else
    bytes[0] = (uint8_t)value;
    bytes[1] = (uint8_t)(value >> 8);
    bytes[2] = (uint8_t)(value >> 16);
    bytes[3] = (uint8_t)(value >> 24);
#endif
}

#endif
