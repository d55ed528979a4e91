/* SPDX-License-Identifier: Apache-2.0 */
/* Application of a gradient to a parameter by any optimizer.
 *
 * An optimizer is a step function, which changes elements of the parameter and of the optimizer's state. Its
 * constants are a struct that begins with `struct poet_update`.
 *
 *   gradient, parameter, first, second, sum   [elements]
 *   factor                                    [1]
 *   pace                                      [2 + moments], see pace.h
 *
 * first and second are the optimizer's state, NULL if unused. sum accumulates the gradients of micro-batches; NULL
 * without these. pace is NULL if, in addition, the learning rate is constant and no moment has a bias correction.
 */
#ifndef POET_UPDATE_H
#define POET_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "poet_math.h"

struct poet_gradient_sink;

/* Applies `count` elements of the gradient to the elements from `index` on of the sink's tensors. */
typedef void poet_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                           const float *gradient);

struct poet_update {
    poet_step_f32 *step;
    float learning_rate; /* not read if there is a pace */
    float weight_decay;
    float clip_value; /* largest magnitude of an element; 0 for no limit */
    float share;      /* share of a micro-batch in the batch */
};

/* Target of a gradient's elements as they are completed: memory, or the parameter, to which they are applied at once
 * without storing the gradient. */
struct poet_gradient_sink {
    float *gradient; /* NULL if elements are applied; the other members then say to what */
    const struct poet_update *update;
    const float *pace;
    float *parameter;
    float *first;
    float *second;
    float *sum;
};

/* Sink that applies elements. */
static inline struct poet_gradient_sink poet_applying_sink(const struct poet_update *update,
                                                           const float *pace, float *parameter,
                                                           float *first, float *second, float *sum)
{
    return (struct poet_gradient_sink){
        .update = update, .pace = pace, .parameter = parameter, .first = first, .second = second,
        .sum = sum};
}

/* True if a setting is not 0; without floating-point arithmetic, as it is called for every element. */
static inline int poet_is_set(float setting)
{
    return poet_float_bits(setting) != 0u;
}

/* Learning rate of this training step. */
static inline float poet_learning_rate_f32(const struct poet_gradient_sink *sink)
{
    return sink->pace != NULL ? sink->pace[0] : sink->update->learning_rate;
}

/* Gradient of the loss plus half the weight decay times the parameter squared. */
static inline float poet_decayed_f32(float gradient, float decay, float parameter)
{
    return poet_is_set(decay) ? gradient + decay * parameter : gradient;
}

/* First of a run of elements; NULL without any. */
static inline float *poet_from(float *elements, int32_t index)
{
    return elements != NULL ? elements + index : NULL;
}

/* Applies one element: accumulates, clips, steps. NaN stays NaN. */
void poet_apply_f32(const struct poet_gradient_sink *sink, int32_t index, float gradient);

static inline void poet_gradient_sink_put_f32(const struct poet_gradient_sink *sink, int32_t index,
                                              float element)
{
    if (sink->gradient != NULL) {
        sink->gradient[index] = element;
    } else {
        poet_apply_f32(sink, index, element);
    }
}

/* Puts `count` adjacent elements into the sink. */
void poet_gradient_sink_put_run_f32(const struct poet_gradient_sink *sink, int32_t index,
                                    int32_t count, const float *elements);

/* The same for few elements, which are written to memory without a call. */
static inline void poet_gradient_sink_put_few_f32(const struct poet_gradient_sink *sink,
                                                  int32_t index, int32_t count,
                                                  const float *elements)
{
    if (sink->gradient == NULL) {
        poet_gradient_sink_put_run_f32(sink, index, count, elements);
        return;
    }
    for (int32_t i = 0; i < count; i++) {
        sink->gradient[index + i] = elements[i];
    }
}

/* Applies factor * gradient for all elements; NULL for a factor of 1. */
void poet_update_f32(int32_t elements, const float *gradient, const float *factor,
                     const struct poet_update *update, const float *pace, float *parameter,
                     float *first, float *second, float *sum);

#endif
