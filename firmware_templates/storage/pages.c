/* SPDX-License-Identifier: Apache-2.0 */
/* Slot transfers in parallel with computation. Whole blocks of a tensor are transferred directly between its RAM and
 * the storage, its rest and the trailer through a separate block. For a few sizes these do not fit one block; then
 * the first of two is waited for. */
#include "for_size.h"

#include "slots.h"

#include "crc32.h"
#include "hal.h"
#include "poet.h"
#include "poet_memory.h"

#ifdef POET_TRANSFERS

#define PAGES (POET_TRANSFERS / 2u) /* two transfers per page: whole blocks, and the rest */

struct page {
    uint32_t slot;
    uint8_t *target;   /* for a page-in; NULL for a page-out */
    uint32_t transfer; /* transfer count at which its last one has ended */
    uint8_t rest[POET_BLOCK_BYTES];
};

/* Pages under way, oldest first, as a ring buffer. */
static struct page pages[PAGES];
static uint32_t oldest;
static uint32_t under_way;

static uint32_t whole_blocks(uint32_t bytes)
{
    return bytes / POET_BLOCK_BYTES;
}

/* Last block of a slot, counted from its first. */
static uint32_t last_block(uint32_t bytes)
{
    return poet_slot_blocks(bytes) - 1u;
}

static void take_rest(const struct page *page, uint32_t bytes)
{
    memcpy(page->target + whole_blocks(bytes) * POET_BLOCK_BYTES, page->rest, bytes % POET_BLOCK_BYTES);
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
    if (last_block(bytes) == whole_blocks(bytes)) {
        take_rest(page, bytes);
    }
    return poet_slot_verify(page->rest, bytes, poet_crc32(0u, page->target, bytes));
}

/* Entry for another page; if all are in use, waits for the oldest page. */
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
    const uint32_t first = poet_slot_block(slot);
    struct page *page;
    POET_TRY(poet_slot_check(slot, bytes));
    POET_TRY(add_page(slot, NULL, &page));
    poet_hal_storage_forget(first, poet_slot_blocks(bytes));
    if (whole > 0u) {
        POET_TRY(poet_storage_write_begin(first, payload, whole));
    }
    memset(page->rest, 0, sizeof page->rest);
    memcpy(page->rest, payload + whole * POET_BLOCK_BYTES, bytes % POET_BLOCK_BYTES);
    if (last_block(bytes) > whole) {
        POET_TRY(poet_storage_write_blocks(first + whole, page->rest, 1u));
        memset(page->rest, 0, sizeof page->rest);
    }
    poet_slot_seal(page->rest, bytes, poet_crc32(0u, payload, bytes));
    POET_TRY(poet_storage_write_begin(first + last_block(bytes), page->rest, 1u));
    page->transfer = poet_storage_begun();
    return POET_OK;
}

int poet_page_in_begin(uint32_t slot, void *ram, uint32_t bytes)
{
    const uint32_t whole = whole_blocks(bytes);
    const uint32_t first = poet_slot_block(slot);
    struct page *page;
    POET_TRY(poet_slot_check(slot, bytes));
    POET_TRY(add_page(slot, ram, &page));
    if (whole > 0u) {
        POET_TRY(poet_storage_read_begin(first, ram, whole));
    }
    if (last_block(bytes) > whole) {
        POET_TRY(poet_storage_read_blocks(first + whole, page->rest, 1u));
        take_rest(page, bytes);
    }
    POET_TRY(poet_storage_read_begin(first + last_block(bytes), page->rest, 1u));
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

void poet_pages_forget(void)
{
    (void)poet_storage_wait();
    under_way = 0u;
}

#else

void poet_pages_forget(void)
{
}

#endif
