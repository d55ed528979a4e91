/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_pointwise.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_blocks.h"
#include "conv2d_bursts.h"
#include "conv2d_clear.h"
#include "conv2d_pointwise_rows.h"
#include "dot.h"
#include "shapes.h"
#include "unroll.h"

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

/* The positions that a kernel meets, but for what depends on those that are gathered at a time. */
static inline __attribute__((always_inline)) void set_gather(const struct poet_conv2d *op,
                                                             struct poet_gather *gather)
{
    const int32_t last = (op->out_width - 1) * op->stride_width; /* of a row */
    gather->width = op->out_width;
    gather->step = op->stride_width * SIZE;
    gather->turn = (op->stride_height * op->in_width - last) * SIZE;
    gather->source_next = op->in_height * op->in_width * SIZE;
    gather->column = 0;
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
        POET_UNROLL(4)
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
    const bool by_fours = POET_HAS_FPU && pass->positions < POET_BURST &&
                          (pass->positions == POET_FOUR || pass->positions == POET_BURST - 1 ||
                           (!neighbours && pass->positions > POET_FOUR));
    for (int32_t group = 0; group < pass->groups; group++) {
        if (by_fours) {
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
    set_gather(op, &pass.gather);
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
        set_gather(op, &pass.gather);
        poet_conv2d_clear_f32(dx, op->batch * op->in_channels * in_plane);
    } else if (out_plane < POET_BURST) { /* others are not gathered */
        set_gather(op, &pass.gather);
    }
    sum_pass(&pass, dy, w, dx);
}

/* How dW goes along rows of x: what sums one channel with fours of the others, and a pair, where fours are of dy and of x. */
struct way {
    poet_sum_fours_f32 *of_dy[2];
    poet_sum_fours_f32 *of_x[2];
    int32_t step; /* to the next column; 0 for any */
};

/* Channels of x and of dy in one group: of the two, one goes by fours, and the other by pairs. */
struct sides {
    struct poet_fours at;
    poet_sum_fours_f32 *const *sum;
    const float *four;
    const float *pair;
    int32_t fours;
    int32_t pairs;
};

/* Weights of all of them. Of fours that overlap, what both make is stored twice. Less than four are four with the last one again. */
static void sum_sides(struct sides *sides, float *result)
{
    struct poet_fours *const at = &sides->at;
    const int32_t last = sides->fours - 4;
    const float *pair = sides->pair;
    for (int32_t left = sides->pairs; left > 0; left -= 2) {
        poet_sum_fours_f32 *const sum = sides->sum[left > 1 ? 1 : 0];
        at->blocks = last > 0 ? sides->fours >> 2 : 1;
        sum(at, pair, sides->four, result);
        if (last > 0 && (last & 3) != 0) {
            at->blocks = 1;
            sum(at, pair, sides->four + last * at->four_other[0], result + last * at->result_four);
        }
        pair += 2 * at->pair_other;
        result += 2 * at->result_pair;
    }
}

/* The same where weights are applied, or make no four: as many as are held at a time are put together. */
static __attribute__((noinline)) void
put_sides(struct sides *sides, const struct poet_gradient_sink *dw, int32_t first)
{
    enum { HELD = 64, FOURS = 16, PAIRS = 8 };
    float held[HELD];
    struct poet_fours *const at = &sides->at;
    const bool of_x = at->result_four == 1;
    const int32_t fours = sides->fours;
    const int32_t pairs = sides->pairs;
    if (fours < 4) {
        at->four_other[2] = 0;
        at->four_other[1] = fours > 2 ? at->four_other[0] : 0;
        at->four_other[0] = fours > 1 ? at->four_other[0] : 0;
        at->result_pair = of_x ? 4 : 1;
    }
    if ((fours + 3) * pairs <= HELD) {
        sum_sides(sides, held);
        if (!of_x || fours >= 4) {
            poet_gradient_sink_put_few_f32(dw, first, fours * pairs, held);
            return;
        }
        for (int32_t i = 0; i < pairs; i++) {
            poet_gradient_sink_put_few_f32(dw, first + i * fours, fours, held + 4 * i);
        }
        return;
    }
    const int32_t group_in = of_x ? fours : pairs;
    const float *const four = sides->four;
    for (int32_t pair = 0; pair < pairs; pair += sides->pairs) {
        sides->pairs = pairs - pair < PAIRS ? pairs - pair : PAIRS;
        const int32_t most = of_x ? FOURS : (HELD / sides->pairs - 3) & ~3;
        sides->four = four;
        for (int32_t done = 0; done < fours; done += sides->fours) {
            sides->fours = fours - done < most + 4 ? fours - done : most; /* leaves a four at least */
            const int32_t columns = of_x ? sides->fours : sides->pairs;
            const int32_t rows = of_x ? sides->pairs : sides->fours;
            *(of_x ? &at->result_pair : &at->result_four) = columns;
            sum_sides(sides, held);
            int32_t index = first + (of_x ? done + pair * group_in : pair + done * group_in);
            for (int32_t i = 0; i < rows; i++) {
                poet_gradient_sink_put_few_f32(dw, index, columns, held + i * columns);
                index += group_in;
            }
            sides->four += sides->fours * at->four_other[0];
        }
        sides->pair += sides->pairs * at->pair_other;
    }
}

static inline void set_fours(struct sides *sides, const float *from, int32_t channels, int32_t plane)
{
    sides->four = from;
    sides->fours = channels;
    sides->at.four_other[0] = plane;
    sides->at.four_other[1] = plane;
    sides->at.four_other[2] = plane;
}

static inline void set_pairs(struct sides *sides, const float *from, int32_t channels, int32_t plane)
{
    sides->pair = from;
    sides->pairs = channels;
    sides->at.pair_other = plane;
}

/* Weights are stored, or applied where that is named. */
static inline __attribute__((always_inline)) void
sum_or_put_sides(struct sides *sides, float *dw, const struct poet_gradient_sink *applied,
                 int32_t first)
{
    if (applied != NULL) {
        put_sides(sides, applied, first);
    } else if (sides->fours >= 4) {
        sum_sides(sides, dw + first);
    } else {
        put_sides(sides, &(struct poet_gradient_sink){.gradient = dw}, first);
    }
}

/* Outputs go by fours. What is left of them, or all where there are more inputs, goes by pairs where inputs make fours. So less
 * than four go by fours only where there are no four of the others, either. */
static inline __attribute__((always_inline)) void
sum_rows(const struct poet_conv2d *op, const struct way *way, const float *x, const float *dy,
         float *dw, const struct poet_gradient_sink *applied)
{
    const int32_t group_in = poet_channels_of_group(op, op->in_channels);
    const int32_t group_out = poet_channels_of_group(op, op->out_channels);
    const int32_t x_plane = op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    const int32_t strips = (op->out_width - 1) >> 2;
    const int32_t row = op->stride_height * op->in_width;
    const int32_t x_next = op->in_channels * x_plane - op->out_height * row;
    const int32_t dy_next = (op->out_channels - 1) * dy_plane;
    const int32_t left = group_in < 4 && group_in <= group_out ? 0 : group_out & 3;
    const int32_t whole = group_out - left;
    struct sides sides;
    struct poet_fours *const at = &sides.at;
    at->samples = op->batch;
    at->rows = op->out_height;
    at->strips = strips;
    at->first = op->out_width - POET_STRIP * strips - 1;
    if (way->step != 1) {
        const int32_t columns = way->step == 2 ? 2 * POET_STRIP * strips : op->stride_width * op->out_width;
        at->x_row = row - columns;
        at->x_step = op->stride_width * SIZE;
    }
    int32_t first = 0;
    int32_t group = op->groups;
    do {
        if (whole > 0) {
            set_fours(&sides, dy, whole, dy_plane);
            set_pairs(&sides, x, group_in, x_plane);
            sides.sum = way->of_dy;
            at->four_next = dy_next;
            at->pair_next = x_next;
            at->result_four = group_in;
            at->result_pair = 1;
            sum_or_put_sides(&sides, dw, applied, first);
        }
        if (POET_CONV2D_OUTPUTS % 4 != 0 && left > 0) {
            set_fours(&sides, x, group_in, x_plane);
            set_pairs(&sides, dy + whole * dy_plane, left, dy_plane);
            sides.sum = way->of_x;
            at->four_next = x_next;
            at->pair_next = dy_next;
            at->result_four = 1;
            at->result_pair = group_in;
            sum_or_put_sides(&sides, dw, applied, first + whole * group_in);
        }
        x += group_in * x_plane;
        dy += group_out * dy_plane;
        first += group_in * group_out;
    } while (--group > 0);
}

static const struct way BY_1 = {
    {poet_conv2d_one_fours_f32, poet_conv2d_pair_fours_f32},
    {poet_conv2d_one_fours_f32, poet_conv2d_pair_fours_f32},
    1,
};
static const struct way BY_2 = {
    {poet_conv2d_one_by_2_fours_f32, poet_conv2d_pair_by_2_fours_f32},
    {poet_conv2d_one_fours_by_2_f32, poet_conv2d_pair_fours_by_2_f32},
    2,
};
static const struct way BY_ANY = {
    {poet_conv2d_one_by_any_fours_f32, poet_conv2d_pair_by_any_fours_f32},
    {poet_conv2d_one_fours_by_any_f32, poet_conv2d_pair_fours_by_any_f32},
    0,
};

/* dw of an input and an output channel. */
static __attribute__((noinline)) float sum_channel(const struct poet_conv2d *op, const float *x,
                                                   const float *dy)
{
    const int32_t columns = op->out_width;
    const int32_t step = op->stride_width;
    const int32_t row = op->stride_height * op->in_width;
    float total = 0.0f;
    for (int32_t n = op->batch; n > 0; n--) {
        const float *x_row = x;
        const float *dy_row = dy;
        for (int32_t i = op->out_height; i > 0; i--) {
            const float *from = x_row;
            float sum = 0.0f;
            for (int32_t j = columns; j > 0; j--) {
                sum += *from * *dy_row++;
                from += step;
            }
            total += sum;
            x_row += row;
        }
        x += op->in_channels * op->in_height * op->in_width;
        dy += op->out_channels * op->out_height * op->out_width;
    }
    return total;
}

/* Weights one by one, where what fours need would take longer. */
static void sum_each(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    enum { HELD = 8 };
    float held[HELD];
    const int32_t group_in = poet_channels_of_group(op, op->in_channels);
    const int32_t group_out = poet_channels_of_group(op, op->out_channels);
    const int32_t x_plane = op->in_height * op->in_width;
    int32_t first = 0;
    int32_t count = 0;
    for (int32_t group = op->groups; group > 0; group--) {
        for (int32_t o = 0; o < group_out; o++) {
            for (int32_t c = 0; c < group_in; c++) {
                held[count++] = sum_channel(op, x + c * x_plane, dy);
                if (count == HELD) {
                    poet_gradient_sink_put_few_f32(dw, first, count, held);
                    first += count;
                    count = 0;
                }
            }
            dy += op->out_height * op->out_width;
        }
        x += group_in * x_plane;
    }
    if (count > 0) {
        poet_gradient_sink_put_few_f32(dw, first, count, held);
    }
}

#define WEIGHTS(name, way)                                                                     \
    void poet_conv2d_pointwise_##name##backward_weight_f32(                                    \
        const struct poet_conv2d *op, const float *x, const float *dy, float *dw)              \
    {                                                                                          \
        if (!POET_BY_STRIPS) {                                                                 \
            poet_conv2d_backward_weight_f32(op, x, dy, dw);                                    \
            return;                                                                            \
        }                                                                                      \
        sum_rows(op, &way, x, dy, dw, NULL);                                                   \
    }                                                                                          \
                                                                                               \
    void poet_conv2d_pointwise_##name##backward_weight_update_f32(                             \
        const struct poet_conv2d *op, const float *x, const float *dy,                         \
        const struct poet_update *update, const float *pace, float *w, float *first,           \
        float *second, float *sum)                                                             \
    {                                                                                          \
        if (!POET_BY_STRIPS) {                                                                 \
            poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second,  \
                                                   sum);                                       \
            return;                                                                            \
        }                                                                                      \
        const struct poet_gradient_sink sink =                                                 \
            poet_applying_sink(update, pace, w, first, second, sum);                           \
        sum_rows(op, &way, x, dy, NULL, &sink);                                                \
    }

WEIGHTS(, BY_1)
WEIGHTS(by_2_, BY_2)
WEIGHTS(by_any_, BY_ANY)

void poet_conv2d_pointwise_each_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_each(op, x, dy, &sink);
}

void poet_conv2d_pointwise_each_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum)
{
    if (!POET_BY_STRIPS) {
        poet_conv2d_backward_weight_update_f32(op, x, dy, update, pace, w, first, second, sum);
        return;
    }
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_each(op, x, dy, &sink);
}
