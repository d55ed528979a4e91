/* SPDX-License-Identifier: Apache-2.0 */
/* Where the elements of a gradient go, each as soon as it is complete: to memory, or at once into the
 * parameter, so that the gradient never exists as a whole.
 */
#ifndef POET_GRADIENT_SINK_H
#define POET_GRADIENT_SINK_H

#include <stddef.h>
#include <stdint.h>

#include "sgd.h"

struct poet_gradient_sink {
    float *gradient; /* NULL where elements are applied; then the others hold what to */
    const struct poet_sgd *sgd;
    float *parameter;
    float *momentum; /* NULL for none */
};

static inline void poet_gradient_sink_put_f32(const struct poet_gradient_sink *sink, int32_t index,
                                              float element)
{
    if (sink->gradient != NULL) {
        sink->gradient[index] = element;
    } else {
        float *momentum = sink->momentum != NULL ? sink->momentum + index : NULL;
        poet_sgd_step_f32(sink->sgd, element, sink->parameter + index, momentum);
    }
}

#endif
