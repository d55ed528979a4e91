/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_3x3.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_strip.h"
#include "shapes.h"

/* Rows of padding are left out, columns of padding are zeros, which leave the bits of every sum of finite numbers as
 * they are. Sums to which a zero may have added NaN are taken again without. */

/* Compiled for size: what is around the inner blocks, which then takes no more instructions, and what is called where
 * factors are not finite. */
#define FOR_SIZE static __attribute__((cold, noinline))

/* What only an odd number of channels of results needs. */
enum { MAY_BE_ODD = POET_CONV2D_SUMS % 2 != 0 };
#define OF_ODD(function) (MAY_BE_ODD ? function : NULL)

static const float no_bias[2] = {-0.0f, -0.0f}; /* which changes no float */

/* Forward, or dX: of one group of one sample, whose channels are `plane` elements apart. */
struct pass {
    int32_t up; /* from one row of the kernel to the next, so many of the source: 1, or -1 for dX */
    int32_t height;
    int32_t width;
    int32_t sources; /* channels */
    int32_t results;
    int32_t weight_source; /* weights to the next channel of the source, and of the result */
    int32_t weight_result;
};

/* One result, without padding. */
FOR_SIZE float sum_one(const struct pass *pass, int32_t row, int32_t column, const float *source,
                     const float *weight)
{
    float total = 0.0f;
    for (int32_t channel = 0; channel < pass->sources; channel++) {
        float sum = 0.0f;
        for (int32_t tap = 0; tap < 9; tap++) {
            const int32_t i = row + pass->up * (tap / 3 - 1);
            const int32_t j = column + pass->up * (tap % 3 - 1);
            if (i >= 0 && i < pass->height && j >= 0 && j < pass->width) {
                sum += source[i * pass->width + j] * weight[tap];
            }
        }
        total += sum;
        source += pass->height * pass->width;
        weight += pass->weight_source;
    }
    return total;
}

/* The first and the last column of a channel again, without padding. */
FOR_SIZE void sum_ends(const struct pass *pass, float bias, const float *source,
                       const float *weight, float *result)
{
    for (int32_t end = 0; end < 2 * pass->height; end++) {
        const int32_t row = end / 2;
        const int32_t column = end % 2 * (pass->width - 1);
        result[row * pass->width + column] = sum_one(pass, row, column, source, weight) + bias;
    }
}

static __attribute__((noinline, hot)) bool are_finite(const float *weight, int32_t count)
{
    return poet_are_finite(weight, count);
}

/* The rows at the top, between, and at the bottom, for two channels of the result: a row each, all others, a row. */
static void set_rows(const struct pass *pass, struct poet_strips *strips)
{
    const int32_t width = pass->width;
    const int32_t last = pass->height - 1;
    const int32_t begin = pass->up > 0 ? 0 : last; /* the row in which the kernel's first is padding */
    for (int32_t row = 0; row <= last; row += strips++->rows) {
        const int32_t edge = row == 0 || row == last ? 1 : 0; /* where a row is padding */
        const int32_t cut = row == begin ? 1 : 0;
        strips->row_next = pass->up * width;
        strips->channel_next = (pass->height - pass->up * (2 - edge)) * width;
        strips->weight_next = pass->weight_source - 9 + 3 * edge;
        strips->weight_other = pass->weight_result;
        strips->channels = pass->sources;
        strips->edges = POET_RIGHT_EDGE + POET_TWO_ROWS * (uint32_t)edge;
        strips->result_other = pass->height * width;
        strips->rows = edge != 0 ? 1 : last - 1;
        strips->last = width - POET_STRIP;
        strips->column_bytes = sizeof(float);
        strips->source_next = POET_STRIP;
        strips->result_next = POET_STRIP;
        strips->source_begin = (row - pass->up + pass->up * cut) * width;
        strips->weight_begin = 3 * cut;
        strips->result_begin = row * width;
        strips->more = last - row;
    }
}

/* The same for a single channel, two rows at a time, of which the last two may make a row again. */
static void set_tall_rows(const struct pass *pass, struct poet_strips *strips)
{
    const bool forward = pass->up > 0;
    const int32_t last = pass->height - 2;
    for (int32_t row = 0; row <= last; strips++) {
        const int32_t first_cut = row == (forward ? 0 : last) ? 1 : 0; /* of the four rows that are met */
        const int32_t last_cut = row == (forward ? last : 0) ? 1 : 0;
        const int32_t first = forward ? row - 1 + first_cut : row + 2 - first_cut;
        const int32_t next = POET_STRIP + pass->width;
        *strips = (struct poet_strips){
            .row_next = pass->up * pass->width,
            .channel_next = (pass->height - pass->up * (3 - first_cut - last_cut)) * pass->width,
            .weight_next = pass->weight_source - 9,
            .channels = pass->sources,
            .edges = POET_RIGHT_EDGE | (first_cut != 0 ? POET_FIRST_CUT : 0u) |
                     (last_cut != 0 ? POET_LAST_CUT : 0u),
            .result_other = pass->up * pass->width,
            .rows = row == 0 || row == last ? 1 : (last - row + 1) / 2,
            .last = pass->width - POET_STRIP,
            .column_bytes = sizeof(float),
            .source_next = next,
            .result_next = next,
            .source_begin = first * pass->width,
            .result_begin = (forward ? row : row + 1) * pass->width,
            .more = row < last,
        };
        const int32_t behind = row + 2 * strips->rows;
        row = row < last && behind > last ? last : behind;
    }
}

/* All channels of the result: two at a time in strips, and the last by itself in tall ones where they are odd. */
FOR_SIZE void sum_passes(const struct poet_conv2d *op, poet_sum_strips_f32 *sum_strips,
                         poet_sum_strips_f32 *sum_tall_strips, bool forward, const float *source,
                         const float *weight, const float *bias, float *result)
{
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const struct pass pass = {
        .up = forward ? 1 : -1,
        .height = op->in_height,
        .width = op->in_width,
        .sources = forward ? group_in : group_out,
        .results = forward ? group_out : group_in,
        .weight_source = forward ? 9 : 9 * group_in,
        .weight_result = forward ? 9 * group_in : 9,
    };
    const int32_t plane = pass.height * pass.width;
    const bool finite = are_finite(weight, group_in * op->out_channels * 9);
    const int32_t least = MAY_BE_ODD && pass.results % 2 != 0 ? 1 : 2;
    for (int32_t together = 2; together >= least; together--) {
        struct poet_strips strips[3];
        if (together == 2) {
            set_rows(&pass, strips);
        } else {
            set_tall_rows(&pass, strips);
        }
        for (int32_t n = 0; n < op->batch * op->groups; n++) {
            const int32_t first = n % op->groups * pass.results;
            int32_t channel = together == 2 ? 0 : pass.results - 1;
            for (; channel + together <= pass.results; channel += 2) {
                const float *shift = bias != NULL ? bias + first + channel : no_bias;
                const float *from = source + n * pass.sources * plane;
                const float *weights =
                    weight + first * pass.sources * 9 + channel * pass.weight_result;
                float *to = result + (n * pass.results + channel) * plane;
                for (int32_t i = 0; i < 3; i++) {
                    strips[i].bias[0] = shift[0];
                    strips[i].bias[1] = shift[together - 1];
                }
                (together == 2 ? sum_strips : sum_tall_strips)(strips, from, weights, to);
                for (int32_t i = 0; !finite && i < together; i++) {
                    sum_ends(&pass, shift[i], from, weights + i * pass.weight_result,
                             to + i * plane);
                }
            }
        }
    }
}

void poet_conv2d_3x3_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                 const float *b, float *y)
{
    if (POET_BY_STRIPS) {
        sum_passes(op, poet_conv2d_strips_f32, OF_ODD(poet_conv2d_tall_strips_f32), true, x, w, b, y);
    } else {
        poet_conv2d_forward_f32(op, x, w, b, y);
    }
}

void poet_conv2d_3x3_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                        const float *dy, float *dx)
{
    if (POET_BY_STRIPS) {
        sum_passes(op, poet_conv2d_strips_backwards_f32,
                   OF_ODD(poet_conv2d_tall_strips_backwards_f32), false, dy, w, NULL, dx);
    } else {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
    }
}

/* dw of one tap, without padding: `row` and `column` is where it meets x, relative to dy. */
FOR_SIZE float sum_tap(const struct poet_conv2d *op, int32_t row, int32_t column, const float *x,
                       const float *dy)
{
    const int32_t height = op->in_height;
    const int32_t width = op->in_width;
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t i = row < 0 ? 1 : 0; i < (row > 0 ? height - 1 : height); i++) {
            float sum = 0.0f;
            for (int32_t j = column < 0 ? 1 : 0; j < (column > 0 ? width - 1 : width); j++) {
                sum += x[(i + row) * width + j + column] * dy[i * width + j];
            }
            total += sum;
        }
        x += op->in_channels * height * width;
        dy += op->out_channels * height * width;
    }
    return total;
}

/* dw of one row of the kernel, of one input and four output channels, of which `done` are there already: from weight
 * `first` on, and `next` weights on for the next channel. */
static void sum_tap_row(const struct poet_conv2d *op, const struct poet_rows *at, int32_t row,
                        const float *x, const float *dy, const struct poet_gradient_sink *dw,
                        int32_t first, int32_t next, int32_t done)
{
    const int32_t x_row = row > 0 ? op->in_width : 0; /* the first that the tap meets, and that of dy */
    const int32_t dy_row = row < 0 ? op->in_width : 0;
    float totals[4][3] = {{0.0f}};
    if (POET_CONV2D_COLUMNS % POET_STRIP != 0 && at->left > 0) {
        poet_conv2d_tap_odd_rows_f32(at, x + x_row, dy + dy_row, totals);
    } else {
        poet_conv2d_tap_rows_f32(at, x + x_row, dy + dy_row, totals);
    }
    for (int32_t channel = 0; channel < 4; channel++) {
        for (int32_t tap = 0; channel >= done && tap < 3; tap++) {
            const float total = totals[channel][tap];
            poet_gradient_sink_put_f32(
                dw, first + tap, total == total ? total : sum_tap(op, row, tap - 1, x, dy));
        }
        dy += at->dy_other;
        first += next;
    }
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    const int32_t plane = op->in_height * op->in_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t left = POET_CONV2D_COLUMNS % POET_STRIP != 0 ? op->in_width & 3 : 0;
    for (int32_t row = -1; row <= 1; row++) {
        const int32_t rows = op->in_height - (row == 0 ? 0 : 1);
        const struct poet_rows at = {
            .samples = op->batch,
            .rows = rows,
            .strips = (op->in_width - left) >> 2,
            .dy_other = plane,
            .x_next = op->in_channels * plane - rows * op->in_width,
            .dy_next = op->out_channels * plane - rows * op->in_width,
            .left = left,
        };
        int32_t done = 0;
        for (int32_t o = 0; o < op->out_channels; o += 4 - done) {
            const int32_t group = o / group_out;
            const int32_t behind = o + 4 - (group + 1) * group_out;
            done = POET_CONV2D_OUTPUTS % 4 != 0 && behind > 0 ? behind : 0; /* of those before */
            for (int32_t c = 0; c < group_in; c++) {
                sum_tap_row(op, &at, row, x + (group * group_in + c) * plane,
                            dy + (o - done) * plane, dw,
                            ((o - done) * group_in + c) * 9 + 3 * (row + 1), 9 * group_in, done);
            }
        }
    }
}

void poet_conv2d_3x3_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                         const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_3x3_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                const float *dy, const struct poet_update *update,
                                                const float *pace, float *w, float *first,
                                                float *second, float *sum)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
        return;
    }
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_taps(op, x, dy, &sink);
}
