/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_CONV2D_CLEAR_H
#define POET_CONV2D_CLEAR_H

#include <stdint.h>

/* Zeros, for what is to have results of dX. */
void poet_conv2d_clear_f32(float *to, int32_t count);

#endif
