/* SPDX-License-Identifier: Apache-2.0 */
/* dW of depthwise 3x3 convolutions on a Cortex-M4F. Where planes of dy have few columns, a row of it and one of x fit into
 * registers. */
#ifndef POET_CONV2D_DEPTHWISE_TAPS_H
#define POET_CONV2D_DEPTHWISE_TAPS_H

#include "conv2d.h"

/* Columns of dy, at most. */
enum { POET_FEW_COLUMNS = 4 };

/* Rows of dy in which a row of the kernel meets x. What is next, or where they begin, counts elements. In this order in assembly. */
struct poet_met_rows {
    int32_t dy_begin;
    int32_t x_begin;
    int32_t samples; /* 0 behind the kernel's last row, where those of the next channel begin */
    int32_t rows;
    int32_t x_next; /* from behind a sample's last row to the next one's first */
    int32_t dy_next;
};

/* In this order in assembly. */
struct poet_few_columns {
    int32_t row_next; /* of x */
    uint32_t load;    /* where in a table the instruction is that loads a row of x */
    int32_t others;   /* columns of dy behind the first */
    int32_t channels;
    struct poet_met_rows rows[4];
};

/* The gradients of each channel's nine weights; returns what they come to, which is NaN where one of them is. */
typedef float poet_sum_few_columns_f32(const struct poet_few_columns *at, const float *dy,
                                       float *taps, const float *x);

poet_sum_few_columns_f32 poet_conv2d_depthwise_few_columns_f32;      /* of kernels with stride 1 */
poet_sum_few_columns_f32 poet_conv2d_depthwise_few_columns_by_2_f32;

/* Puts those of all channels. */
void poet_conv2d_depthwise_few_taps_f32(const struct poet_conv2d *op,
                                        poet_sum_few_columns_f32 *sum_taps, const float *x,
                                        const float *dy, const struct poet_gradient_sink *dw);

/* Adds the sums of each row of a plane to totals; `runs` are of the function's own kind. */
typedef void poet_add_taps_f32(const void *runs, const float *dy, float totals[9], const float *x);

/* Puts those of all channels, of planes of any columns. */
void poet_conv2d_depthwise_put_taps_f32(const struct poet_conv2d *op,
                                        poet_add_taps_f32 *add_taps, const void *runs,
                                        const float *x, const float *dy,
                                        const struct poet_gradient_sink *dw);

#endif
