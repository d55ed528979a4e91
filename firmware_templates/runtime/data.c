/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "data.h"

#include "poet.h"
#include "poet_memory.h"
#include "ring.h"

#define IN_ORDER UINT32_MAX /* in place of an epoch: not shuffled */

/* The current batch. */
static struct {
    const struct poet_samples *samples; /* NULL where the caller's own are in memory */
    union {
        struct {
            uint32_t seed;
            uint32_t epoch;
            uint32_t position; /* of the batch's first sample */
#if POET_RING > 0
            uint32_t draws; /* from the ring before it */
#endif
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
#if POET_RING > 0
    current.at.stored.draws = step * POET_RING_SHARE;
#endif
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

#if POET_RING > 0
/* How many samples of the batch come from the ring, in the place of the last ones from the card. */
static uint32_t drawn_from_ring(void)
{
    return current.at.stored.epoch != IN_ORDER && poet_ring_count().drawn > 0u ? POET_RING_SHARE : 0u;
}

static int load_drawn(uint8_t *target, uint32_t bytes, int features)
{
    int (*const draw)(uint32_t draw, uint32_t seed, void *ram) =
        features ? poet_ring_draw_x : poet_ring_draw_y;
    for (uint32_t i = 0u; i < drawn_from_ring(); i++) {
        POET_TRY(draw(current.at.stored.draws + i, current.at.stored.seed, target));
        target += bytes;
    }
    return POET_OK;
}
#else
static uint32_t drawn_from_ring(void)
{
    return 0u;
}

static int load_drawn(const uint8_t *target, uint32_t bytes, int features)
{
    (void)target;
    (void)bytes;
    (void)features;
    return POET_OK;
}
#endif

/* Gathers `bytes` from `offset` on of every record of the batch, whose CRC is at `crc_offset`. */
static int load(void *ram, uint32_t offset, uint32_t bytes, uint32_t crc_offset)
{
    const struct poet_samples *const samples = current.samples;
    const uint32_t from_card = POET_BATCH - drawn_from_ring();
    uint8_t *target = ram;
    for (uint32_t i = 0u; i < from_card; i++) {
        uint32_t sample = current.at.stored.position + i;
        if (current.at.stored.epoch != IN_ORDER) {
            sample = poet_sample_at(sample, samples->count, current.at.stored.seed,
                                    current.at.stored.epoch);
        }
        const uint32_t block = samples->first_block + sample * samples->record_blocks;
        POET_TRY(poet_storage_read(block, offset, target, bytes, crc_offset));
        target += bytes;
    }
    return load_drawn(target, bytes, offset == 0u);
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
