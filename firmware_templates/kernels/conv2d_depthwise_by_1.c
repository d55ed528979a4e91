/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_depthwise_by_1.h"

#include <stddef.h>

#include "conv2d_column.h"
#include "conv2d_depthwise.h"

/* Strips with stride 1 sum four positions for one, and are faster all the same than sums that are taken one by one. */

/* One plane of an op, by 1. */
static struct poet_conv2d plane_by_1(const struct poet_conv2d *op)
{
    struct poet_conv2d plane = *op;
    plane.batch = 1;
    plane.groups = 1;
    plane.in_channels = 1;
    plane.out_channels = 1;
    plane.out_height = (op->out_height - 1) * op->stride_height + 1;
    plane.out_width = (op->out_width - 1) * op->stride_width + 1;
    plane.stride_height = 1;
    plane.stride_width = 1;
    return plane;
}

void poet_conv2d_depthwise_by_1_forward_f32(const struct poet_conv2d *op, const float *x,
                                            const float *w, const float *b, float *y,
                                            void *workspace)
{
    const struct poet_conv2d plane = plane_by_1(op);
    const int32_t taps = op->kernel_height * op->kernel_width;
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t channel = 0; channel < op->groups; channel++) {
            poet_conv2d_depthwise_forward_f32(&plane, x, w + channel * taps,
                                              b != NULL ? b + channel : NULL, workspace);
            const float *row = workspace;
            for (int32_t i = 0; i < op->out_height; i++) {
                for (int32_t j = 0; j < op->out_width; j++) {
                    *y++ = row[j * op->stride_width];
                }
                row += op->stride_height * plane.out_width;
            }
            x += op->in_height * op->in_width;
        }
    }
}

/* A weight that is not finite would make no number of a zero. */
void poet_conv2d_depthwise_by_1_backward_input_f32(const struct poet_conv2d *op, const float *w,
                                                   const float *dy, float *dx, void *workspace)
{
    const struct poet_conv2d plane = plane_by_1(op);
    const int32_t taps = op->kernel_height * op->kernel_width;
    if (!poet_are_finite(w, taps * op->groups)) {
        poet_conv2d_depthwise_backward_input_f32(op, w, dy, dx);
        return;
    }
    float *between = workspace;
    for (int32_t i = 0; i < plane.out_height * plane.out_width; i++) {
        between[i] = 0.0f;
    }
    for (int32_t n = 0; n < op->batch; n++) {
        for (int32_t channel = 0; channel < op->groups; channel++) {
            float *row = workspace;
            for (int32_t i = 0; i < op->out_height; i++) {
                for (int32_t j = 0; j < op->out_width; j++) {
                    row[j * op->stride_width] = *dy++;
                }
                row += op->stride_height * plane.out_width;
            }
            poet_conv2d_depthwise_backward_input_f32(&plane, w + channel * taps, workspace, dx);
            dx += op->in_height * op->in_width;
        }
    }
}
