/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_positions.h"
#include "conv2d_vectors.h"
#include "dot.h"
#include "parts.h"
#include "product.h"
#include "shapes.h"
#include "tiles.h"

/* A sum runs over the taps of one channel first and then over the channels, so that rounding errors grow with their number
 * added up, not multiplied. Whatever is summed at the same time, each sum is in this order, so that its bits depend on the
 * op alone. Taps that meet padding are left out.
 *
 * These loops are the plain form: one result after the other. A Cortex-M with an FPU runs generated tiles instead (tiles.h),
 * and a core with vectors conv2d_vectors.c; both leave the same bits. */

/* Of a core that runs tiles, the loops below are for kernels that no tile fits, and compiled for size. */
#if POET_HAS_VFP
#define PLAIN static __attribute__((cold, noinline))
#else
#define PLAIN static
#endif

/* The kernel's taps along one axis that meet the source at a position of the result: `tap` and those behind it. */
struct taps {
    int32_t tap;
    int32_t source; /* the element under the first */
    int32_t count;
};

static int32_t least(int32_t one, int32_t other)
{
    return one < other ? one : other;
}

PLAIN struct taps taps_met(const struct poet_conv2d_pass *pass, const struct poet_conv2d_side *side, int32_t position)
{
    if (pass->of_input) {
        const int32_t padded = position + side->padding;
        const int32_t source = least(padded / side->stride, side->source_extent - 1);
        const int32_t tap = padded - source * side->stride;
        return (struct taps){tap, source, least((side->kernel - tap + side->stride - 1) / side->stride, source + 1)};
    }
    const int32_t start = position * side->stride - side->padding;
    const int32_t first = start < 0 ? -start : 0;
    return (struct taps){first, start + first, least(side->kernel, side->source_extent - start) - first};
}

/* A walk has a channel, a row and a column at least. */
PLAIN float sum_products(const struct poet_dot *walk, const float *source, const float *weight, float total)
{
    int32_t channels = walk->outer.count;
    do {
        const float *source_row = source;
        const float *weight_row = weight;
        float sum = 0.0f;
        int32_t rows = walk->middle.count;
        do {
            const float *s = source_row;
            const float *w = weight_row;
            int32_t columns = walk->inner.count;
            do {
                sum += *s * *w;
                s += walk->inner.a_next;
                w += walk->inner.b_next;
            } while (--columns > 0);
            source_row += walk->middle.a_next;
            weight_row += walk->middle.b_next;
        } while (--rows > 0);
        total += sum;
        source += walk->outer.a_next;
        weight += walk->outer.b_next;
    } while (--channels > 0);
    return total;
}

/* All channels at one position of a sample. */
PLAIN void sum_position(const struct poet_conv2d_pass *pass, const struct poet_dot *taps, const struct taps *rows,
                        const struct taps *columns, const float *source, const float *weight, const float *bias,
                        float *result)
{
    const bool meets = rows->count > 0 && columns->count > 0;
    struct poet_dot walk = *taps;
    walk.middle.count = rows->count;
    walk.inner.count = columns->count;
    if (rows->count == 1 && columns->count == 1 && !pass->continued) { /* channels are summed at once, to the same bits */
        walk.inner = walk.outer;
        walk.outer.count = 1;
    }
    source += rows->source * pass->columns.source_extent + columns->source;
    weight += rows->tap * pass->columns.kernel + columns->tap;
    for (int32_t group = 0; group < pass->groups; group++) {
        const float *w = weight;
        for (int32_t channel = 0; channel < pass->channels; channel++) {
            float sum = pass->continued ? *result : 0.0f;
            if (meets && !POET_HAS_FPU && !pass->continued) {
                sum = poet_dot_f32(&walk, walk.middle.count * walk.inner.count, source, w);
            } else if (meets) {
                sum = sum_products(&walk, source, w, sum);
            }
            *result = bias != NULL ? sum + *bias++ : sum;
            result += pass->result_plane;
            w += pass->weight_next;
        }
        source += pass->source_channels * pass->source_plane;
        weight += pass->channels * pass->source_channels * pass->rows.kernel * pass->columns.kernel;
    }
}

PLAIN void sum_pass(const struct poet_conv2d_pass *pass, const float *source, const float *weight, const float *bias,
                    float *result)
{
    /* From a tap to the next, forward goes on by a weight and an element of the source; dX by a stride of weights, and back by
     * an element. */
    const int32_t way = pass->of_input ? -1 : 1;
    const struct poet_dot taps = {
        .outer = {pass->source_channels, pass->source_plane, pass->weight_source_next},
        .middle = {0, way * pass->columns.source_extent,
                   (pass->of_input ? pass->rows.stride : 1) * pass->columns.kernel},
        .inner = {0, way, pass->of_input ? pass->columns.stride : 1},
    };
    for (int32_t i = 0; i < pass->rows.result_extent; i++) {
        const struct taps rows = taps_met(pass, &pass->rows, i);
        for (int32_t j = 0; j < pass->columns.result_extent; j++) {
            const struct taps columns = taps_met(pass, &pass->columns, j);
            for (int32_t n = 0; n < pass->samples; n++) {
                sum_position(pass, &taps, &rows, &columns, source + n * pass->groups * pass->source_channels * pass->source_plane,
                             weight, bias,
                             result + n * pass->groups * pass->channels * pass->result_plane +
                                 i * pass->columns.result_extent + j);
            }
        }
    }
}

/* Whether vectors are faster: measured on an x86, where depthwise planes of fewer columns are not worth their beginning.
 * Threads divide what vectors do, and only they sum fused products. */
static bool by_vectors(const struct poet_conv2d *op, int32_t columns)
{
#if POET_HAS_VECTORS
    const bool depthwise = op->groups == op->in_channels && op->groups == op->out_channels;
    return POET_FUSED || poet_parts() > 1 || !depthwise || op->in_width >= columns;
#else
    (void)op, (void)columns;
    return false;
#endif
}

static inline bool by_tiles(const struct poet_conv2d *op)
{
    return !POET_PLAIN_CONV2D || op->tiles != NULL;
}

static void sum(const struct poet_conv2d *op, bool of_input, const float *source, const float *w, const float *b,
                float *result, bool continued)
{
    if (POET_HAS_VFP && by_tiles(op)) {
        poet_tiles_sum_f32(op->tiles, source, w, b, result);
        return;
    }
    const struct poet_conv2d_pass pass = poet_conv2d_pass_of(op, of_input, continued);
    if (POET_HAS_VECTORS && by_vectors(op, of_input ? 12 : 14)) {
        poet_conv2d_vectors_sum_f32(&pass, source, w, b, result);
    } else {
        sum_pass(&pass, source, w, b, result);
    }
}

void poet_conv2d_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                             const float *b, float *y)
{
    sum(op, false, x, w, b, y, false);
}

void poet_conv2d_forward_continued_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                       const float *b, float *y)
{
    sum(op, false, x, w, b, y, true);
}

void poet_conv2d_backward_input_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                    float *dx)
{
    sum(op, true, dy, w, NULL, dx, false);
}

void poet_conv2d_backward_input_continued_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                              float *dx)
{
    sum(op, true, dy, w, NULL, dx, true);
}

/* The positions of a tap of one input and one output channel. */
struct tap {
    struct poet_positions rows;
    struct poet_positions columns;
};

PLAIN struct tap find_tap(const struct poet_conv2d *op, int32_t tap)
{
    return (struct tap){
        poet_positions_of_tap(tap / op->kernel_width, op->stride_height, op->padding_top, op->in_height,
                              op->out_height),
        poet_positions_of_tap(tap % op->kernel_width, op->stride_width, op->padding_left, op->in_width,
                              op->out_width),
    };
}

/* dw of one weight: its products of a row are summed first, then the rows of all samples. */
PLAIN float sum_tap(const struct poet_conv2d *op, const struct tap *tap, const float *x, const float *dy)
{
    const struct poet_dot walk = {
        .outer = {op->batch, op->in_channels * op->in_height * op->in_width,
                  op->out_channels * op->out_height * op->out_width},
        .middle = {tap->rows.count, op->stride_height * op->in_width, op->out_width},
        .inner = {tap->columns.count, op->stride_width, 1},
    };
    if (tap->rows.count == 0 || tap->columns.count == 0) {
        return 0.0f;
    }
    x += tap->rows.source * op->in_width + tap->columns.source;
    dy += tap->rows.output * op->out_width + tap->columns.output;
    return poet_dot_f32(&walk, tap->columns.count, x, dy);
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    if (POET_HAS_VECTORS && by_vectors(op, 5)) {
        poet_conv2d_vectors_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    for (int32_t at = 0; at < kernel; at++) {
        const struct tap tap = find_tap(op, at);
        const float *gradient = dy;
        int32_t weight = at;
        for (int32_t output = 0; output < op->out_channels; output++) {
            const float *source = x + output / group_out * group_in * op->in_height * op->in_width;
            for (int32_t input = 0; input < group_in; input++) {
                poet_gradient_sink_put_f32(dw, weight, sum_tap(op, &tap, source, gradient));
                source += op->in_height * op->in_width;
                weight += kernel;
            }
            gradient += op->out_height * op->out_width;
        }
    }
}

void poet_conv2d_backward_weight_f32(const struct poet_conv2d *op, const float *x, const float *dy,
                                     float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    if (POET_HAS_VFP && by_tiles(op)) {
        poet_tiles_sum_f32(op->tiles, x, dy, NULL, dw);
        return;
    }
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                            const float *dy, const struct poet_update *update,
                                            const float *pace, float *w, float *first,
                                            float *second, float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    if (POET_HAS_VFP && by_tiles(op)) {
        poet_tiles_apply_f32(op->tiles, x, dy, &sink);
        return;
    }
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_backward_bias_f32(const struct poet_conv2d_bias *op, const float *dy, float *db)
{
    const int32_t plane = op->height * op->width;
    for (int32_t channel = 0; channel < op->channels; channel++) {
        float total = 0.0f;
        for (int32_t n = 0; n < op->batch; n++) {
            const float *row = dy + (n * op->channels + channel) * plane;
            for (int32_t i = 0; i < op->height; i++) {
                float sum = 0.0f;
                for (int32_t j = 0; j < op->width; j++) {
                    sum += row[j];
                }
                total += sum;
                row += op->width;
            }
        }
        db[channel] = total;
    }
}
