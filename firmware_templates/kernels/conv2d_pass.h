/* SPDX-License-Identifier: Apache-2.0 */
/* Forward or dX of a convolution: both sum products of a source (x or dy) with weights, over channels and over the taps that
 * meet the source. */
#ifndef POET_CONV2D_PASS_H
#define POET_CONV2D_PASS_H

#include <stdbool.h>
#include <stdint.h>

#include "conv2d.h"

/* One axis of source and result. */
struct poet_conv2d_side {
    int32_t kernel;
    int32_t stride;
    int32_t padding;
    int32_t source_extent;
    int32_t result_extent;
};

struct poet_conv2d_pass {
    bool of_input;  /* whether the result is the input's gradient */
    bool continued; /* whether sums begin with what is in the result */
    int32_t samples;
    int32_t groups;
    int32_t channels; /* of a group of the result */
    int32_t source_channels;
    int32_t source_plane;
    int32_t result_plane;
    int32_t weight_next; /* weights to the result's next channel */
    int32_t weight_source_next;
    struct poet_conv2d_side rows;
    struct poet_conv2d_side columns;
};

static inline struct poet_conv2d_pass poet_conv2d_pass_of(const struct poet_conv2d *op, bool of_input, bool continued)
{
    const int32_t kernel = op->kernel_height * op->kernel_width;
    const int32_t of_x[] = {op->in_height, op->in_width, op->in_channels / op->groups, kernel};
    const int32_t of_y[] = {op->out_height, op->out_width, op->out_channels / op->groups,
                            op->in_channels / op->groups * kernel};
    const int32_t *const source = of_input ? of_y : of_x;
    const int32_t *const result = of_input ? of_x : of_y;
    return (struct poet_conv2d_pass){
        .of_input = of_input,
        .continued = continued,
        .samples = op->batch,
        .groups = op->groups,
        .channels = result[2],
        .source_channels = source[2],
        .source_plane = source[0] * source[1],
        .result_plane = result[0] * result[1],
        .weight_next = result[3],
        .weight_source_next = source[3],
        .rows = {op->kernel_height, op->stride_height, op->padding_top, source[0], result[0]},
        .columns = {op->kernel_width, op->stride_width, op->padding_left, source[1], result[1]},
    };
}

#endif
