/* SPDX-License-Identifier: Apache-2.0 */
#include "embedding.h"

void poet_embedding_forward_f32(const struct poet_embedding *op, const int32_t *ids,
                                const float *table, float *y)
{
    for (int32_t i = 0; i < op->ids; i++) {
        const int32_t known = ids[i] >= 0 && ids[i] < op->rows;
        for (int32_t j = 0; j < op->width; j++) {
            *y++ = known ? table[ids[i] * op->width + j] : 0.0f;
        }
    }
}

/* Row by row, so that each element is complete before the next: nothing is stored in between. */
static void sum_rows(const struct poet_embedding *op, const int32_t *ids, const float *dy,
                     const struct poet_gradient_sink *dtable)
{
    for (int32_t row = 0; row < op->rows; row++) {
        int32_t first = row == op->padding ? op->ids : 0;
        while (first < op->ids && ids[first] != row) {
            first++;
        }
        for (int32_t j = 0; j < op->width; j++) {
            float sum = 0.0f;
            for (int32_t i = first; i < op->ids; i++) {
                if (ids[i] == row) {
                    sum += dy[i * op->width + j];
                }
            }
            poet_gradient_sink_put_f32(dtable, row * op->width + j, sum);
        }
    }
}

void poet_embedding_backward_f32(const struct poet_embedding *op, const int32_t *ids,
                                 const float *dy, float *dtable)
{
    const struct poet_gradient_sink sink = {.gradient = dtable};
    sum_rows(op, ids, dy, &sink);
}

void poet_embedding_backward_update_f32(const struct poet_embedding *op, const int32_t *ids,
                                        const float *dy, const struct poet_update *update,
                                        const float *pace, float *w, float *first, float *second,
                                        float *sum)
{
    const struct poet_gradient_sink sink = poet_applying_sink(update, pace, w, first, second, sum);
    sum_rows(op, ids, dy, &sink);
}
