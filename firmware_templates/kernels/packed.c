/* SPDX-License-Identifier: Apache-2.0 */
#include "packed.h"

#include <stddef.h>

#include "half.h"
#include "unroll.h"

void poet_unpack_float16_f32(const struct poet_unpack *op, const int32_t *words, int32_t first, float *w)
{
    for (int32_t row = 0; row < op->rows; row++) {
        const int32_t odd = first & 1; /* the row begins with the second half of a word */
        const int32_t *from = words + (first >> 1);
        if (odd != 0) {
            float before;
            poet_half_values(*from++, &before, w);
        }
        poet_values_of_halves(from, op->row - odd, w + odd);
        w += op->row;
        first += op->from_row;
    }
}

void poet_unpack_int8_f32(const struct poet_unpack *op, const int32_t *words, int32_t first, const float *scales,
                          float *w)
{
    for (int32_t row = 0; row < op->rows; row++) {
        const signed char *bytes = (const signed char *)words + first;
        const float scale = scales[row];
        int32_t left = op->row;
        for (; left > 3; left -= 4) {
            POET_UNROLL(4)
            for (int i = 0; i < 4; i++) {
                w[i] = (float)bytes[i] * scale;
            }
            bytes += 4;
            w += 4;
        }
        for (; left > 0; left--) {
            *w++ = (float)*bytes++ * scale;
        }
        first += op->from_row;
    }
}

void poet_run_packed_f32(const struct poet_packed *packed, poet_packed_slice_f32 *run, const void *op,
                         const float *input, const void *weights, const float *b, const float *scales,
                         float *output, float *w)
{
    for (int32_t slice = 1; slice <= packed->slices; slice++) {
        const int32_t channel = slice < packed->slices ? (slice - 1) * packed->channels : packed->last;
        const float *slice_w = w;
        const float *slice_b = b == NULL ? NULL : b + channel * packed->bias_apart;
        const float *from = input + channel * packed->input_apart;
        float *to = output + channel * packed->output_apart;
        if (w == NULL) {
            slice_w = (const float *)weights + channel * packed->weights_apart;
        } else if (scales == NULL) {
            poet_unpack_float16_f32(&packed->unpack, weights, channel * packed->weights_apart, w);
        } else {
            poet_unpack_int8_f32(&packed->unpack, weights, channel * packed->weights_apart,
                                 scales + channel * packed->scales_apart, w);
        }
        for (int32_t n = 0; n < packed->samples; n++) {
            run(op, from, slice_w, slice_b, to);
            from += packed->input;
            to += packed->output;
        }
    }
}
