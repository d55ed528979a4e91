/* SPDX-License-Identifier: Apache-2.0 */
/* Number of correct answers.
 *
 *   logits   [batch][classes]
 *   labels   [batch]; -1 marks a sample that never counts
 *   metric   [1]
 */
#ifndef POET_ACCURACY_H
#define POET_ACCURACY_H

#include <stdint.h>

struct poet_correct_count {
    int32_t batch;
    int32_t classes;
};

/* metric = number of samples whose first largest logit is at their label */
void poet_correct_count_f32(const struct poet_correct_count *op, const float *logits,
                            const int32_t *labels, float *metric);

#endif
