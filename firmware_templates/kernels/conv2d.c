/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d.h"

#include <stddef.h>

#include "gradient_sink.h"

/* Forward and backward-input are one loop: both sum products of a source (x or dy) with weights
 * over channels and the kernel's taps that meet the source. They differ in how the two are walked.
 *
 * A sum runs over the taps of one channel first and then over the channels, so that rounding errors
 * grow with their number added up, not multiplied. */

/* The kernel's taps along one axis that meet the source: every `step` of them, from `tap` on. */
struct taps {
    int32_t tap;
    int32_t source;
    int32_t count;
};

/* Products to sum: extents, and the distance in elements to the next one in each array. */
struct walk {
    int32_t channels;
    int32_t rows;
    int32_t columns;
    int32_t source_channel;
    int32_t source_row;
    int32_t source_column;
    int32_t weight_channel;
    int32_t weight_row;
    int32_t weight_column;
};

static float sum_products(const struct walk *walk, const float *source, const float *weight)
{
    float total = 0.0f;
    for (int32_t channel = 0; channel < walk->channels; channel++) {
        const float *source_row = source;
        const float *weight_row = weight;
        float sum = 0.0f;
        for (int32_t row = 0; row < walk->rows; row++) {
            const float *s = source_row;
            const float *w = weight_row;
            for (int32_t column = 0; column < walk->columns; column++) {
                sum += *s * *w;
                s += walk->source_column;
                w += walk->weight_column;
            }
            source_row += walk->source_row;
            weight_row += walk->weight_row;
        }
        total += sum;
        source += walk->source_channel;
        weight += walk->weight_channel;
    }
    return total;
}

/* Four such sums at once, `next` weights apart: each source element is loaded once. */
static void sum_products_4(const struct walk *walk, const float *source, const float *weight,
                           int32_t next, float totals[4])
{
    float total0 = 0.0f;
    float total1 = 0.0f;
    float total2 = 0.0f;
    float total3 = 0.0f;
    for (int32_t channel = 0; channel < walk->channels; channel++) {
        const float *source_row = source;
        const float *weight_row = weight;
        float sum0 = 0.0f;
        float sum1 = 0.0f;
        float sum2 = 0.0f;
        float sum3 = 0.0f;
        for (int32_t row = 0; row < walk->rows; row++) {
            const float *s = source_row;
            const float *w0 = weight_row;
            const float *w1 = w0 + next;
            const float *w2 = w1 + next;
            const float *w3 = w2 + next;
            for (int32_t column = 0; column < walk->columns; column++) {
                const float value = *s;
                sum0 += value * *w0;
                sum1 += value * *w1;
                sum2 += value * *w2;
                sum3 += value * *w3;
                s += walk->source_column;
                w0 += walk->weight_column;
                w1 += walk->weight_column;
                w2 += walk->weight_column;
                w3 += walk->weight_column;
            }
            source_row += walk->source_row;
            weight_row += walk->weight_row;
        }
        total0 += sum0;
        total1 += sum1;
        total2 += sum2;
        total3 += sum3;
        source += walk->source_channel;
        weight += walk->weight_channel;
    }
    totals[0] = total0;
    totals[1] = total1;
    totals[2] = total2;
    totals[3] = total3;
}

/* One position of the result, in all channels of a group and all samples. */
struct position {
    int32_t samples;
    int32_t source_sample; /* elements to the next sample */
    int32_t result_sample;
    int32_t channels;
    int32_t weight_next; /* elements to the next channel */
    int32_t result_channel;
};

static void sum_channels(const struct walk *walk, const struct position *position,
                         const float *source, const float *weight, const float *bias, float *result)
{
    int32_t channel = 0;
    for (; channel + 4 <= position->channels; channel += 4) {
        float totals[4];
        sum_products_4(walk, source, weight, position->weight_next, totals);
        for (int32_t lane = 0; lane < 4; lane++) {
            *result = bias != NULL ? totals[lane] + *bias++ : totals[lane];
            result += position->result_channel;
        }
        weight += 4 * position->weight_next;
    }
    for (; channel < position->channels; channel++) {
        const float total = sum_products(walk, source, weight);
        *result = bias != NULL ? total + *bias++ : total;
        result += position->result_channel;
        weight += position->weight_next;
    }
}

/* The same walk with the roles exchanged, to sum over four sources at once: a product's factors
 * commute, so the bits stay the same. */
static struct walk exchanged(const struct walk *walk)
{
    const struct walk other = {
        .channels = walk->channels,
        .rows = walk->rows,
        .columns = walk->columns,
        .source_channel = walk->weight_channel,
        .source_row = walk->weight_row,
        .source_column = walk->weight_column,
        .weight_channel = walk->source_channel,
        .weight_row = walk->source_row,
        .weight_column = walk->source_column,
    };
    return other;
}

static void sum_samples(const struct walk *walk, const struct position *position,
                        const float *source, const float *weight, const float *bias, float *result)
{
    const struct walk other = exchanged(walk);
    int32_t sample = 0;
    for (; sample + 4 <= position->samples; sample += 4) {
        float totals[4];
        sum_products_4(&other, weight, source, position->source_sample, totals);
        for (int32_t lane = 0; lane < 4; lane++) {
            *result = bias != NULL ? totals[lane] + *bias : totals[lane];
            result += position->result_sample;
        }
        source += 4 * position->source_sample;
    }
    for (; sample < position->samples; sample++) {
        const float total = sum_products(walk, source, weight);
        *result = bias != NULL ? total + *bias : total;
        result += position->result_sample;
        source += position->source_sample;
    }
}

/* Four sums at a time: over channels where a group has that many, else (depthwise) over samples. */
static void sum_position(const struct walk *walk, const struct position *position,
                         const float *source, const float *weight, const float *bias, float *result)
{
    if (position->channels >= 4) {
        for (int32_t sample = 0; sample < position->samples; sample++) {
            sum_channels(walk, position, source, weight, bias, result);
            source += position->source_sample;
            result += position->result_sample;
        }
    } else {
        for (int32_t channel = 0; channel < position->channels; channel++) {
            sum_samples(walk, position, source, weight, bias != NULL ? bias + channel : NULL,
                        result);
            weight += position->weight_next;
            result += position->result_channel;
        }
    }
}

/* With a single tap there is nothing to sum per channel: the channels become the columns. */
static struct walk flattened(const struct walk *walk)
{
    struct walk flat = *walk;
    if (walk->rows == 1 && walk->columns == 1) {
        flat.channels = 1;
        flat.columns = walk->channels;
        flat.source_column = walk->source_channel;
        flat.weight_column = walk->weight_channel;
    }
    return flat;
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

void poet_conv2d_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                             const float *b, float *y)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    struct walk walk = {
        .channels = group_in,
        .source_channel = in_plane,
        .source_row = op->in_width,
        .source_column = 1,
        .weight_channel = kernel,
        .weight_row = op->kernel_width,
        .weight_column = 1,
    };
    const struct position position = {
        .samples = op->batch,
        .source_sample = op->in_channels * in_plane,
        .result_sample = op->out_channels * out_plane,
        .channels = group_out,
        .weight_next = group_in * kernel,
        .result_channel = out_plane,
    };
    for (int32_t i = 0; i < op->out_height; i++) {
        const struct taps rows = taps_of_output(i, op->kernel_height, op->stride_height,
                                                op->padding_top, op->in_height);
        for (int32_t j = 0; j < op->out_width; j++) {
            const struct taps columns = taps_of_output(j, op->kernel_width, op->stride_width,
                                                       op->padding_left, op->in_width);
            walk.rows = rows.count;
            walk.columns = columns.count;
            const struct walk flat = flattened(&walk);
            const float *source = x + rows.source * op->in_width + columns.source;
            const float *weight = w + rows.tap * op->kernel_width + columns.tap;
            float *result = y + i * op->out_width + j;
            for (int32_t group = 0; group < op->groups; group++) {
                sum_position(&flat, &position, source, weight,
                             b != NULL ? b + group * group_out : NULL, result);
                source += group_in * in_plane;
                weight += group_out * group_in * kernel;
                result += group_out * out_plane;
            }
        }
    }
}

void poet_conv2d_backward_input_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                    float *dx)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    struct walk walk = {
        .channels = group_out,
        .source_channel = out_plane,
        .source_row = -op->out_width,
        .source_column = -1,
        .weight_channel = group_in * kernel,
        .weight_row = op->stride_height * op->kernel_width,
        .weight_column = op->stride_width,
    };
    const struct position position = {
        .samples = op->batch,
        .source_sample = op->out_channels * out_plane,
        .result_sample = op->in_channels * in_plane,
        .channels = group_in,
        .weight_next = kernel,
        .result_channel = in_plane,
    };
    for (int32_t i = 0; i < op->in_height; i++) {
        const struct taps rows = taps_of_input(i, op->kernel_height, op->stride_height,
                                               op->padding_top, op->out_height);
        for (int32_t j = 0; j < op->in_width; j++) {
            const struct taps columns = taps_of_input(j, op->kernel_width, op->stride_width,
                                                      op->padding_left, op->out_width);
            walk.rows = rows.count;
            walk.columns = columns.count;
            const struct walk flat = flattened(&walk);
            const float *source = dy + rows.source * op->out_width + columns.source;
            const float *weight = w + rows.tap * op->kernel_width + columns.tap;
            float *result = dx + i * op->in_width + j;
            for (int32_t group = 0; group < op->groups; group++) {
                sum_position(&flat, &position, source, weight, NULL, result);
                source += group_out * out_plane;
                weight += group_out * group_in * kernel;
                result += group_in * in_plane;
            }
        }
    }
}

/* The output positions along one axis at which a tap meets the input, from `output` on, and the
 * input element under the first; `stride` elements of the input lie between two. */
struct positions {
    int32_t output;
    int32_t source;
    int32_t count;
};

static struct positions positions_of_tap(int32_t tap, int32_t stride, int32_t padding,
                                         int32_t in_extent, int32_t out_extent)
{
    const int32_t before = padding - tap;
    const int32_t after = before + in_extent;
    const int32_t first = before > 0 ? (before + stride - 1) / stride : 0;
    const int32_t met = after > 0 ? (after + stride - 1) / stride : 0;
    const int32_t end = met < out_extent ? met : out_extent;
    const struct positions none = {0, 0, 0};
    const struct positions positions = {first, first * stride - before, end - first};
    return first < end ? positions : none;
}

/* dw of one tap: x and dy point at its first position, in one input and one output channel. */
static float sum_tap(const struct poet_conv2d *op, int32_t rows, int32_t columns, const float *x,
                     const float *dy)
{
    const int32_t x_row = op->stride_height * op->in_width;
    const int32_t x_sample = op->in_channels * op->in_height * op->in_width;
    const int32_t dy_sample = op->out_channels * op->out_height * op->out_width;
    const int32_t stride = op->stride_width;
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

/* The same for four output channels at once: each x is loaded once. */
static void sum_tap_4(const struct poet_conv2d *op, int32_t rows, int32_t columns, const float *x,
                      const float *dy, float totals[4])
{
    const int32_t x_row = op->stride_height * op->in_width;
    const int32_t x_sample = op->in_channels * op->in_height * op->in_width;
    const int32_t dy_plane = op->out_height * op->out_width;
    const int32_t dy_sample = op->out_channels * dy_plane;
    const int32_t stride = op->stride_width;
    float total0 = 0.0f;
    float total1 = 0.0f;
    float total2 = 0.0f;
    float total3 = 0.0f;
    for (int32_t n = 0; n < op->batch; n++) {
        const float *source_row = x;
        const float *row0 = dy;
        for (int32_t i = 0; i < rows; i++) {
            const float *s = source_row;
            const float *row1 = row0 + dy_plane;
            const float *row2 = row1 + dy_plane;
            const float *row3 = row2 + dy_plane;
            float sum0 = 0.0f;
            float sum1 = 0.0f;
            float sum2 = 0.0f;
            float sum3 = 0.0f;
            for (int32_t j = 0; j < columns; j++) {
                const float value = *s;
                sum0 += value * row0[j];
                sum1 += value * row1[j];
                sum2 += value * row2[j];
                sum3 += value * row3[j];
                s += stride;
            }
            total0 += sum0;
            total1 += sum1;
            total2 += sum2;
            total3 += sum3;
            source_row += x_row;
            row0 += op->out_width;
        }
        x += x_sample;
        dy += dy_sample;
    }
    totals[0] = total0;
    totals[1] = total1;
    totals[2] = total2;
    totals[3] = total3;
}

/* dw of one tap from one input channel for all output channels of a group: from weight `first` on,
 * `next` apart. */
static void sum_tap_channels(const struct poet_conv2d *op, int32_t rows, int32_t columns,
                             const float *x, const float *dy,
                             const struct poet_gradient_sink *dw, int32_t first, int32_t next)
{
    const int32_t dy_plane = op->out_height * op->out_width;
    const int32_t count = op->out_channels / op->groups;
    int32_t channel = 0;
    for (; channel + 4 <= count; channel += 4) {
        float totals[4];
        sum_tap_4(op, rows, columns, x, dy + channel * dy_plane, totals);
        for (int32_t lane = 0; lane < 4; lane++) {
            poet_gradient_sink_put_f32(dw, first + (channel + lane) * next, totals[lane]);
        }
    }
    for (; channel < count; channel++) {
        poet_gradient_sink_put_f32(dw, first + channel * next,
                                   sum_tap(op, rows, columns, x, dy + channel * dy_plane));
    }
}

static void sum_taps(const struct poet_conv2d *op, const float *x, const float *dy,
                     const struct poet_gradient_sink *dw)
{
    const int32_t in_plane = op->in_height * op->in_width;
    const int32_t out_plane = op->out_height * op->out_width;
    const int32_t group_in = op->in_channels / op->groups;
    const int32_t group_out = op->out_channels / op->groups;
    const int32_t kernel = op->kernel_height * op->kernel_width;
    for (int32_t u = 0; u < op->kernel_height; u++) {
        const struct positions rows = positions_of_tap(u, op->stride_height, op->padding_top,
                                                       op->in_height, op->out_height);
        for (int32_t v = 0; v < op->kernel_width; v++) {
            const struct positions columns = positions_of_tap(v, op->stride_width, op->padding_left,
                                                              op->in_width, op->out_width);
            const float *source = x + rows.source * op->in_width + columns.source;
            const float *gradient = dy + rows.output * op->out_width + columns.output;
            int32_t weight = u * op->kernel_width + v;
            for (int32_t group = 0; group < op->groups; group++) {
                for (int32_t c = 0; c < group_in; c++) {
                    sum_tap_channels(op, rows.count, columns.count, source, gradient, dw,
                                     weight + c * kernel, group_in * kernel);
                    source += in_plane;
                }
                gradient += group_out * out_plane;
                weight += group_out * group_in * kernel;
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

void poet_conv2d_backward_weight_sgd_f32(const struct poet_conv2d_sgd *op, const float *x,
                                         const float *dy, float *w, float *momentum)
{
    const struct poet_gradient_sink sink = {
        .sgd = &op->sgd, .parameter = w, .momentum = momentum};
    sum_taps(&op->conv2d, x, dy, &sink);
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
