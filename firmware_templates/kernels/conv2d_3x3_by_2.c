/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_3x3_by_2.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_positions.h"
#include "conv2d_strip_by_2.h"
#include "conv2d_taps.h"

/* As conv2d_3x3.c: rows of padding are left out, columns of padding are zeros, which leave the bits of every sum of finite
 * numbers as they are. Sums to which a zero may have added NaN are taken again without. */

/* Compiled for size: what is around the inner blocks, which then takes no more instructions, and what is called where
 * factors are not finite. */
#define FOR_SIZE static __attribute__((cold, noinline))

static __attribute__((noinline, hot)) bool weights_are_finite(const struct poet_conv2d *op,
                                                              const float *weight)
{
    return poet_are_finite(weight, op->in_channels / op->groups * op->out_channels * 9);
}

/* One result of the forward pass, without padding. */
FOR_SIZE float sum_one(const struct poet_conv2d *op, int32_t row, int32_t column, const float *x,
                       const float *weight)
{
    float total = 0.0f;
    for (int32_t channel = 0; channel < op->in_channels / op->groups; channel++) {
        float sum = 0.0f;
        for (int32_t tap = 0; tap < 9; tap++) {
            const int32_t i = 2 * row + tap / 3 - 1;
            const int32_t j = 2 * column + tap % 3 - 1;
            if (i >= 0 && i < op->in_height && j >= 0 && j < op->in_width) {
                sum += x[i * op->in_width + j] * weight[tap];
            }
        }
        total += sum;
        x += op->in_height * op->in_width;
        weight += 9;
    }
    return total;
}

/* The first and the last column of two channels again, without padding. */
FOR_SIZE void sum_ends(const struct poet_conv2d *op, const struct poet_strips *strips, const float *x,
                       const float *weight, float *y)
{
    for (int32_t end = 0; end < 2 * op->out_height; end++) {
        const int32_t row = end / 2;
        const int32_t column = end % 2 * (op->out_width - 1);
        float *to = y + row * op->out_width + column;
        const float *other = weight + strips->weight_other;
        to[0] = sum_one(op, row, column, x, weight) + strips->bias[0];
        to[strips->result_other] = sum_one(op, row, column, x, other) + strips->bias[1];
    }
}

/* The rows at the top, between, and at the bottom where the kernel leaves the plane, for two channels: a row, all others, a
 * row. */
FOR_SIZE void set_strip_rows(const struct poet_conv2d *op, struct poet_strips *strips)
{
    const int32_t width = op->in_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t other = op->out_channels / op->groups > 1 ? 1 : 0; /* a single channel is both */
    const int32_t last = op->out_width - POET_STRIP;
    const int32_t whole = op->in_height / 2; /* rows in which the kernel's last is no padding */
    for (int32_t row = 0; row < op->out_height; row += strips++->rows) {
        const int32_t cut = row == 0 ? 1 : 0; /* rows of the kernel that are padding */
        const bool two = row == 0 || row == whole;
        *strips = (struct poet_strips){
            .row_next = width,
            .channel_next = (op->in_height - (two ? 1 : 2)) * width,
            .weight_next = two ? 3 : 0,
            .weight_other = other * group_in * 9,
            .channels = group_in,
            .edges = (width % 2 != 0 ? POET_RIGHT_EDGE : 0u) | (two ? POET_TWO_ROWS : 0u),
            .result_other = other * op->out_height * op->out_width,
            .rows = two ? 1 : whole - 1,
            .last = last,
            .column_bytes = 2 * sizeof(float),
            .source_next = 2 * (width - last),
            .result_next = POET_STRIP,
            .source_begin = (2 * row - 1 + cut) * width,
            .weight_begin = 3 * cut,
            .result_begin = row * op->out_width,
        };
        strips->more = row + strips->rows < op->out_height;
    }
}

void poet_conv2d_3x3_by_2_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                      const float *b, float *y)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t plane = op->out_height * op->out_width;
    const int32_t other = group_out > 1 ? 1 : 0;
    const bool finite = weights_are_finite(op, w);
    struct poet_strips strips[3];
    set_strip_rows(op, strips);
    for (int32_t n = 0; n < op->batch * op->groups; n++) {
        const int32_t first = n % op->groups * group_out;
        for (int32_t pair = 0; pair < group_out; pair += 2) {
            const int32_t channel = pair + other < group_out ? pair : pair - 1;
            const float *weight = w + (first + channel) * group_in * 9;
            for (int32_t i = 0; i < 3; i++) {
                strips[i].bias[0] = b != NULL ? b[first + channel] : -0.0f; /* which changes no float */
                strips[i].bias[1] = b != NULL ? b[first + channel + other] : -0.0f;
            }
            poet_conv2d_strips_by_2_f32(strips, x, weight, y + channel * plane);
            if (!finite) {
                sum_ends(op, strips, x, weight, y + channel * plane);
            }
        }
        x += group_in * op->in_height * op->in_width;
        y += group_out * plane;
    }
}

/* The last column of a strip of dx again, without padding. */
FOR_SIZE void sum_last_column(const struct poet_wide_strip *strip, const float *dy,
                              const float *weight, float *dx)
{
    float upper = 0.0f;
    float lower = 0.0f;
    for (int32_t channel = 0; channel < strip->channels; channel++) {
        const bool one = (strip->edges & POET_LAST_ROW) != 0u;
        upper += *dy * weight[5];
        lower += one ? *dy * weight[8] : dy[strip->row_next] * weight[2] + *dy * weight[8];
        dy += strip->channel_next;
        weight += strip->weight_next;
    }
    dx[0] = upper;
    if ((strip->edges & POET_UPPER_ROW) == 0u) {
        dx[strip->result_next] = lower;
    }
}

/* The two rows of dx of a row of dy: strips of which the last may make results again. */
static void sum_wide_row(const struct poet_conv2d *op, struct poet_wide_strip *strip, bool finite,
                         const float *dy, const float *weight, float *dx)
{
    const bool odd = op->in_width % 2 != 0;
    const int32_t last = op->out_width - POET_STRIP;
    for (int32_t at = 0; at < last; at += POET_STRIP) {
        poet_conv2d_wide_strip_f32(strip, dy + at, weight, dx + 2 * at);
    }
    strip->edges |= odd ? POET_RIGHT_EDGE | POET_SEVEN_COLUMNS : POET_RIGHT_EDGE;
    poet_conv2d_wide_strip_f32(strip, dy + last, weight, dx + 2 * last);
    if (!finite && !odd) {
        sum_last_column(strip, dy + op->out_width - 1, weight, dx + op->in_width - 1);
    }
}

/* One channel of dx. */
FOR_SIZE void sum_wide_plane(const struct poet_conv2d *op, bool finite, const float *dy,
                             const float *weight, float *dx)
{
    const int32_t last = op->out_height - 1;
    struct poet_wide_strip strip = {
        .row_next = op->out_width,
        .channel_next = op->out_height * op->out_width,
        .weight_next = op->in_channels / op->groups * 9,
        .channels = op->out_channels / op->groups,
        .result_next = op->in_width,
    };
    for (int32_t row = 0; row <= last; row++) {
        strip.edges = row < last ? 0u : POET_LAST_ROW;
        strip.edges |= 2 * row + 1 < op->in_height ? 0u : POET_UPPER_ROW;
        sum_wide_row(op, &strip, finite, dy + row * op->out_width, weight,
                     dx + 2 * row * op->in_width);
    }
}

void poet_conv2d_3x3_by_2_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                             const float *dy, float *dx)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const bool finite = weights_are_finite(op, w);
    for (int32_t n = 0; n < op->batch * op->groups; n++) {
        const float *weight = w + n % op->groups * group_in * group_out * 9;
        for (int32_t channel = 0; channel < group_in; channel++) {
            sum_wide_plane(op, finite, dy, weight + channel * 9, dx);
            dx += op->in_height * op->in_width;
        }
        dy += group_out * op->out_height * op->out_width;
    }
}

/* dw of one row of the kernel, of one input and four output channels, of which `done` are there already: from weight
 * `first` on. */
static void sum_tap_row(const struct poet_conv2d *op, const struct poet_positions *rows,
                        const struct poet_rows_by_2 *at, const float *x, const float *dy,
                        const struct poet_gradient_sink *dw, int32_t first, int32_t done)
{
    const int32_t next = op->in_channels / op->groups * 9;
    float totals[4][3] = {{0.0f}};
    poet_conv2d_tap_rows_by_2_f32(at, x + rows->source * op->in_width,
                                  dy + rows->output * op->out_width, totals);
    for (int32_t channel = done; channel < 4; channel++) {
        float *taps = totals[channel];
        const float sum = taps[0] + taps[1] + taps[2]; /* NaN where one of them is */
        if (sum != sum) {
            poet_conv2d_sum_taps_again_f32(op, rows, x, dy + channel * at->dy_other, taps);
        }
        poet_gradient_sink_put_few_f32(dw, first + channel * next, 3, taps);
    }
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    for (int32_t row = 0; row < 3; row++) {
        const struct poet_positions rows =
            poet_positions_of_tap(row, 2, 1, op->in_height, op->out_height);
        const struct poet_rows_by_2 at = {
            .samples = op->batch,
            .rows = rows.count,
            .strips = op->in_width / (2 * POET_STRIP),
            .row_next = op->in_width,
            .dy_other = out_plane,
            .x_next = op->in_channels * in_plane - 2 * rows.count * op->in_width,
            .dy_next = op->out_channels * out_plane - rows.count * op->out_width,
            .left = op->in_width % (2 * POET_STRIP),
        };
        for (int32_t group = 0; group < op->groups; group++) {
            const float *source = x + group * group_in * in_plane;
            for (int32_t four = 0; four < group_out; four += 4) {
                const int32_t last = group_out - 4;
                const int32_t o = group * group_out + (four < last ? four : last);
                for (int32_t c = 0; c < group_in; c++) {
                    sum_tap_row(op, &rows, &at, source + c * in_plane, dy + o * out_plane, dw,
                                (o * group_in + c) * 9 + 3 * row, four < last ? 0 : four - last);
                }
            }
        }
    }
}

void poet_conv2d_3x3_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                              const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_3x3_by_2_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                     const float *dy,
                                                     const struct poet_update *update,
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
