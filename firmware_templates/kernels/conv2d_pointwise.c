/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise.h"

#include "conv2d_pointwise_rows.h"
#include "shapes.h"

/* x or dy in one group: of the two, one goes by fours of channels, and the other by pairs. */
struct side {
    const float *from;
    int32_t channels;
    int32_t channel; /* elements to the next one */
    int32_t next;    /* from the row that would be next to a sample's last one to the next sample's first */
    int32_t weight;  /* weights to the next channel */
};

/* Weights of one channel or two of the others, which begin at `pair`, and each of the fours': from weight `index` on. */
static __attribute__((noinline)) void
put_fours(poet_sum_fours_f32 *sum, struct poet_fours *at, const struct side *fours,
          int32_t channels, int32_t other, const float *pair, const struct poet_gradient_sink *dw,
          int32_t index)
{
    enum { MOST = 16 };
    float sums[2 * MOST];
    const bool adjacent = fours->weight == 1;
    at->result_four = adjacent ? 1 : channels;
    at->result_pair = adjacent ? MOST : 1;
    for (int32_t done = 0; done < fours->channels;) {
        const int32_t left = fours->channels - done;
        const int32_t some = left < 4 ? left : left < MOST ? left & ~3 : MOST;
        const int32_t again = some == left && some < 4 && done > 0 ? 4 - some : 0;
        at->blocks = some < 4 ? 1 : some / 4;
        sum(at, pair, fours->from + (done - again) * fours->channel, sums);
        const float *from = sums + again * at->result_four;
        for (int32_t c = 0; adjacent && c < channels; c++) {
            poet_gradient_sink_put_run_f32(dw, index + c * other, some, from + c * MOST);
        }
        for (int32_t i = 0; !adjacent && i < some; i++) {
            poet_gradient_sink_put_run_f32(dw, index + i * fours->weight, channels,
                                           from + i * channels);
        }
        index += some * fours->weight;
        done += some;
    }
}

/* What sums one channel with fours of the other side's, and a pair. */
typedef poet_sum_fours_f32 *const poet_sums[2];

/* Weights of all the fours' and the others' channels. Of fours that overlap, what both make is stored twice, and applied once. */
static void sum_sides(const struct poet_conv2d *op, poet_sums sums, const struct side *fours,
                      const struct side *others, const struct poet_gradient_sink *dw, int32_t first)
{
    const int32_t count = fours->channels;
    const int32_t strips = (op->out_width - 1) >> 2;
    struct poet_fours at = {
        .four_other = {count > 1 ? fours->channel : 0, count > 2 ? fours->channel : 0,
                       count > 3 ? fours->channel : 0},
        .samples = op->batch,
        .pair_other = others->channel,
        .rows = op->out_height,
        .four_next = fours->next,
        .pair_next = others->next,
        .strips = strips,
        .first = op->out_width - POET_STRIP * strips - 1,
        .x_row = op->stride_height * op->in_width - 2 * POET_STRIP * strips,
        .result_four = fours->weight,
        .result_pair = others->weight,
    };
    const float *pair = others->from;
    for (int32_t c = 0; c < others->channels; c += 2) {
        const int32_t channels = c + 1 < others->channels ? 2 : 1;
        if (dw->gradient == NULL || count < 4) {
            put_fours(sums[channels - 1], &at, fours, channels, others->weight, pair, dw, first);
        } else {
            float *result = dw->gradient + first;
            at.blocks = count >> 2;
            sums[channels - 1](&at, pair, fours->from, result);
            if ((count & 3) != 0) {
                const int32_t last = count - 4;
                at.blocks = 1;
                sums[channels - 1](&at, pair, fours->from + last * fours->channel,
                                   result + last * fours->weight);
            }
        }
        pair += 2 * others->channel;
        first += 2 * others->weight;
    }
}

/* Outputs go by fours. What is left of them, or all where there are more inputs, goes by pairs where inputs make fours. */
static void sum_rows(const struct poet_conv2d *op, poet_sums inputs, poet_sums outputs,
                     const float *x, const float *dy, const struct poet_gradient_sink *dw)
{
    const int32_t groups = op->groups;
    const int32_t group_in = groups == 1 ? op->in_channels : op->in_channels / groups;
    const int32_t group_out = groups == 1 ? op->out_channels : op->out_channels / groups;
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    const int32_t met = op->stride_height * op->out_height * op->in_width;
    const int32_t left = group_in < 4 && group_in < group_out ? 0 : group_out & 3;
    struct side input = {x, group_in, x_plane, op->in_channels * x_plane - met, 1};
    struct side output = {dy, 0, dy_plane, (op->out_channels - 1) * dy_plane, group_in};
    int32_t first = 0;
    for (int32_t group = 0; group < groups; group++) {
        if (left < group_out) {
            output.channels = group_out - left;
            sum_sides(op, inputs, &output, &input, dw, first);
            output.from += output.channels * dy_plane;
            first += output.channels * group_in;
        }
        if (POET_CONV2D_OUTPUTS % 4 != 0 && left > 0) {
            output.channels = left;
            sum_sides(op, outputs, &input, &output, dw, first);
            output.from += left * dy_plane;
            first += left * group_in;
        }
        input.from += group_in * x_plane;
    }
}

static poet_sums BY_1 = {poet_conv2d_one_fours_f32, poet_conv2d_pair_fours_f32};
static poet_sums INPUTS_BY_2 = {poet_conv2d_one_by_2_fours_f32, poet_conv2d_pair_by_2_fours_f32};
static poet_sums OUTPUTS_BY_2 = {poet_conv2d_one_fours_by_2_f32, poet_conv2d_pair_fours_by_2_f32};

void poet_conv2d_pointwise_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                               const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_rows(op, BY_1, BY_1, x, dy, &sink);
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
    sum_rows(op, BY_1, BY_1, x, dy, &sink);
}

void poet_conv2d_pointwise_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_rows(op, INPUTS_BY_2, OUTPUTS_BY_2, x, dy, &sink);
}

void poet_conv2d_pointwise_by_2_backward_weight_update_f32(
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
    sum_rows(op, INPUTS_BY_2, OUTPUTS_BY_2, x, dy, &sink);
}
