/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_bursts.h"
#include "conv2d_strip.h"

/* Forward and dX are products of matrices: of the weights with what each position has of the source. Where its positions are no
 * neighbours, or too few, they are gathered. */

enum {
    SIZE = sizeof(float),
    GATHERED = 128,                   /* elements, on the stack */
    CHANNELS = GATHERED / POET_BURST, /* that are gathered at a time */
};

/* One pass over the positions of all planes. What is next counts elements. */
struct pass {
    struct poet_bursts bursts; /* of a plane, without shift */
    struct poet_gather gather; /* without what depends on how many are gathered */
    poet_sum_bursts_f32 *sum;
    int32_t batch;
    int32_t groups;
    int32_t source_group;
    int32_t weight_group;
    int32_t result_group;
    int32_t weight_channel;
    int32_t weight_result;
};

/* Where a position of a plane is. */
static int32_t place(struct poet_gather *gather, int32_t position)
{
    const int32_t row = position / gather->width;
    gather->column = position - row * gather->width;
    return ((position - row) * gather->step + row * gather->turn) / SIZE;
}

/* All channels at positions of a plane, or, if there is another, at four of it and four of the other: source and other begin
 * with the first. */
static void sum_gathered(const struct pass *pass, const struct poet_bursts *of,
                         struct poet_gather *gather, const float *source, const float *other,
                         const float *weight, float *result)
{
    static const float zeros[2] = {0.0f, 0.0f};
    float gathered[GATHERED];
    struct poet_bursts bursts = *of;
    bursts.source_next = of->positions;
    gather->next = of->positions * SIZE;
    gather->fours = (other == NULL ? of->positions : POET_FOUR) / POET_FOUR;
    for (int32_t left = of->channels; left > 0; left -= CHANNELS) {
        const bool ends = left <= CHANNELS;
        const int32_t next = CHANNELS * of->source_next;
        bursts.channels = gather->channels = ends ? left : CHANNELS;
        bursts.shift = ends ? of->shift : zeros;
        bursts.shift_next = ends ? of->shift_next : 0;
        poet_conv2d_gather_f32(gather, source, gathered);
        source += next;
        if (other != NULL) {
            poet_conv2d_gather_f32(gather, other, gathered + POET_FOUR);
            other += next;
        }
        pass->sum(&bursts, gathered, weight, result);
        weight += CHANNELS * pass->weight_channel;
        bursts.further = 1;
    }
}

/* All channels at one position: four sums at once, of which the last may be the same. */
static void sum_position(const struct pass *pass, const struct poet_bursts *bursts,
                         const float *source, const float *weight, float *result)
{
    const int32_t next = pass->weight_result;
    const float *shift = bursts->shift;
    int32_t left = bursts->results;
    for (; left >= POET_FOUR; left -= POET_FOUR) {
        float a = 0.0f;
        float b = 0.0f;
        float c = 0.0f;
        float d = 0.0f;
        const float *s = source;
        const float *w = weight;
        for (int32_t channel = bursts->channels; channel > 0; channel--) {
            a += *s * w[0];
            b += *s * w[next];
            c += *s * w[2 * next];
            d += *s * w[3 * next];
            s += bursts->source_next;
            w += pass->weight_channel;
        }
        const float sums[POET_FOUR] = {a, b, c, d};
        _Pragma("GCC unroll 4")
        for (int32_t i = 0; i < POET_FOUR; i++) {
            *result = sums[i] + *shift;
            result += bursts->result_next;
            shift += bursts->shift_next;
        }
        weight += POET_FOUR * next;
    }
    for (; left > 0; left--) {
        float sum = 0.0f;
        for (int32_t channel = 0; channel < bursts->channels; channel++) {
            sum += source[channel * bursts->source_next] * weight[channel * pass->weight_channel];
        }
        *result = sum + *shift;
        result += bursts->result_next;
        shift += bursts->shift_next;
        weight += next;
    }
}

/* A plane of one burst at least. */
static void sum_plane(const struct pass *pass, struct poet_bursts *bursts, const float *source,
                      const float *weight, float *result)
{
    const int32_t positions = pass->bursts.positions;
    if (pass->gather.step == SIZE && pass->gather.turn == SIZE) {
        /* a burst of one channel takes less than a position by itself */
        const int32_t left = positions % POET_BURST < POET_FOUR && bursts->channels > 1
                                 ? positions % POET_BURST
                                 : 0;
        bursts->positions = positions - left;
        pass->sum(bursts, source, weight, result);
        for (int32_t at = positions - left; at < positions; at++) {
            sum_position(pass, bursts, source + at, weight, result + at);
        }
        return;
    }
    struct poet_gather gather = pass->gather;
    const int32_t channels = bursts->channels < CHANNELS ? bursts->channels : CHANNELS;
    const int32_t most = CHANNELS / channels * POET_BURST;
    for (int32_t next = 0; next < positions;) {
        int32_t count = (positions - next + POET_FOUR - 1) & ~(POET_FOUR - 1);
        count = count < most ? count : most;
        count = count < POET_BURST || count > positions ? POET_BURST : count;
        const int32_t first = next + count < positions ? next : positions - count;
        bursts->positions = count;
        sum_gathered(pass, bursts, &gather, source + place(&gather, first), NULL, weight,
                     result + first);
        next = first + count;
    }
}

/* Planes of less than a burst: two fours of positions, of one plane or of two samples. */
static void sum_fours(const struct pass *pass, struct poet_bursts *bursts, const float *source,
                      const float *weight, float *result)
{
    const int32_t source_next = pass->groups * pass->source_group;
    const int32_t result_next = pass->groups * pass->result_group;
    const int32_t last = pass->bursts.positions - POET_FOUR; /* where a plane's second four begins */
    const int32_t samples = last > 0 ? 1 : 2;
    struct poet_gather gather = pass->gather;
    int32_t second = samples > 1 ? source_next : place(&gather, last);
    bursts->result_four = samples > 1 ? result_next : last;
    bursts->positions = POET_BURST;
    for (int32_t n = 0; n < pass->batch; n += samples) {
        if (n + samples > pass->batch) { /* makes its results twice */
            second = 0;
            bursts->result_four = 0;
        }
        sum_gathered(pass, bursts, &gather, source, source + second, weight, result);
        source += samples * source_next;
        result += samples * result_next;
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
        if (positions < POET_BURST && positions >= POET_FOUR) {
            sum_fours(pass, &bursts, source, weight, result);
        }
        for (int32_t i = 0; positions < POET_FOUR && i < pass->batch * positions; i++) {
            struct poet_gather gather = pass->gather;
            const int32_t n = i / positions * pass->groups;
            const int32_t at = i % positions;
            sum_position(pass, &bursts, source + n * pass->source_group + place(&gather, at),
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
                .result_four = POET_FOUR,
            },
        .gather =
            {
                .width = op->out_width,
                .step = op->stride_width * SIZE,
                .turn = (op->stride_height * op->in_width - (op->out_width - 1) * op->stride_width) * SIZE,
                .source_next = in_plane * SIZE,
            },
        .sum = group_in > 1 || out_plane < POET_BURST ? poet_conv2d_bursts_f32
                                                      : poet_conv2d_bursts_of_one_f32,
        .batch = op->batch,
        .groups = op->groups,
        .source_group = group_in * in_plane,
        .weight_group = group_out * group_in,
        .result_group = group_out * out_plane,
        .weight_channel = 1,
        .weight_result = group_in,
    };
    sum_pass(&pass, x, w, b, y);
}

/* Puts the sums at the end of each plane of dx where the kernel met it, and zeros elsewhere. */
static void spread(const struct poet_conv2d *op, float *dx)
{
    const int32_t plane = op->in_height * op->in_width;
    const int32_t begin = plane - op->out_height * op->out_width;
    const int32_t row_next = op->stride_height * op->in_width;
    if (op->stride_width == 2) {
        const int32_t places = (op->out_width + POET_FOUR - 1) / POET_FOUR * 2 * POET_FOUR;
        const struct poet_spread at = {
            .planes = op->batch * op->in_channels,
            .rows = op->out_height,
            .begin = begin,
            .columns = op->out_width,
            .gap = row_next - places,
            .last = plane - (op->out_height - 1) * row_next - places,
        };
        poet_conv2d_spread_f32(&at, dx);
        return;
    }
    for (int32_t n = 0; n < op->batch * op->in_channels; n++) {
        const float *from = dx + begin;
        int32_t met = 0; /* the place of the next sum */
        int32_t left = op->out_width;
        for (int32_t i = 0; i < plane; i++) {
            dx[i] = i == met ? *from : 0.0f;
            if (i == met) {
                from++;
                left--;
                met += left > 0 ? op->stride_width
                                : row_next - (op->out_width - 1) * op->stride_width;
                left = left > 0 ? left : op->out_width;
            }
        }
        dx += plane;
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
    poet_sum_bursts_f32 *sum = poet_conv2d_bursts_backwards_f32;
    if (group_in == 1) {
        sum = poet_conv2d_bursts_f32; /* which is faster; the weights of a single channel are neighbours */
    }
    if (group_out == 1 && out_plane >= POET_BURST) {
        sum = poet_conv2d_bursts_of_one_f32;
    }
    const struct pass pass = {
        .bursts =
            {
                .channels = group_out,
                .results = group_in,
                .source_next = out_plane,
                .weight_next = group_in,
                .result_next = in_plane,
                .positions = out_plane,
                .result_four = POET_FOUR,
            },
        .gather = {.width = out_plane, .step = SIZE, .turn = SIZE, .source_next = out_plane * SIZE},
        .sum = sum,
        .batch = op->batch,
        .groups = op->groups,
        .source_group = group_out * out_plane,
        .weight_group = group_out * group_in,
        .result_group = group_in * in_plane,
        .weight_channel = group_in,
        .weight_result = 1,
    };
    sum_pass(&pass, dy, w, NULL, dx + in_plane - out_plane);
    if (in_plane > out_plane) {
        spread(op, dx);
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
