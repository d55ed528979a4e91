/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_3x3.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_strip.h"

/* Rows of padding are left out, columns of padding are zeros, which leave the bits of every sum of finite numbers as
 * they are. Sums to which a zero may have added NaN are taken again without. */

/* Compiled for size: what is around the inner blocks, which then takes no more instructions, and what is called where
 * factors are not finite. */
#define FOR_SIZE static __attribute__((cold, noinline))

/* Forward, or dX: of one group of one sample, whose channels are `plane` elements apart. */
struct pass {
    poet_sum_strip_f32 *sum_strip;
    int32_t up; /* from one row of the kernel to the next, so many of the source: 1, or -1 for dX */
    int32_t height;
    int32_t width;
    int32_t sources; /* channels */
    int32_t results;
    int32_t weight_source; /* weights to the next channel of the source, and of the result */
    int32_t weight_result;
    bool finite; /* the weights */
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

/* A row of two channels of the result: strips of which the last may make results again. */
static void sum_row(const struct pass *pass, struct poet_strip *strip, const float *source,
                    const float *weight, float *result)
{
    const uint32_t rows = strip->edges;
    const int32_t last = pass->width - POET_STRIP;
    int32_t at = 0;
    strip->edges |= POET_LEFT_EDGE;
    while (at < last) {
        pass->sum_strip(strip, source + at, weight, result + at);
        strip->edges = rows;
        at += POET_STRIP;
    }
    strip->edges |= POET_RIGHT_EDGE;
    pass->sum_strip(strip, source + last, weight, result + last);
}

/* The first and the last column of two channels again, without padding. */
FOR_SIZE void sum_ends(const struct pass *pass, const struct poet_strip *strip, const float *source,
                     const float *weight, float *result)
{
    for (int32_t end = 0; end < 2 * pass->height; end++) {
        const int32_t row = end / 2;
        const int32_t column = end % 2 * (pass->width - 1);
        float *to = result + row * pass->width + column;
        const float *other = weight + strip->weight_other;
        to[0] = sum_one(pass, row, column, source, weight) + strip->bias[0];
        to[strip->result_other] = sum_one(pass, row, column, source, other) + strip->bias[1];
    }
}

/* Two channels of the result. */
FOR_SIZE void sum_planes(const struct pass *pass, struct poet_strip *strip, const float *source,
                       const float *weight, float *result)
{
    const int32_t last = pass->height - 1;
    const int32_t cut = pass->up > 0 ? 0 : last; /* the row in which the kernel's first is padding */
    const float *met = source;
    float *to = result;
    for (int32_t row = 0; row <= last; row++) {
        const int32_t rows = row == 0 || row == last ? 2 : 3;
        strip->channel_next = pass->height * pass->width - (rows - 1) * strip->row_next;
        strip->weight_next = pass->weight_source - 3 * rows;
        strip->edges = rows == 2 ? POET_TWO_ROWS : 0u;
        sum_row(pass, strip, row == cut ? met : met - strip->row_next,
                row == cut ? weight + 3 : weight, to);
        met += pass->width;
        to += pass->width;
    }
    if (!pass->finite) {
        sum_ends(pass, strip, source, weight, result);
    }
}

/* All channels of a group: two at a time, of which the last may make one again; a single one is both. */
static void sum_group(const struct pass *pass, const float *source, const float *weight,
                      const float *bias, float *result)
{
    const int32_t plane = pass->height * pass->width;
    const int32_t other = pass->results > 1 ? 1 : 0;
    struct poet_strip strip = {
        .row_next = pass->up * pass->width,
        .weight_other = other * pass->weight_result,
        .channels = pass->sources,
        .result_other = other * plane,
    };
    for (int32_t pair = 0; pair < pass->results; pair += 2) {
        const int32_t channel = pair + other < pass->results ? pair : pair - 1;
        strip.bias[0] = bias != NULL ? bias[channel] : -0.0f; /* which changes no float */
        strip.bias[1] = bias != NULL ? bias[channel + other] : -0.0f;
        sum_planes(pass, &strip, source, weight + channel * pass->weight_result,
                   result + channel * plane);
    }
}

static __attribute__((noinline, hot)) bool weights_are_finite(const struct poet_conv2d *op,
                                                              const float *weight)
{
    return poet_are_finite(weight, op->in_channels / op->groups * op->out_channels * 9);
}

FOR_SIZE void sum_groups(const struct poet_conv2d *op, poet_sum_strip_f32 *sum_strip, int32_t up,
                       bool finite, const float *source, const float *weight, const float *bias,
                       float *result)
{
    const bool forward = up > 0;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t weights = group_in * group_out * 9;
    const struct pass pass = {
        .sum_strip = sum_strip,
        .up = up,
        .height = op->in_height,
        .width = op->in_width,
        .sources = forward ? group_in : group_out,
        .results = forward ? group_out : group_in,
        .weight_source = forward ? 9 : 9 * group_in,
        .weight_result = forward ? 9 * group_in : 9,
        .finite = finite,
    };
    const int32_t plane = pass.height * pass.width;
    for (int32_t n = 0; n < op->batch * op->groups; n++) {
        const int32_t group = n % op->groups;
        sum_group(&pass, source, weight + group * weights,
                  bias != NULL ? bias + group * pass.results : NULL, result);
        source += pass.sources * plane;
        result += pass.results * plane;
    }
}

void poet_conv2d_3x3_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                 const float *b, float *y)
{
    if (POET_BY_STRIPS) {
        sum_groups(op, poet_conv2d_strip_f32, 1, weights_are_finite(op, w), x, w, b, y);
    } else {
        poet_conv2d_forward_f32(op, x, w, b, y);
    }
}

void poet_conv2d_3x3_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                        const float *dy, float *dx)
{
    if (POET_BY_STRIPS) {
        sum_groups(op, poet_conv2d_strip_backwards_f32, -1, weights_are_finite(op, w), dy, w, NULL, dx);
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
        for (int32_t i = 0; i < height; i++) {
            float sum = 0.0f;
            for (int32_t j = 0; i + row >= 0 && i + row < height && j < width; j++) {
                if (j + column >= 0 && j + column < width) {
                    sum += x[(i + row) * width + j + column] * dy[i * width + j];
                }
            }
            total += sum;
        }
        x += op->in_channels * height * width;
        dy += op->out_channels * height * width;
    }
    return total;
}

/* dw of one row of the kernel, of one input and four output channels: from weight `first` on. */
static void sum_tap_row(const struct poet_conv2d *op, const struct poet_rows *at, int32_t row,
                        const float *x, const float *dy, const struct poet_gradient_sink *dw,
                        int32_t first)
{
    const int32_t x_row = row > 0 ? op->in_width : 0; /* the first that the tap meets, and that of dy */
    const int32_t dy_row = row < 0 ? op->in_width : 0;
    float totals[4][3] = {{0.0f}};
    poet_conv2d_tap_rows_f32(at, x + x_row, dy + dy_row, totals);
    for (int32_t channel = 0; channel < 4; channel++) {
        for (int32_t tap = 0; tap < 3; tap++) {
            const float total = totals[channel][tap];
            poet_gradient_sink_put_f32(
                dw, first + tap,
                total == total ? total : sum_tap(op, row, tap - 1, x, dy + channel * at->dy_other));
        }
        first += op->in_channels / op->groups * 9;
    }
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    const int32_t plane = op->in_height * op->in_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    for (int32_t row = -1; row <= 1; row++) {
        const int32_t rows = op->in_height - (row == 0 ? 0 : 1);
        const struct poet_rows at = {
            .samples = op->batch,
            .rows = rows,
            .strips = op->in_width / POET_STRIP,
            .dy_other = plane,
            .x_next = op->in_channels * plane - rows * op->in_width,
            .dy_next = op->out_channels * plane - rows * op->in_width,
        };
        for (int32_t o = 0; o < op->out_channels; o += 4) {
            const float *source = x + o / group_out * group_in * plane;
            for (int32_t c = 0; c < group_in; c++) {
                sum_tap_row(op, &at, row, source + c * plane, dy + o * plane, dw,
                            (o * group_in + c) * 9 + 3 * (row + 1));
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
    const struct poet_gradient_sink sink = {
        .update = update, .pace = pace, .parameter = w, .first = first, .second = second,
        .sum = sum};
    sum_taps(op, x, dy, &sink);
}
