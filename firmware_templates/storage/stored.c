/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "stored.h"

#include "crc32.h"
#include "poet.h"
#include "poet_memory.h"
#include "runs.h"

#ifdef POET_STORED_TENSORS

/* Part of an image in RAM. */
struct part {
    uint32_t channel;
    uint32_t channels;
    uint32_t row;
    uint32_t rows;
};

static uint32_t tile_bytes(const struct poet_stored *stored)
{
    return stored->tile_channels * stored->tile_rows * stored->row_bytes;
}

/* First block in the storage of the tile that has a channel and a row. */
static uint32_t tile_block(const struct poet_stored *stored, uint32_t channel, uint32_t row)
{
    const uint32_t tiles = stored->channels / stored->tile_channels; /* of the same rows */
    const uint32_t tile = row / stored->tile_rows * tiles + channel / stored->tile_channels;
    return poet_slots_first_block() + stored->first_block + tile * poet_slot_blocks(tile_bytes(stored));
}

static uint32_t larger(uint32_t a, uint32_t b)
{
    return a > b ? a : b;
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The last block of a tile, which has the trailer. */
static uint8_t *last_block(uint8_t *staging, uint32_t bytes)
{
    return staging + (poet_slot_blocks(bytes) - 1u) * POET_BLOCK_BYTES;
}

static int get_tile(const struct poet_stored *stored, uint32_t channel, uint32_t row, const struct part *part, uint8_t *to, uint8_t *staging)
{
    const uint32_t bytes = tile_bytes(stored);
    POET_TRY(poet_storage_read_blocks(tile_block(stored, channel, row), staging, poet_slot_blocks(bytes)));
    const uint8_t *const trailer = last_block(staging, bytes) + POET_SLOT_TRAILER_OFFSET;
    const uint32_t crc = poet_crc32(0u, staging, bytes);
    POET_TRY(stored->is_constant ? poet_slot_verify_as_of(trailer, bytes, crc, 0u)
                                 : poet_slot_verify(last_block(staging, bytes), bytes, crc));
    const uint32_t first = larger(row, part->row);
    const uint32_t end = smaller(row + stored->tile_rows, part->row + part->rows);
    const uint32_t begin = larger(channel, part->channel);
    const uint32_t channels = smaller(channel + stored->tile_channels, part->channel + part->channels) - begin;
    const uint32_t to_stride = part->rows * stored->row_bytes;
    const uint32_t from_stride = stored->tile_rows * stored->row_bytes;
    poet_copy_runs(to + (begin - part->channel) * to_stride + (first - part->row) * stored->row_bytes, to_stride,
                   staging + (begin - channel) * from_stride + (first - row) * stored->row_bytes, from_stride, channels,
                   (end - first) * stored->row_bytes);
    return POET_OK;
}

int poet_stored_get(uint32_t stored, uint32_t channel, uint32_t channels, uint32_t row, uint32_t rows, void *to, void *staging)
{
    const struct poet_stored *const of = &poet_stored[stored];
    const struct part part = {channel, channels, row, rows};
    for (uint32_t r = row - row % of->tile_rows; r < row + rows; r += of->tile_rows) {
        for (uint32_t c = channel - channel % of->tile_channels; c < channel + channels; c += of->tile_channels) {
            POET_TRY(get_tile(of, c, r, &part, to, staging));
        }
    }
    return POET_OK;
}

int poet_stored_rows(uint32_t stored, const int32_t *ids, uint32_t count, float *to, void *staging)
{
    const struct poet_stored *const of = &poet_stored[stored];
    uint8_t *row = (uint8_t *)to;
    for (uint32_t i = 0u; i < count; i++) {
        const uint32_t id = (uint32_t)ids[i]; /* a negative one is beyond all tables */
        POET_TRY(poet_stored_get(stored, id < of->channels ? id : 0u, 1u, 0u, 1u, row, staging));
        if (id >= of->channels) {
            memset(row, 0, of->row_bytes);
        }
        row += of->row_bytes;
    }
    return POET_OK;
}

static int put_tile(const struct poet_stored *stored, uint32_t channel, uint32_t row, const uint8_t *from, uint32_t from_stride, uint8_t *staging)
{
    const uint32_t bytes = tile_bytes(stored);
    const uint32_t run_bytes = stored->tile_rows * stored->row_bytes;
    const uint32_t blocks = poet_slot_blocks(bytes);
    poet_copy_runs(staging, run_bytes, from, from_stride, stored->tile_channels, run_bytes);
    memset(staging + bytes, 0, blocks * POET_BLOCK_BYTES - bytes);
    poet_slot_seal(last_block(staging, bytes), bytes, poet_crc32(0u, staging, bytes));
    return poet_storage_write_blocks(tile_block(stored, channel, row), staging, blocks);
}

int poet_stored_put(uint32_t stored, uint32_t channel, uint32_t channels, uint32_t row, uint32_t rows, const void *from, void *staging)
{
    const struct poet_stored *const of = &poet_stored[stored];
    const uint32_t from_stride = rows * of->row_bytes;
    for (uint32_t r = 0u; r < rows; r += of->tile_rows) {
        for (uint32_t c = 0u; c < channels; c += of->tile_channels) {
            const uint8_t *const tile = (const uint8_t *)from + c * from_stride + r * of->row_bytes;
            POET_TRY(put_tile(of, channel + c, row + r, tile, from_stride, staging));
        }
    }
    return POET_OK;
}

uint32_t poet_stored_block(uint32_t stored)
{
    return tile_block(&poet_stored[stored], 0u, 0u);
}

uint32_t poet_stored_blocks(uint32_t stored)
{
    const struct poet_stored *const of = &poet_stored[stored];
    return tile_block(of, 0u, of->rows) - tile_block(of, 0u, 0u);
}

#endif
