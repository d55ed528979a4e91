/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise.h"

#include "conv2d_pointwise_rows.h"
#include "shapes.h"

/* Where the channels of x and of dy, and the weights, lie: of the two sides, the one whose channels go by fours, and the other. */
struct side {
    int32_t channel; /* elements to the next channel */
    int32_t next;    /* from the row that would be next to a sample's last one to the next sample's first */
    int32_t weight;  /* weights to the next channel */
};

static struct poet_fours fours_of(const struct poet_conv2d *op, const struct side *fours,
                                  const struct side *others)
{
    const struct poet_fours at = {
        .four_other = fours->channel,
        .samples = op->batch,
        .pair_other = others->channel,
        .rows = op->out_height,
        .four_next = fours->next,
        .pair_next = others->next,
        .strips = (op->out_width - 1) / POET_STRIP,
        .first = (op->out_width - 1) % POET_STRIP,
        .x_row = op->stride_height * op->in_width - op->stride_width * op->out_width,
    };
    return at;
}

/* Weights of one or two channels and each of `count` others, 4 or more, by fours, of which the last may be made again: from
 * weight `first` on. */
static void sum_fours(poet_sum_fours_f32 *sum, struct poet_fours *at, const struct side *fours,
                      const struct side *others, int32_t channels, int32_t count, const float *pair,
                      const float *four, const struct poet_gradient_sink *dw, int32_t first)
{
    enum { MOST = 16 };
    float sums[2 * MOST];
    const bool stored = dw->gradient != NULL;
    const bool adjacent = fours->weight == 1;
    at->result_four = stored ? fours->weight : adjacent ? 1 : channels;
    at->result_pair = stored ? others->weight : adjacent ? MOST : 1;
    for (int32_t done = 0; done < count;) {
        const int32_t left = count - done;
        const int32_t from = left < 4 ? count - 4 : done;
        const int32_t end = left < 4 ? count : stored || left < MOST ? count - left % 4 : done + MOST;
        at->blocks = (end - from) / 4;
        sum(at, pair, four + from * fours->channel,
            stored ? dw->gradient + first + from * fours->weight : sums);
        if (!stored && adjacent) {
            for (int32_t c = 0; c < channels; c++) {
                poet_gradient_sink_put_run_f32(dw, first + c * others->weight + done, end - done,
                                               sums + c * MOST + done - from);
            }
        } else if (!stored) {
            for (int32_t i = done; i < end; i++) {
                poet_gradient_sink_put_run_f32(dw, first + i * fours->weight, channels,
                                               sums + (i - from) * channels);
            }
        }
        done = end;
    }
}

/* What sums one channel or two of the input with fours of the output, and the other way round. */
struct sums {
    poet_sum_fours_f32 *inputs[2];
    poet_sum_fours_f32 *outputs[2];
};

/* Four input or output channels make fours of all that they are; else output channels that are left are paired. */
static void sum_rows(const struct poet_conv2d *op, const struct sums *sums, const float *x,
                     const float *dy, const struct poet_gradient_sink *dw)
{
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    const struct side input = {
        x_plane, op->in_channels * x_plane - op->stride_height * op->out_height * op->in_width, 1};
    const struct side output = {dy_plane, (op->out_channels - 1) * dy_plane, group_in};
    const int32_t left = group_in < 4 ? 0 : group_out % 4;
    struct poet_fours by_input = fours_of(op, &output, &input);
    struct poet_fours by_output = fours_of(op, &input, &output);
    int32_t first = 0;
    for (int32_t group = 0; group < op->groups; group++) {
        for (int32_t c = 0, some = 2; c < group_in && left < group_out; c += some) {
            some = group_in - c < 2 ? 1 : 2;
            sum_fours(sums->inputs[some - 1], &by_input, &output, &input, some, group_out - left,
                      x + c * x_plane, dy, dw, first + c);
        }
        for (int32_t o = group_out - left, some = 2; POET_CONV2D_OUTPUTS % 4 != 0 && o < group_out;
             o += some) {
            some = group_out - o < 2 ? 1 : 2;
            sum_fours(sums->outputs[some - 1], &by_output, &input, &output, some, group_in,
                      dy + o * dy_plane, x, dw, first + o * group_in);
        }
        x += group_in * x_plane;
        dy += group_out * dy_plane;
        first += group_in * group_out;
    }
}

static const struct sums BY_1 = {
    {poet_conv2d_one_fours_f32, poet_conv2d_pair_fours_f32},
    {poet_conv2d_one_fours_f32, poet_conv2d_pair_fours_f32},
};

static const struct sums BY_2 = {
    {poet_conv2d_one_by_2_fours_f32, poet_conv2d_pair_by_2_fours_f32},
#if POET_CONV2D_OUTPUTS % 4 != 0
    {poet_conv2d_one_fours_by_2_f32, poet_conv2d_pair_fours_by_2_f32},
#endif
};

void poet_conv2d_pointwise_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                               const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_rows(op, &BY_1, x, dy, &sink);
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
    sum_rows(op, &BY_1, x, dy, &sink);
}

void poet_conv2d_pointwise_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_rows(op, &BY_2, x, dy, &sink);
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
    sum_rows(op, &BY_2, x, dy, &sink);
}
