/* SPDX-License-Identifier: Apache-2.0 */
#include "trace.h"

#include "bytes.h"
#include "poet.h"
#include "poet_memory.h"
#include "stream.h"

static struct {
    uint32_t step;      /* of the training, from 1 */
    uint32_t statement; /* the last one of the step that has begun */
    uint32_t first_step;
    uint32_t last_step;
    uint32_t first_statement;
    uint32_t last_statement;
    uint32_t next;  /* record */
    uint32_t block; /* where it goes */
} state;

static int read_request(void)
{
    const uint8_t *const page = poet_arena + POET_PAGE_BUFFER;
    POET_TRY(poet_storage_read_blocks(poet_trace_block, poet_arena + POET_PAGE_BUFFER, 1u));
    if (memcmp(page, "POETTRC1", 8u) != 0) {
        return POET_ERROR_IMAGE;
    }
    state.first_step = poet_get_u32(page + 8);
    state.last_step = poet_get_u32(page + 12);
    state.first_statement = poet_get_u32(page + 16);
    state.last_statement = poet_get_u32(page + 20);
    state.block = poet_trace_block + 1u;
    return POET_OK;
}

#ifndef POET_STREAMS
#define POET_STREAMS 0u
#endif

/* Blocks of a tensor in storage, trailers included; 0 if no tensor has this number. */
static uint32_t find_blocks(uint32_t number, uint32_t *first)
{
    uint32_t blocks = 0u;
    (void)number;
    (void)first;
#if POET_STREAMS > 0u
    if (number < POET_STREAMS) {
        *first = poet_stream_block(number);
        blocks = poet_stream_blocks(number);
    }
#endif
#ifdef POET_STORED_TENSORS
    if (number >= POET_STREAMS) {
        *first = poet_stored_block(number - POET_STREAMS);
        blocks = poet_stored_blocks(number - POET_STREAMS);
    }
#endif
    return blocks;
}

static int write_stored(uint32_t number)
{
    uint8_t *const page = poet_arena + POET_PAGE_BUFFER;
    uint32_t first = 0u;
    const uint32_t blocks = find_blocks(number, &first);
    for (uint32_t i = 0u; i < blocks; i++) {
        POET_TRY(poet_storage_read_blocks(first + i, page, 1u));
        POET_TRY(poet_storage_write_blocks(state.block++, page, 1u));
    }
    return blocks > 0u ? POET_OK : POET_ERROR_ARGUMENT;
}

/* Between two statements nothing is in the page buffer. */
static int write_record(const struct poet_trace_record *record)
{
    if (record->bytes == 0u) {
        return write_stored(record->offset);
    }
    const uint8_t *const bytes = poet_arena + record->offset;
    const uint32_t whole = record->bytes / POET_BLOCK_BYTES;
    const uint32_t rest = record->bytes % POET_BLOCK_BYTES;
    if (whole > 0u) {
        POET_TRY(poet_storage_write_blocks(state.block, bytes, whole));
        state.block += whole;
    }
    if (rest > 0u) {
        uint8_t *const page = poet_arena + POET_PAGE_BUFFER;
        memset(page, 0, POET_BLOCK_BYTES);
        memcpy(page, bytes + whole * POET_BLOCK_BYTES, rest);
        POET_TRY(poet_storage_write_blocks(state.block, page, 1u));
        state.block++;
    }
    return POET_OK;
}

static int write_end(void)
{
    uint8_t *const page = poet_arena + POET_PAGE_BUFFER;
    memset(page, 0, POET_BLOCK_BYTES);
    memcpy(page, "POETTRC2", 8u);
    poet_put_u32(page + 8, state.block - poet_trace_block - 1u);
    return poet_storage_write_blocks(poet_trace_block, page, 1u);
}

int poet_trace(uint32_t statement)
{
    if (statement == 1u) {
        if (state.step == 0u) {
            POET_TRY(read_request());
        }
        state.step++;
        state.statement = 0u;
        state.next = 0u;
    }
    if (statement != ++state.statement) {
        state.last_step = 0u; /* not the plan's statements: no more is recorded, and no end */
    }
    if (state.step < state.first_step || state.step > state.last_step) {
        return POET_OK;
    }
    while (state.next < poet_trace_record_count &&
           poet_trace_records[state.next].statement <= statement) {
        const struct poet_trace_record *record = &poet_trace_records[state.next++];
        if (statement >= state.first_statement && statement <= state.last_statement) {
            POET_TRY(write_record(record));
        }
    }
    return state.step == state.last_step && statement == state.last_statement ? write_end()
                                                                              : POET_OK;
}
