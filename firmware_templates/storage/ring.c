/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "ring.h"

#include "bytes.h"
#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"
#include "sample_order.h"
#include "slots.h"
#include "storage.h"

#if POET_RING > 0

#define MAGIC 0x474e4952u
#define CRC_BYTES 4u
#define UNIT_BLOCKS 8u
#define MOST_EVENTS 0x7fffffffu /* largest event number; a part with a larger one is not the ring's */
#define DAMAGED UINT32_MAX      /* instead of the event of a label: a part of the place is not intact */

/* Content of a part's trailer. */
struct stamp {
    uint32_t id;
    uint32_t event;
    int is_blank; /* never written, or erased */
};

static struct {
    struct {
        uint32_t id;       /* 0 if the place holds no sample */
        uint32_t labelled; /* event of its label, or 0, or DAMAGED */
    } places[POET_RING];
    uint32_t first_block;
    uint32_t next; /* next place to write */
    uint32_t events;
    uint32_t committed;
    uint32_t unsure; /* 1 + the place where a write failed; 0 for none */
} ring;

static uint32_t unit_blocks(uint32_t bytes)
{
    return (poet_slot_blocks(bytes) + UNIT_BLOCKS - 1u) / UNIT_BLOCKS * UNIT_BLOCKS;
}

static uint32_t place_blocks(void)
{
    return unit_blocks(POET_X_BYTES) + unit_blocks(POET_Y_BYTES);
}

static uint32_t x_block(uint32_t place)
{
    return ring.first_block + place * place_blocks();
}

static uint32_t y_block(uint32_t place)
{
    return x_block(place) + unit_blocks(POET_X_BYTES);
}

static uint32_t later(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

/* The CRC of a payload continues over its trailer. */
static uint32_t seal(uint32_t crc, uint32_t identity, const struct stamp *stamp, uint8_t *trailer)
{
    poet_put_u32(trailer + 4, MAGIC ^ identity);
    poet_put_u32(trailer + 8, stamp->id);
    poet_put_u32(trailer + 12, stamp->event);
    crc = poet_crc32(crc, trailer + CRC_BYTES, POET_SLOT_TRAILER_BYTES - CRC_BYTES);
    poet_put_u32(trailer, crc);
    return crc;
}

/* Reads a part and keeps the wanted window of its payload, nothing if `ram` is NULL. Returns POET_ERROR_DATA if it is
 * not intact, and POET_ERROR_MIXED if it belongs to another image. */
static int read_part(uint32_t block, const struct poet_window *wanted, void *ram, uint32_t bytes, struct stamp *stamp)
{
    uint8_t sealed[POET_SLOT_TRAILER_BYTES];
    uint32_t crc = 0u;
    uint32_t at = 0u;
    for (uint32_t left = poet_slot_blocks(bytes); left > 0u; left--) {
        const uint32_t part = bytes - at < POET_BLOCK_BYTES ? bytes - at : POET_BLOCK_BYTES;
        POET_TRY(poet_storage_read_blocks(block++, poet_storage_page(), 1u));
        crc = poet_crc32(crc, poet_storage_page(), part);
        if (ram != NULL) {
            poet_storage_keep(ram, wanted, poet_storage_page(), at, part);
        }
        at += part;
    }
    const uint8_t *const trailer = poet_storage_page() + POET_SLOT_TRAILER_OFFSET;
    stamp->id = poet_get_u32(trailer + 8);
    stamp->event = poet_get_u32(trailer + 12);
    stamp->is_blank = poet_storage_is_blank(trailer, POET_SLOT_TRAILER_BYTES);
    const uint32_t identity = poet_get_u32(trailer + 4) ^ MAGIC;
    (void)seal(crc, identity, stamp, sealed);
    const int is_whole = memcmp(trailer, sealed, sizeof sealed) == 0 && stamp->event <= MOST_EVENTS;
    if (!is_whole) {
        return POET_ERROR_DATA;
    }
    return identity == poet_storage_identity() ? POET_OK : POET_ERROR_MIXED;
}

/* Writes a part through the page buffer, as a bus may not reach the caller's data, and reads it back. */
static int write_part(uint32_t block, const void *data, uint32_t bytes, const struct stamp *stamp)
{
    const uint8_t *source = data;
    const uint32_t blocks = poet_slot_blocks(bytes);
    uint32_t left = bytes;
    uint32_t crc = 0u;
    poet_hal_storage_forget(block, blocks);
    for (uint32_t i = 0u; i < blocks; i++) {
        const uint32_t part = left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
        memset(poet_storage_page(), 0, POET_BLOCK_BYTES);
        memcpy(poet_storage_page(), source, part);
        crc = poet_crc32(crc, source, part);
        source += part;
        left -= part;
        if (i + 1u == blocks) {
            (void)seal(crc, poet_storage_identity(), stamp, poet_storage_page() + POET_SLOT_TRAILER_OFFSET);
        }
        POET_TRY(poet_storage_write_blocks(block + i, poet_storage_page(), 1u));
    }
    POET_TRY(poet_storage_flush());
    struct stamp kept;
    const int status = read_part(block, NULL, NULL, bytes, &kept);
    if (status == POET_ERROR_DATA || (status == POET_OK && kept.event != stamp->event)) {
        return POET_ERROR_LOST;
    }
    return status;
}

uint32_t poet_ring_blocks(void)
{
    return POET_RING * place_blocks();
}

/* Scans the places, with two readings each: a sample that cannot be read now would not be drawn either. If the
 * storage responds but a part cannot be read, the part is not intact. */
static int find_part(uint32_t block, uint32_t bytes, struct stamp *stamp)
{
    for (int again = 0;; again++) {
        int status = read_part(block, NULL, NULL, bytes, stamp);
        if (status < POET_OK && status != POET_ERROR_DATA && status != POET_ERROR_MIXED &&
            poet_storage_answers() == POET_OK) {
            status = POET_ERROR_DATA;
            stamp->is_blank = 0;
        }
        if (status != POET_ERROR_DATA || again) {
            return status;
        }
    }
}

static int find_sample(uint32_t place)
{
    struct stamp stamp;
    ring.places[place].id = 0u;
    ring.places[place].labelled = 0u;
    int status = find_part(x_block(place), POET_X_BYTES, &stamp);
    if (status == POET_OK) {
        ring.places[place].id = stamp.id;
        ring.events = later(ring.events, stamp.event);
    } else if (status != POET_ERROR_DATA) {
        return status;
    } else if (!stamp.is_blank) {
        ring.places[place].labelled = DAMAGED;
    }
    status = find_part(y_block(place), POET_Y_BYTES, &stamp);
    if (status == POET_OK) {
        ring.events = later(ring.events, stamp.event);
        if (stamp.id == ring.places[place].id) {
            ring.places[place].labelled = stamp.event;
        }
    } else if (status != POET_ERROR_DATA) {
        return status;
    } else if (!stamp.is_blank) {
        ring.places[place].labelled = DAMAGED;
    }
    return POET_OK;
}

/* Place after the newest sample. */
static void find_next(void)
{
    uint32_t newest = 0u;
    ring.next = 0u;
    for (uint32_t place = 0u; place < POET_RING; place++) {
        if (ring.places[place].id > newest) {
            newest = ring.places[place].id;
            ring.next = (place + 1u) % POET_RING;
        }
    }
}

int poet_ring_open(uint32_t first_block)
{
    ring.first_block = first_block;
    ring.events = ring.committed = ring.unsure = 0u;
    for (uint32_t place = 0u; place < POET_RING; place++) {
        POET_TRY(find_sample(place));
    }
    find_next();
    return POET_OK;
}

int poet_ring_wipe(uint32_t first_block)
{
    const uint32_t x_blocks = poet_slot_blocks(POET_X_BYTES);
    const uint32_t y_blocks = poet_slot_blocks(POET_Y_BYTES);
    ring.first_block = first_block;
    for (uint32_t place = 0u; place < POET_RING; place++) {
        POET_TRY(poet_storage_wipe(x_block(place) + x_blocks - 1u));
        POET_TRY(poet_storage_wipe(y_block(place) + y_blocks - 1u));
    }
    return POET_OK;
}

int poet_ring_settle(void)
{
    if (ring.unsure != 0u) {
        POET_TRY(poet_storage_flush());
        POET_TRY(find_sample(ring.unsure - 1u));
        find_next();
        ring.unsure = 0u;
    }
    return POET_OK;
}

uint32_t poet_ring_events(void)
{
    return ring.events;
}

void poet_ring_commit(uint32_t events)
{
    ring.committed = events;
    ring.events = later(ring.events, events);
}

static int is_labelled(uint32_t place)
{
    return ring.places[place].labelled != 0u && ring.places[place].labelled != DAMAGED;
}

static int is_drawn(uint32_t place)
{
    return is_labelled(place) && ring.places[place].labelled <= ring.committed;
}

/* A failed write may have reached the storage. Writing again makes that irrelevant. */
static int settle_others(uint32_t place)
{
    return ring.unsure == place + 1u ? POET_OK : poet_ring_settle();
}

static int write_sample(uint32_t place, const void *x, const struct stamp *stamp)
{
    ring.unsure = place + 1u;
    POET_TRY(write_part(x_block(place), x, POET_X_BYTES, stamp));
    ring.unsure = 0u;
    ring.places[place].id = stamp->id;
    return POET_OK;
}

static int write_label(uint32_t place, const void *y)
{
    const struct stamp stamp = {.id = ring.places[place].id, .event = ++ring.events}; /* used up even if it fails */
    ring.unsure = place + 1u;
    POET_TRY(write_part(y_block(place), y, POET_Y_BYTES, &stamp));
    ring.unsure = 0u;
    ring.places[place].labelled = stamp.event;
    return POET_OK;
}

int poet_ring_append(const void *x, const void *y, int keep, uint32_t *id)
{
    POET_TRY(settle_others(ring.next));
    const uint32_t place = ring.next;
    if (keep && is_drawn(place)) {
        return POET_ERROR_RING;
    }
    const struct stamp stamp = {.id = ring.events + 1u, .event = ring.events + 1u};
    ring.events = stamp.event;
    ring.places[place].id = ring.places[place].labelled = 0u;
    POET_TRY(write_sample(place, x, &stamp));
    *id = stamp.id;
    ring.next = (place + 1u) % POET_RING;
    return y != NULL ? write_label(place, y) : POET_OK;
}

int poet_ring_label(uint32_t id, const void *y)
{
    for (uint32_t place = 0u; place < POET_RING && id != 0u; place++) {
        if (ring.places[place].id == id && !is_labelled(place)) {
            POET_TRY(settle_others(place));
            return write_label(place, y);
        }
    }
    return POET_ERROR_ID;
}

struct poet_ring_counts poet_ring_count(void)
{
    struct poet_ring_counts counts = {0u, 0u, 0u, 0u, 0u};
    for (uint32_t place = 0u; place < POET_RING; place++) {
        const uint32_t id = ring.places[place].id;
        counts.samples += id != 0u;
        counts.labelled += is_labelled(place) != 0;
        counts.drawn += is_drawn(place) != 0;
        counts.damaged += ring.places[place].labelled == DAMAGED;
        if (id != 0u && !is_labelled(place) && (counts.unlabelled == 0u || id < counts.unlabelled)) {
            counts.unlabelled = id;
        }
    }
    return counts;
}

uint32_t poet_ring_damaged(uint32_t index)
{
    uint32_t place = 0u;
    while (ring.places[place].labelled != DAMAGED || index-- > 0u) {
        place++;
    }
    return place;
}

/* Each sample is drawn once before any is drawn again, as for samples of the card, but in another order. */
static uint32_t place_drawn(uint32_t draw, uint32_t seed)
{
    const uint32_t count = poet_ring_count().drawn;
    uint32_t nth = poet_sample_at(draw % count, count, ~seed, draw / count);
    uint32_t place = 0u;
    while (!is_drawn(place) || nth-- > 0u) {
        place++;
    }
    return place;
}

static int take(uint32_t block, const struct poet_window *wanted, void *ram, uint32_t bytes, uint32_t id)
{
    struct stamp stamp;
    POET_TRY(read_part(block, wanted, ram, bytes, &stamp));
    return stamp.id == id ? POET_OK : POET_ERROR_DATA;
}

int poet_ring_draw_x(uint32_t draw, uint32_t seed, const struct poet_window *wanted, void *ram)
{
    const uint32_t place = place_drawn(draw, seed);
    return take(x_block(place), wanted, ram, POET_X_BYTES, ring.places[place].id);
}

int poet_ring_draw_y(uint32_t draw, uint32_t seed, const struct poet_window *wanted, void *ram)
{
    const uint32_t place = place_drawn(draw, seed);
    return take(y_block(place), wanted, ram, POET_Y_BYTES, ring.places[place].id);
}

uint32_t poet_ring_drawn(uint32_t draw, uint32_t seed, uint32_t *event)
{
    const uint32_t place = place_drawn(draw, seed);
    *event = ring.places[place].labelled;
    return place;
}

int poet_ring_look_again(uint32_t draw, uint32_t seed)
{
    return find_sample(place_drawn(draw, seed));
}

#endif
