/* SPDX-License-Identifier: Apache-2.0 */
/* Application of a gradient to the first elements of each row of a parameter. */
#ifndef POET_UPDATE_ROWS_H
#define POET_UPDATE_ROWS_H

#include "update.h"

/* As poet_update_f32, where gradient, first, second and sum are [rows, row] and the parameter is
 * [rows, stride] with stride >= row; what is behind a row's first elements stays as it is. */
void poet_update_rows_f32(int32_t rows, int32_t row, int32_t stride, const float *gradient,
                          const float *factor, const struct poet_update *update, const float *pace,
                          float *parameter, float *first, float *second, float *sum);

#endif
