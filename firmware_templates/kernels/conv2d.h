/* SPDX-License-Identifier: Apache-2.0 */
/* 2-D convolution with groups, and its gradients.
 *
 *   x   [batch][in_channels][in_height][in_width]
 *   w   [out_channels][in_channels / groups][kernel_height][kernel_width]
 *   b   [out_channels]
 *   y   [batch][out_channels][out_height][out_width]
 *
 * dx, dw, db and dy have the shapes of x, w, b and y. Padding at the bottom and right follows from
 * the extents. No buffer may overlap another that is written.
 */
#ifndef POET_CONV2D_H
#define POET_CONV2D_H

#include <stdint.h>

#include "update.h"

struct poet_tiles;

struct poet_conv2d {
    int32_t batch;
    int32_t groups;
    int32_t in_channels;
    int32_t in_height;
    int32_t in_width;
    int32_t out_channels;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel_height;
    int32_t kernel_width;
    int32_t stride_height;
    int32_t stride_width;
    int32_t padding_top;
    int32_t padding_left;
    const struct poet_tiles *tiles; /* generated for this op; NULL where there are none */
};

struct poet_conv2d_bias {
    int32_t batch;
    int32_t channels;
    int32_t height;
    int32_t width;
};

/* y[n][o][i][j] = b[o] + sum over c, u, v of
 *     w[o][c][u][v] * x[n][first channel of o's group + c][i * stride + u - padding][j * ...]
 * b may be NULL. */
void poet_conv2d_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                             const float *b, float *y);

/* The same of further input channels, without groups: their sums are added to y, channel by channel. Calls for some channels
 * after the other leave the bits of one for all, the last of them with b, where products are not fused. */
void poet_conv2d_forward_continued_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                       const float *b, float *y);

/* dx[n][c][i][j] = sum of w * dy over all the y that x[n][c][i][j] went into, and the w it met */
void poet_conv2d_backward_input_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                    float *dx);

/* The same of further output channels, without groups, whose sums are added to dx. */
void poet_conv2d_backward_input_continued_f32(const struct poet_conv2d *op, const float *w, const float *dy,
                                              float *dx);

/* dw[o][c][u][v] = sum over samples and positions of dy * the x that w was multiplied with */
void poet_conv2d_backward_weight_f32(const struct poet_conv2d *op, const float *x, const float *dy,
                                     float *dw);

/* The same and poet_update_f32 of w in one, to the same bits, without storing dw. */
void poet_conv2d_backward_weight_update_f32(const struct poet_conv2d *op, const float *x,
                                            const float *dy, const struct poet_update *update,
                                            const float *pace, float *w, float *first,
                                            float *second, float *sum);

/* db[o] = sum of dy over samples and positions */
void poet_conv2d_backward_bias_f32(const struct poet_conv2d_bias *op, const float *dy, float *db);

#endif
