/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_5x5.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_strip_5.h"
#include "conv2d_taps.h"
#include "unroll.h"

/* As conv2d_3x3.c: rows of padding are left out, columns of padding are zeros, which leave the bits of every sum of finite
 * numbers as they are. Where weights are not finite, conv2d.c's loops sum without zeros; so are sums
 * for dW taken again to which a zero may have added NaN. */

enum { TAPS = 25 };

#define INLINE static inline __attribute__((always_inline))
#define EACH_TAP POET_UNROLL(5) /* of a row */

/* Forward, or dX of a kernel with stride 1, for which a plane is gone through from its last row up. */
struct pass {
    poet_sum_strips_5_f32 *sum_strips;
    int32_t samples;
    int32_t source_sample; /* elements to the next one */
    int32_t result_sample;
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

/* Two rows of results of each sample: of one channel, or the same of two channels, whose weights are `channel` apart. The last strip may
 * make results again; so may the one before, where the column behind its last result would be padding. */
static void sum_rows(const struct pass *pass, struct poet_strips_5 *strips, int32_t upper_row,
                     int32_t lower_row, int32_t channel, const float *source, const float *weight,
                     float *result)
{
    const struct rows upper = rows_of(pass, upper_row);
    const struct rows lower = rows_of(pass, lower_row);
    const int32_t lower_start = lower.source - upper.source;
    const int32_t met = upper.end - upper.first;
    const int32_t all = lower_start + lower.end - lower.first;
    const int32_t next = pass->up * pass->source_width;
    strips->lower_weight = channel + 5 * (lower.first - upper.first);
    strips->upper_rows = lower_start;
    strips->both_rows = met - lower_start;
    strips->lower_rows = all - met;
    strips->channel_next = pass->source_height * pass->source_width - all * next;
    strips->weight_next = pass->weight_source - 5 * met;
    strips->lower_weight_next = pass->weight_source - 5 * (lower.end - lower.first);
    source += upper.source * next;
    weight += 5 * upper.first;
    result += upper_row * pass->up * pass->width;
    const int32_t last = pass->width - POET_STRIP;
    const int32_t before = pass->stride > 1 ? last : last - 2;
    for (int32_t n = 0; n < pass->samples; n++) {
        strips->edges = POET_LEFT_EDGE;
        for (int32_t at = 0; at < last; at += POET_STRIP) {
            const int32_t column = at < before ? at : before;
            pass->sum_strips(strips, source + pass->stride * column, weight, result + column);
            strips->edges = 0u;
        }
        strips->edges |= pass->right;
        pass->sum_strips(strips, source + pass->stride * last, weight, result + last);
        source += pass->source_sample;
        result += pass->result_sample;
    }
}

/* All channels of a group: a row of every two channels, and two rows of a last one. */
static void sum_group(const struct pass *pass, const float *source, const float *weight,
                      const float *bias, float *result)
{
    static const float none[2] = {-0.0f, -0.0f}; /* which changes no float */
    const int32_t plane = pass->height * pass->width;
    const int32_t source_plane = pass->source_height * pass->source_width;
    const int32_t in_pairs = pass->results & ~1;
    struct poet_strips_5 strips = {
        .row_next = pass->up * pass->source_width - (pass->stride * (POET_STRIP - 1) + 1),
        .pairs = in_pairs / 2,
        .bias = bias != NULL ? bias : none,
        .channels = pass->sources,
        .lower_result = plane,
        .result_pair = plane,
        .source_pair = -pass->sources * source_plane,
        .weight_pair = 2 * pass->weight_result - pass->sources * pass->weight_source,
        .bias_pair = bias != NULL ? 2 : 0,
    };
    if (pass->up < 0) {
        source += source_plane - pass->source_width;
        result += plane - pass->width;
    }
    for (int32_t row = 0; in_pairs > 0 && row < pass->height; row++) {
        sum_rows(pass, &strips, row, row, pass->weight_result, source, weight, result);
    }
    if (in_pairs < pass->results) {
        const float shift = bias != NULL ? bias[in_pairs] : -0.0f;
        const float shifts[2] = {shift, shift};
        const int32_t other = pass->height > 1 ? 1 : 0; /* a single row is both */
        const int32_t last = pass->height - 1 - other;
        strips.pairs = 1;
        strips.bias = shifts;
        strips.lower_result = other * pass->up * pass->width;
        for (int32_t two = 0; two < pass->height; two += 2) {
            const int32_t row = two < last ? two : last;
            sum_rows(pass, &strips, row, row + other, 0, source,
                     weight + in_pairs * pass->weight_result, result + in_pairs * plane);
        }
    }
}

static void sum_groups(const struct poet_conv2d *op, const struct pass *pass, const float *source,
                       const float *weight, const float *bias, float *result)
{
    for (int32_t group = 0; group < op->groups; group++) {
        sum_group(pass, source, weight, bias, result);
        source += pass->sources * pass->source_height * pass->source_width;
        weight += pass->sources * pass->results * TAPS;
        bias = bias != NULL ? bias + pass->results : NULL;
        result += pass->results * pass->height * pass->width;
    }
}

static __attribute__((noinline)) bool are_finite(const struct poet_conv2d *op, const float *weight)
{
    return poet_are_finite(weight, op->in_channels / op->groups * op->out_channels * TAPS);
}

/* Where strips are never summed, compilers leave their code out. */
INLINE bool by_strips(const struct poet_conv2d *op, const float *weight)
{
    return POET_BY_STRIPS && are_finite(op, weight);
}

static void sum_forward(const struct poet_conv2d *op, poet_sum_strips_5_f32 *sum_strips,
                        uint32_t right, const float *x, const float *w, const float *b, float *y)
{
    const int32_t group_in = op->in_channels / op->groups;
    const struct pass pass = {
        .sum_strips = sum_strips,
        .samples = op->batch,
        .source_sample = op->in_channels * op->in_height * op->in_width,
        .result_sample = op->out_channels * op->out_height * op->out_width,
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
        .samples = op->batch,
        .source_sample = op->out_channels * op->out_height * op->out_width,
        .result_sample = op->in_channels * op->in_height * op->in_width,
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

/* A row of one channel of dx in each sample: even ones have met the even rows of the kernel, odd ones the odd. */
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
    const uint32_t right = POET_RIGHT_EDGE | (op->in_width % 2 != 0 ? POET_SEVEN_COLUMNS : 0u);
    for (int32_t n = 0; n < op->batch; n++) {
        strip->edges = POET_LEFT_EDGE;
        for (int32_t at = 0; at < last; at += POET_STRIP) {
            poet_conv2d_wide_strip_5_f32(strip, dy + at, weight, dx + 2 * at);
            strip->edges = 0u;
        }
        strip->edges |= right;
        poet_conv2d_wide_strip_5_f32(strip, dy + last, weight, dx + 2 * last);
        dy += op->out_channels * op->out_height * width;
        dx += op->in_channels * op->in_height * op->in_width;
    }
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
    for (int32_t group = 0; group < op->groups; group++) {
        for (int32_t channel = 0; channel < group_in; channel++) {
            for (int32_t row = 0; row < op->in_height; row++) {
                sum_wide_row(op, &strip, row, dy, w + channel * TAPS, dx);
                dx += op->in_width;
            }
        }
        w += group_in * group_out * TAPS;
        dy += group_out * op->out_height * op->out_width;
    }
}

/* A row of the kernel for dW: where it meets x, and the output channels that are summed at a time. */
struct tap_row {
    struct poet_positions rows;
    struct poet_rows_5 at;
    poet_sum_rows_5_f32 *sum;
    int32_t next;     /* weights to the next output channel */
    int32_t channels; /* two or four, */
    int32_t done;     /* of which so many are there already */
};

/* dw of a row of the kernel, of one input channel: from weight `first` of the first output channel on. */
static void sum_tap_row(const struct poet_conv2d *op, const struct tap_row *row, const float *x,
                        const float *dy, const struct poet_gradient_sink *dw, int32_t first)
{
    float totals[4][5];
    row->sum(&row->at, x + row->rows.source * op->in_width,
             dy + row->rows.output * op->out_width, totals);
    for (int32_t channel = row->done; channel < row->channels; channel++) {
        float *taps = totals[channel];
        const float any = taps[0] + taps[1] + taps[2] + taps[3] + taps[4]; /* NaN where one of them is */
        if (any != any) {
            poet_conv2d_sum_taps_again_f32(op, &row->rows, x, dy + channel * row->at.dy_other,
                                           taps);
        }
        const int32_t index = first + channel * row->next;
        if (dw->gradient != NULL) {
            EACH_TAP
            for (int32_t tap = 0; tap < 5; tap++) {
                dw->gradient[index + tap] = taps[tap];
            }
        } else {
            poet_gradient_sink_put_run_f32(dw, index, 5, taps);
        }
    }
}

static void sum_taps(const struct poet_conv2d *op, poet_sum_rows_5_f32 *sum_four,
                     poet_sum_rows_5_f32 *sum_two, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    const int32_t stride = op->stride_width;
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const bool odd = op->out_width % 2 != 0;
    for (int32_t tap = 0; tap < TAPS; tap += 5) {
        const struct poet_positions rows =
            poet_positions_of_tap(tap / 5, stride, 2, op->in_height, op->out_height);
        struct tap_row row = {
            .rows = rows,
            .next = group_in * TAPS,
            .at =
                {
                    .samples = op->batch,
                    .rows = rows.count,
                    .pairs = (op->out_width - (stride > 1 && odd ? 1 : 2)) / 2,
                    .row_next = (stride - 1) * op->in_width,
                    .dy_other = out_plane,
                    .x_next = op->in_channels * in_plane - stride * rows.count * op->in_width,
                    .dy_next = op->out_channels * out_plane - rows.count * op->out_width,
                    .edges = (odd ? POET_ODD_COLUMNS : 0u) |
                             (op->in_width % 2 != 0 ? POET_ODD_WIDTH : 0u),
                },
        };
        for (int32_t group = 0; group < op->groups; group++) {
            const float *source = x + group * group_in * in_plane;
            for (int32_t from = 0; from < group_out; from += row.channels) {
                const bool four = group_out >= 4 && from + 2 < group_out;
                row.sum = four ? sum_four : sum_two;
                row.channels = four ? 4 : 2;
                const int32_t last = group_out - row.channels;
                const int32_t o = group * group_out + (from < last ? from : last);
                row.done = from < last ? 0 : from - last;
                for (int32_t c = 0; c < group_in; c++) {
                    sum_tap_row(op, &row, source + c * in_plane, dy + o * out_plane, dw,
                                (o * group_in + c) * TAPS + tap);
                }
            }
        }
    }
}

INLINE void sum_weights(const struct poet_conv2d *op, poet_sum_rows_5_f32 *sum_four,
                        poet_sum_rows_5_f32 *sum_two, const float *x, const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, sum_four, sum_two, x, dy, &sink);
}

INLINE void update_weights(const struct poet_conv2d *op, poet_sum_rows_5_f32 *sum_four,
                           poet_sum_rows_5_f32 *sum_two, const float *x, const float *dy,
                           const struct poet_gradient_sink *w)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_update_f32(op, x, dy, w->update, w->pace, w->parameter,
                                               w->first, w->second, w->sum);
        return;
    }
    sum_taps(op, sum_four, sum_two, x, dy, w);
}

void poet_conv2d_5x5_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                         const float *dy, float *dw)
{
    sum_weights(op, poet_conv2d_four_rows_5_f32, poet_conv2d_two_rows_5_f32, x, dy, dw);
}

void poet_conv2d_5x5_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                const float *dy, const struct poet_update *update,
                                                const float *pace, float *w, float *first,
                                                float *second, float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    update_weights(op, poet_conv2d_four_rows_5_f32, poet_conv2d_two_rows_5_f32, x, dy, &sink);
}

void poet_conv2d_5x5_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                              const float *dy, float *dw)
{
    sum_weights(op, poet_conv2d_four_rows_5_by_2_f32, poet_conv2d_two_rows_5_by_2_f32, x, dy, dw);
}

void poet_conv2d_5x5_by_2_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                                     const float *dy,
                                                     const struct poet_update *update,
                                                     const float *pace, float *w, float *first,
                                                     float *second, float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    update_weights(op, poet_conv2d_four_rows_5_by_2_f32, poet_conv2d_two_rows_5_by_2_f32, x, dy,
                   &sink);
}
