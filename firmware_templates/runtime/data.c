/* SPDX-License-Identifier: Apache-2.0 */
#include "data.h"

#include "poet.h"

static struct {
    struct poet_samples samples;
    int shuffled;
    uint32_t seed;
    uint32_t epoch;
    uint32_t position; /* of the batch's first sample */
} current;

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

void poet_data_select_training(const struct poet_samples *samples, uint32_t seed, uint32_t step)
{
    const uint32_t steps_per_epoch = samples->count / POET_BATCH;
    current.samples = *samples;
    current.shuffled = 1;
    current.seed = seed;
    current.epoch = step / steps_per_epoch;
    current.position = step % steps_per_epoch * POET_BATCH;
}

void poet_data_select_evaluation(const struct poet_samples *samples, uint32_t batch)
{
    current.samples = *samples;
    current.shuffled = 0;
    current.position = batch * POET_BATCH;
}

/* Gathers `bytes` from `offset` on of every record of the batch, whose CRC is at `crc_offset`. */
static int load(void *ram, uint32_t offset, uint32_t bytes, uint32_t crc_offset)
{
    uint8_t *target = ram;
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        uint32_t sample = current.position + i;
        if (current.shuffled) {
            sample = poet_sample_at(sample, current.samples.count, current.seed, current.epoch);
        }
        const uint32_t block = current.samples.first_block + sample * current.samples.record_blocks;
        POET_TRY(poet_storage_read(block, offset, target, bytes, crc_offset));
        target += bytes;
    }
    return POET_OK;
}

int poet_data_load_x(void *x)
{
    return load(x, 0u, POET_X_BYTES, POET_X_BYTES + POET_Y_BYTES);
}

int poet_data_load_y(void *y)
{
    return load(y, POET_X_BYTES, POET_Y_BYTES, POET_X_BYTES + POET_Y_BYTES + 4u);
}
