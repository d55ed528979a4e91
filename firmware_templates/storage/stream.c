/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "stream.h"

#include "crc32.h"
#include "poet.h"
#include "poet_math.h"
#include "poet_memory.h"

#ifdef POET_STREAMS

static struct {
    uint32_t read_set;  /* first block */
    uint32_t write_set; /* likewise */
    uint32_t done;      /* training steps */
    uint8_t written[POET_STREAMS]; /* in this step */
} state;

static uint32_t tile_blocks(const struct poet_stream *stream)
{
    return poet_slot_blocks(stream->tile_bytes);
}

/* Block in a set of a tile: one request transfers the tile with its padding and trailer. */
static uint32_t block_of(const struct poet_stream *stream, uint32_t column, uint32_t row)
{
    return stream->first_block + (column * stream->rows + row) * tile_blocks(stream);
}

static uint8_t *last_block(const struct poet_stream *stream, uint8_t *tile)
{
    return tile + (tile_blocks(stream) - 1u) * POET_BLOCK_BYTES;
}

static int read_tile(const struct poet_stream *stream, uint32_t column, uint32_t row, uint8_t *to)
{
    POET_TRY(poet_storage_read_blocks(state.read_set + block_of(stream, column, row), to, tile_blocks(stream)));
    return poet_slot_verify_of(last_block(stream, to), stream->tile_bytes, poet_crc32(0u, to, stream->tile_bytes),
                               state.done);
}

int poet_stream_row(uint32_t stream, uint32_t row, void *to)
{
    const struct poet_stream *const of = &poet_streams[stream];
    uint8_t *const rows = to;
    if (of->columns == 1u) {
        return read_tile(of, 0u, row, rows);
    }
    const uint32_t stride = of->columns * of->run_bytes;
    const uint32_t outputs = of->tile_bytes / of->run_bytes;
    uint8_t *const tile = rows + (outputs * stride + 7u) / 8u * 8u;
    for (uint32_t column = 0u; column < of->columns; column++) {
        POET_TRY(read_tile(of, column, row, tile));
        for (uint32_t i = 0u; i < outputs; i++) {
            memcpy(rows + i * stride + column * of->run_bytes, tile + i * of->run_bytes, of->run_bytes);
        }
    }
    return POET_OK;
}

/* Each tile's padding is overwritten by the next one. */
int poet_stream_column(uint32_t stream, uint32_t column, void *to)
{
    const struct poet_stream *const of = &poet_streams[stream];
    for (uint32_t row = 0u; row < of->rows; row++) {
        POET_TRY(read_tile(of, column, row, (uint8_t *)to + row * of->tile_bytes));
    }
    return POET_OK;
}

/* From the last tile to the first, so that each tile's padding overwrites what has been written. */
int poet_stream_put(uint32_t stream, uint32_t column, void *from)
{
    const struct poet_stream *const of = &poet_streams[stream];
    const uint32_t bytes = tile_blocks(of) * POET_BLOCK_BYTES;
    for (uint32_t row = of->rows; row-- > 0u;) {
        uint8_t *const tile = (uint8_t *)from + row * of->tile_bytes;
        const uint32_t crc = poet_crc32(0u, tile, of->tile_bytes);
        memset(tile + of->tile_bytes, 0, bytes - of->tile_bytes);
        poet_slot_seal(last_block(of, tile), of->tile_bytes, crc);
        POET_TRY(poet_storage_write_blocks(state.write_set + block_of(of, column, row), tile, tile_blocks(of)));
    }
    state.written[stream] = 1u;
    return POET_OK;
}

void poet_stream_gather(void *to, const void *from, uint32_t count, uint32_t stride, uint32_t bytes)
{
    for (uint32_t i = 0u; i < count; i++) {
        memcpy((uint8_t *)to + i * bytes, (const uint8_t *)from + i * stride, bytes);
    }
}

void poet_streams_open(uint32_t set_first_block, uint32_t next_set_first_block, uint32_t step)
{
    state.read_set = set_first_block;
    state.write_set = next_set_first_block;
    state.done = step;
    memset(state.written, 0, sizeof state.written);
}

void poet_streams_end_step(void)
{
    poet_streams_open(state.write_set, state.write_set, state.done + 1u);
}

uint32_t poet_stream_blocks(uint32_t stream)
{
    const struct poet_stream *const of = &poet_streams[stream];
    return of->rows * of->columns * tile_blocks(of);
}

uint32_t poet_stream_block(uint32_t stream)
{
    return (state.written[stream] ? state.write_set : state.read_set) + poet_streams[stream].first_block;
}

static int verify_tile(uint32_t block, uint32_t bytes, int finite, uint32_t *crc)
{
    uint8_t *const page = poet_storage_page();
    uint32_t left = bytes;
    uint32_t of_payload = 0u;
    int diverged = 0;
    for (uint32_t i = 0u; i < poet_slot_blocks(bytes); i++) {
        const uint32_t part = left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
        POET_TRY(poet_storage_read_blocks(block + i, page, 1u));
        diverged |= finite && !poet_all_finite((const float *)(const void *)page, part / sizeof(float));
        of_payload = poet_crc32(of_payload, page, part);
        left -= part;
    }
    POET_TRY(poet_slot_verify(page, bytes, of_payload));
    *crc = poet_crc32(*crc, page + POET_BLOCK_BYTES - POET_SLOT_TRAILER_BYTES, POET_SLOT_TRAILER_BYTES);
    return diverged ? POET_ERROR_DIVERGED : POET_OK;
}

int poet_streams_verify(int finite, uint32_t *crc)
{
    const uint32_t set = poet_slot_block(0u) - poet_slots[0].first_block;
    for (uint32_t stream = 0u; stream < POET_STREAMS; stream++) {
        const struct poet_stream *const of = &poet_streams[stream];
        for (uint32_t tile = 0u; tile < of->rows * of->columns; tile++) {
            POET_TRY(verify_tile(set + block_of(of, 0u, tile), of->tile_bytes, finite, crc));
        }
    }
    return POET_OK;
}

int poet_streams_settle(void)
{
    uint8_t *const page = poet_storage_page();
    const uint32_t first = poet_streams[0].first_block;
    if (state.read_set == state.write_set) {
        return POET_OK;
    }
    for (uint32_t i = 0u; i < POET_STREAM_BLOCKS; i++) {
        POET_TRY(poet_storage_read_blocks(state.read_set + first + i, page, 1u));
        POET_TRY(poet_storage_write_blocks(state.write_set + first + i, page, 1u));
    }
    return POET_OK;
}

#endif
