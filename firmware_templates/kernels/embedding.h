/* SPDX-License-Identifier: Apache-2.0 */
/* Look-up of rows of a table, and the table's gradient.
 *
 *   ids     [ids]
 *   table   [rows][width]
 *   y, dy   [ids][width]
 *
 * A number that is no row gives zeros, and adds to no gradient.
 */
#ifndef POET_EMBEDDING_H
#define POET_EMBEDDING_H

#include <stdint.h>

#include "update.h"

struct poet_embedding {
    int32_t ids;
    int32_t rows;
    int32_t width;
    int32_t padding; /* row without gradient (padding); -1 for none */
};

/* y[i] = table[ids[i]] */
void poet_embedding_forward_f32(const struct poet_embedding *op, const int32_t *ids,
                                const float *table, float *y);

/* dtable[r] = sum of dy[i] over all i with ids[i] = r, in order */
void poet_embedding_backward_f32(const struct poet_embedding *op, const int32_t *ids,
                                 const float *dy, float *dtable);

/* Fused gradient and poet_update_f32 of the table w, bit-identical, without storing dtable. */
void poet_embedding_backward_update_f32(const struct poet_embedding *op, const int32_t *ids,
                                        const float *dy, const struct poet_update *update,
                                        const float *pace, float *w, float *first, float *second,
                                        float *sum);

#endif
