/* SPDX-License-Identifier: Apache-2.0 */
/* Matrix-vector products for dense layers with few features, or with columns left over. */
#ifndef POET_LINEAR_LANES_H
#define POET_LINEAR_LANES_H

#include <stdint.h>

/* Each row is a lane. The last rows may be computed twice. */
enum { POET_FEWEST_LANES = 4 };

/* The assembly depends on the order of members. Distances are in elements. */
struct poet_linear_lanes {
    int32_t lanes;       /* at least POET_FEWEST_LANES */
    int32_t count;       /* products per sum, at least 1 */
    int32_t other_next;  /* for strided results: distance between the other factors */
    int32_t result_next; /* for strided results: distance between the lanes' results */
    const float *shift;  /* added to the sums */
};

/* result[lane] = shift[lane] + sum over k of factors[lane][k] * others[k] */
void poet_linear_lanes_f32(const struct poet_linear_lanes *op, const float *factors, const float *others,
                           float *result);

/* result[lane * result_next] = *shift + sum over k of factors[lane][k] * others[k * other_next] */
void poet_linear_lanes_apart_f32(const struct poet_linear_lanes *op, const float *factors,
                                 const float *others, float *result);

#endif
