/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_5x5.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_strip_5.h"

/* As conv2d_3x3.c: rows of padding are left out, columns of padding are zeros, which leave the bits of every sum of finite
 * numbers as they are. Where weights are not finite, conv2d.c's loops sum without zeros. */

enum { TAPS = 25 };

/* Forward, or dX of a kernel that moves by 1, for which a plane is gone through from its last row up. */
struct pass {
    poet_sum_strips_5_f32 *sum_strips;
    int32_t up; /* 1, or -1 for dX */
    int32_t stride;
    int32_t source_height;
    int32_t source_width;
    int32_t height;
    int32_t width;
    int32_t sources; /* channels of a group */
    int32_t results;
    int32_t weight_source; /* weights to the next channel of the source, and of the result */
    int32_t weight_result;
    uint32_t right; /* where the last strip meets padding */
};

/* A row of results of one channel: rows of the kernel, and the row of the source that meets the first. */
struct rows {
    int32_t first;
    int32_t end;
    int32_t source;
};

static struct rows rows_of(const struct pass *pass, int32_t row)
{
    const int32_t start = pass->stride * row - 2;
    const int32_t first = start < 0 ? -start : 0;
    const int32_t below = pass->source_height - start;
    const struct rows rows = {first, below < 5 ? below : 5, start + first};
    return rows;
}

/* Two rows of results: of one channel, or the same of two channels, `channel` weights apart. The last strip may make
 * results again; so may the one before, where the column behind its last result would be padding. */
static void sum_rows(const struct pass *pass, struct poet_strips_5 *strips, int32_t upper_row,
                     int32_t lower_row, int32_t channel, const float *source, const float *weight,
                     float *result)
{
    const struct rows upper = rows_of(pass, upper_row);
    const struct rows lower = rows_of(pass, lower_row);
    const int32_t lower_start = lower.source - upper.source;
    const int32_t met = upper.end - upper.first;
    const int32_t all = lower_start + lower.end - lower.first;
    strips->lower_weight = channel + 5 * (lower.first - upper.first);
    strips->upper_rows = lower_start;
    strips->both_rows = met - lower_start;
    strips->lower_rows = all - met;
    strips->weight_next = pass->weight_source - 5 * met;
    strips->lower_weight_next = pass->weight_source - 5 * (lower.end - lower.first);
    const int32_t next = pass->up * pass->source_width;
    strips->channel_next = pass->source_height * pass->source_width - all * next;
    source += upper.source * next;
    weight += 5 * upper.first;
    const int32_t last = pass->width - POET_STRIP;
    const int32_t before = pass->stride > 1 ? last : last - 2;
    strips->edges = POET_LEFT_EDGE;
    for (int32_t at = 0; at < last; at += POET_STRIP) {
        const int32_t column = at < before ? at : before;
        pass->sum_strips(strips, source + pass->stride * column, weight, result + column);
        strips->edges = 0u;
    }
    strips->edges |= pass->right;
    pass->sum_strips(strips, source + pass->stride * last, weight, result + last);
}

/* All channels of a group of one sample: two at a time, and of a last one two rows. */
static void sum_group(const struct pass *pass, const float *source, const float *weight,
                      const float *bias, float *result)
{
    const bool up = pass->up < 0;
    const int32_t plane = pass->height * pass->width;
    const int32_t next = pass->up * pass->width;
    struct poet_strips_5 strips = {
        .row_next = pass->up * pass->source_width - (pass->stride * (POET_STRIP - 1) + 1),
        .channels = pass->sources,
    };
    source += up ? (pass->source_height - 1) * pass->source_width : 0;
    result += up ? plane - pass->width : 0;
    for (int32_t channel = 0; channel < pass->results; channel += 2) {
        const bool pair = channel + 1 < pass->results;
        strips.bias[0] = bias != NULL ? bias[channel] : -0.0f; /* which changes no float */
        strips.bias[1] = bias != NULL ? bias[channel + (pair ? 1 : 0)] : -0.0f;
        if (pair) {
            strips.lower_result = plane;
            for (int32_t row = 0; row < pass->height; row++) {
                sum_rows(pass, &strips, row, row, pass->weight_result, source, weight,
                         result + row * next);
            }
        } else {
            const int32_t last = pass->height > 1 ? pass->height - 2 : 0;
            const int32_t other = pass->height > 1 ? 1 : 0; /* a single row is both */
            strips.lower_result = other * next;
            for (int32_t two = 0; two < pass->height; two += 2) {
                const int32_t row = two < last ? two : last;
                sum_rows(pass, &strips, row, row + other, 0, source, weight, result + row * next);
            }
        }
        weight += 2 * pass->weight_result;
        result += 2 * plane;
    }
}

static void sum_groups(const struct poet_conv2d *op, const struct pass *pass, const float *source,
                       const float *weight, const float *bias, float *result)
{
    for (int32_t n = 0; n < op->batch * op->groups; n++) {
        const int32_t group = n % op->groups;
        sum_group(pass, source, weight + group * pass->sources * pass->results * TAPS,
                  bias != NULL ? bias + group * pass->results : NULL, result);
        source += pass->sources * pass->source_height * pass->source_width;
        result += pass->results * pass->height * pass->width;
    }
}

static __attribute__((noinline)) bool by_strips(const struct poet_conv2d *op, const float *weight)
{
    return POET_BY_STRIPS && poet_are_finite(weight, op->in_channels / op->groups * op->out_channels * TAPS);
}

static void sum_forward(const struct poet_conv2d *op, poet_sum_strips_5_f32 *sum_strips,
                        uint32_t right, const float *x, const float *w, const float *b, float *y)
{
    const int32_t group_in = op->in_channels / op->groups;
    const struct pass pass = {
        .sum_strips = sum_strips,
        .up = 1,
        .stride = op->stride_width,
        .source_height = op->in_height,
        .source_width = op->in_width,
        .height = op->out_height,
        .width = op->out_width,
        .sources = group_in,
        .results = op->out_channels / op->groups,
        .weight_source = TAPS,
        .weight_result = group_in * TAPS,
        .right = right,
    };
    sum_groups(op, &pass, x, w, b, y);
}

void poet_conv2d_5x5_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                 const float *b, float *y)
{
    if (!by_strips(op, w)) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    sum_forward(op, poet_conv2d_strips_5_f32, POET_RIGHT_EDGE, x, w, b, y);
}

void poet_conv2d_5x5_by_2_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                      const float *b, float *y)
{
    if (!by_strips(op, w)) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    const uint32_t odd = op->in_width % 2 != 0 ? POET_RIGHT_EDGE : 0u;
    sum_forward(op, poet_conv2d_strips_5_by_2_f32, POET_LAST_COLUMN | odd, x, w, b, y);
}

void poet_conv2d_5x5_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                        const float *dy, float *dx)
{
    if (!by_strips(op, w)) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t group_in = op->in_channels / op->groups;
    const struct pass pass = {
        .sum_strips = poet_conv2d_strips_5_backwards_f32,
        .up = -1,
        .stride = 1,
        .source_height = op->in_height,
        .source_width = op->in_width,
        .height = op->in_height,
        .width = op->in_width,
        .sources = op->out_channels / op->groups,
        .results = group_in,
        .weight_source = group_in * TAPS,
        .weight_result = TAPS,
        .right = POET_RIGHT_EDGE,
    };
    sum_groups(op, &pass, dy, w, NULL, dx);
}

/* A row of one channel of dx: even ones have met the even rows of the kernel, odd ones the odd. */
static void sum_wide_row(const struct poet_conv2d *op, struct poet_wide_strip_5 *strip, int32_t row,
                         const float *dy, const float *weight, float *dx)
{
    const int32_t width = op->out_width;
    const int32_t below = row / 2 + 1; /* of dy: what the first row of the kernel meets */
    const int32_t cut = below < op->out_height ? 0 : 1;
    const int32_t above = row % 2 == 0 && row > 0 ? below - 2 : below - 1; /* and its last */
    strip->rows = below - cut - above + 1;
    strip->channel_next = (op->out_height + strip->rows) * width;
    strip->weight_next = op->in_channels / op->groups * TAPS - 10 * strip->rows;
    dy += (below - cut) * width;
    weight += 5 * (row % 2 + 2 * cut);
    const int32_t last = width - POET_STRIP;
    strip->edges = POET_LEFT_EDGE;
    for (int32_t at = 0; at < last; at += POET_STRIP) {
        poet_conv2d_wide_strip_5_f32(strip, dy + at, weight, dx + 2 * at);
        strip->edges = 0u;
    }
    strip->edges |= POET_RIGHT_EDGE | (op->in_width % 2 != 0 ? POET_SEVEN_COLUMNS : 0u);
    poet_conv2d_wide_strip_5_f32(strip, dy + last, weight, dx + 2 * last);
}

void poet_conv2d_5x5_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                             const float *dy, float *dx)
{
    if (!by_strips(op, w)) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    struct poet_wide_strip_5 strip = {
        .row_next = -op->out_width - POET_STRIP,
        .channels = group_out,
    };
    for (int32_t n = 0; n < op->batch * op->groups; n++) {
        const float *weight = w + n % op->groups * group_in * group_out * TAPS;
        for (int32_t channel = 0; channel < group_in; channel++) {
            for (int32_t row = 0; row < op->in_height; row++) {
                sum_wide_row(op, &strip, row, dy, weight + channel * TAPS, dx);
                dx += op->in_width;
            }
        }
        dy += group_out * op->out_height * op->out_width;
    }
}
