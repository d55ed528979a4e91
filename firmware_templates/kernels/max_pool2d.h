/* SPDX-License-Identifier: Apache-2.0 */
/* Max pooling and its gradient.
 *
 *   x, dx   [planes][in_height][in_width], where planes is samples * channels
 *   y, dy   [planes][out_height][out_width]
 *
 * Padding, which is smaller than the kernel, is never the maximum.
 */
#ifndef POET_MAX_POOL2D_H
#define POET_MAX_POOL2D_H

#include <stdint.h>

struct poet_max_pool2d {
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
};

/* y = maximum of each window */
void poet_max_pool2d_forward_f32(const struct poet_max_pool2d *op, const float *x, float *y);

/* dx = sum of dy over the windows whose first maximum, in row order, is this element; otherwise 0 */
void poet_max_pool2d_backward_f32(const struct poet_max_pool2d *op, const float *x, const float *dy,
                                  float *dx);

/* dx = sum over the windows whose maximum is this element, of dy divided by the number of equal maxima; otherwise 0 */
void poet_max_pool2d_shared_backward_f32(const struct poet_max_pool2d *op, const float *x,
                                         const float *dy, float *dx);

/* Index in its window, in row order and with padding, of each window's first maximum: words of 1, 2, 4, 8, 16 or 32 bits each,
 * whichever suffices for the window, the first in the lowest bits. */
void poet_max_pool2d_indices_f32(const struct poet_max_pool2d *op, const float *x, int32_t *words);

/* poet_max_pool2d_backward_f32 of the x that has these indices */
void poet_max_pool2d_indexed_backward_f32(const struct poet_max_pool2d *op, const int32_t *words, const float *dy,
                                          float *dx);

/* Bit-identical variants for 2x2 windows without padding. */
void poet_max_pool2d_2x2_forward_f32(const struct poet_max_pool2d *op, const float *x, float *y);
void poet_max_pool2d_2x2_backward_f32(const struct poet_max_pool2d *op, const float *x,
                                      const float *dy, float *dx);
void poet_max_pool2d_2x2_indices_f32(const struct poet_max_pool2d *op, const float *x, int32_t *words);
void poet_max_pool2d_2x2_indexed_backward_f32(const struct poet_max_pool2d *op, const int32_t *words, const float *dy,
                                              float *dx);

#endif
