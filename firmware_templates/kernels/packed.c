/* SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include <stddef.h>

#include "half.h"

static float *put_halves(const int32_t *words, int32_t first, int32_t count, float *w)
{
    for (int32_t i = first; i < first + count; i++) {
        const uint32_t pair = (uint32_t)words[i >> 1];
        *w++ = poet_half_value((i & 1) != 0 ? pair >> 16 : pair & 0xffffu);
    }
    return w;
}

static void unpack(const struct poet_packed *packed, int32_t slice, const int32_t *words, const float *scales,
                   float *w)
{
    int32_t first = slice * packed->from_slice;
    for (int32_t row = 0; row < packed->rows; row++) {
        if (scales == NULL) {
            w = put_halves(words, first, packed->row, w);
        } else {
            const signed char *bytes = (const signed char *)words + first;
            const float scale = scales[slice * packed->scales + row];
            for (int32_t i = 0; i < packed->row; i++) {
                *w++ = (float)bytes[i] * scale;
            }
        }
        first += packed->from_row;
    }
}

void poet_run_packed_f32(const struct poet_packed *packed, poet_packed_slice_f32 *run, const void *op,
                         const float *input, const void *weights, const float *b, const float *scales,
                         float *output, float *w)
{
    for (int32_t slice = 0; slice < packed->slices; slice++) {
        const float *slice_w = w;
        const float *slice_b = b == NULL ? NULL : b + slice * packed->bias_of_slice;
        const float *from = input + slice * packed->input_of_slice;
        float *to = output + slice * packed->output_of_slice;
        if (w == NULL) {
            slice_w = (const float *)weights + slice * packed->from_slice;
        } else {
            unpack(packed, slice, weights, scales, w);
        }
        for (int32_t n = 0; n < packed->samples; n++) {
            run(op, from, slice_w, slice_b, to);
            from += packed->input;
            to += packed->output;
        }
    }
}
