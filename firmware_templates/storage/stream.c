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

/* Bytes of a tile with its trailer. */
static uint32_t part_bytes(const struct poet_stream *stream)
{
    return stream->tile_bytes + POET_SLOT_TRAILER_BYTES;
}

static uint32_t blocks_of(uint32_t bytes)
{
    return (bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
}

static uint32_t column_blocks(const struct poet_stream *stream)
{
    return blocks_of(stream->rows * part_bytes(stream));
}

/* First block of a column in a set. */
static uint32_t first_block(const struct poet_stream *stream, uint32_t column)
{
    return stream->first_block + column * column_blocks(stream);
}

/* Checks a tile that was read, whose trailer follows. */
static int check(const struct poet_stream *stream, const uint8_t *tile)
{
    return poet_slot_check_trailer(tile + stream->tile_bytes, stream->tile_bytes,
                                   poet_crc32(0u, tile, stream->tile_bytes), state.done);
}

static int read_tile(const struct poet_stream *stream, uint32_t column, uint32_t row, uint8_t *to)
{
    const uint32_t begin = row * part_bytes(stream);
    const uint32_t before = begin % POET_BLOCK_BYTES; /* bytes of the tile before, in the same block */
    const uint32_t block = state.read_set + first_block(stream, column) + begin / POET_BLOCK_BYTES;
    POET_TRY(poet_storage_read_blocks(block, to, blocks_of(before + part_bytes(stream))));
    memmove(to, to + before, part_bytes(stream));
    return check(stream, to);
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

/* Tiles move together, over the trailers between them. */
int poet_stream_column(uint32_t stream, uint32_t column, void *to)
{
    const struct poet_stream *const of = &poet_streams[stream];
    POET_TRY(poet_storage_read_blocks(state.read_set + first_block(of, column), to, column_blocks(of)));
    for (uint32_t row = 0u; row < of->rows; row++) {
        const uint8_t *const tile = (uint8_t *)to + row * part_bytes(of);
        POET_TRY(check(of, tile));
        memmove((uint8_t *)to + row * of->tile_bytes, tile, of->tile_bytes);
    }
    return POET_OK;
}

/* Tiles move apart, the last one first. */
int poet_stream_put(uint32_t stream, uint32_t column, void *from)
{
    const struct poet_stream *const of = &poet_streams[stream];
    const uint32_t bytes = of->rows * part_bytes(of);
    memset((uint8_t *)from + bytes, 0, column_blocks(of) * POET_BLOCK_BYTES - bytes);
    for (uint32_t row = of->rows; row-- > 0u;) {
        uint8_t *const tile = (uint8_t *)from + row * part_bytes(of);
        memmove(tile, (uint8_t *)from + row * of->tile_bytes, of->tile_bytes);
        poet_slot_put_trailer(tile + of->tile_bytes, of->tile_bytes, poet_crc32(0u, tile, of->tile_bytes));
    }
    state.written[stream] = 1u;
    return poet_storage_write_blocks(state.write_set + first_block(of, column), from, column_blocks(of));
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
    return poet_streams[stream].columns * column_blocks(&poet_streams[stream]);
}

uint32_t poet_stream_block(uint32_t stream)
{
    return (state.written[stream] ? state.write_set : state.read_set) + poet_streams[stream].first_block;
}

/* Verifies a column block by block; a trailer may lie in two blocks. */
static int verify_column(const struct poet_stream *stream, uint32_t block, uint32_t step, int finite, uint32_t *crc)
{
    const uint8_t *const page = poet_storage_page();
    uint8_t trailer[POET_SLOT_TRAILER_BYTES];
    uint32_t at = 0u; /* byte of the current tile with its trailer */
    uint32_t row = 0u;
    uint32_t of_tile = 0u;
    int diverged = 0;
    for (uint32_t i = 0u; i < column_blocks(stream); i++) {
        POET_TRY(poet_storage_read_blocks(block + i, poet_storage_page(), 1u));
        for (uint32_t offset = 0u; offset < POET_BLOCK_BYTES && row < stream->rows;) {
            const uint32_t end = at < stream->tile_bytes ? stream->tile_bytes : part_bytes(stream);
            const uint32_t rest = POET_BLOCK_BYTES - offset;
            const uint32_t bytes = end - at < rest ? end - at : rest;
            if (at < stream->tile_bytes) {
                of_tile = poet_crc32(of_tile, page + offset, bytes);
                diverged |= finite && !poet_all_finite((const float *)(const void *)(page + offset), bytes / sizeof(float));
            } else {
                memcpy(trailer + (at - stream->tile_bytes), page + offset, bytes);
            }
            at += bytes;
            offset += bytes;
            if (at == part_bytes(stream)) {
                POET_TRY(poet_slot_check_trailer(trailer, stream->tile_bytes, of_tile, step));
                *crc = poet_crc32(*crc, trailer, sizeof trailer);
                at = of_tile = 0u;
                row++;
            }
        }
    }
    return diverged ? POET_ERROR_DIVERGED : POET_OK;
}

int poet_streams_verify(uint32_t set_first_block, uint32_t step, int finite, uint32_t *crc)
{
    for (uint32_t stream = 0u; stream < POET_STREAMS; stream++) {
        const struct poet_stream *const of = &poet_streams[stream];
        for (uint32_t column = 0u; column < of->columns; column++) {
            POET_TRY(verify_column(of, set_first_block + first_block(of, column), step, finite, crc));
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
