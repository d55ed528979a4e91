/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "data.h"

#include "kept.h"
#include "poet.h"
#include "poet_memory.h"
#include "ring.h"
#include "sample_order.h"

#define IN_ORDER UINT32_MAX /* instead of an epoch number: no shuffling */
#define DAMAGED_SHARE 8u    /* one of this number of samples may be damaged */

enum part { X, Y };

static const struct poet_part PARTS[] = {
    [X] = {0u, POET_X_BYTES, POET_X_BYTES + POET_Y_BYTES},
    [Y] = {POET_X_BYTES, POET_Y_BYTES, POET_X_BYTES + POET_Y_BYTES + 4u},
};

/* Damaged records, which are skipped. */
static struct {
    uint32_t count;
    uint32_t blocks[POET_MOST_DAMAGED];
} damaged;

/* The current batch. */
static struct {
    const struct poet_samples *samples; /* NULL if the samples are in the caller's memory */
    int is_settled;                     /* every record has been read once: the batch is final */
    union {
        struct {
            uint32_t seed;
            uint32_t epoch;
            uint32_t position; /* position of the batch's first sample */
#if POET_RING > 0
            uint32_t draws; /* draws from the ring before this batch */
#endif
        } stored;
        struct {
            const void *x;
            const void *y;
        } given;
    } at;
} current;

/* Targets of the current batch, if its features are kept. */
#if POET_KEPT_BYTES > 0
static struct {
    uint8_t targets[POET_BATCH][POET_Y_BYTES];
    int are_current;
} kept;

#endif

static void begin_batch(const struct poet_samples *samples)
{
    current.samples = samples;
    current.is_settled = 0;
#if POET_KEPT_BYTES > 0
    kept.are_current = 0;
#endif
}

/* Number of ring samples in the batch, in place of the last ones from the card; all if the card has no samples. */
#if POET_RING > 0
static uint32_t share_of_ring(void)
{
    return current.samples->count > 0u ? POET_RING_SHARE : POET_BATCH;
}

static uint32_t drawn_from_ring(void)
{
    return current.at.stored.epoch != IN_ORDER && poet_ring_count().drawn > 0u ? share_of_ring() : 0u;
}
#else
static uint32_t drawn_from_ring(void)
{
    return 0u;
}
#endif

int poet_data_select_training(const struct poet_samples *samples, uint32_t seed, uint32_t step)
{
    const uint32_t steps_per_epoch = samples->count > 0u ? samples->count / POET_BATCH : 1u;
    begin_batch(samples);
    current.at.stored.seed = seed;
    current.at.stored.epoch = step / steps_per_epoch;
    current.at.stored.position = step % steps_per_epoch * POET_BATCH;
#if POET_RING > 0
    current.at.stored.draws = step * share_of_ring();
#endif
    return samples->count > 0u || drawn_from_ring() > 0u ? POET_OK : POET_ERROR_NO_SAMPLES;
}

void poet_data_select_evaluation(const struct poet_samples *samples, uint32_t batch)
{
    begin_batch(samples);
    current.at.stored.epoch = IN_ORDER;
    current.at.stored.position = batch * POET_BATCH;
}

void poet_data_select_given(const void *x, const void *y)
{
    begin_batch(NULL);
    current.at.given.x = x;
    current.at.given.y = y;
}

void poet_data_open(void)
{
    damaged.count = 0u;
}

/* Index of a record among damaged ones; their number if it is not. */
static uint32_t number_of(const struct poet_samples *samples, uint32_t block)
{
    const uint32_t blocks = block - samples->first_block;
    const int is_there = block >= samples->first_block && blocks < samples->count * samples->record_blocks;
    return is_there ? blocks / samples->record_blocks : samples->count;
}

uint32_t poet_data_damaged(const struct poet_samples *samples, uint32_t index, uint32_t *number)
{
    uint32_t count = 0u;
    for (uint32_t i = 0u; i < damaged.count; i++) {
        const uint32_t found = number_of(samples, damaged.blocks[i]);
        if (found < samples->count && count++ == index) {
            *number = found;
        }
    }
    return count;
}

static int is_damaged(uint32_t block)
{
    for (uint32_t i = 0u; i < damaged.count; i++) {
        if (damaged.blocks[i] == block) {
            return 1;
        }
    }
    return 0;
}

/* Record of a sample of the batch; a damaged one is replaced by the next intact one in order. */
static uint32_t record_of(uint32_t place)
{
    const struct poet_samples *const samples = current.samples;
    uint32_t position = current.at.stored.position + place;
    uint32_t block;
    do {
        uint32_t sample = position;
        if (current.at.stored.epoch != IN_ORDER) {
            sample = poet_sample_at(position, samples->count, current.at.stored.seed, current.at.stored.epoch);
        }
        block = samples->first_block + sample * samples->record_blocks;
        position = (position + 1u) % samples->count;
    } while (is_damaged(block));
    return block;
}

/* Reads the wanted window of a part of a record, and the other part too if the record is not yet known to be intact,
 * since a batch uses both or none. CRCs are combined with the image's identity, those of targets with its complement: a
 * record whose two CRCs agree on another identity belongs to another image. */
static int read_record(uint32_t block, enum part part, const struct poet_window *wanted, void *ram)
{
    const uint32_t identity = poet_storage_identity();
    uint32_t marks[] = {[X] = identity, [Y] = ~identity};
    uint32_t held = 0u; /* initially block 0, which holds no sample */
    for (int i = X; i <= Y; i++) {
        if (i == (int)part || !current.is_settled) {
            POET_TRY(poet_storage_read(block, &PARTS[i], wanted, i == (int)part ? ram : NULL, &held, &marks[i]));
        }
    }
    if (marks[X] == identity && marks[Y] == ~identity) {
        return POET_OK;
    }
    return marks[X] == ~marks[Y] ? POET_ERROR_MIXED : POET_ERROR_DATA;
}

static int skip(uint32_t block, int status)
{
    uint32_t number;
    const uint32_t of_these = poet_data_damaged(current.samples, UINT32_MAX, &number);
    if (damaged.count == POET_MOST_DAMAGED || of_these == current.samples->count / DAMAGED_SHARE ||
        poet_storage_answers() < POET_OK) {
        return status;
    }
    damaged.blocks[damaged.count++] = block;
    return POET_OK;
}

/* Reads the wanted window of a part of a sample of the batch, with one retry. */
static int load_stored(uint32_t place, enum part part, const struct poet_window *wanted, void *ram)
{
    for (;;) {
        const uint32_t block = record_of(place);
        int status = read_record(block, part, wanted, ram);
        if (status == POET_OK || (status != POET_ERROR_DATA && poet_storage_answers() < POET_OK)) {
            return status;
        }
        status = read_record(block, part, wanted, ram);
        if (status == POET_OK || status == POET_ERROR_MIXED || current.is_settled) {
            return status;
        }
        POET_TRY(skip(block, status));
    }
}

#if POET_RING > 0
static int draw(uint32_t number, enum part part, const struct poet_window *wanted, void *ram)
{
    const uint32_t seed = current.at.stored.seed;
    if (part == X || !current.is_settled) {
        POET_TRY(poet_ring_draw_x(number, seed, wanted, part == X ? ram : NULL));
    }
    if (part == Y || !current.is_settled) {
        POET_TRY(poet_ring_draw_y(number, seed, wanted, part == Y ? ram : NULL));
    }
    return POET_OK;
}

/* Draws from one sample fewer after one became damaged. */
static int load_drawn(uint8_t *batch, enum part part, const struct poet_window *wanted)
{
    uint32_t left = drawn_from_ring();
    while (left > 0u) {
        const uint32_t number = current.at.stored.draws + share_of_ring() - left;
        const int status = draw(number, part, wanted, batch + (POET_BATCH - left) * wanted->bytes);
        if (status == POET_OK) {
            left--;
            continue;
        }
        const uint32_t drawn = poet_ring_count().drawn;
        if (current.is_settled) {
            return status;
        }
        POET_TRY(poet_ring_look_again(number, current.at.stored.seed));
        if (poet_ring_count().drawn < drawn) {
            left = drawn_from_ring(); /* of others: from the first on */
        } else {
            POET_TRY(draw(number, part, wanted, batch + (POET_BATCH - left) * wanted->bytes));
            left--;
        }
    }
    return POET_OK;
}
#else
static int load_drawn(const uint8_t *batch, enum part part, const struct poet_window *wanted)
{
    (void)batch;
    (void)part;
    (void)wanted;
    return POET_OK;
}
#endif

/* Gathers what is wanted of a part of every sample of the batch. */
static int load(uint8_t *batch, enum part part, const struct poet_window *wanted)
{
#ifdef POET_TRANSFERS
    POET_TRY(poet_storage_wait()); /* from here on, an error concerns a sample */
#endif
    POET_TRY(load_drawn(batch, part, wanted));
    const uint32_t stored = POET_BATCH - drawn_from_ring();
    if (stored > 0u && current.samples->count == 0u) {
        return POET_ERROR_DATA; /* ring samples became damaged */
    }
    for (uint32_t i = 0u; i < stored; i++) {
        POET_TRY(load_stored(i, part, wanted, batch + i * wanted->bytes));
    }
    current.is_settled = 1;
    return POET_OK;
}

#if POET_KEPT_BYTES > 0
/* Number of the draw that a place of the batch comes from; the last places are drawn. */
#if POET_RING > 0
static uint32_t draw_of(uint32_t place)
{
    return current.at.stored.draws + share_of_ring() - (POET_BATCH - place);
}
#endif

static int is_drawn(uint32_t place)
{
    return place >= POET_BATCH - drawn_from_ring();
}

static struct poet_kept_record kept_record(uint32_t place)
{
    struct poet_kept_record record = {0u, 0u};
#if POET_RING > 0
    if (is_drawn(place)) {
        record.number = poet_ring_drawn(draw_of(place), current.at.stored.seed, &record.version);
        record.number += current.samples->count;
        return record;
    }
#endif
    record.number = number_of(current.samples, record_of(place));
    return record;
}

static int read_target(uint32_t place, void *target)
{
    static const struct poet_window whole = {0u, POET_Y_BYTES};
#if POET_RING > 0
    if (is_drawn(place)) {
        return draw(draw_of(place), Y, &whole, target);
    }
#endif
    return read_record(record_of(place), Y, &whole, target);
}

int poet_data_load_kept(void *features)
{
#ifdef POET_TRANSFERS
    if (poet_storage_wait() < POET_OK) {
        return 0;
    }
#endif
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        uint8_t *const row = (uint8_t *)features + i * POET_KEPT_BYTES;
        if (current.samples == NULL || (current.samples->count == 0u && !is_drawn(i))) {
            return 0;
        }
        const struct poet_kept_record record = kept_record(i);
        if (poet_kept_read(&record, row, kept.targets[i]) < POET_OK) {
            return 0;
        }
    }
    kept.are_current = 1;
    return 1;
}

void poet_data_keep(const void *features)
{
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        if (current.samples == NULL || read_target(i, kept.targets[i]) < POET_OK) {
            return;
        }
    }
    kept.are_current = 1; /* so the step reads no target again */
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        const uint8_t *const row = (const uint8_t *)features + i * POET_KEPT_BYTES;
        const struct poet_kept_record record = kept_record(i);
        if (poet_kept_write(&record, row, kept.targets[i]) < POET_OK) {
            return;
        }
    }
}

static int load_target(uint8_t *batch, const struct poet_window *wanted)
{
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        memcpy(batch + i * wanted->bytes, kept.targets[i] + wanted->first, wanted->bytes);
    }
    return POET_OK;
}
#endif

static int load_members(void *ram, enum part part, uint32_t first, uint32_t bytes)
{
    const struct poet_window wanted = {first, bytes};
#if POET_KEPT_BYTES > 0
    if (kept.are_current) {
        return load_target(ram, &wanted);
    }
#endif
    if (current.samples != NULL) {
        return load(ram, part, &wanted);
    }
    const uint8_t *const given = part == X ? current.at.given.x : current.at.given.y;
    for (uint32_t i = 0u; i < POET_BATCH; i++) {
        memcpy((uint8_t *)ram + i * bytes, given + i * PARTS[part].bytes + first, bytes);
    }
    return POET_OK;
}

int poet_data_load_x(void *x)
{
    return load_members(x, X, 0u, POET_X_BYTES);
}

int poet_data_load_y(void *y)
{
    return load_members(y, Y, 0u, POET_Y_BYTES);
}

int poet_data_load_x_member(void *x, uint32_t first, uint32_t bytes)
{
    return load_members(x, X, first, bytes);
}

int poet_data_load_y_member(void *y, uint32_t first, uint32_t bytes)
{
    return load_members(y, Y, first, bytes);
}
