/* SPDX-License-Identifier: Apache-2.0 */
/* Gradients of weights without zeros for padding. */
#ifndef POET_CONV2D_TAPS_H
#define POET_CONV2D_TAPS_H

#include "conv2d.h"
#include "conv2d_positions.h"

/* Takes those of a row of taps again that are NaN, which a zero may have made them: of one input and one output channel, whose
 * taps meet these rows. */
void poet_conv2d_sum_taps_again_f32(const struct poet_conv2d *op, const struct poet_positions *rows,
                                    const float *x, const float *dy, float *totals);

#endif
