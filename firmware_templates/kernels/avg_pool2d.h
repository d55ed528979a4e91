/* SPDX-License-Identifier: Apache-2.0 */
/* Average pooling over windows and over whole feature maps, and the gradients.
 *
 *   x, dx   [planes][in_height][in_width], where planes is samples * channels
 *   y, dy   [planes][out_height][out_width]; [planes] for the global pool
 *
 * Padding is smaller than the kernel. The mean of a window is its sum divided by the kernel's size if
 * count_include_pad is 1, or by the number of its elements without padding if it is 0.
 */
#ifndef POET_AVG_POOL2D_H
#define POET_AVG_POOL2D_H

#include <stdint.h>

struct poet_avg_pool2d {
    int32_t planes;
    int32_t in_height;
    int32_t in_width;
    int32_t out_height;
    int32_t out_width;
    int32_t kernel_height;
    int32_t kernel_width;
    int32_t stride_height;
    int32_t stride_width;
    int32_t padding_top;
    int32_t padding_left;
    int32_t count_include_pad;
};

struct poet_global_avg_pool {
    int32_t planes;
    int32_t height;
    int32_t width;
};

/* y = mean of each window */
void poet_avg_pool2d_forward_f32(const struct poet_avg_pool2d *op, const float *x, float *y);

/* dx = sum over the windows with this element of dy / divisor of the window */
void poet_avg_pool2d_backward_f32(const struct poet_avg_pool2d *op, const float *dy, float *dx);

/* y = mean of each feature map */
void poet_global_avg_pool_forward_f32(const struct poet_global_avg_pool *op, const float *x,
                                      float *y);

/* dx = dy / (height * width) for all elements of the feature map */
void poet_global_avg_pool_backward_f32(const struct poet_global_avg_pool *op, const float *dy,
                                       float *dx);

#endif
