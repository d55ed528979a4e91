/* SPDX-License-Identifier: Apache-2.0 */
#include "update_rows.h"

void poet_update_rows_f32(int32_t rows, int32_t row, int32_t stride, const float *gradient,
                          const float *factor, const struct poet_update *update, const float *pace,
                          float *parameter, float *first, float *second, float *sum)
{
    for (int32_t i = 0; i < rows; i++) {
        const int32_t at = i * row;
        poet_update_f32(row, gradient + at, factor, update, pace, parameter + i * stride,
                        poet_from(first, at), poet_from(second, at), poet_from(sum, at));
    }
}
