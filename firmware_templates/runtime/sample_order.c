/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "sample_order.h"

/* The "lowbias32" integer hash. */
static uint32_t mix32(uint32_t x)
{
    x ^= x >> 16;
    x *= 0x7feb352du;
    x ^= x >> 15;
    x *= 0x846ca68bu;
    x ^= x >> 16;
    return x;
}

uint32_t poet_sample_at(uint32_t position, uint32_t samples, uint32_t seed, uint32_t epoch)
{
    uint32_t half_bits = 0u;
    while (half_bits < 16u && (1u << (2u * half_bits)) < samples) {
        half_bits++;
    }
    const uint32_t mask = (1u << half_bits) - 1u;
    uint32_t value = position;
    do {
        uint32_t left = value >> half_bits;
        uint32_t right = value & mask;
        for (uint32_t round = 0u; round < 4u; round++) {
            const uint32_t key = mix32(seed + 0x9e3779b9u * (4u * epoch + round + 1u));
            const uint32_t swapped = left ^ (mix32(right ^ key) & mask);
            left = right;
            right = swapped;
        }
        value = (left << half_bits) | right;
    } while (value >= samples);
    return value;
}
