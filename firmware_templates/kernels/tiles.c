/* SPDX-License-Identifier: Apache-2.0 */
#include "tiles.h"

#if POET_BY_TILES

#include <stdbool.h>

/* Sums of a call that are together on the stack, or those of one row of the kernel. */
enum { SUMS = 36 };

static bool is_nan(float value)
{
    return value != value;
}

static int32_t units_of(const struct poet_tile_loop *loop, int32_t left)
{
    return left == 1 ? loop->last : loop->advance;
}

static int32_t travel_of(const struct poet_tile_loop *loop)
{
    return (loop->count - 2) * loop->advance + loop->last;
}

/* Sums of one call, of which those of the last `fresh_weights` and `fresh_sources` rows have not been put before. */
struct call {
    const float *x;
    const float *dy;
    int32_t first; /* element of dW of the first sum */
    int32_t fresh_sources;
    int32_t fresh_weights;
};

struct sink {
    const struct poet_gradient_sink *dw;
    poet_gradient_again_f32 *again;
    const void *op;
    const float *x;
    const float *dy;
};

static void put(const struct sink *to, int32_t first, int32_t count, float *sums, bool suspect)
{
    for (int32_t i = 0; suspect && i < count; i++) {
        if (is_nan(sums[i])) {
            sums[i] = to->again(to->op, first + i, to->x, to->dy);
        }
    }
    poet_gradient_sink_put_few_f32(to->dw, first, count, sums);
}

/* Puts sums[b][a][count], taps from `tap` on: those of a row of weights at once where they are all of the kernel. */
static void put_sums(const struct poet_tiles *tiles, const struct call *call, const struct sink *to,
                     int32_t tap, int32_t count, float *sums, bool suspect)
{
    const struct poet_dots *const dots = &tiles->of.dots;
    const int32_t kernel = dots->put_source / (int32_t)sizeof(float);
    const int32_t other = dots->put_weight / (int32_t)sizeof(float);
    const int32_t a = dots->sources - call->fresh_sources;
    for (int32_t b = dots->weights - call->fresh_weights; b < dots->weights; b++) {
        const int32_t first = call->first + tap + b * other + a * kernel;
        float *row = sums + (b * dots->sources + a) * count;
        if (count == kernel) {
            put(to, first, call->fresh_sources * count, row, suspect);
        } else {
            for (int32_t i = 0; i < call->fresh_sources; i++) {
                put(to, first + i * kernel, count, row + i * count, suspect);
            }
        }
    }
}

/* The entry without loops whose sums are `count` taps of the kernel, and go into an array [b][a][count]. */
static struct poet_tiles part_of(const struct poet_tiles *tiles, int32_t count)
{
    struct poet_tiles part = *tiles;
    part.loop_count = 0;
    part.of.dots.put_source = count * (int32_t)sizeof(float);
    part.of.dots.put_weight = count * part.of.dots.sources * (int32_t)sizeof(float);
    return part;
}

/* Row by row of the kernel, as together they are too many sums; apart, for the stack of what does without. */
static __attribute__((noinline)) void put_rows(const struct poet_tiles *tiles,
                                               const struct poet_tiles *part,
                                               const struct call *call, const struct sink *to,
                                               float *sums)
{
    const struct poet_dots *const dots = &tiles->of.dots;
    struct poet_tiles row = *part;
    int32_t run = 0;
    row.run_count = 1;
    for (int32_t tap = 0; tap * (int32_t)sizeof(float) < dots->put_source; tap += dots->taps) {
        bool suspect = false;
        struct poet_tile_run alone = tiles->runs[run];
        if (alone.result_at == tap * (int32_t)sizeof(float)) {
            alone.result_at = 0;
            row.runs = &alone;
            suspect = poet_tiles_sum_f32(&row, call->x, call->dy, NULL, sums) != 0u;
            run += run + 1 < tiles->run_count ? 1 : 0;
        } else {
            for (int32_t i = 0; i < SUMS; i++) {
                sums[i] = 0.0f; /* it meets nothing */
            }
        }
        put_sums(tiles, call, to, tap, dots->taps, sums, suspect);
    }
}

/* The loops around a block as tiles_asm.S has them, with calls of the sink for each block. */
static void put_calls(const struct poet_tiles *tiles, const struct sink *to)
{
    const struct poet_dots *const dots = &tiles->of.dots;
    const int32_t kernel = dots->put_source / (int32_t)sizeof(float);
    const bool together = dots->sources * dots->weights * kernel <= SUMS;
    const struct poet_tiles part = part_of(tiles, together ? kernel : dots->taps);
    struct call call = {to->x, to->dy, 0, dots->sources, dots->weights};
    int32_t left[POET_TILE_LOOPS];
    float sums[SUMS];
    for (int32_t i = 0; i < SUMS; i++) {
        sums[i] = 0.0f; /* rows of the kernel that meet nothing stay so */
    }
    for (int32_t i = 0; i < tiles->loop_count; i++) {
        left[i] = tiles->loops[i].count;
    }
    for (;;) {
        if (together) {
            const uint32_t suspect = poet_tiles_sum_f32(&part, call.x, call.dy, NULL, sums);
            put_sums(tiles, &call, to, 0, kernel, sums, suspect != 0u);
        } else {
            put_rows(tiles, &part, &call, to, sums);
        }
        int32_t i = 0;
        for (; i < tiles->loop_count; i++) {
            const struct poet_tile_loop *const loop = &tiles->loops[i];
            left[i]--;
            const bool goes_on = left[i] > 0;
            const int32_t units = goes_on ? units_of(loop, left[i]) : -travel_of(loop);
            call.x += units * loop->source / (int32_t)sizeof(float);
            call.dy += units * loop->weight / (int32_t)sizeof(float);
            call.first += units * loop->result / (int32_t)sizeof(float);
            if (loop->weight == 0) {
                call.fresh_sources = goes_on ? units : dots->sources;
            } else if (loop->source == 0) {
                call.fresh_weights = goes_on ? units : dots->weights;
            }
            if (goes_on) {
                break;
            }
            left[i] = loop->count;
        }
        if (i == tiles->loop_count) {
            return;
        }
    }
}

/* Elements that are NaN are taken again; how many there are say the loops of the blocks. */
static void take_again(const struct poet_tiles *tiles, const struct sink *to)
{
    const struct poet_dots *const dots = &tiles->of.dots;
    int32_t bytes = (dots->sources - 1) * dots->put_source + (dots->weights - 1) * dots->put_weight +
                    dots->put_source;
    for (int32_t i = 0; i < tiles->loop_count; i++) {
        const struct poet_tile_loop *const loop = &tiles->loops[i];
        bytes += travel_of(loop) * loop->result;
    }
    for (int32_t i = 0; i < bytes / (int32_t)sizeof(float); i++) {
        if (is_nan(to->dw->gradient[i])) {
            to->dw->gradient[i] = to->again(to->op, i, to->x, to->dy);
        }
    }
}

void poet_tiles_gradient_f32(const struct poet_tiles *tiles, const float *x, const float *dy,
                             const struct poet_gradient_sink *dw, poet_gradient_again_f32 *again,
                             const void *op)
{
    const struct sink to = {dw, again, op, x, dy};
    if (dw->gradient != NULL) {
        const bool suspect = poet_tiles_sum_f32(tiles, x, dy, NULL, dw->gradient) != 0u;
        while (suspect && tiles->block == poet_tile_empty) {
            tiles++;
        }
        if (suspect) {
            take_again(tiles, &to);
        }
        return;
    }
    while (tiles->block == poet_tile_empty && tiles->more) {
        tiles++;
    }
    put_calls(tiles, &to);
}

#endif
