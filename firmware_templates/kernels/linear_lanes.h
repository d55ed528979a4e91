/* SPDX-License-Identifier: Apache-2.0 */
/* The products of a matrix with a vector: of dense layers whose rows are short, or leave some columns. */
#ifndef POET_LINEAR_LANES_H
#define POET_LINEAR_LANES_H

#include <stdint.h>

/* Rows are lanes, of which the last may be made again. */
enum { POET_FEWEST_LANES = 4 };

/* In this order in assembly. What is next counts elements. */
struct poet_linear_lanes {
    int32_t lanes;       /* POET_FEWEST_LANES at least */
    int32_t count;       /* products in a sum, 1 at least */
    int32_t other_next;  /* where results are apart: from one of the other factors to the next */
    int32_t result_next; /* where they are: to the next lane's */
    const float *shift;  /* what is added to the sums */
};

/* result[lane] = shift[lane] + sum over k of factors[lane][k] * others[k] */
void poet_linear_lanes_f32(const struct poet_linear_lanes *op, const float *factors, const float *others,
                           float *result);

/* result[lane * result_next] = *shift + sum over k of factors[lane][k] * others[k * other_next] */
void poet_linear_lanes_apart_f32(const struct poet_linear_lanes *op, const float *factors,
                                 const float *others, float *result);

#endif
