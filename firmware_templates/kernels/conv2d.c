/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_blocks.h"
#include "conv2d_column.h"
#include "conv2d_lines.h"
#include "conv2d_positions.h"
#include "conv2d_strip.h"
#include "conv2d_vectors.h"
#include "dot.h"
#include "parts.h"
#include "product.h"
#include "shapes.h"
#include "unroll.h"

/* Forward and backward-input are one loop: both sum products of a source (x or dy) with weights
 * over channels and the kernel's taps that meet the source. They differ in how the two are walked.
 *
 * A sum runs over the taps of one channel first and then over the channels, so that rounding errors
 * grow with their number added up, not multiplied. Whatever is summed at the same time, each sum is in
 * this order, so that its bits depend on the op alone.
 *
 * Positions whose taps are the same make up boxes of rows, columns and samples: the interior is one, and each
 * piece of the border. In a box sums are taken by fours of positions and fours of channels; most of the
 * interior of a 3x3 kernel in planes. */

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))
/* Compiled once, and on the stack only while it runs. */
#define APART static __attribute__((noinline))

/* A walk has a channel, a row and a column at least. */
APART float sum_products(const struct poet_dot *walk, const float *source, const float *weight)
{
    if (!POET_HAS_FPU) {
        return poet_dot_f32(walk, walk->middle.count * walk->inner.count, source, weight);
    }
    float total = 0.0f;
    int32_t channels = walk->outer.count;
    do {
        const float *source_row = source;
        const float *weight_row = weight;
        float sum = 0.0f;
        int32_t rows = walk->middle.count;
        do {
            const float *s = source_row;
            const float *w = weight_row;
            int32_t columns = walk->inner.count;
            do {
                sum += *s * *w;
                s += walk->inner.a_next;
                w += walk->inner.b_next;
            } while (--columns > 0);
            source_row += walk->middle.a_next;
            weight_row += walk->middle.b_next;
        } while (--rows > 0);
        total += sum;
        source += walk->outer.a_next;
        weight += walk->outer.b_next;
    } while (--channels > 0);
    return total;
}

/* A plane of 2 * `pairs` rows and 3 * `threes` columns, and the elements to the next row. */
struct plane {
    int32_t pairs;
    int32_t threes;
    int32_t source_row;
    int32_t result_row;
};

typedef void plane_kernel(const struct plane *plane, const float *source, const float *weight,
                          float *result);

/* What is computed at every position of some: so many channels of one group of the result. */
struct job {
    struct poet_blocks blocks; /* its fours of channels, and the walk of all */
    int32_t channels;
    int32_t bias_next;       /* 0 where there is no bias, but a number that changes no float */
    plane_kernel *add_plane; /* for a 3x3 kernel with stride 1 */
    const float *weight;
    int32_t groups;       /* at each position, one after the other */
    int32_t source_group; /* elements to the next one */
    int32_t weight_group;
    int32_t bias_group;
    int32_t result_group;
};

/* Positions in a line, that are alike. */
struct axis {
    int32_t count;
    int32_t source_next; /* elements to the next position */
    int32_t result_next;
};

/* Positions of the same taps: columns, rows and samples. */
enum { COLUMNS, ROWS, SAMPLES, AXES };

struct box {
    struct axis axes[AXES];
};

static const float no_bias[4] = {-0.0f, -0.0f, -0.0f, -0.0f};

static float with_bias(const struct job *job, int32_t channel, float sum)
{
    return job->bias_next != 0 ? sum + job->blocks.bias[channel] : sum;
}

/* So many in a line, up to four. Those that are missing are the last one again. */
static struct poet_lanes lanes_of(int32_t count, int32_t next, int32_t result_next)
{
    const int32_t third = count > 2 ? 2 : 1;
    const int32_t fourth = count > 3 ? 3 : third;
    return (struct poet_lanes){{next, third * next, fourth * next},
                               {result_next, third * result_next, fourth * result_next}};
}

/* All channels at `count` times four positions: these four, and those that follow in the same line. */
APART void sum_fours(struct job *job, const struct poet_lanes *lanes, int32_t count,
                     const float *source, float *result)
{
    const struct poet_blocks *blocks = &job->blocks;
    const float *weights = job->weight;
    const float *bias = blocks->bias;
    const int32_t fours = blocks->fours;
    job->blocks.lanes = lanes;
    for (int32_t group = job->groups; group > 0; group--) {
        const float *s = source;
        float *r = result;
        for (int32_t left = count; left > 0; left--) {
            if (fours > 0) {
                poet_conv2d_blocks_f32(blocks, s, weights, r);
            }
            int32_t channel = 4 * fours;
            for (; POET_CONV2D_SUMS % 4 != 0 && channel < job->channels; channel++) {
                poet_conv2d_four_f32(&blocks->walk, s, weights + channel * blocks->weight_next, lanes,
                                     blocks->bias + channel * job->bias_next,
                                     r + channel * blocks->result_channel);
            }
            s += 4 * lanes->apart[0];
            r += 4 * lanes->result[0];
        }
        source += job->source_group;
        result += job->result_group;
        weights += job->weight_group;
        job->blocks.bias += job->bias_group;
    }
    job->blocks.bias = bias;
}

/* The same walk with the roles exchanged: a product's factors commute, so the bits stay the same. */
static struct poet_dot exchanged(const struct poet_dot *walk)
{
    const struct poet_dot other = {
        .outer = {walk->outer.count, walk->outer.b_next, walk->outer.a_next},
        .middle = {walk->middle.count, walk->middle.b_next, walk->middle.a_next},
        .inner = {walk->inner.count, walk->inner.b_next, walk->inner.a_next},
    };
    return other;
}

/* A channel of each group at one position. */
APART void sum_single_channels(const struct job *job, const float *source, float *result)
{
    const float *weight = job->weight;
    const float *bias = job->blocks.bias;
    for (int32_t group = job->groups;;) {
        const float sum = sum_products(&job->blocks.walk, source, weight);
        *result = job->bias_next != 0 ? sum + *bias++ : sum;
        if (--group == 0) {
            return;
        }
        source += job->source_group;
        weight += job->weight_group;
        result += job->result_group;
    }
}

/* More at one position: by fours, but for a last one. */
APART void sum_channels(const struct job *job, const float *source, float *result)
{
    const struct poet_dot walk = exchanged(&job->blocks.walk);
    const int32_t w = job->blocks.weight_next;
    const int32_t r = job->blocks.result_channel;
    const int32_t channels = job->channels;
    const float *weights = job->weight;
    const float *bias = job->blocks.bias;
    for (int32_t group = job->groups;;) {
        const float *weight = weights;
        float *to = result;
        int32_t left = channels;
        do {
            const struct poet_lanes lanes = lanes_of(left, w, r);
            poet_conv2d_four_f32(&walk, weight, source, &lanes, no_bias, to);
            weight += 4 * w;
            to += 4 * r;
            left -= 4;
        } while (left > 1);
        if (POET_CONV2D_SUMS % 4 != 0 && left == 1) {
            *to = sum_products(&walk, weight, source);
        }
        if (job->bias_next != 0) {
            to = result;
            for (int32_t channel = 0; channel < channels; channel++) {
                *to += bias[channel];
                to += r;
            }
        }
        if (--group == 0) {
            return;
        }
        source += job->source_group;
        weights += job->weight_group;
        bias += job->bias_group;
        result += job->result_group;
    }
}

/* All channels at one position. */
INLINE void sum_one(const struct job *job, const float *source, float *result)
{
    if (POET_CONV2D_SUMS % 2 != 0 && job->channels == 1) {
        sum_single_channels(job, source, result);
    } else {
        sum_channels(job, source, result);
    }
}

/* All channels at a position, one after the other. */
APART void sum_position(const struct job *job, const float *source, float *result)
{
    const float *weight = job->weight;
    for (int32_t channel = 0; channel < job->channels; channel++) {
        *result = with_bias(job, channel, sum_products(&job->blocks.walk, source, weight));
        result += job->blocks.result_channel;
        weight += job->blocks.weight_next;
    }
}

/* One position after the other, on cores without floats in registers. */
static void sum_each(const struct job *job, const struct box *box, const float *source, float *result)
{
    const struct axis columns = box->axes[COLUMNS];
    for (int32_t n = 0; n < box->axes[SAMPLES].count; n++) {
        for (int32_t i = 0; i < box->axes[ROWS].count; i++) {
            const float *s = source + i * box->axes[ROWS].source_next;
            float *r = result + i * box->axes[ROWS].result_next;
            for (int32_t j = 0; j < columns.count; j++) {
                sum_position(job, s, r);
                s += columns.source_next;
                r += columns.result_next;
            }
        }
        source += box->axes[SAMPLES].source_next;
        result += box->axes[SAMPLES].result_next;
    }
}

/* Positions in a line, by fours and the last one alone. */
APART void sum_line(struct job *job, const struct axis *line, const float *source, float *result)
{
    const int32_t whole = line->count & ~3;
    const int32_t left = line->count - whole;
    if (whole > 0) {
        const struct poet_lanes lanes = lanes_of(4, line->source_next, line->result_next);
        sum_fours(job, &lanes, whole / 4, source, result);
    }
    source += whole * line->source_next;
    result += whole * line->result_next;
    if (left == 1) {
        sum_one(job, source, result);
    } else if (left > 1) {
        const struct poet_lanes lanes = lanes_of(left, line->source_next, line->result_next);
        sum_fours(job, &lanes, 1, source, result);
    }
}

/* All positions of a box by fours: of lines along the axis with most positions, and of what lines leave. */
APART void sum_box(struct job *job, const struct box *box, const float *source, float *result)
{
    const struct axis *line = &box->axes[COLUMNS];
    const struct axis *second = &box->axes[ROWS];
    const struct axis *third = &box->axes[SAMPLES];
    if (second->count > line->count) {
        line = second;
        second = &box->axes[COLUMNS];
    }
    if (third->count > line->count) {
        third = line;
        line = &box->axes[SAMPLES];
    }
    const struct poet_lanes along = lanes_of(line->count, line->source_next, line->result_next);
    const int32_t whole = line->count & ~3;
    struct poet_lanes rest;
    int32_t first_source = 0;
    int32_t first_result = 0;
    int32_t count = 0;
    for (int32_t i = 0; i < third->count; i++) {
        for (int32_t j = 0; j < second->count; j++) {
            int32_t s = i * third->source_next + j * second->source_next;
            int32_t r = i * third->result_next + j * second->result_next;
            if (whole > 0) {
                sum_fours(job, &along, whole / 4, source + s, result + r);
                s += whole * line->source_next;
                r += whole * line->result_next;
            }
            for (int32_t left = line->count - whole; left > 0; left--) {
                if (count == 0) {
                    first_source = s;
                    first_result = r;
                    count = 1;
                } else {
                    rest.apart[count - 1] = s - first_source;
                    rest.result[count - 1] = r - first_result;
                    count++;
                }
                if (count == 4) {
                    sum_fours(job, &rest, 1, source + first_source, result + first_result);
                    count = 0;
                }
                s += line->source_next;
                r += line->result_next;
            }
        }
    }
    if (count == 1) {
        sum_one(job, source + first_source, result + first_result);
    } else if (count > 1) { /* four with the last one again */
        for (; count < 4; count++) {
            rest.apart[count - 1] = rest.apart[count - 2];
            rest.result[count - 1] = rest.result[count - 2];
        }
        sum_fours(job, &rest, 1, source + first_source, result + first_result);
    }
}

INLINE void add_2(const float w[9], const struct poet_column *l, const struct poet_column *m,
                  const struct poet_column *r, float *above, float *below)
{
    const float upper = poet_sum_9(w, l->a, m->a, r->a, l->b, m->b, r->b, l->c, m->c, r->c);
    const float lower = poet_sum_9(w, l->b, m->b, r->b, l->c, m->c, r->c, l->d, m->d, r->d);
    *above += upper;
    *below += lower;
}

/* One channel's products of a 3x3 kernel in a plane, added to the results. A
 * column of the source is loaded once for two rows of results, and stays in registers for three. */
INLINE void sum_plane(const struct plane *plane, const float *source, const float *weight,
                      float *result, int32_t step)
{
    const int32_t source_row = plane->source_row;
    const int32_t result_row = plane->result_row;
    const float w[9] = {weight[0], weight[1], weight[2], weight[3], weight[4],
                        weight[5], weight[6], weight[7], weight[8]};
    for (int32_t pair = plane->pairs; pair > 0; pair--) {
        const float *s0 = source;
        const float *s1 = s0 + source_row;
        const float *s2 = s1 + source_row;
        const float *s3 = s2 + source_row;
        float *above = result;
        float *below = result + result_row;
        const float *end = above + 3 * step * plane->threes;
        struct poet_column l = {s0[0], s1[0], s2[0], s3[0]};
        struct poet_column m = {s0[step], s1[step], s2[step], s3[step]};
        do {
            const struct poet_column r = {s0[2 * step], s1[2 * step], s2[2 * step], s3[2 * step]};
            add_2(w, &l, &m, &r, above, below);
            l = (struct poet_column){s0[3 * step], s1[3 * step], s2[3 * step], s3[3 * step]};
            add_2(w, &m, &r, &l, above + step, below + step);
            m = (struct poet_column){s0[4 * step], s1[4 * step], s2[4 * step], s3[4 * step]};
            add_2(w, &r, &l, &m, above + 2 * step, below + 2 * step);
            s0 += 3 * step;
            s1 += 3 * step;
            s2 += 3 * step;
            s3 += 3 * step;
            above += 3 * step;
            below += 3 * step;
        } while (above != end);
        source += 2 * source_row;
        result += 2 * result_row;
    }
}

APART void add_plane(const struct plane *plane, const float *source, const float *weight, float *result)
{
    sum_plane(plane, source, weight, result, 1);
}

APART void add_plane_backwards(const struct plane *plane, const float *source, const float *weight,
                               float *result)
{
    sum_plane(plane, source, weight, result, -1);
}

static void clear_plane(const struct plane *plane, float *result, int32_t step)
{
    for (int32_t row = 2 * plane->pairs; row > 0; row--) {
        float *at = result;
        for (int32_t column = 3 * plane->threes; column > 0; column--) {
            *at = 0.0f;
            at += step;
        }
        result += plane->result_row;
    }
}

/* All channels in such a plane of every sample. Results are walked as the source is: backwards for dx. */
APART void sum_planes(const struct job *job, const struct box *box, const float *source,
                      float *result)
{
    const struct axis *columns = &box->axes[COLUMNS];
    const struct axis *rows = &box->axes[ROWS];
    const struct axis *samples = &box->axes[SAMPLES];
    const struct poet_dot *walk = &job->blocks.walk;
    const int32_t step = walk->inner.a_next;
    const struct plane plane = {rows->count / 2, columns->count / 3, walk->middle.a_next,
                                step * rows->result_next};
    if (step < 0) {
        source += (rows->count - 1) * rows->source_next + columns->count - 1;
        result += (rows->count - 1) * rows->result_next + columns->count - 1;
    }
    for (int32_t n = 0; n < samples->count; n++) {
        const float *weight = job->weight;
        float *to = result;
        for (int32_t channel = 0; channel < job->channels; channel++) {
            clear_plane(&plane, to, step);
            const float *s = source;
            const float *w = weight;
            for (int32_t c = 0; c < walk->outer.count; c++) {
                job->add_plane(&plane, s, w, to);
                s += walk->outer.a_next;
                w += walk->outer.b_next;
            }
            for (int32_t i = 0; job->bias_next != 0 && i < rows->count; i++) {
                for (int32_t j = 0; j < columns->count; j++) {
                    to[i * plane.result_row + j] += job->blocks.bias[channel];
                }
            }
            weight += job->blocks.weight_next;
            to += job->blocks.result_channel;
        }
        source += samples->source_next;
        result += samples->result_next;
    }
}

/* Whether a box is of a 3x3 kernel with stride 1, and has room for a plane. */
static bool holds_planes(const struct poet_dot *walk, const struct box *box)
{
    const struct axis *columns = &box->axes[COLUMNS];
    const struct axis *rows = &box->axes[ROWS];
    const int32_t source_row = walk->middle.a_next > 0 ? walk->middle.a_next : -walk->middle.a_next;
    return walk->middle.count == 3 && walk->inner.count == 3 && walk->middle.b_next == 3 &&
           walk->inner.b_next == 1 && rows->source_next == source_row &&
           columns->source_next == 1 && columns->result_next == 1 && rows->count >= 2 &&
           columns->count >= 3;
}

/* Positions that no tap meets. */
APART void put_nothing(const struct job *job, const struct box *box, float *result)
{
    const struct axis columns = box->axes[COLUMNS];
    for (int32_t n = 0; n < box->axes[SAMPLES].count; n++) {
        for (int32_t channel = 0; channel < job->channels; channel++) {
            const float total = with_bias(job, channel, 0.0f);
            float *row = result + channel * job->blocks.result_channel;
            for (int32_t i = 0; i < box->axes[ROWS].count; i++) {
                float *at = row;
                POET_UNROLL(4)
                for (int32_t j = columns.count; j > 0; j--) {
                    *at = total;
                    at += columns.result_next;
                }
                row += box->axes[ROWS].result_next;
            }
        }
        result += box->axes[SAMPLES].result_next;
    }
}

/* Most of a box in planes, and what they leave. */
APART void sum_by_planes(struct job *job, const struct box *box, const float *source, float *result)
{
    struct box left = *box;
    struct axis *columns = &left.axes[COLUMNS];
    struct axis *rows = &left.axes[ROWS];
    const int32_t width = columns->count;
    const int32_t height = rows->count;
    columns->count = width / 3 * 3;
    rows->count = height / 2 * 2;
    sum_planes(job, &left, source, result);
    if (height % 2 != 0) {
        const int32_t last = rows->count;
        rows->count = 1;
        sum_box(job, &left, source + last * rows->source_next, result + last * rows->result_next);
    }
    if (width % 3 != 0) {
        source += columns->count;
        result += columns->count;
        rows->count = height;
        columns->count = width % 3;
        sum_box(job, &left, source, result);
    }
}

/* The kernel's taps along one axis that meet the source: every `step` of them, from `tap` on. */
struct taps {
    int32_t tap;
    int32_t source;
    int32_t count;
};

/* One axis of the source and of the result. */
struct side {
    int32_t kernel;
    int32_t stride;
    int32_t padding;
    int32_t source_extent;
    int32_t result_extent;
    int32_t apart; /* of positions that may meet the same taps: the stride of the input's gradient, or 1 */
    bool of_input; /* whether the result is the input's gradient */
};

/* Positions whose taps are the same, a side's `apart` from each other. */
struct run {
    struct taps taps;
    int32_t first;
    int32_t count;
    int32_t before; /* of such runs, how many positions there were to begin with */
};

static const struct taps no_taps = {0, 0, 0};

/* The taps that output `position` is made from, and the input element under the first. How many positions
 * behind it have the same: none at the border, where each has its own. */
static int32_t find_taps_of_output(const struct side *side, int32_t position, struct taps *taps)
{
    const int32_t start = position * side->stride - side->padding;
    const int32_t room = side->source_extent - start;
    if (start >= 0 && room >= side->kernel) {
        *taps = (struct taps){0, start, side->kernel};
        return (room - side->kernel) / side->stride;
    }
    const int32_t first = start < 0 ? -start : 0;
    const int32_t end = room < side->kernel ? room : side->kernel;
    *taps = first < end ? (struct taps){first, start + first, end - first} : no_taps;
    return start >= 0 && first >= end ? side->result_extent : 0; /* nor have those behind it any */
}

/* The taps, `stride` apart, that input `position` went through, and the output element that the
 * first led to; those of the next ones lie before it. How many positions behind it have the same. */
static int32_t find_taps_of_input(const struct side *side, int32_t position, struct taps *taps)
{
    const int32_t padded = position + side->padding;
    const int32_t last = padded / side->stride;
    const int32_t output = last < side->source_extent ? last : side->source_extent - 1;
    const int32_t tap = padded - output * side->stride;
    if (tap >= side->kernel) {
        *taps = no_taps;
        return side->result_extent;
    }
    const int32_t most = (side->kernel - tap + side->stride - 1) / side->stride;
    *taps = (struct taps){tap, output, most < output + 1 ? most : output + 1};
    return taps->count == most && output == last ? side->source_extent - 1 - last : 0;
}

/* The run that begins with a position. */
APART void begin_run(const struct side *side, int32_t position, struct run *run)
{
    const int32_t more = side->of_input ? find_taps_of_input(side, position, &run->taps)
                                        : find_taps_of_output(side, position, &run->taps);
    run->first = position;
    run->count = 1;
    if (more > 0) {
        const int32_t left = (side->result_extent - 1 - position) / side->apart;
        run->count += more < left ? more : left;
    }
}

/* Goes on to the next run; false after the last one. Inputs that lie a stride apart meet the same taps: the runs
 * of those go first that begin with input 0, then of those with input 1, ... */
INLINE bool next_run(const struct side *side, struct run *run)
{
    int32_t position = run->first + run->count * side->apart;
    if (position >= side->result_extent) {
        position = ++run->before;
        if (position >= side->apart || position >= side->result_extent) {
            return false;
        }
    }
    begin_run(side, position, run);
    return true;
}

/* One pass over all positions of a result. */
struct pass {
    struct job job;                /* but for what depends on the position: taps, weight, bias */
    struct box box;                /* but for the numbers of columns and rows */
    struct poet_dot_axis taps;     /* of a row of the kernel */
    int32_t channels;              /* of a group of the source */
    struct side rows;
    struct side columns;
    int32_t groups;
};

/* So many taps. With a single one there is nothing to sum per channel: the channels become the columns. */
static void set_taps(struct pass *pass, int32_t rows, int32_t columns)
{
    struct poet_dot *walk = &pass->job.blocks.walk;
    walk->middle.count = rows;
    if (rows == 1 && columns == 1) {
        walk->outer.count = 1;
        walk->inner = walk->outer;
        walk->inner.count = pass->channels;
    } else {
        walk->outer.count = pass->channels;
        walk->inner = pass->taps;
        walk->inner.count = columns;
    }
}

static void sum_groups(struct pass *pass, const struct run *rows, const struct run *columns,
                       const float *source, const float *weight, const float *bias, float *result)
{
    struct job *job = &pass->job;
    struct box *box = &pass->box;
    box->axes[COLUMNS].count = columns->count;
    box->axes[ROWS].count = rows->count;
    set_taps(pass, rows->taps.count, columns->taps.count);
    job->weight = weight + rows->taps.tap * pass->columns.kernel + columns->taps.tap;
    job->blocks.bias = bias;
    source += rows->taps.source * pass->columns.source_extent + columns->taps.source;
    result += rows->first * pass->columns.result_extent + columns->first;
    const int32_t positions = rows->count * columns->count * box->axes[SAMPLES].count;
    const bool nothing = rows->taps.count == 0 || columns->taps.count == 0;
    if (nothing || !POET_HAS_FPU || holds_planes(&job->blocks.walk, box)) {
        job->groups = 1;
        for (int32_t left = pass->groups; left > 0; left--) {
            if (nothing) {
                put_nothing(job, box, result);
            } else if (POET_HAS_FPU) {
                sum_by_planes(job, box, source, result);
            } else if (positions == 1) {
                sum_position(job, source, result);
            } else {
                sum_each(job, box, source, result);
            }
            job->weight += job->weight_group;
            job->blocks.bias += job->bias_group;
            source += job->source_group;
            result += job->result_group;
        }
        return;
    }
    const struct axis *line = &box->axes[SAMPLES];
    while (line->count == 1 && line != box->axes) {
        line--;
    }
    job->groups = pass->groups;
    if (positions == 1) {
        sum_one(job, source, result);
    } else if (positions == line->count) {
        sum_line(job, line, source, result);
    } else {
        sum_box(job, box, source, result);
    }
}

APART void sum_pass(struct pass *pass, const float *source, const float *weight, const float *bias,
                    float *result)
{
    struct job *job = &pass->job;
    job->blocks.fours = POET_HAS_FPU ? job->channels >> 2 : 0;
    job->blocks.bias_next = bias != NULL ? 4 : 0;
    job->bias_next = bias != NULL ? 1 : 0;
    job->bias_group = bias != NULL ? job->channels : 0;
    bias = bias != NULL ? bias : no_bias;
    struct run rows;
    struct run columns;
    rows.before = 0;
    begin_run(&pass->rows, 0, &rows);
    do {
        columns.before = 0;
        begin_run(&pass->columns, 0, &columns);
        do {
            sum_groups(pass, &rows, &columns, source, weight, bias, result);
        } while (next_run(&pass->columns, &columns));
    } while (next_run(&pass->rows, &rows));
}

/* What the two passes are, but for what depends on the position. */
APART void set_forward(const struct poet_conv2d *op, struct pass *pass)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    struct job *job = &pass->job;
    job->blocks.walk.outer = (struct poet_dot_axis){group_in, in_plane, kernel};
    job->blocks.walk.middle = (struct poet_dot_axis){0, op->in_width, op->kernel_width};
    job->blocks.weight_next = group_in * kernel;
    job->blocks.result_channel = out_plane;
    job->channels = group_out;
    job->add_plane = POET_HAS_FPU ? add_plane : NULL;
    pass->taps = (struct poet_dot_axis){0, 1, 1};
    pass->channels = group_in;
    pass->box.axes[COLUMNS] = (struct axis){0, op->stride_width, 1};
    pass->box.axes[ROWS] = (struct axis){0, op->stride_height * op->in_width, op->out_width};
    pass->box.axes[SAMPLES] =
        (struct axis){op->batch, op->in_channels * in_plane, op->out_channels * out_plane};
    pass->rows = (struct side){op->kernel_height, op->stride_height, op->padding_top, op->in_height,
                               op->out_height,    1,                 false};
    pass->columns = (struct side){op->kernel_width, op->stride_width, op->padding_left,
                                  op->in_width,     op->out_width,    1,
                                  false};
    pass->groups = op->groups;
    job->source_group = group_in * in_plane;
    job->weight_group = group_out * group_in * kernel;
    job->result_group = group_out * out_plane;
}

APART void set_backward_input(const struct poet_conv2d *op, struct pass *pass)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    struct job *job = &pass->job;
    job->blocks.walk.outer = (struct poet_dot_axis){group_out, out_plane, group_in * kernel};
    job->blocks.walk.middle =
        (struct poet_dot_axis){0, -op->out_width, op->stride_height * op->kernel_width};
    job->blocks.weight_next = kernel;
    job->blocks.result_channel = in_plane;
    job->channels = group_in;
    job->add_plane = POET_HAS_FPU ? add_plane_backwards : NULL;
    pass->taps = (struct poet_dot_axis){0, -1, op->stride_width};
    pass->channels = group_out;
    pass->box.axes[COLUMNS] = (struct axis){0, 1, op->stride_width};
    pass->box.axes[ROWS] = (struct axis){0, op->out_width, op->stride_height * op->in_width};
    pass->box.axes[SAMPLES] =
        (struct axis){op->batch, op->out_channels * out_plane, op->in_channels * in_plane};
    pass->rows =
        (struct side){op->kernel_height, op->stride_height, op->padding_top,   op->out_height,
                      op->in_height,     op->stride_height, true};
    pass->columns =
        (struct side){op->kernel_width, op->stride_width, op->padding_left,  op->out_width,
                      op->in_width,     op->stride_width, true};
    pass->groups = op->groups;
    job->source_group = group_out * out_plane;
    job->weight_group = group_out * group_in * kernel;
    job->result_group = group_in * in_plane;
}

/* Whether vectors are faster: measured on an x86, where depthwise planes of fewer columns are not worth their beginning.
 * Threads divide what vectors do, and only they sum fused products. */
static bool by_vectors(const struct poet_conv2d *op, int32_t columns)
{
#if POET_HAS_VECTORS
    const bool depthwise = op->groups == op->in_channels && op->groups == op->out_channels;
    return POET_FUSED || poet_parts() > 1 || !depthwise || op->in_width >= columns;
#else
    (void)op, (void)columns;
    return false;
#endif
}

INLINE int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

/* Whether y has a single position, which meets x: there is a box forward, and for dX one for each tap, so none is looked for. */
INLINE bool is_single(const struct poet_conv2d *op)
{
    return POET_BY_STRIPS && op->out_height * op->out_width == 1 &&
           op->padding_top < op->kernel_height && op->padding_left < op->kernel_width;
}

/* All channels at a position of every sample: elements from a sample to the next of source and result. */
INLINE void sum_samples(struct job *job, int32_t samples, int32_t source_next, int32_t result_next,
                        const float *source, float *result)
{
    const struct axis line = {samples, source_next, result_next};
    if (samples == 1) {
        sum_one(job, source, result);
    } else {
        sum_line(job, &line, source, result);
    }
}

APART void sum_single(const struct poet_conv2d *op, const float *x, const float *w, const float *b,
                      float *y)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t rows = least(op->in_height, op->kernel_height - op->padding_top);
    const int32_t columns = least(op->in_width, op->kernel_width - op->padding_left);
    const struct poet_dot_axis channels = {group_in, in_plane, kernel};
    struct job job = {
        .blocks = {.walk = {.outer = channels,
                            .middle = {rows, op->in_width, op->kernel_width},
                            .inner = {columns, 1, 1}},
                   .weight_next = group_in * kernel,
                   .result_channel = 1,
                   .fours = group_out >> 2,
                   .bias = b != NULL ? b : no_bias,
                   .bias_next = b != NULL ? 4 : 0},
        .channels = group_out,
        .bias_next = b != NULL ? 1 : 0,
        .weight = w + op->padding_top * op->kernel_width + op->padding_left,
        .groups = op->groups,
        .source_group = group_in * in_plane,
        .weight_group = group_out * group_in * kernel,
        .bias_group = b != NULL ? group_out : 0,
        .result_group = group_out,
    };
    if ((rows | columns) == 1) {
        job.blocks.walk.outer.count = 1;
        job.blocks.walk.inner = channels;
    }
    sum_samples(&job, op->batch, op->in_channels * in_plane, op->out_channels, x, y);
}

void poet_conv2d_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                             const float *b, float *y)
{
    if (POET_HAS_VECTORS && by_vectors(op, 14)) {
        poet_conv2d_vectors_forward_f32(op, x, w, b, y);
        return;
    }
    if (is_single(op)) {
        sum_single(op, x, w, b, y);
        return;
    }
    struct pass pass;
    set_forward(op, &pass);
    sum_pass(&pass, x, w, b, y);
}

/* Of all samples, at each tap that x meets. What is summed at once are channels, or columns where these are more. */
APART void sum_single_backwards(const struct poet_conv2d *op, const float *w, const float *dy, float *dx)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t rows = least(op->in_height, op->kernel_height - op->padding_top);
    const int32_t columns = least(op->in_width, op->kernel_width - op->padding_left);
    const bool by_columns = columns > group_in;
    const int32_t channels = by_columns ? columns : group_in;
    const int32_t others = by_columns ? group_in : columns;
    const int32_t weight_other = by_columns ? kernel : 1;
    const int32_t result_other = by_columns ? in_plane : 1;
    struct job job; /* member by member: an initializer fills it with zeros first */
    job.blocks.walk = (struct poet_dot){{1, 0, 0}, {1, 0, 0}, {group_out, 1, group_in * kernel}};
    job.blocks.weight_next = by_columns ? 1 : kernel;
    job.blocks.result_channel = by_columns ? 1 : in_plane;
    job.blocks.fours = channels >> 2;
    job.blocks.bias = no_bias;
    job.blocks.bias_next = 0;
    job.channels = channels;
    job.bias_next = 0;
    job.groups = op->groups;
    job.source_group = group_out;
    job.weight_group = group_out * group_in * kernel;
    job.bias_group = 0;
    job.result_group = group_in * in_plane;
    const int32_t all = op->batch * op->in_channels * in_plane;
    for (int32_t i = 0; rows * columns < in_plane && i < all; i++) {
        dx[i] = 0.0f; /* what no tap meets stays so */
    }
    w += op->padding_top * op->kernel_width + op->padding_left;
    for (int32_t row = 0; row < rows; row++) {
        for (int32_t other = 0; other < others; other++) {
            job.weight = w + other * weight_other;
            sum_samples(&job, op->batch, op->out_channels, op->in_channels * in_plane, dy,
                        dx + other * result_other);
        }
        w += op->kernel_width;
        dx += op->in_width;
    }
}

void poet_conv2d_backward_input_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                    float *dx)
{
    if (POET_HAS_VECTORS && by_vectors(op, 12)) {
        poet_conv2d_vectors_backward_input_f32(op, w, dy, dx);
        return;
    }
    if (is_single(op)) {
        sum_single_backwards(op, w, dy, dx);
        return;
    }
    struct pass pass;
    set_backward_input(op, &pass);
    sum_pass(&pass, dy, w, NULL, dx);
}

/* dw of one tap: x and dy point at its first position, in one input and one output channel. */
APART float sum_tap(const struct poet_conv2d *op, int32_t rows, int32_t columns, const float *x,
                     const float *dy)
{
    const int32_t x_row = op->stride_height * op->in_width;
    const int32_t x_sample = op->in_channels * op->in_height * op->in_width;
    const int32_t dy_sample = op->out_channels * op->out_height * op->out_width;
    const int32_t stride = op->stride_width;
    if (!POET_HAS_FPU) {
        const struct poet_dot dot = {
            .outer = {op->batch, x_sample, dy_sample},
            .middle = {rows, x_row, op->out_width},
            .inner = {columns, stride, 1},
        };
        return poet_dot_f32(&dot, columns, x, dy);
    }
    float total = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        const float *source_row = x;
        const float *row = dy;
        for (int32_t i = 0; i < rows; i++) {
            const float *s = source_row;
            float sum = 0.0f;
            for (int32_t j = 0; j < columns; j++) {
                sum += *s * row[j];
                s += stride;
            }
            total += sum;
            source_row += x_row;
            row += op->out_width;
        }
        x += x_sample;
        dy += dy_sample;
    }
    return total;
}

/* Neighbouring taps, from `first` on; how many they are. */
static int32_t set_run(const struct poet_conv2d *op, int32_t first, struct poet_tap taps[POET_TAPS])
{
    const int32_t row = op->stride_height * op->in_width;
    const int32_t in_sample = op->in_channels * op->in_height * op->in_width;
    const int32_t out_sample = op->out_channels * op->out_height * op->out_width;
    const int32_t left = op->kernel_height * op->kernel_width - first;
    const int32_t count = left < POET_TAPS ? left : POET_TAPS;
    int32_t u = first / op->kernel_width;
    int32_t v = first % op->kernel_width;
    struct poet_positions rows = {0, 0, 0};
    for (int32_t i = 0; i < count; i++) {
        if (i == 0 || v == 0) {
            rows = poet_positions_of_tap(u++, op->stride_height, op->padding_top, op->in_height,
                                         op->out_height);
        }
        const struct poet_positions columns = poet_positions_of_tap(
            v, op->stride_width, op->padding_left, op->in_width, op->out_width);
        taps[i] = (struct poet_tap){
            .x_next = in_sample - rows.count * row,
            .x_first = rows.source * op->in_width + columns.source,
            .dy_first = rows.output * op->out_width + columns.output,
            .x_row = row - columns.count * op->stride_width,
            .dy_row = op->out_width - columns.count,
            .columns = columns.count,
            .dy_next = out_sample - rows.count * op->out_width,
            .rows = columns.count > 0 ? rows.count : 0,
        };
        v = v + 1 < op->kernel_width ? v + 1 : 0;
    }
    return count;
}

/* dw of a run of taps, from weight `first` on, of one group: of pairs of input channels, for output channels by fours, of
 * which the last may make some again, or one by one where they are fewer. */
static void sum_run_by_lines(const struct poet_conv2d *op, struct poet_lines *at, const float *x,
                             const float *dy, const struct poet_gradient_sink *dw, int32_t first)
{
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t outputs = POET_CONV2D_OUTPUTS % 4 == 0 || group_out >= 4 ? 4 : 1;
    for (int32_t out = 0; out < group_out; out += outputs) {
        const int32_t begin = out + outputs <= group_out ? out : group_out - outputs;
        at->dy = dy + begin * at->dy_other;
        for (int32_t c = 0; c < group_in; c += 2) {
            const int32_t inputs = c + 1 < group_in ? 2 : 1;
            float totals[8][POET_TAPS];
            float(*sums)[POET_TAPS] = totals + (out - begin) * inputs; /* that are not there already */
            at->x = x + c * at->x_other;
            if (outputs == 1) {
                (inputs == 2 ? poet_conv2d_single_pair_lines_f32 : poet_conv2d_single_lines_f32)(
                    at, totals);
            } else {
                (inputs == 2 ? poet_conv2d_pair_lines_f32 : poet_conv2d_lines_f32)(at, totals);
            }
            for (int32_t o = out; o < begin + outputs; o++) {
                const int32_t weight = first + (o * group_in + c) * kernel;
                poet_gradient_sink_put_few_f32(dw, weight, at->count, *sums++);
                if (inputs == 2) {
                    poet_gradient_sink_put_few_f32(dw, weight + kernel, at->count, *sums++);
                }
            }
        }
    }
}

/* The same one by one, on cores without strips. */
static void sum_run(const struct poet_conv2d *op, const struct poet_lines *at, const float *x,
                    const float *dy, const struct poet_gradient_sink *dw, int32_t first)
{
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    for (int32_t o = 0; o < group_out; o++) {
        for (int32_t c = 0; c < group_in; c++) {
            float totals[POET_TAPS];
            for (int32_t i = 0; i < at->count; i++) {
                const struct poet_tap *tap = &at->taps[i];
                totals[i] = tap->rows == 0 ? 0.0f
                                           : sum_tap(op, tap->rows, tap->columns,
                                                     x + c * at->x_other + tap->x_first,
                                                     dy + o * at->dy_other + tap->dy_first);
            }
            poet_gradient_sink_put_few_f32(dw, first + (o * group_in + c) * kernel, at->count,
                                           totals);
        }
    }
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    if (POET_HAS_VECTORS && by_vectors(op, 5)) {
        poet_conv2d_vectors_backward_weight_f32(op, x, dy, dw);
        return;
    }
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    struct poet_tap taps[POET_TAPS];
    struct poet_lines at = {
        .x_other = op->in_height * op->in_width,
        .dy_other = op->out_height * op->out_width,
        .samples = op->batch,
        .stride = op->stride_width,
        .taps = taps,
    };
    for (int32_t first = 0; first < kernel; first += at.count) {
        at.count = set_run(op, first, taps);
        for (int32_t group = 0; group < op->groups; group++) {
            const float *source = x + group * group_in * at.x_other;
            const float *gradient = dy + group * group_out * at.dy_other;
            const int32_t weight = first + group * group_out * group_in * kernel;
            if (POET_BY_STRIPS) {
                sum_run_by_lines(op, &at, source, gradient, dw, weight);
            } else {
                sum_run(op, &at, source, gradient, dw, weight);
            }
        }
    }
}

void poet_conv2d_backward_weight_f32(const struct poet_conv2d *op, const float *x, const float *dy,
                                     float *dw)
{
    const struct poet_gradient_sink sink = {.gradient = dw};
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                            const float *dy, const struct poet_update *update,
                                            const float *pace, float *w, float *first,
                                            float *second, float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_taps(op, x, dy, &sink);
}

void poet_conv2d_backward_bias_f32(const struct poet_conv2d_bias *op, const float *dy, float *db)
{
    const int32_t plane = op->height * op->width;
    for (int32_t channel = 0; channel < op->channels; channel++) {
        float total = 0.0f;
        for (int32_t n = 0; n < op->batch; n++) {
            const float *row = dy + (n * op->channels + channel) * plane;
            for (int32_t i = 0; i < op->height; i++) {
                float sum = 0.0f;
                for (int32_t j = 0; j < op->width; j++) {
                    sum += row[j];
                }
                total += sum;
                row += op->width;
            }
        }
        db[channel] = total;
    }
}
