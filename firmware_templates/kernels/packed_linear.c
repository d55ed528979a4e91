/* SPDX-License-Identifier: Apache-2.0 */
#include "packed_linear.h"

#include <stddef.h>

void poet_packed_linear_forward_f32(const struct poet_packed_linear *op, const float *x,
                                 const int32_t *words, const float *b, const float *scales,
                                 float *y, void *workspace)
{
    const struct poet_packed *packed = &op->packed;
    float *w = workspace;
    for (int32_t slice = 0; slice < packed->slices; slice++) {
        const float *slice_b = b == NULL ? NULL : b + slice * packed->bias_of_slice;
        const float *from = x + slice * packed->input_of_slice;
        float *to = y + slice * packed->output_of_slice;
        poet_unpack_f32(packed, slice, words, scales, w);
        for (int32_t n = 0; n < packed->samples; n++) {
            op->kernel(&op->layer, from, w, slice_b, to);
            from += packed->input;
            to += packed->output;
        }
    }
}

void poet_packed_linear_backward_input_f32(const struct poet_packed_linear_input *op,
                                        const int32_t *words, const float *dy,
                                        const float *scales, float *dx, void *workspace)
{
    const struct poet_packed *packed = &op->packed;
    float *w = workspace;
    for (int32_t slice = 0; slice < packed->slices; slice++) {
        const float *from = dy + slice * packed->input_of_slice;
        float *to = dx + slice * packed->output_of_slice;
        poet_unpack_f32(packed, slice, words, scales, w);
        for (int32_t n = 0; n < packed->samples; n++) {
            op->kernel(&op->layer, w, from, to);
            from += packed->input;
            to += packed->output;
        }
    }
}
