/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_blocks.h"
#include "conv2d_bursts.h"
#include "conv2d_pointwise_apart.h"
#include "conv2d_pointwise_rows.h"
#include "dot.h"
#include "shapes.h"

/* Forward and dX are products of matrices: of the weights with what each position has of the source, of all channels in one sum.
 * Where a burst of positions are no neighbours they are gathered. */

enum {
    SIZE = sizeof(float),
    GATHERED = 128,                   /* elements, on the stack */
    CHANNELS = GATHERED / POET_BURST, /* that are gathered at a time */
};

static const float no_bias[4] = {0.0f, 0.0f, 0.0f, 0.0f};

/* One pass over the positions of all planes. What is next counts elements. */
struct pass {
    struct poet_bursts bursts; /* the next ones to be summed */
    struct poet_gather gather; /* and gathered */
    poet_sum_bursts_f32 *sum;
    int32_t batch;
    int32_t groups;
    int32_t positions; /* of a plane */
    int32_t channels;  /* of the source, in a group */
    const float *shift;
    int32_t source_plane;
    int32_t source_group;
    int32_t weight_group;
    int32_t weight_channel;
    int32_t weight_result;
    int32_t result_group;
};

/* The positions that a kernel meets. */
static inline __attribute__((always_inline)) struct poet_gather
gather_of(const struct poet_conv2d *op, int32_t channels)
{
    const int32_t last = (op->out_width - 1) * op->stride_width; /* of a row */
    const struct poet_gather gather = {
        .width = op->out_width,
        .step = op->stride_width * SIZE,
        .turn = (op->stride_height * op->in_width - last) * SIZE,
        .channels = channels,
        .source_next = op->in_height * op->in_width * SIZE,
        .next = GATHERED,
        .column = 0,
        .fours = 1,
    };
    return gather;
}

/* Where a position of a plane is. */
static int32_t place(struct poet_gather *gather, int32_t position)
{
    const int32_t row = position < gather->width ? 0 : position / gather->width;
    gather->column = position - row * gather->width;
    return ((position - row) * gather->step + row * gather->turn) / SIZE;
}

/* All channels at positions that follow `source`, or, if there is another, at four each that follow both. */
static void sum_gathered(struct pass *pass, const float *source, const float *other,
                         const float *weight, float *result)
{
    float gathered[GATHERED];
    struct poet_bursts *const bursts = &pass->bursts;
    struct poet_gather *const gather = &pass->gather;
    const int32_t second = gather->column;
    bursts->source_next = bursts->positions;
    bursts->further = 0;
    gather->next = bursts->positions * SIZE;
    gather->fours = (other == NULL ? bursts->positions : POET_FOUR) / POET_FOUR;
    for (int32_t left = pass->channels; left > 0; left -= CHANNELS) {
        const bool ends = left <= CHANNELS;
        bursts->channels = gather->channels = ends ? left : CHANNELS;
        bursts->shift = ends ? pass->shift : no_bias;
        bursts->shift_next = bursts->shift != no_bias ? 1 : 0;
        if (other != NULL) {
            gather->column = second;
            poet_conv2d_gather_f32(gather, other, gathered + POET_FOUR);
            gather->column = 0; /* source is a plane's first position */
            other += CHANNELS * pass->source_plane;
        }
        poet_conv2d_gather_f32(gather, source, gathered);
        pass->sum(bursts, gathered, weight, result);
        source += CHANNELS * pass->source_plane;
        weight += CHANNELS * pass->weight_channel;
        bursts->further = 1;
    }
}

/* Four sums of products of one row of factors with each of four, so far apart. */
static __attribute__((noinline)) void sum_4(int32_t count, const float *one, int32_t one_next,
                                            const float *four, int32_t four_next, int32_t apart,
                                            float sums[4])
{
    float a = 0.0f;
    float b = 0.0f;
    float c = 0.0f;
    float d = 0.0f;
    for (; count > 0; count--) {
        a += *one * four[0];
        b += *one * four[apart];
        c += *one * four[2 * apart];
        d += *one * four[3 * apart];
        one += one_next;
        four += four_next;
    }
    sums[0] = a;
    sums[1] = b;
    sums[2] = c;
    sums[3] = d;
}

/* All channels at one position, four sums at once where floats are in registers. */
static void sum_position(const struct pass *pass, const float *source, const float *weight,
                         float *result)
{
    const int32_t next = pass->weight_result;
    const int32_t shift_next = pass->shift != no_bias ? 1 : 0;
    const float *shift = pass->shift;
    int32_t left = pass->bursts.results;
    for (; POET_HAS_FPU && left >= 4; left -= 4) {
        float sums[4];
        sum_4(pass->channels, source, pass->source_plane, weight, pass->weight_channel, next, sums);
        _Pragma("GCC unroll 4")
        for (int32_t i = 0; i < 4; i++) {
            *result = sums[i] + *shift;
            result += pass->bursts.result_next;
            shift += shift_next;
        }
        weight += 4 * next;
    }
    const struct poet_dot walk = {
        {1, 0, 0}, {1, 0, 0}, {pass->channels, pass->source_plane, pass->weight_channel}};
    for (; left > 0; left--) {
        float sum = 0.0f;
        if (!POET_HAS_FPU) {
            sum = poet_dot_f32(&walk, pass->channels, source, weight);
        }
        for (int32_t c = 0; POET_HAS_FPU && c < pass->channels; c++) {
            sum += source[c * pass->source_plane] * weight[c * pass->weight_channel];
        }
        *result = shift_next != 0 ? sum + *shift : sum;
        result += pass->bursts.result_next;
        shift += shift_next;
        weight += next;
    }
}

/* All channels at four neighbours. */
static void sum_four(const struct pass *pass, const float *source, const float *weight, float *result)
{
    static const struct poet_lanes neighbours = {{1, 2, 3}, {1, 2, 3}};
    const int32_t shift_next = pass->shift != no_bias ? 1 : 0;
    const struct poet_blocks blocks = {
        .walk = {{1, 0, 0}, {1, 0, 0}, {pass->channels, pass->source_plane, pass->weight_channel}},
        .weight_next = pass->weight_result,
        .result_channel = pass->bursts.result_next,
        .fours = pass->bursts.results / 4,
        .bias = pass->shift,
        .bias_next = 4 * shift_next,
        .lanes = &neighbours,
    };
    if (blocks.fours > 0) {
        poet_conv2d_blocks_f32(&blocks, source, weight, result);
    }
    for (int32_t channel = 4 * blocks.fours; channel < pass->bursts.results; channel++) {
        float sums[4];
        float *to = result + channel * pass->bursts.result_next;
        sum_4(pass->channels, weight + channel * pass->weight_result, pass->weight_channel, source,
              pass->source_plane, 1, sums);
        for (int32_t i = 0; i < 4; i++) {
            to[i] = sums[i] + pass->shift[channel * shift_next];
        }
    }
}

/* A plane of neighbours: bursts, a four, and single ones. */
static void sum_neighbours(struct pass *pass, const float *source, const float *weight,
                           float *result)
{
    const int32_t end = pass->positions;
    int32_t at = end & ~(POET_BURST - 1);
    pass->bursts.positions = at;
    if (at > 0) {
        pass->sum(&pass->bursts, source, weight, result);
    }
    if (end - at >= POET_FOUR) {
        sum_four(pass, source + at, weight, result + at);
        at += POET_FOUR;
    }
    for (; at < end; at++) {
        sum_position(pass, source + at, weight, result + at);
    }
}

/* Positions of a plane that take less by themselves than in a burst that makes others again. */
static int32_t singles_of(const struct pass *pass)
{
    const int32_t over = pass->positions % POET_BURST;
    return over < POET_FOUR && pass->channels > 1 ? over : 0;
}

/* Another plane of a burst at least: runs of positions, of which the last may overlap the one before. */
static void sum_runs(struct pass *pass, const float *source, const float *weight, float *result)
{
    const int32_t end = pass->positions - singles_of(pass);
    const int32_t gathered = pass->channels < CHANNELS ? GATHERED / pass->channels : POET_BURST;
    const int32_t most = gathered & ~(POET_BURST - 1);
    int32_t next = 0;
    while (next < end) {
        int32_t run = (end - next + POET_FOUR - 1) & ~(POET_FOUR - 1);
        run = run < most ? run : most;
        run = run < POET_BURST || run > end ? POET_BURST : run;
        const int32_t first = next + run < end ? next : end - run;
        pass->bursts.positions = run;
        sum_gathered(pass, source + place(&pass->gather, first), NULL, weight, result + first);
        next = first + run;
    }
    for (; next < pass->positions; next++) {
        sum_position(pass, source + place(&pass->gather, next), weight, result + next);
    }
}

/* Planes of less than a burst: two fours of positions, of one plane or of two samples. */
static void sum_fours(struct pass *pass, const float *source, const float *weight, float *result)
{
    const int32_t source_next = pass->groups * pass->source_group;
    const int32_t result_next = pass->groups * pass->result_group;
    const int32_t last = pass->positions - POET_FOUR; /* where a plane's second four begins */
    const int32_t samples = last > 0 ? 1 : 2;
    const int32_t second = samples > 1 ? source_next : place(&pass->gather, last);
    const int32_t column = samples > 1 ? 0 : pass->gather.column;
    pass->bursts.result_four = samples > 1 ? result_next : last;
    pass->bursts.positions = POET_BURST;
    int32_t left = pass->batch;
    for (; left >= samples; left -= samples) {
        pass->gather.column = column;
        sum_gathered(pass, source, source + second, weight, result);
        source += samples * source_next;
        result += samples * result_next;
    }
    if (left > 0 && pass->source_plane == pass->positions) {
        sum_four(pass, source, weight, result);
    } else if (left > 0) { /* makes its results twice */
        pass->bursts.result_four = 0;
        sum_gathered(pass, source, source, weight, result);
    }
}

/* All planes of a group, a sample after the other. */
static void sum_samples(struct pass *pass, const float *source, const float *weight, float *result)
{
    const bool neighbours = pass->source_plane == pass->positions;
    const bool together = pass->source_plane == pass->bursts.result_next;
    for (int32_t n = 0; n < pass->batch; n++) {
        if (!POET_HAS_FPU || pass->positions < POET_FOUR) {
            for (int32_t at = 0; at < pass->positions; at++) {
                const int32_t apart = together ? at : place(&pass->gather, at);
                sum_position(pass, source + (neighbours ? at : apart), weight,
                             result + (neighbours ? apart : at));
            }
        } else if (neighbours) {
            sum_neighbours(pass, source, weight, result);
        } else {
            sum_runs(pass, source, weight, result);
        }
        source += pass->groups * pass->source_group;
        result += pass->groups * pass->result_group;
    }
}

static void sum_pass(struct pass *pass, const float *source, const float *weight, float *result)
{
    /* of five or six neighbours two fours make more again than they save */
    const bool neighbours = pass->source_plane == pass->positions;
    const bool by_fours = pass->positions == POET_FOUR || pass->positions == POET_BURST - 1 ||
                          (!neighbours && pass->positions > POET_FOUR);
    for (int32_t group = 0; group < pass->groups; group++) {
        if (POET_HAS_FPU && by_fours && pass->positions < POET_BURST) {
            sum_fours(pass, source, weight, result);
        } else {
            sum_samples(pass, source, weight, result);
        }
        source += pass->source_group;
        weight += pass->weight_group;
        result += pass->result_group;
        if (pass->shift != no_bias) {
            pass->shift += pass->bursts.results;
            pass->bursts.shift = pass->shift;
        }
    }
}

/* Planes of neighbours that bursts leave nothing of. */
static void sum_whole(const struct poet_conv2d *op, struct poet_bursts *bursts,
                      poet_sum_bursts_f32 *sum, const float *source, const float *weight,
                      float *result)
{
    const int32_t source_group = bursts->channels * bursts->positions;
    const int32_t result_group = bursts->results * bursts->positions;
    for (int32_t n = op->batch; n > 0; n--) {
        const float *of_group = weight;
        const float *shift = bursts->shift;
        for (int32_t group = op->groups; group > 0; group--) {
            sum(bursts, source, of_group, result);
            source += source_group;
            of_group += bursts->channels * bursts->results;
            result += result_group;
            bursts->shift += bursts->shift_next * bursts->results;
        }
        bursts->shift = shift;
    }
}

/* Whether they do; of one channel those that are left are made again. */
static inline bool are_whole(const struct poet_conv2d *op, const struct poet_bursts *bursts)
{
    const int32_t positions = bursts->positions;
    return POET_HAS_FPU && positions >= POET_BURST && positions == op->in_height * op->in_width &&
           (positions % POET_BURST == 0 || bursts->channels == 1);
}

void poet_conv2d_pointwise_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                       const float *b, float *y)
{
    if (POET_HAS_VECTORS) {
        poet_conv2d_forward_f32(op, x, w, b, y);
        return;
    }
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = poet_channels_of_group(op, op->in_channels);
    const int32_t group_out = poet_channels_of_group(op, op->out_channels);
    poet_sum_bursts_f32 *sum = NULL;
    if (POET_HAS_FPU) {
        const bool of_one = group_in == 1 && out_plane >= POET_BURST;
        sum = of_one ? poet_conv2d_bursts_of_one_f32 : poet_conv2d_bursts_f32;
    }
    const float *shift = b != NULL ? b : no_bias;
    struct pass pass;
    pass.bursts = (struct poet_bursts){
        group_in, group_out, in_plane,  group_in,  out_plane,
        shift,    b != NULL, out_plane, POET_FOUR, 0,
    };
    if (are_whole(op, &pass.bursts)) {
        sum_whole(op, &pass.bursts, sum, x, w, y);
        return;
    }
    pass.gather = gather_of(op, group_in);
    pass.sum = sum;
    pass.batch = op->batch;
    pass.groups = op->groups;
    pass.positions = out_plane;
    pass.channels = group_in;
    pass.shift = shift;
    pass.source_plane = in_plane;
    pass.source_group = group_in * in_plane;
    pass.weight_group = group_out * group_in;
    pass.weight_channel = 1;
    pass.weight_result = group_in;
    pass.result_group = group_out * out_plane;
    sum_pass(&pass, x, w, y);
}

void poet_conv2d_pointwise_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                              const float *dy, float *dx)
{
    if (POET_HAS_VECTORS) {
        poet_conv2d_backward_input_f32(op, w, dy, dx);
        return;
    }
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = poet_channels_of_group(op, op->in_channels);
    const int32_t group_out = poet_channels_of_group(op, op->out_channels);
    poet_sum_bursts_f32 *sum = NULL;
    if (POET_HAS_FPU && group_out == 1 && out_plane >= POET_BURST) {
        sum = poet_conv2d_bursts_of_one_f32;
    } else if (POET_HAS_FPU) { /* a single channel's weights are neighbours, too */
        sum = group_in == 1 ? poet_conv2d_bursts_f32 : poet_conv2d_bursts_backwards_f32;
    }
    struct pass pass;
    pass.bursts = (struct poet_bursts){
        group_out, group_in, out_plane, group_in, in_plane, no_bias, 0, out_plane, POET_FOUR, 0,
    };
    if (are_whole(op, &pass.bursts)) {
        sum_whole(op, &pass.bursts, sum, dy, w, dx);
        return;
    }
    pass.gather = gather_of(op, group_out);
    pass.sum = sum;
    pass.batch = op->batch;
    pass.groups = op->groups;
    pass.positions = out_plane;
    pass.channels = group_out;
    pass.shift = no_bias;
    pass.source_plane = out_plane;
    pass.source_group = group_out * out_plane;
    pass.weight_group = group_out * group_in;
    pass.weight_channel = group_in;
    pass.weight_result = 1;
    pass.result_group = group_in * in_plane;
    if (in_plane > out_plane) {
        poet_conv2d_clear_f32(dx, op->batch * op->in_channels * in_plane);
    }
    sum_pass(&pass, dy, w, dx);
}

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
    const int32_t group_in = poet_channels_of_group(op, op->in_channels);
    const int32_t group_out = poet_channels_of_group(op, op->out_channels);
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
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
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
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_rows(op, INPUTS_BY_2, OUTPUTS_BY_2, x, dy, &sink);
}
