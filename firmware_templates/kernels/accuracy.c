/* SPDX-License-Identifier: Apache-2.0 */
#include "accuracy.h"

__attribute__((cold)) void poet_correct_count_f32(const struct poet_correct_count *op, const float *logits,
                            const int32_t *labels, float *metric)
{
    int32_t correct = 0;
    for (int32_t n = 0; n < op->batch; n++) {
        int32_t answer = 0;
        for (int32_t k = 1; k < op->classes; k++) {
            if (logits[k] > logits[answer]) {
                answer = k;
            }
        }
        correct += answer == labels[n];
        logits += op->classes;
    }
    metric[0] = (float)correct;
}
