/* SPDX-License-Identifier: Apache-2.0 */
/* conv2d.h's functions, to the same bits, where the kernel is 1x1 and there is no padding. dw: for stride 1; by_2:
 * for stride 2 along columns, or any where dy has one column; by_any: for any stride. each: any stride and few weights. */
#ifndef POET_CONV2D_POINTWISE_H
#define POET_CONV2D_POINTWISE_H

#include "conv2d.h"

/* Out of line, as a division that is not needed takes more than a jump. */
static __attribute__((noinline, cold, unused)) int32_t poet_divided_channels(int32_t channels,
                                                                             int32_t groups)
{
    return channels / groups;
}

/* So many channels are a group's. */
static inline int32_t poet_channels_of_group(const struct poet_conv2d *op, int32_t channels)
{
    return op->groups == 1 ? channels : poet_divided_channels(channels, op->groups);
}

void poet_conv2d_pointwise_forward_f32(const struct poet_conv2d *op, const float *x, const float *w,
                                       const float *b, float *y);
void poet_conv2d_pointwise_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                              const float *dy, float *dx);
void poet_conv2d_pointwise_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                               const float *dy, float *dw);
void poet_conv2d_pointwise_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum);
void poet_conv2d_pointwise_by_2_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw);
void poet_conv2d_pointwise_by_2_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum);
void poet_conv2d_pointwise_by_any_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                      const float *dy, float *dw);
void poet_conv2d_pointwise_by_any_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum);
void poet_conv2d_pointwise_each_backward_weight_f32(const struct poet_conv2d *op, const float *x,
                                                    const float *dy, float *dw);
void poet_conv2d_pointwise_each_backward_weight_update_f32(
    const struct poet_conv2d *op, const float *x, const float *dy,
    const struct poet_update *update, const float *pace, float *w, float *first, float *second,
    float *sum);

#endif
