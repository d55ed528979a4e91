#include "sgd.h"

#include <stddef.h>

void poet_sgd_update_f32(const struct poet_sgd *op, const float *gradient, float *parameter,
                         float *momentum)
{
    const int32_t decays = op->weight_decay > 0.0f;
    for (int32_t i = 0; i < op->elements; i++) {
        float step = gradient[i];
        if (decays) {
            step += op->weight_decay * parameter[i];
        }
        if (momentum != NULL) {
            step += op->momentum * momentum[i];
            momentum[i] = step;
        }
        parameter[i] -= op->learning_rate * step;
    }
}
