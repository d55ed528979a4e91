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

/* The kernel's taps along one axis that meet the source: every `step` of them, from `tap` on. */
struct taps {
    int32_t tap;
    int32_t source;
    int32_t count;
};

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

/* Four such sums at once, `next` weights apart: each source element is loaded once. */
APART void sum_products_4(const struct poet_dot *walk, const float *source, const float *weight,
                          int32_t next, float totals[4])
{
    const int32_t source_column = walk->inner.a_next;
    const int32_t weight_column = walk->inner.b_next;
    float total0 = 0.0f;
    float total1 = 0.0f;
    float total2 = 0.0f;
    float total3 = 0.0f;
    int32_t channels = walk->outer.count;
    do {
        const float *source_row = source;
        const float *weight_row = weight;
        float sum0 = 0.0f;
        float sum1 = 0.0f;
        float sum2 = 0.0f;
        float sum3 = 0.0f;
        int32_t rows = walk->middle.count;
        do {
            const float *s = source_row;
            const float *w0 = weight_row;
            const float *w1 = w0 + next;
            const float *w2 = w1 + next;
            const float *w3 = w2 + next;
            int32_t columns = walk->inner.count;
            do {
                const float value = *s;
                sum0 += value * *w0;
                sum1 += value * *w1;
                sum2 += value * *w2;
                sum3 += value * *w3;
                s += source_column;
                w0 += weight_column;
                w1 += weight_column;
                w2 += weight_column;
                w3 += weight_column;
            } while (--columns > 0);
            source_row += walk->middle.a_next;
            weight_row += walk->middle.b_next;
        } while (--rows > 0);
        total0 += sum0;
        total1 += sum1;
        total2 += sum2;
        total3 += sum3;
        source += walk->outer.a_next;
        weight += walk->outer.b_next;
    } while (--channels > 0);
    totals[0] = total0;
    totals[1] = total1;
    totals[2] = total2;
    totals[3] = total3;
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
    struct poet_dot walk;
    int32_t channels;
    int32_t weight_next; /* elements to the next channel */
    int32_t result_channel;
    plane_kernel *add_plane; /* for a 3x3 kernel that moves by 1 */
    const float *weight;
    const float *bias; /* NULL for none */
};

/* Positions in a line, that are alike. */
struct axis {
    int32_t count;
    int32_t source_next; /* elements to the next position */
    int32_t result_next;
};

/* A walk with the roles exchanged, to sum over four sources at once: a product's factors commute, so
 * the bits stay the same. */
static struct poet_dot exchanged(const struct poet_dot *walk)
{
    const struct poet_dot other = {
        .outer = {walk->outer.count, walk->outer.b_next, walk->outer.a_next},
        .middle = {walk->middle.count, walk->middle.b_next, walk->middle.a_next},
        .inner = {walk->inner.count, walk->inner.b_next, walk->inner.a_next},
    };
    return other;
}

/* What to add to a total: its bias, or the number that changes no float. */
static float bias_of(const float *bias, int32_t channel)
{
    return bias != NULL ? bias[channel] : -0.0f;
}

INLINE void put_4(float *result, int32_t next, float shift, float a, float b, float c, float d)
{
    result[0] = a + shift;
    result[next] = b + shift;
    result[2 * next] = c + shift;
    result[3 * next] = d + shift;
}

/* How all channels are summed at four positions: in blocks of four channels, and those left by the exchanged walk. */
struct fours {
    struct poet_blocks blocks;
    struct poet_dot other;
};

static void set_fours(const struct job *job, const struct axis *line, struct fours *fours)
{
    static const float no_bias[4] = {-0.0f, -0.0f, -0.0f, -0.0f};
    struct poet_blocks *blocks = &fours->blocks;
    blocks->source_next = line->source_next;
    blocks->result_next = line->result_next;
    blocks->fours = job->channels / 4;
    if (blocks->fours > 0) {
        blocks->walk = job->walk;
        blocks->weight_next = job->weight_next;
        blocks->result_channel = job->result_channel;
        blocks->bias = job->bias != NULL ? job->bias : no_bias;
        blocks->bias_next = job->bias != NULL ? 4 : 0;
    }
    if (POET_CONV2D_SUMS % 4 != 0 && job->channels % 4 != 0) {
        fours->other = exchanged(&job->walk);
    }
}

/* All channels at four positions. */
APART void sum_four(const struct job *job, const struct fours *fours, const float *source,
                    float *result)
{
    const struct poet_blocks *blocks = &fours->blocks;
    int32_t channel = 4 * blocks->fours;
    if (channel > 0) {
        poet_conv2d_blocks_f32(blocks, source, job->weight, result);
    }
    for (; POET_CONV2D_SUMS % 4 != 0 && channel < job->channels; channel++) {
        float totals[4];
        sum_products_4(&fours->other, job->weight + channel * job->weight_next, source,
                       blocks->source_next, totals);
        put_4(result + channel * job->result_channel, blocks->result_next,
              bias_of(job->bias, channel), totals[0], totals[1], totals[2], totals[3]);
    }
}

/* All channels at one position. */
APART void sum_one(const struct job *job, const float *source, float *result)
{
    const float *weight = job->weight;
    int32_t channel = 0;
    for (; POET_HAS_FPU && channel + 4 <= job->channels; channel += 4) {
        float totals[4];
        sum_products_4(&job->walk, source, weight, job->weight_next, totals);
        for (int32_t lane = 0; lane < 4; lane++) {
            *result = totals[lane] + bias_of(job->bias, channel + lane);
            result += job->result_channel;
        }
        weight += 4 * job->weight_next;
    }
    for (; (!POET_HAS_FPU || POET_CONV2D_SUMS % 4 != 0) && channel < job->channels; channel++) {
        *result = sum_products(&job->walk, source, weight) + bias_of(job->bias, channel);
        result += job->result_channel;
        weight += job->weight_next;
    }
}

/* Positions of the same taps: columns, rows and samples. */
enum { COLUMNS, ROWS, SAMPLES, AXES };

struct box {
    struct axis axes[AXES];
};

/* One position after the other. */
static void sum_each(const struct job *job, const struct box *box, const float *source, float *result)
{
    for (int32_t n = 0; n < box->axes[SAMPLES].count; n++) {
        for (int32_t i = 0; i < box->axes[ROWS].count; i++) {
            const float *s = source + i * box->axes[ROWS].source_next;
            float *r = result + i * box->axes[ROWS].result_next;
            for (int32_t j = 0; j < box->axes[COLUMNS].count; j++) {
                sum_one(job, s, r);
                s += box->axes[COLUMNS].source_next;
                r += box->axes[COLUMNS].result_next;
            }
        }
        source += box->axes[SAMPLES].source_next;
        result += box->axes[SAMPLES].result_next;
    }
}

/* A line of positions by fours, and from `whole` on one by one. */
INLINE void sum_line(const struct job *job, const struct fours *fours, const struct axis *line,
                     int32_t whole, int32_t end, const float *source, float *result)
{
    int32_t at = 0;
    for (; at < whole; at += 4) {
        sum_four(job, fours, source, result);
        source += 4 * line->source_next;
        result += 4 * line->result_next;
    }
    for (; at < end; at++) {
        sum_one(job, source, result);
        source += line->source_next;
        result += line->result_next;
    }
}

/* One position of all samples. */
APART void sum_samples(const struct job *job, const struct axis *samples, const float *source,
                       float *result)
{
    struct fours fours;
    if (samples->count >= 4) {
        set_fours(job, samples, &fours);
    }
    sum_line(job, &fours, samples, samples->count & ~3, samples->count, source, result);
}

/* Lines of a multiple of four along the axis with most positions, of what is left along the next, and of that along the
 * last, of which some are left to be summed one by one. */
APART void sum_box(const struct job *job, const struct box *box, const float *source,
                   float *result)
{
    struct box left = *box;
    struct fours fours;
    int32_t along = left.axes[ROWS].count > left.axes[COLUMNS].count ? ROWS : COLUMNS;
    along = left.axes[SAMPLES].count > left.axes[along].count ? SAMPLES : along;
    set_fours(job, &left.axes[along], &fours);
    for (int32_t last = AXES - 1; last >= 0; last--) {
        struct axis *line = &left.axes[along];
        const int32_t next = along + 1 < AXES ? along + 1 : 0;
        const struct axis *second = &left.axes[next];
        const struct axis *third = &left.axes[AXES - along - next];
        const int32_t whole = line->count & ~3;
        const int32_t end = last == 0 ? line->count : whole;
        fours.blocks.source_next = line->source_next;
        fours.blocks.result_next = line->result_next;
        for (int32_t i = 0; end > 0 && i < second->count; i++) {
            const float *s = source + i * second->source_next;
            float *r = result + i * second->result_next;
            for (int32_t j = 0; j < third->count; j++) {
                sum_line(job, &fours, line, whole, end, s, r);
                s += third->source_next;
                r += third->result_next;
            }
        }
        if (line->count == whole) {
            break;
        }
        source += whole * line->source_next;
        result += whole * line->result_next;
        line->count -= whole;
        along = next;
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
    const int32_t step = job->walk.inner.a_next;
    const struct plane plane = {rows->count / 2, columns->count / 3, job->walk.middle.a_next,
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
            for (int32_t c = 0; c < job->walk.outer.count; c++) {
                job->add_plane(&plane, s, w, to);
                s += job->walk.outer.a_next;
                w += job->walk.outer.b_next;
            }
            for (int32_t i = 0; job->bias != NULL && i < rows->count; i++) {
                for (int32_t j = 0; j < columns->count; j++) {
                    to[i * plane.result_row + j] += job->bias[channel];
                }
            }
            weight += job->weight_next;
            to += job->result_channel;
        }
        source += samples->source_next;
        result += samples->result_next;
    }
}

/* Whether a box is of a 3x3 kernel that moves by one element, and has room for a plane. */
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
            const float total = 0.0f + bias_of(job->bias, channel);
            float *row = result + channel * job->result_channel;
            for (int32_t i = 0; i < box->axes[ROWS].count; i++) {
                float *at = row;
                _Pragma("GCC unroll 4")
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
APART void sum_by_planes(const struct job *job, const struct box *box, const float *source,
                         float *result)
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

/* So many taps. With a single one there is nothing to sum per channel: the channels become the columns. */
static void set_taps(struct poet_dot *walk, int32_t rows, int32_t columns)
{
    walk->middle.count = rows;
    walk->inner.count = columns;
    if (rows == 1 && columns == 1) {
        walk->inner = walk->outer;
        walk->outer.count = 1;
    }
}

static const struct taps no_taps = {0, 0, 0};

/* The taps that output `position` is made from, and the input element under the first. */
static struct taps taps_of_output(int32_t position, int32_t kernel, int32_t stride, int32_t padding,
                                  int32_t in_extent)
{
    const int32_t start = position * stride - padding;
    const int32_t first = start < 0 ? -start : 0;
    const int32_t end = start + kernel > in_extent ? in_extent - start : kernel;
    const struct taps taps = {first, start + first, end - first};
    return first < end ? taps : no_taps;
}

/* The taps, `stride` apart, that input `position` went through, and the output element that the
 * first led to; those of the next ones lie before it. */
static struct taps taps_of_input(int32_t position, int32_t kernel, int32_t stride, int32_t padding,
                                 int32_t out_extent)
{
    const int32_t padded = position + padding;
    const int32_t last = padded / stride;
    const int32_t output = last < out_extent ? last : out_extent - 1;
    const int32_t tap = padded - output * stride;
    const int32_t left = (kernel - tap + stride - 1) / stride;
    const struct taps taps = {tap, output, left < output + 1 ? left : output + 1};
    return tap < kernel ? taps : no_taps;
}

/* One axis of the source and of the result. */
struct side {
    int32_t kernel;
    int32_t stride;
    int32_t padding;
    int32_t source_extent;
    int32_t result_extent;
    bool of_input; /* whether the result is the input's gradient */
};

static struct taps taps_at(const struct side *side, int32_t position)
{
    return side->of_input ? taps_of_input(position, side->kernel, side->stride, side->padding,
                                          side->source_extent)
                          : taps_of_output(position, side->kernel, side->stride, side->padding,
                                           side->source_extent);
}

/* Positions from `first` on whose taps are the same, `next` apart. */
struct run {
    struct taps taps;
    int32_t first;
    int32_t next;
    int32_t count;
};

static const struct run before_all = {{0, 0, 0}, 0, 0, 0};

/* Positions behind one whose taps are the same: none at the border, where each has its own. */
static int32_t like(const struct side *side, int32_t position, const struct taps *taps)
{
    if (!side->of_input) {
        return taps->count == side->kernel
                   ? (side->source_extent - side->kernel - taps->source) / side->stride
                   : 0;
    }
    const int32_t last = (position + side->padding) / side->stride;
    const int32_t most = (side->kernel - taps->tap + side->stride - 1) / side->stride;
    return taps->count == most && taps->source == last ? side->source_extent - 1 - last : 0;
}

/* Goes on to the next run; false after the last one. Inputs that lie a stride apart meet the same taps: the runs
 * of those go first that begin with input 0, then of those with input 1, ... */
static bool next_run(const struct side *side, struct run *run)
{
    const int32_t apart = side->of_input ? side->stride : 1;
    int32_t position = run->first + run->count * run->next;
    if (position >= side->result_extent) {
        position = position % apart + 1;
        if (position >= apart || position >= side->result_extent) {
            return false;
        }
    }
    run->taps = taps_at(side, position);
    run->first = position;
    run->next = apart;
    const int32_t more = like(side, position, &run->taps);
    const int32_t left = more > 0 ? (side->result_extent - 1 - position) / apart : 0;
    run->count = 1 + (more < left ? more : left);
    return true;
}

/* One pass over all positions of a result. */
struct pass {
    struct job job;       /* what depends on the position is set there: taps, weight, bias */
    struct poet_dot walk; /* without the numbers of taps */
    struct axis samples;
    struct side rows;
    struct side columns;
    int32_t source_width;
    int32_t result_width;
    int32_t kernel_width;
    int32_t groups;
    int32_t source_group; /* elements to the next group */
    int32_t weight_group;
    int32_t result_group;
};

static void sum_groups(struct pass *pass, const struct run *rows, const struct run *columns,
                       const float *source, const float *weight, const float *bias, float *result)
{
    const int32_t row_stride = pass->rows.of_input ? 1 : pass->rows.stride;
    const int32_t column_stride = pass->columns.of_input ? 1 : pass->columns.stride;
    struct job *job = &pass->job;
    const struct box box = {{
        {columns->count, column_stride, columns->next},
        {rows->count, row_stride * pass->source_width, rows->next * pass->result_width},
        pass->samples,
    }};
    const int32_t positions = columns->count * rows->count;
    job->walk = pass->walk;
    set_taps(&job->walk, rows->taps.count, columns->taps.count);
    job->weight = weight + rows->taps.tap * pass->kernel_width + columns->taps.tap;
    job->bias = bias;
    source += rows->taps.source * pass->source_width + columns->taps.source;
    result += rows->first * pass->result_width + columns->first;
    const bool planes = holds_planes(&job->walk, &box);
    for (int32_t group = 0; group < pass->groups; group++) {
        if (rows->taps.count == 0 || columns->taps.count == 0) {
            put_nothing(job, &box, result);
        } else if (positions * pass->samples.count == 1) {
            sum_one(job, source, result);
        } else if (!POET_HAS_FPU || positions * pass->samples.count < 4) {
            sum_each(job, &box, source, result);
        } else if (positions == 1) {
            sum_samples(job, &pass->samples, source, result);
        } else if (planes) {
            sum_by_planes(job, &box, source, result);
        } else {
            sum_box(job, &box, source, result);
        }
        source += pass->source_group;
        result += pass->result_group;
        job->weight += pass->weight_group;
        job->bias = bias != NULL ? job->bias + job->channels : NULL;
    }
}

APART void sum_pass(struct pass *pass, const float *source, const float *weight, const float *bias,
                    float *result)
{
    struct run rows = before_all;
    while (next_run(&pass->rows, &rows)) {
        struct run columns = before_all;
        while (next_run(&pass->columns, &columns)) {
            sum_groups(pass, &rows, &columns, source, weight, bias, result);
        }
    }
}

/* What the two passes are, but for what depends on the position. */
static void set_forward(const struct poet_conv2d *op, struct pass *pass)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    pass->job.channels = group_out;
    pass->job.weight_next = group_in * kernel;
    pass->job.result_channel = out_plane;
    pass->job.add_plane = POET_HAS_FPU ? add_plane : NULL;
    pass->walk.outer = (struct poet_dot_axis){group_in, in_plane, kernel};
    pass->walk.middle = (struct poet_dot_axis){0, op->in_width, op->kernel_width};
    pass->walk.inner = (struct poet_dot_axis){0, 1, 1};
    pass->samples =
        (struct axis){op->batch, op->in_channels * in_plane, op->out_channels * out_plane};
    pass->rows = (struct side){op->kernel_height, op->stride_height, op->padding_top,
                               op->in_height,     op->out_height,   false};
    pass->columns = (struct side){op->kernel_width, op->stride_width, op->padding_left,
                                  op->in_width,     op->out_width,   false};
    pass->source_width = op->in_width;
    pass->result_width = op->out_width;
    pass->kernel_width = op->kernel_width;
    pass->groups = op->groups;
    pass->source_group = group_in * in_plane;
    pass->weight_group = group_out * group_in * kernel;
    pass->result_group = group_out * out_plane;
}

static void set_backward_input(const struct poet_conv2d *op, struct pass *pass)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    pass->job.channels = group_in;
    pass->job.weight_next = kernel;
    pass->job.result_channel = in_plane;
    pass->job.add_plane = POET_HAS_FPU ? add_plane_backwards : NULL;
    pass->walk.outer = (struct poet_dot_axis){group_out, out_plane, group_in * kernel};
    pass->walk.middle =
        (struct poet_dot_axis){0, -op->out_width, op->stride_height * op->kernel_width};
    pass->walk.inner = (struct poet_dot_axis){0, -1, op->stride_width};
    pass->samples =
        (struct axis){op->batch, op->out_channels * out_plane, op->in_channels * in_plane};
    pass->rows = (struct side){op->kernel_height, op->stride_height, op->padding_top,
                               op->out_height,     op->in_height,    true};
    pass->columns = (struct side){op->kernel_width, op->stride_width, op->padding_left,
                                  op->out_width,     op->in_width,    true};
    pass->source_width = op->out_width;
    pass->result_width = op->in_width;
    pass->kernel_width = op->kernel_width;
    pass->groups = op->groups;
    pass->source_group = group_out * out_plane;
    pass->weight_group = group_out * group_in * kernel;
    pass->result_group = group_in * in_plane;
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

void poet_conv2d_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                             const float *b, float *y)
{
    if (POET_HAS_VECTORS && by_vectors(op, 14)) {
        poet_conv2d_vectors_forward_f32(op, x, w, b, y);
        return;
    }
    struct pass pass;
    set_forward(op, &pass);
    sum_pass(&pass, x, w, b, y);
}

void poet_conv2d_backward_input_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                    float *dx)
{
    if (POET_HAS_VECTORS && by_vectors(op, 12)) {
        poet_conv2d_vectors_backward_input_f32(op, w, dy, dx);
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
            .strips = columns.count >> 2,
            .dy_next = out_sample - rows.count * op->out_width,
            .left = columns.count & 3,
            .rows = columns.count > 0 ? rows.count : 0,
        };
        v = v + 1 < op->kernel_width ? v + 1 : 0;
    }
    return count;
}

static void put_run(const struct poet_gradient_sink *dw, int32_t index, int32_t count,
                    const float *elements)
{
    if (dw->gradient == NULL) {
        poet_gradient_sink_put_run_f32(dw, index, count, elements);
        return;
    }
    float *to = dw->gradient + index;
    for (int32_t i = 0; i < count; i++) {
        to[i] = elements[i];
    }
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
                for (int32_t in = 0; in < inputs; in++) {
                    put_run(dw, weight + in * kernel, at->count, *sums++);
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
                                           : sum_tap(op, tap->rows,
                                                     POET_STRIP * tap->strips + tap->left,
                                                     x + c * at->x_other + tap->x_first,
                                                     dy + o * at->dy_other + tap->dy_first);
            }
            put_run(dw, first + (o * group_in + c) * kernel, at->count, totals);
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
