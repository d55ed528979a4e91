/* SPDX-License-Identifier: Apache-2.0 */
/* Slots that move while the core computes. Whole blocks of a tensor move between its RAM and the storage,
 * what is left of it and the trailer through a buffer of their own. */
#include "slots.h"

#include "crc32.h"
#include "poet.h"
#include "poet_memory.h"

#ifdef POET_TRANSFERS

#define PAGES (POET_TRANSFERS / 2u) /* a page is two transfers: whole blocks, and the rest */
#define REST_BLOCKS 2u

struct page {
    uint32_t slot;
    uint8_t *target;   /* of a page-in; null for a page-out */
    uint32_t transfer; /* the count at which its last one has ended */
    uint8_t rest[REST_BLOCKS * POET_BLOCK_BYTES];
};

/* Those under way, oldest first, in a ring. */
static struct page pages[PAGES];
static uint32_t oldest;
static uint32_t under_way;

static uint32_t whole_blocks(uint32_t bytes)
{
    return bytes / POET_BLOCK_BYTES;
}

static uint32_t rest_blocks(uint32_t bytes)
{
    return poet_slot_blocks(bytes) - whole_blocks(bytes);
}

static int end_oldest(void)
{
    struct page *const page = &pages[oldest];
    const uint32_t bytes = poet_slots[page->slot].bytes;
    oldest = (oldest + 1u) % PAGES;
    under_way--;
    POET_TRY(poet_storage_wait_for(page->transfer));
    if (page->target == NULL) {
        return POET_OK;
    }
    memcpy(page->target + whole_blocks(bytes) * POET_BLOCK_BYTES, page->rest, bytes % POET_BLOCK_BYTES);
    const uint8_t *const last = page->rest + (rest_blocks(bytes) - 1u) * POET_BLOCK_BYTES;
    return poet_slot_verify(last, page->target, bytes);
}

/* The entry for one more; its oldest makes room where there is none. */
static int add_page(uint32_t slot, uint8_t *target, struct page **page)
{
    if (under_way == PAGES) {
        POET_TRY(end_oldest());
    }
    *page = &pages[(oldest + under_way) % PAGES];
    under_way++;
    (*page)->slot = slot;
    (*page)->target = target;
    return POET_OK;
}

int poet_page_out_begin(uint32_t slot, const void *ram, uint32_t bytes)
{
    const uint8_t *const payload = ram;
    const uint32_t whole = whole_blocks(bytes);
    const uint32_t last = (rest_blocks(bytes) - 1u) * POET_BLOCK_BYTES;
    struct page *page;
    POET_TRY(poet_slot_check(slot, bytes));
    POET_TRY(add_page(slot, NULL, &page));
    if (whole > 0u) {
        POET_TRY(poet_storage_write_begin(poet_slot_block(slot), payload, whole));
    }
    memset(page->rest, 0, sizeof page->rest);
    memcpy(page->rest, payload + whole * POET_BLOCK_BYTES, bytes % POET_BLOCK_BYTES);
    poet_slot_seal(page->rest + last, bytes, poet_crc32(0u, payload, bytes));
    POET_TRY(poet_storage_write_begin(poet_slot_block(slot) + whole, page->rest, rest_blocks(bytes)));
    page->transfer = poet_storage_begun();
    return POET_OK;
}

int poet_page_in_begin(uint32_t slot, void *ram, uint32_t bytes)
{
    const uint32_t whole = whole_blocks(bytes);
    struct page *page;
    POET_TRY(poet_slot_check(slot, bytes));
    POET_TRY(add_page(slot, ram, &page));
    if (whole > 0u) {
        POET_TRY(poet_storage_read_begin(poet_slot_block(slot), ram, whole));
    }
    POET_TRY(poet_storage_read_begin(poet_slot_block(slot) + whole, page->rest, rest_blocks(bytes)));
    page->transfer = poet_storage_begun();
    return POET_OK;
}

static int is_under_way(uint32_t slot)
{
    for (uint32_t i = 0u; i < under_way; i++) {
        if (pages[(oldest + i) % PAGES].slot == slot) {
            return 1;
        }
    }
    return 0;
}

int poet_page_wait(uint32_t slot)
{
    while (is_under_way(slot)) {
        POET_TRY(end_oldest());
    }
    return POET_OK;
}

#endif
