/* SPDX-License-Identifier: Apache-2.0 */
#include "for_size.h"

#include "stream.h"

#include "bytes.h"
#include "crc32.h"
#include "poet.h"
#include "poet_math.h"
#include "poet_memory.h"

#ifdef POET_STREAMS

static struct {
    uint32_t read_set;  /* first block */
    uint32_t write_set; /* likewise */
    uint32_t done;      /* training steps */
    uint32_t crc_read[POET_STREAMS];    /* over the CRCs of the columns that were read */
    uint32_t crc_written[POET_STREAMS]; /* likewise */
    uint8_t written[POET_STREAMS];      /* in this step */
} state;

static uint32_t blocks_of(uint32_t bytes)
{
    return (bytes + POET_BLOCK_BYTES - 1u) / POET_BLOCK_BYTES;
}

static uint32_t aligned(uint32_t bytes)
{
    return (bytes + 7u) / 8u * 8u;
}

static uint32_t column_bytes(const struct poet_stream *stream)
{
    return stream->rows * stream->tile_bytes;
}

/* Blocks of a column; the last one has the trailer at its end. */
static uint32_t column_blocks(const struct poet_stream *stream, uint32_t column)
{
    const uint32_t bytes = column_bytes(stream);
    return column + 1u == stream->columns ? poet_slot_blocks(bytes) : blocks_of(bytes);
}

/* First block of a column in a set, or among the slots outside sets. */
static uint32_t first_block(const struct poet_stream *stream, uint32_t column)
{
    return stream->first_block + column * blocks_of(column_bytes(stream));
}

/* Continues the CRC over the CRCs of columns. */
static uint32_t add_crc(uint32_t crc, uint32_t of_column)
{
    uint8_t bytes[4];
    poet_put_u32(bytes, of_column);
    return poet_crc32(crc, bytes, sizeof bytes);
}

/* Where the blocks of a tensor are counted from that is read. */
static uint32_t read_from(const struct poet_stream *stream)
{
    return stream->is_constant ? poet_slots_first_block() : state.read_set;
}

/* Step that wrote what is read. */
static uint32_t read_step(const struct poet_stream *stream)
{
    return stream->is_constant ? 0u : state.done;
}

static uint32_t tensor_bytes(const struct poet_stream *stream)
{
    return stream->columns * column_bytes(stream);
}

/* Last one of `count` blocks. */
static uint8_t *last_of(void *blocks, uint32_t count)
{
    return (uint8_t *)blocks + (count - 1u) * POET_BLOCK_BYTES;
}

static const uint8_t *trailer_in(void *blocks, uint32_t count)
{
    return last_of(blocks, count) + POET_SLOT_TRAILER_OFFSET;
}

/* Copies to a lower address, or one that is far enough away. */
static void copy_words(void *to, const void *from, uint32_t bytes)
{
    uint32_t *const target = to;
    const uint32_t *const source = from;
    for (uint32_t i = 0u; to != from && i < bytes / sizeof *target; i++) {
        target[i] = source[i];
    }
}

/* Tiles are read one by one. The CRC of each column continues from row to row; the last tile is followed by the trailer. */
int poet_stream_row(uint32_t stream, uint32_t row, void *to)
{
    const struct poet_stream *const of = &poet_streams[stream];
    const uint32_t stride = of->columns * of->run_bytes;
    const uint32_t outputs = of->tile_bytes / of->run_bytes;
    const uint32_t begin = row * of->tile_bytes;
    const uint32_t before = begin % POET_BLOCK_BYTES; /* bytes of the tile before, in the same block */
    const uint32_t first = begin / POET_BLOCK_BYTES;
    const int last_row = row + 1u == of->rows;
    uint8_t *const rows = to;
    uint32_t *crcs = &state.crc_read[stream];
    uint8_t *tile = rows; /* one is a whole row */
    if (of->columns > 1u) {
        crcs = (uint32_t *)(void *)(rows + aligned(outputs * stride));
        tile = (uint8_t *)crcs + aligned(of->columns * sizeof *crcs);
    }
    for (uint32_t column = 0u; column < of->columns; column++) {
        const uint32_t end = last_row ? column_blocks(of, column) : blocks_of(begin + of->tile_bytes);
        POET_TRY(poet_storage_read_blocks(read_from(of) + first_block(of, column) + first, tile, end - first));
        crcs[column] = poet_crc32(row > 0u ? crcs[column] : 0u, tile + before, of->tile_bytes);
        if (last_row && column + 1u == of->columns) {
            uint32_t crc = 0u;
            for (uint32_t i = 0u; i < of->columns; i++) {
                crc = add_crc(crc, crcs[i]);
            }
            POET_TRY(poet_slot_verify_as_of(trailer_in(tile, end - first), tensor_bytes(of), crc, read_step(of)));
        }
        for (uint32_t i = 0u; i < outputs; i++) {
            copy_words(rows + i * stride + column * of->run_bytes, tile + before + i * of->run_bytes, of->run_bytes);
        }
    }
    return POET_OK;
}

/* Verifies a column that has been read, the last one with all others. */
static int verify_column(uint32_t stream, uint32_t column, void *to)
{
    const struct poet_stream *const of = &poet_streams[stream];
    uint32_t *const crc = &state.crc_read[stream];
    *crc = add_crc(column > 0u ? *crc : 0u, poet_crc32(0u, to, column_bytes(of)));
    if (column + 1u < of->columns) {
        return POET_OK;
    }
    return poet_slot_verify_as_of(trailer_in(to, column_blocks(of, column)), tensor_bytes(of), *crc, read_step(of));
}

int poet_stream_column(uint32_t stream, uint32_t column, void *to)
{
    const struct poet_stream *const of = &poet_streams[stream];
    POET_TRY(poet_storage_read_blocks(read_from(of) + first_block(of, column), to, column_blocks(of, column)));
    return verify_column(stream, column, to);
}

int poet_stream_put_begin(uint32_t stream, uint32_t column, void *from)
{
    const struct poet_stream *const of = &poet_streams[stream];
    const uint32_t bytes = column_bytes(of);
    const uint32_t blocks = column_blocks(of, column);
    uint32_t *const crc = &state.crc_written[stream];
    memset((uint8_t *)from + bytes, 0, blocks * POET_BLOCK_BYTES - bytes);
    *crc = add_crc(column > 0u ? *crc : 0u, poet_crc32(0u, from, bytes));
    if (column + 1u == of->columns) {
        poet_slot_seal(last_of(from, blocks), tensor_bytes(of), *crc);
    }
    state.written[stream] = 1u;
    return poet_storage_write_begin(state.write_set + first_block(of, column), from, blocks);
}

int poet_stream_put(uint32_t stream, uint32_t column, void *from)
{
    POET_TRY(poet_stream_put_begin(stream, column, from));
    return poet_storage_wait();
}

#ifdef POET_TRANSFERS
/* Transfer that loads a column into a buffer. */
static uint32_t *transfer_of(const struct poet_stream *stream, uint32_t column, void *to)
{
    return (uint32_t *)(void *)((uint8_t *)to + column_blocks(stream, column) * POET_BLOCK_BYTES);
}

static int begin_column(const struct poet_stream *stream, uint32_t column, void *to)
{
    const uint32_t block = read_from(stream) + first_block(stream, column);
    POET_TRY(poet_storage_read_begin(block, to, column_blocks(stream, column)));
    *transfer_of(stream, column, to) = poet_storage_begun();
    return POET_OK;
}

int poet_stream_ahead(uint32_t stream, uint32_t column, void *to, void *next)
{
    const struct poet_stream *const of = &poet_streams[stream];
    if (column == 0u) {
        POET_TRY(begin_column(of, column, to));
    }
    POET_TRY(poet_storage_wait_for(*transfer_of(of, column, to)));
    if (column + 1u < of->columns) {
        POET_TRY(begin_column(of, column + 1u, next));
    }
    return verify_column(stream, column, to);
}
#endif

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
    const uint32_t last = of->columns - 1u;
    return first_block(of, last) + column_blocks(of, last) - of->first_block;
}

uint32_t poet_stream_block(uint32_t stream)
{
    const struct poet_stream *const of = &poet_streams[stream];
    return (state.written[stream] ? state.write_set : read_from(of)) + of->first_block;
}

/* Verifies a tensor block by block. */
static int verify(const struct poet_stream *stream, uint32_t block, uint32_t step, int finite, uint32_t *crc)
{
    const uint8_t *const page = poet_storage_page();
    uint32_t of_columns = 0u;
    int diverged = 0;
    for (uint32_t column = 0u; column < stream->columns; column++) {
        uint32_t left = column_bytes(stream);
        uint32_t of_column = 0u;
        for (uint32_t i = 0u; i < column_blocks(stream, column); i++) {
            const uint32_t bytes = left < POET_BLOCK_BYTES ? left : POET_BLOCK_BYTES;
            POET_TRY(poet_storage_read_blocks(block + first_block(stream, column) + i, poet_storage_page(), 1u));
            of_column = poet_crc32(of_column, page, bytes);
            diverged |= finite && !poet_all_finite((const float *)(const void *)page, bytes / sizeof(float));
            left -= bytes;
        }
        of_columns = add_crc(of_columns, of_column);
    }
    POET_TRY(poet_slot_verify_as_of(page + POET_SLOT_TRAILER_OFFSET, tensor_bytes(stream), of_columns, step));
    *crc = poet_crc32(*crc, page + POET_SLOT_TRAILER_OFFSET, POET_SLOT_TRAILER_BYTES);
    return diverged ? POET_ERROR_DIVERGED : POET_OK;
}

/* Constants are the last streams. */
int poet_streams_verify(uint32_t set_first_block, uint32_t step, int finite, uint32_t *crc)
{
    for (uint32_t stream = 0u; stream < POET_STREAMS && !poet_streams[stream].is_constant; stream++) {
        POET_TRY(verify(&poet_streams[stream], set_first_block, step, finite, crc));
    }
    return POET_OK;
}

int poet_streams_settle(void)
{
#if POET_STREAM_BLOCKS > 0
    uint8_t *const page = poet_storage_page();
    const uint32_t first = poet_streams[0].first_block;
    if (state.read_set == state.write_set) {
        return POET_OK;
    }
    for (uint32_t i = 0u; i < POET_STREAM_BLOCKS; i++) {
        POET_TRY(poet_storage_read_blocks(state.read_set + first + i, page, 1u));
        POET_TRY(poet_storage_write_blocks(state.write_set + first + i, page, 1u));
    }
#endif
    return POET_OK;
}

#endif
