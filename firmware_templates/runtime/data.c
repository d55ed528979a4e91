/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "data.h"

#include "poet.h"
#include "poet_memory.h"

#define IN_ORDER UINT32_MAX /* in place of an epoch: not shuffled */

/* The current batch. */
static struct {
    const struct poet_samples *samples; /* NULL where the caller's own are in memory */
    union {
        struct {
            uint32_t seed;
            uint32_t epoch;
            uint32_t position; /* of the batch's first sample */
        } stored;
        struct {
            const void *x;
            const void *y;
        } given;
    } at;
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
    current.samples = samples;
    current.at.stored.seed = seed;
    current.at.stored.epoch = step / steps_per_epoch;
    current.at.stored.position = step % steps_per_epoch * POET_BATCH;
}

void poet_data_select_evaluation(const struct poet_samples *samples, uint32_t batch)
{
    current.samples = samples;
    current.at.stored.epoch = IN_ORDER;
    current.at.stored.position = batch * POET_BATCH;
}

void poet_data_select_given(const void *x, const void *y)
{
    current.samples = NULL;
    current.at.given.x = x;
    current.at.given.y = y;
}

/* Gathers `bytes` from `offset` on of every record of the batch, whose CRC is at `crc_offset`. */
static int load(void *ram, uint32_t offset, uint32_t bytes, uint32_t crc_offset)
{
    const struct poet_samples *const samples = current.samples;
    uint8_t *target = ram;
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        uint32_t sample = current.at.stored.position + i;
        if (current.at.stored.epoch != IN_ORDER) {
            sample = poet_sample_at(sample, samples->count, current.at.stored.seed,
                                    current.at.stored.epoch);
        }
        const uint32_t block = samples->first_block + sample * samples->record_blocks;
        POET_TRY(poet_storage_read(block, offset, target, bytes, crc_offset));
        target += bytes;
    }
    return POET_OK;
}

int poet_data_load_x(void *x)
{
    if (current.samples == NULL) {
        memcpy(x, current.at.given.x, POET_BATCH * POET_X_BYTES);
        return POET_OK;
    }
    return load(x, 0u, POET_X_BYTES, POET_X_BYTES + POET_Y_BYTES);
}

int poet_data_load_y(void *y)
{
    if (current.samples == NULL) {
        memcpy(y, current.at.given.y, POET_BATCH * POET_Y_BYTES);
        return POET_OK;
    }
    return load(y, POET_X_BYTES, POET_Y_BYTES, POET_X_BYTES + POET_Y_BYTES + 4u);
}
