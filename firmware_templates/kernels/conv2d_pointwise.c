/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise.h"

#include <stddef.h>

#include "conv2d_bursts.h"
#include "conv2d_strip.h"

/* Forward and dX are products of matrices: of the weights with what each position has of the source. Where its positions are no
 * neighbours, or too few, they are gathered. */

enum {
    FOUR = 4,                         /* positions: half a burst */
    GATHERED = 128,                   /* elements, on the stack */
    CHANNELS = GATHERED / POET_BURST, /* that are gathered at a time */
};

/* One pass over the positions of all planes. What is next counts elements. */
struct pass {
    struct poet_bursts bursts; /* of a plane, or of a sample of fewer positions, without shift */
    poet_sum_bursts_f32 *sum;
    int32_t batch;
    int32_t groups;
    int32_t source_group;
    int32_t weight_group;
    int32_t result_group;
    int32_t width;         /* positions in a row */
    int32_t source_column; /* to the next position */
    int32_t source_row;    /* to the next row of positions */
    int32_t weight_channel;
    int32_t weight_result;
};

/* Positions of a plane, that follow each other along its rows. */
struct piece {
    const float *source; /* the first channel's plane */
    int32_t first;
    int32_t count;
};

static void gather(const struct pass *pass, const struct piece *piece, int32_t channels, float *to,
                   int32_t to_next)
{
    const int32_t step = pass->source_column;
    const int32_t column = piece->first % pass->width;
    const float *source = piece->source + piece->first / pass->width * pass->source_row;
    for (; channels > 0; channels--) {
        const float *row = source;
        const float *from = row + column * step;
        float *at = to;
        int32_t in_row = pass->width - column;
        for (int32_t left = piece->count; left > 0; left -= in_row, in_row = pass->width) {
            int32_t n = in_row < left ? in_row : left;
            for (; n >= FOUR; n -= FOUR) {
                const float four[FOUR] = {from[0], from[step], from[2 * step], from[3 * step]};
                at[0] = four[0];
                at[1] = four[1];
                at[2] = four[2];
                at[3] = four[3];
                from += FOUR * step;
                at += FOUR;
            }
            for (; n > 0; n--) {
                *at++ = *from;
                from += step;
            }
            row += pass->source_row;
            from = row;
        }
        source += pass->bursts.source_next;
        to += to_next;
    }
}

/* All channels at the positions of two pieces, so many of which are gathered at a time. */
static void sum_pieces(const struct pass *pass, const struct poet_bursts *of,
                       struct piece pieces[2], const float *weight, float *result)
{
    static const float zeros[2] = {0.0f, 0.0f};
    float gathered[GATHERED];
    struct poet_bursts bursts = *of;
    const int32_t count = bursts.positions;
    bursts.source_next = count;
    for (int32_t left = of->channels; left > 0; left -= bursts.channels) {
        const int32_t channels = left < CHANNELS ? left : CHANNELS;
        float *to = gathered;
        for (int32_t i = 0; i < 2; i++) {
            gather(pass, &pieces[i], channels, to, count);
            pieces[i].source += channels * of->source_next;
            to += pieces[i].count;
        }
        bursts.channels = channels;
        bursts.shift = left > channels ? zeros : of->shift;
        bursts.shift_next = left > channels ? 0 : of->shift_next;
        pass->sum(&bursts, gathered, weight, result);
        weight += channels * pass->weight_channel;
        bursts.further = 1;
    }
}

/* A plane of one burst at least. */
static void sum_plane(const struct pass *pass, struct poet_bursts *bursts, const float *source,
                      const float *weight, float *result)
{
    const int32_t positions = pass->bursts.positions;
    if (pass->source_column == 1 && pass->source_row == pass->width) {
        pass->sum(bursts, source, weight, result);
        return;
    }
    const int32_t channels = bursts->channels < CHANNELS ? bursts->channels : CHANNELS;
    const int32_t most = CHANNELS / channels * POET_BURST;
    for (int32_t next = 0; next < positions; next += most) {
        const int32_t left = positions - next;
        const int32_t first = left < POET_BURST ? positions - POET_BURST : next;
        const int32_t count = positions - first < most ? positions - first : most;
        struct piece pieces[2] = {{source, first, count}, {source, first, 0}};
        bursts->positions = count;
        sum_pieces(pass, bursts, pieces, weight, result + first);
    }
}

/* Planes of less than a burst: two fours of positions, of one plane or of two samples. */
static void sum_fours(const struct pass *pass, struct poet_bursts *bursts, const float *source,
                      const float *weight, float *result)
{
    const int32_t last = bursts->positions - FOUR; /* where a plane's second four begins */
    const int32_t halves = last > 0 ? 2 : 1;
    const int32_t end = pass->batch * halves;
    bursts->positions = POET_BURST;
    for (int32_t four = 0; four < end; four += 2) {
        struct piece pieces[2];
        float *to[2];
        for (int32_t i = 0; i < 2; i++) {
            const int32_t at = four + i < end ? four + i : four;
            const int32_t n = at / halves * pass->groups;
            const int32_t first = at % halves * last;
            pieces[i] = (struct piece){source + n * pass->source_group, first, FOUR};
            to[i] = result + n * pass->result_group + first;
        }
        bursts->result_four = (int32_t)(to[1] - to[0]);
        sum_pieces(pass, bursts, pieces, weight, to[0]);
    }
}

/* All channels at one position. */
static void sum_position(const struct pass *pass, const struct poet_bursts *bursts,
                         const float *source, const float *weight, float *result)
{
    const int32_t next = pass->weight_result;
    int32_t channel = 0;
    for (; channel < bursts->results; channel++) {
        float sum[4] = {0.0f};
        const int32_t at_once = channel + 4 <= bursts->results ? 4 : 1;
        const float *s = source;
        const float *w = weight;
        if (at_once == 4) {
            for (int32_t c = bursts->channels; c > 0; c--) {
                sum[0] += *s * w[0];
                sum[1] += *s * w[next];
                sum[2] += *s * w[2 * next];
                sum[3] += *s * w[3 * next];
                s += bursts->source_next;
                w += pass->weight_channel;
            }
            channel += 3;
        } else {
            for (int32_t c = bursts->channels; c > 0; c--) {
                sum[0] += *s * *w;
                s += bursts->source_next;
                w += pass->weight_channel;
            }
        }
        for (int32_t i = 0; i < at_once; i++) {
            *result = sum[i] + bursts->shift[(channel - at_once + 1 + i) * bursts->shift_next];
            result += bursts->result_next;
        }
        weight += at_once * next;
    }
}

static void sum_pass(const struct pass *pass, const float *source, const float *weight,
                     const float *bias, float *result)
{
    static const float no_bias[2] = {0.0f, 0.0f};
    const int32_t positions = pass->bursts.positions;
    struct poet_bursts bursts = pass->bursts;
    bursts.shift = bias != NULL ? bias : no_bias;
    bursts.shift_next = bias != NULL ? 1 : 0;
    for (int32_t group = 0; group < pass->groups; group++) {
        for (int32_t n = 0; positions >= POET_BURST && n < pass->batch; n++) {
            sum_plane(pass, &bursts, source + n * pass->groups * pass->source_group, weight,
                      result + n * pass->groups * pass->result_group);
        }
        if (positions < POET_BURST && positions >= FOUR) {
            bursts.positions = positions;
            sum_fours(pass, &bursts, source, weight, result);
        }
        for (int32_t i = 0; positions < FOUR && i < pass->batch * positions; i++) {
            const int32_t n = i / positions * pass->groups;
            const int32_t at = i % positions;
            sum_position(pass, &bursts,
                         source + n * pass->source_group + at / pass->width * pass->source_row +
                             at % pass->width * pass->source_column,
                         weight, result + n * pass->result_group + at);
        }
        source += pass->source_group;
        weight += pass->weight_group;
        result += pass->result_group;
        bursts.shift += bursts.shift_next * bursts.results;
    }
}

void poet_conv2d_pointwise_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                       const float *b, float *y)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const struct pass pass = {
        .bursts =
            {
                .channels = group_in,
                .results = group_out,
                .source_next = in_plane,
                .weight_next = group_in,
                .result_next = out_plane,
                .positions = out_plane,
                .result_four = FOUR,
            },
        .sum = group_in > 1 ? poet_conv2d_bursts_f32 : poet_conv2d_bursts_of_one_f32,
        .batch = op->batch,
        .groups = op->groups,
        .source_group = group_in * in_plane,
        .weight_group = group_out * group_in,
        .result_group = group_out * out_plane,
        .width = op->out_width,
        .source_column = op->stride_width,
        .source_row = op->stride_height * op->in_width,
        .weight_channel = 1,
        .weight_result = group_in,
    };
    sum_pass(&pass, x, w, b, y);
}

/* Puts the numbers at the end of a plane where the kernel met it, and zeros elsewhere. */
static inline __attribute__((always_inline)) void spread(const struct poet_conv2d *op,
                                                         int32_t stride, float *dx)
{
    const float *from = dx + op->in_height * op->in_width - op->out_height * op->out_width;
    const float *end = dx + op->in_height * op->in_width;
    for (int32_t row = 0; row < op->out_height; row++) {
        float *next = dx + op->stride_height * op->in_width;
        _Pragma("GCC unroll 4")
        for (int32_t column = op->out_width - 1; column > 0; column--) {
            *dx++ = *from++;
            for (int32_t i = 1; i < stride; i++) {
                *dx++ = 0.0f;
            }
        }
        *dx++ = *from++;
        next = row + 1 < op->out_height ? next : (float *)end;
        while (dx != next) {
            *dx++ = 0.0f;
        }
    }
}

void poet_conv2d_pointwise_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                              const float *dy, float *dx)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const struct pass pass = {
        .bursts =
            {
                .channels = group_out,
                .results = group_in,
                .source_next = out_plane,
                .weight_next = group_in,
                .result_next = in_plane,
                .positions = out_plane,
                .result_four = FOUR,
            },
        .sum = group_out > 1 ? poet_conv2d_bursts_backwards_f32 : poet_conv2d_bursts_of_one_f32,
        .batch = op->batch,
        .groups = op->groups,
        .source_group = group_out * out_plane,
        .weight_group = group_out * group_in,
        .result_group = group_in * in_plane,
        .width = out_plane,
        .source_column = 1,
        .source_row = out_plane,
        .weight_channel = group_in,
        .weight_result = 1,
    };
    sum_pass(&pass, dy, w, NULL, dx + in_plane - out_plane);
    if (in_plane != out_plane) {
        for (int32_t plane = 0; plane < op->batch * op->in_channels; plane++) {
            if (op->stride_width == 2) {
                spread(op, 2, dx);
            } else {
                spread(op, op->stride_width, dx);
            }
            dx += in_plane;
        }
    }
}

static void sum_rows(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    const int32_t plane = op->in_height * op->in_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const struct poet_rows at = {
        .samples = op->batch,
        .rows = op->in_height,
        .strips = op->in_width / POET_STRIP,
        .x_other = plane,
        .dy_other = plane,
        .x_next = (op->in_channels - 1) * plane,
        .dy_next = (op->out_channels - 1) * plane,
    };
    for (int32_t o = 0; o < op->out_channels; o += 4) {
        const float *source = x + o / group_out * group_in * plane;
        for (int32_t c = 0; c < group_in; c += 2) {
            float totals[4][2] = {{0.0f}};
            poet_conv2d_pair_rows_f32(&at, source + c * plane, dy + o * plane, totals);
            for (int32_t i = 0; i < 4; i++) {
                poet_gradient_sink_put_run_f32(dw, (o + i) * group_in + c, 2, totals[i]);
            }
        }
    }
}

void poet_conv2d_pointwise_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                               const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_rows(op, x, dy, &sink);
}

void poet_conv2d_pointwise_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
        return;
    }
    const struct poet_gradient_sink sink = {
        .update = update, .pace = pace, .parameter = w, .first = first, .second = second,
        .sum = sum};
    sum_rows(op, x, dy, &sink);
}
