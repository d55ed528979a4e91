/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_vectors.h"

#include <stdbool.h>
#include <stddef.h>

#include "conv2d_positions.h"
#include "dot.h"
#include "panel.h"
#include "parts.h"
#include "product.h"
#include "unroll.h"

#if POET_HAS_VECTORS

/* Sums are a panel's (panel.h) where several channels of a result share their source. Forward and backward-input are
 * one: lanes are positions, rows are channels of the result, and k are the taps of all channels of the source. For dw,
 * rows are output channels, lanes are taps of input channels, and k are positions.
 *
 * Where there are few, one in each group (depthwise) or up to three, a vector has neighbouring columns; dw of one output
 * channel is summed one by one.
 *
 * Taps of padding are gathered as zeros, which leave the bits of every sum of finite numbers as they are: a sum that is
 * NaN is taken again without, from what it began with. */

/* Compiled into its callers, where some of its arguments are constants. */
#define INLINE static inline __attribute__((always_inline))

static int32_t least(int32_t a, int32_t b)
{
    return a < b ? a : b;
}

static int32_t most(int32_t a, int32_t b)
{
    return a > b ? a : b;
}

/* One axis of the results whose taps lie the same, those of padding among them. Result position p is element
 * first + p * next, and its tap t meets element source + p * source_next + t * tap_source of the source. */
struct line {
    int32_t first;
    int32_t next;
    int32_t count;
    int32_t tap;
    int32_t tap_next;
    int32_t taps;
    int32_t source;
    int32_t source_next;
    int32_t tap_source;
};

/* Of an output there is one line; inputs that lie a stride apart are one. */
static int32_t lines_of(const struct poet_conv2d_pass *pass, const struct poet_conv2d_side *side)
{
    return pass->of_input ? least(side->stride, side->result_extent) : 1;
}

static struct line line_of(const struct poet_conv2d_pass *pass, const struct poet_conv2d_side *side, int32_t first)
{
    const int32_t stride = side->stride;
    const int32_t padded = first + side->padding;
    const int32_t tap = padded % stride;
    const struct line forward = {0, 1, side->result_extent, 0, 1, side->kernel, -side->padding, stride, 1};
    const struct line backward = {
        .first = first,
        .next = stride,
        .count = (side->result_extent - first + stride - 1) / stride,
        .tap = tap,
        .tap_next = stride,
        .taps = tap < side->kernel ? (side->kernel - tap + stride - 1) / stride : 0,
        .source = padded / stride,
        .source_next = 1,
        .tap_source = -1,
    };
    return pass->of_input ? backward : forward;
}

/* Taps of a line that meet the source, from tap `first` up to `end`. */
struct met {
    int32_t first;
    int32_t end;
};

static struct met taps_met(const struct line *line, int32_t position, int32_t extent)
{
    const int32_t source = line->source + position * line->source_next;
    const struct met forward = {most(0, -source), least(line->taps, extent - source)};
    const struct met backward = {most(0, source - extent + 1), least(line->taps, source + 1)};
    return line->tap_source > 0 ? forward : backward;
}

/* Lanes are positions. */
struct by_position {
    const struct poet_conv2d_pass *pass;
    struct line rows;
    struct line columns;
    const float *source;
    const float *weight;
    const float *bias;
    float *result;
};

/* Where some lanes are, that are adjacent. */
struct position {
    int32_t sample;
    int32_t row;
    int32_t column;
    int32_t count;
};

static struct position position_of(const struct by_position *by, int32_t lane, int32_t lanes)
{
    const int32_t columns = by->columns.count;
    const int32_t column = lane % columns;
    const int32_t row = lane / columns;
    const struct position position = {row / by->rows.count, row % by->rows.count, column,
                                      least(lanes, columns - column)};
    return position;
}

/* Weights from a channel's first to a tap. */
static int32_t place_of(const struct by_position *by, int32_t row_tap, int32_t column_tap)
{
    return (by->rows.tap + row_tap * by->rows.tap_next) * by->pass->columns.kernel +
           by->columns.tap + column_tap * by->columns.tap_next;
}

/* What to add to a total: its bias, or the number that changes no float. */
static float bias_of(const float *bias, int32_t channel)
{
    return bias != NULL ? bias[channel] : -0.0f;
}

/* A channel's sum at one position, without padding; `result` is what is there. */
static float sum_at(const struct by_position *by, int32_t channel, const struct position *at, float result)
{
    const struct poet_conv2d_pass *pass = by->pass;
    const int32_t width = pass->columns.source_extent;
    const struct met rows = taps_met(&by->rows, at->row, pass->rows.source_extent);
    const struct met columns = taps_met(&by->columns, at->column, width);
    const int32_t some = pass->continued ? 1 : pass->source_channels; /* at a time */
    const bool one_sum = by->rows.taps * by->columns.taps == 1;
    const int32_t row = by->rows.source + at->row * by->rows.source_next + rows.first * by->rows.tap_source;
    const int32_t column =
        by->columns.source + at->column * by->columns.source_next + columns.first * by->columns.tap_source;
    const int32_t met = (rows.end - rows.first) * (columns.end - columns.first);
    const struct poet_dot dot = {
        .outer = {some, pass->source_plane, pass->weight_source_next},
        .middle = {rows.end - rows.first, by->rows.tap_source * width,
                   by->rows.tap_next * pass->columns.kernel},
        .inner = {columns.end - columns.first, by->columns.tap_source, by->columns.tap_next},
    };
    float total = pass->continued ? result : 0.0f;
    if (rows.first >= rows.end || columns.first >= columns.end) {
        return total;
    }
    const float *source = by->source + at->sample * pass->groups * pass->source_channels * pass->source_plane +
                          row * width + column;
    const float *weight = by->weight + channel * pass->weight_next + place_of(by, rows.first, columns.first);
    for (int32_t done = 0; done < pass->source_channels; done += some) {
        total += poet_dot_f32(&dot, one_sum ? some : met, source, weight);
        source += pass->source_plane;
        weight += pass->weight_source_next;
    }
    return total;
}

INLINE void copy(float *to, const float *from, int32_t next, int32_t count)
{
    if (next == 1) {
        for (; count >= 4; count -= 4) {
            poet_store(to, poet_load(from));
            to += 4;
            from += 4;
        }
    }
    for (; count > 0; count--) {
        *to++ = *from;
        from += next;
    }
}

/* One tap of some channels for adjacent lanes: the source where the tap meets it, else 0. */
static void pack_tap(const struct by_position *by, const struct position *at, int32_t row_tap, int32_t column_tap,
                     int32_t channels, const float *source, int32_t taps, float *lanes)
{
    const struct poet_conv2d_pass *pass = by->pass;
    const int32_t next = by->columns.source_next;
    const int32_t row = by->rows.source + at->row * by->rows.source_next + row_tap * by->rows.tap_source;
    const int32_t column = by->columns.source + at->column * next + column_tap * by->columns.tap_source;
    const int32_t extent = pass->columns.source_extent;
    const int32_t plane = pass->source_plane;
    int32_t before = least(column < 0 ? (next - 1 - column) / next : 0, at->count);
    int32_t end = least(column < extent ? (extent - column + next - 1) / next : 0, at->count);
    if (row < 0 || row >= pass->rows.source_extent || before >= end) {
        before = at->count;
        end = at->count;
    } else {
        source += at->sample * pass->groups * pass->source_channels * plane + row * extent + column + before * next;
    }
    for (; channels > 0; channels--) {
        for (int32_t i = 0; i < before; i++) {
            lanes[i] = 0.0f;
        }
        if (next == 1 && end - before == POET_LANES) {
            copy(lanes, source, 1, POET_LANES);
        } else if (before < end) {
            copy(lanes + before, source, next, end - before);
        }
        for (int32_t i = end; i < at->count; i++) {
            lanes[i] = 0.0f;
        }
        source += before < end ? plane : 0;
        lanes += taps * POET_LANES;
    }
}

/* All taps of some channels, or some of one. */
static void pack_positions(const void *context, int32_t lane, int32_t lanes, int32_t k, int32_t count,
                           int32_t *places, float (*panel)[POET_LANES])
{
    const struct by_position *by = context;
    const int32_t taps = by->rows.taps * by->columns.taps;
    const int32_t some = least(taps, count);
    const int32_t channels = count / some;
    const int32_t channel = k / taps;
    const int32_t first = k % taps;
    const float *source = by->source + channel * by->pass->source_plane;
    for (int32_t i = 0; i < some; i++) {
        const int32_t tap = first + i;
        int32_t place = channel * by->pass->weight_source_next +
                        place_of(by, tap / by->columns.taps, tap % by->columns.taps);
        for (int32_t c = 0; c < channels; c++) {
            places[c * taps + i] = place;
            place += by->pass->weight_source_next;
        }
    }
    for (int32_t done = 0; done < POET_LANES;) {
        struct position at = position_of(by, lane + done, lanes - done);
        if (done >= lanes) {
            at.count = POET_LANES - done;
            at.row = INT16_MIN;
        }
        int32_t u = first / by->columns.taps;
        int32_t v = first % by->columns.taps;
        for (int32_t i = 0; i < some; i++) {
            pack_tap(by, &at, u, v, channels, source, taps, &panel[i][done]);
            v++;
            if (v == by->columns.taps) {
                v = 0;
                u++;
            }
        }
        done += at.count;
    }
}

/* Where a lane's results are, of a row's channel. */
static float *result_of(const struct by_position *by, int32_t row, const struct position *at)
{
    const struct poet_conv2d_pass *pass = by->pass;
    return by->result + (at->sample * pass->groups * pass->channels + row) * pass->result_plane +
           (by->rows.first + at->row * by->rows.next) * pass->columns.result_extent + by->columns.first +
           at->column * by->columns.next;
}

static void begin_positions(const void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes, float *sums,
                            int32_t next)
{
    const struct by_position *by = context;
    for (int32_t done = 0; done < lanes;) {
        const struct position at = position_of(by, lane + done, lanes - done);
        const float *from = result_of(by, row, &at);
        for (int32_t i = 0; i < rows; i++) {
            copy(sums + i * next + done, from, by->columns.next, at.count);
            from += by->pass->result_plane;
        }
        done += at.count;
    }
}

static void put_positions(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes,
                          const float *sums, int32_t next)
{
    const struct by_position *by = context;
    const struct poet_conv2d_pass *pass = by->pass;
    const int32_t plane = pass->result_plane;
    for (int32_t done = 0; done < lanes;) {
        const struct position at = position_of(by, lane + done, lanes - done);
        float *to = result_of(by, row, &at);
        for (int32_t i = 0; i < rows; i++) {
            const float shift = bias_of(by->bias, row + i);
            bool has_nan = false;
            const float *const of_row = sums + i * next + done;
            for (int32_t j = 0; j < at.count; j++) {
                has_nan |= of_row[j] != of_row[j];
                if (!pass->continued) { /* else a sum that is NaN begins with what is there */
                    to[j * by->columns.next] = of_row[j] + shift;
                }
            }
            for (int32_t j = 0; pass->continued && !has_nan && j < at.count; j++) {
                to[j * by->columns.next] = of_row[j] + shift;
            }
            for (int32_t j = 0; has_nan && j < at.count; j++) {
                const struct position one = {at.sample, at.row, at.column + j, 1};
                float *const result = to + j * by->columns.next;
                *result = sum_at(by, row + i, &one, *result) + shift;
            }
            to += plane;
        }
        done += at.count;
    }
}

static void sum_positions(struct by_position *by)
{
    const struct poet_conv2d_pass *pass = by->pass;
    const int32_t taps = by->rows.taps * by->columns.taps;
    const struct poet_panel panel = {
        .rows = pass->channels,
        .lanes = pass->samples * by->rows.count * by->columns.count,
        .units = pass->source_channels,
        .taps = taps,
        .factors = by->weight,
        .row_next = pass->weight_next,
        .op = by,
        .pack = pack_positions,
        .begin = pass->continued ? begin_positions : NULL,
        .put = put_positions,
    };
    poet_panel_sum_f32(&panel);
}

/* One row of a result with the taps that meet the source there: the first tap's element under column 0, which may lie
 * beside the source, and weight. */
struct row {
    const float *source;
    const float *weight;
    struct met taps;
    int32_t source_row; /* elements to the next row of taps */
    int32_t weight_row;
    int32_t channels; /* of the source */
    int32_t source_channel;
    int32_t weight_channel;
    bool one_sum; /* of all channels */
    bool continued;
    float shift;
};

INLINE poet_floats load_4(const float *from, int32_t next)
{
    const poet_floats apart = {from[0], from[next], from[2 * next], from[3 * next]};
    return next == 1 ? poet_load(from) : apart;
}

/* Some vectors of neighbouring columns, of which all of a row's taps meet the source. */
INLINE void sum_columns(const struct row *row, const struct line *line, int32_t taps, int32_t column,
                        int32_t vectors, float *result)
{
    const int32_t next = line->source_next;
    const float *source = row->source + column * next;
    const float *weight = row->weight;
    result += line->first + column * line->next;
    poet_floats totals[4] = {{0.0f}, {0.0f}, {0.0f}, {0.0f}};
    for (int32_t i = 0; row->continued && i < vectors; i++) {
        totals[i] = load_4(result + 4 * i * line->next, line->next);
    }
    poet_floats sums[4] = {{0.0f}, {0.0f}, {0.0f}, {0.0f}};
    for (int32_t channel = row->channels; channel > 0; channel--) {
        const float *source_row = source;
        const float *weight_row = weight;
        for (int32_t u = row->taps.first; u < row->taps.end; u++) {
            const float *s = source_row;
            const float *w = weight_row;
            POET_UNROLL(3)
            for (int32_t v = 0; v < taps; v++) {
                POET_UNROLL(4)
                for (int32_t i = 0; i < vectors; i++) {
                    sums[i] = poet_add_products_16(sums[i], *w, load_4(s + 4 * i * next, next));
                }
                s += line->tap_source;
                w += line->tap_next;
            }
            source_row += row->source_row;
            weight_row += row->weight_row;
        }
        if (!row->one_sum || channel == 1) {
            POET_UNROLL(4)
            for (int32_t i = 0; i < vectors; i++) {
                totals[i] += sums[i];
                sums[i] = (poet_floats){0.0f};
            }
        }
        source += row->source_channel;
        weight += row->weight_channel;
    }
    POET_UNROLL(4)
    for (int32_t i = 0; i < vectors; i++) {
        const poet_floats of = totals[i] + row->shift;
        if (line->next == 1) {
            poet_store(result + 4 * i, of);
        } else {
            for (int32_t j = 0; j < 4; j++) {
                result[(4 * i + j) * line->next] = of[j];
            }
        }
    }
}

/* A column of which some taps may lie beside the source. */
INLINE void sum_column(const struct row *row, const struct line *line, int32_t column, int32_t extent, float *result)
{
    const struct met met = taps_met(line, column, extent);
    const float *source = row->source + column * line->source_next + met.first * line->tap_source;
    const float *weight = row->weight + met.first * line->tap_next;
    result += line->first + column * line->next;
    float total = row->continued ? *result : 0.0f;
    float sum = 0.0f;
    for (int32_t channel = row->channels; channel > 0; channel--) {
        const float *source_row = source;
        const float *weight_row = weight;
        for (int32_t u = row->taps.first; u < row->taps.end; u++) {
            const float *s = source_row;
            const float *w = weight_row;
            for (int32_t v = met.first; v < met.end; v++) {
                sum = poet_add_product(sum, *s, *w);
                s += line->tap_source;
                w += line->tap_next;
            }
            source_row += row->source_row;
            weight_row += row->weight_row;
        }
        if (!row->one_sum || channel == 1) {
            total += sum;
            sum = 0.0f;
        }
        source += row->source_channel;
        weight += row->weight_channel;
    }
    *result = total + row->shift;
}

INLINE void sum_row(const struct row *row, const struct line *line, int32_t taps, int32_t extent, float *result)
{
    /* column + tap is beside the source before `begin` and from `end` on for some tap */
    const int32_t next = line->source_next;
    const int32_t lowest = line->source + (line->tap_source < 0 ? 1 - taps : 0);
    const int32_t highest = line->source + (line->tap_source > 0 ? taps - 1 : 0);
    const int32_t begin = least(lowest < 0 ? (next - 1 - lowest) / next : 0, line->count);
    const int32_t end = most(begin, least(highest < extent ? (extent - highest + next - 1) / next : 0, line->count));
    int32_t column = 0;
    for (; column < begin; column++) {
        sum_column(row, line, column, extent, result);
    }
    for (; column + 16 <= end; column += 16) {
        sum_columns(row, line, taps, column, 4, result);
    }
    for (; column + 4 <= end; column += 4) {
        sum_columns(row, line, taps, column, 1, result);
    }
    if (column < end && end - begin >= 4 && !row->continued) { /* some again, to the same bits */
        sum_columns(row, line, taps, end - 4, 1, result);
        column = end;
    }
    for (; column < line->count; column++) {
        sum_column(row, line, column, extent, result);
    }
}

/* One part of a pass, plane by plane. */
static void sum_planes(void *context, int32_t index)
{
    const struct by_position *by = context;
    const struct poet_conv2d_pass *pass = by->pass;
    const struct line *columns = &by->columns;
    const int32_t width = pass->columns.source_extent;
    const int32_t kernel = pass->rows.kernel * pass->columns.kernel;
    const int32_t planes = pass->samples * pass->groups * pass->channels;
    const int32_t parts = poet_parts();
    for (int32_t plane = planes * index / parts; plane < planes * (index + 1) / parts; plane++) {
        const int32_t group = plane / pass->channels;
        const int32_t channel = plane % (pass->groups * pass->channels);
        const float *source = by->source + group * pass->source_channels * pass->source_plane + columns->source;
        const float *weight = by->weight +
                              group % pass->groups * pass->channels * pass->source_channels * kernel +
                              plane % pass->channels * pass->weight_next;
        for (int32_t i = 0; i < by->rows.count; i++) {
            const struct met taps = taps_met(&by->rows, i, pass->rows.source_extent);
            const int32_t first = by->rows.source + i * by->rows.source_next + taps.first * by->rows.tap_source;
            const struct row row = {
                .source = source + first * width,
                .weight = weight + place_of(by, taps.first, 0),
                .taps = taps,
                .source_row = by->rows.tap_source * width,
                .weight_row = by->rows.tap_next * pass->columns.kernel,
                .channels = pass->source_channels,
                .source_channel = pass->source_plane,
                .weight_channel = pass->weight_source_next,
                .one_sum = by->rows.taps * columns->taps == 1 && !pass->continued,
                .continued = pass->continued,
                .shift = bias_of(by->bias, channel),
            };
            float *result = by->result + plane * pass->result_plane +
                            (by->rows.first + i * by->rows.next) * pass->columns.result_extent;
            if (columns->taps == 3 && columns->source_next == 1 && columns->next == 1) {
                struct line constants = *columns;
                constants.source_next = 1;
                constants.next = 1;
                constants.tap_next = 1;
                sum_row(&row, &constants, 3, width, result);
            } else {
                sum_row(&row, columns, columns->taps, width, result);
            }
        }
    }
}

/* Whether that is faster than a panel, to the same bits: nothing is gathered, and the source is loaded again for each
 * channel, a vector of neighbouring columns at a time. Where a panel begins to win was measured on an x86. */
static bool by_planes(const struct by_position *by)
{
    const bool adjacent = by->columns.source_next == 1 && by->columns.next == 1;
    return by->pass->channels <= (adjacent ? least(3, 1 + by->columns.count / 8) : 1);
}

void poet_conv2d_vectors_sum_f32(const struct poet_conv2d_pass *pass, const float *source, const float *weight,
                                 const float *bias, float *result)
{
    const int32_t row_lines = lines_of(pass, &pass->rows);
    const int32_t column_lines = lines_of(pass, &pass->columns);
    for (int32_t line = 0; line < row_lines * column_lines; line++) {
        struct by_position by = {
            .pass = pass,
            .rows = line_of(pass, &pass->rows, line / column_lines),
            .columns = line_of(pass, &pass->columns, line % column_lines),
            .source = source,
            .weight = weight,
            .bias = bias,
            .result = result,
        };
        if (by_planes(&by)) {
            poet_run_parts(sum_planes, &by);
            continue;
        }
        for (int32_t group = 0; group < pass->groups; group++) {
            sum_positions(&by);
            by.source += pass->source_channels * pass->source_plane;
            by.weight += pass->channels * pass->source_channels * pass->rows.kernel * pass->columns.kernel;
            by.bias = bias != NULL ? by.bias + pass->channels : NULL;
            by.result += pass->channels * pass->result_plane;
        }
    }
}

/* dw of one group. */
struct by_tap {
    const struct poet_conv2d *op;
    const float *x;
    const float *dy;
    const struct poet_gradient_sink *dw;
    int32_t weight;
};

/* A tap of the kernel, and the positions at which it meets the input. */
struct lane_tap {
    int32_t channel;
    struct poet_positions rows;
    struct poet_positions columns;
};

static struct lane_tap tap_of_lane(const struct poet_conv2d *op, int32_t lane)
{
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t tap = lane % kernel;
    const struct lane_tap of = {
        lane / kernel,
        poet_positions_of_tap(tap / op->kernel_width, op->stride_height, op->padding_top, op->in_height,
                              op->out_height),
        poet_positions_of_tap(tap % op->kernel_width, op->stride_width, op->padding_left, op->in_width,
                              op->out_width),
    };
    return of;
}

/* Some rows, or a part of one. */
static void pack_taps(const void *context, int32_t lane, int32_t lanes, int32_t k, int32_t count,
                      int32_t *places, float (*panel)[POET_LANES])
{
    const struct by_tap *by = context;
    const struct poet_conv2d *op = by->op;
    const int32_t height = op->out_height;
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t first = k % op->out_width; /* column */
    const int32_t width = least(op->out_width, count);
    const int32_t rows = count / width;
    for (int32_t row = 0; row < rows; row++) {
        const int32_t at = k / op->out_width + row;
        for (int32_t j = 0; j < width; j++) {
            places[row * width + j] =
                (at / height * op->out_channels * height + at % height) * op->out_width + first + j;
        }
    }
    for (int32_t i = 0; i < POET_LANES; i++) {
        const struct lane_tap tap = tap_of_lane(op, lane + (i < lanes ? i : 0));
        const int32_t begin = most(0, least(tap.columns.output - first, width));
        const int32_t end = most(begin, least(tap.columns.output + tap.columns.count - first, width));
        const int32_t column = tap.columns.source + (first + begin - tap.columns.output) * op->stride_width;
        for (int32_t row = 0; row < rows; row++) {
            const int32_t at = k / op->out_width + row;
            const int32_t met = at % height - tap.rows.output;
            const bool meets = met >= 0 && met < tap.rows.count && i < lanes && begin < end;
            const float *source = by->x;
            float *to = &panel[row * width][i];
            int32_t j = 0;
            if (meets) {
                source += (at / height * op->in_channels + tap.channel) * in_plane +
                          (tap.rows.source + met * op->stride_height) * op->in_width + column;
            }
            for (; j < (meets ? begin : width); j++) {
                *to = 0.0f;
                to += POET_LANES;
            }
            for (; j < end; j++) {
                *to = *source;
                source += op->stride_width;
                to += POET_LANES;
            }
            for (; j < width; j++) {
                *to = 0.0f;
                to += POET_LANES;
            }
        }
    }
}

/* One element of dw, without padding. */
static float sum_of_tap(const struct by_tap *by, int32_t channel, const struct lane_tap *tap)
{
    const struct poet_conv2d *op = by->op;
    const int32_t next = op->stride_width;
    const float *x =
        by->x + (tap->channel * op->in_height + tap->rows.source) * op->in_width + tap->columns.source;
    const float *dy =
        by->dy + (channel * op->out_height + tap->rows.output) * op->out_width + tap->columns.output;
    float total = 0.0f;
    float sum = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t i = 0; i < tap->rows.count; i++) {
            const float *s = x + i * op->stride_height * op->in_width;
            const float *g = dy + i * op->out_width;
            for (int32_t j = 0; j < tap->columns.count; j++) {
                sum = poet_add_product(sum, *s, g[j]);
                s += next;
            }
            if (op->out_width > 1) { /* else the sum is one of all rows */
                total += sum;
                sum = 0.0f;
            }
        }
        x += op->in_channels * op->in_height * op->in_width;
        dy += op->out_channels * op->out_height * op->out_width;
    }
    return total + sum;
}

static void put_taps(void *context, int32_t row, int32_t rows, int32_t lane, int32_t lanes,
                     const float *sums, int32_t next)
{
    const struct by_tap *by = context;
    const struct poet_conv2d *op = by->op;
    const int32_t group_taps = op->in_channels / op->groups * op->kernel_height * op->kernel_width;
    for (int32_t o = row; o < row + rows; o++) {
        const int32_t first = by->weight + o * group_taps + lane;
        int32_t done = 0;
        for (int32_t i = 0; i < lanes; i++) {
            if (sums[i] != sums[i]) {
                const struct lane_tap tap = tap_of_lane(op, lane + i);
                poet_gradient_sink_put_run_f32(by->dw, first + done, i - done, sums + done);
                poet_gradient_sink_put_f32(by->dw, first + i, sum_of_tap(by, o, &tap));
                done = i + 1;
            }
        }
        poet_gradient_sink_put_run_f32(by->dw, first + done, lanes - done, sums + done);
        sums += next;
    }
}

void poet_conv2d_vectors_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                             const float *dy, const struct poet_gradient_sink *dw)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t rows = op->batch * op->out_height;
    struct by_tap by = {op, x, dy, dw, 0};
    struct poet_panel panel = {
        .rows = group_out,
        .lanes = group_in * op->kernel_height * op->kernel_width,
        .units = rows,
        .taps = op->out_width,
        .row_next = out_plane,
        .op = &by,
        .pack = pack_taps,
        .put = put_taps,
    };
    for (int32_t lane = 0; group_out == 1 && lane < panel.lanes; lane++) {
        const struct lane_tap tap = tap_of_lane(op, lane);
        for (int32_t group = 0; group < op->groups; group++) {
            by.x = x + group * group_in * in_plane;
            poet_gradient_sink_put_f32(dw, group * panel.lanes + lane, sum_of_tap(&by, group, &tap));
        }
    }
    for (int32_t group = 0; group_out > 1 && group < op->groups; group++) {
        panel.factors = by.dy;
        poet_panel_sum_f32(&panel);
        by.x += group_in * in_plane;
        by.dy += group_out * out_plane;
        by.weight += group_out * panel.lanes;
    }
}

#endif
