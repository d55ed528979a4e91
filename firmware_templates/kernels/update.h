/* SPDX-License-Identifier: Apache-2.0 */
/* Applying a gradient to a parameter, by whatever optimizer.
 *
 * An optimizer is a step, which changes one element of the parameter and of what the optimizer keeps beside
 * it. Its constants are a struct that begins with `struct poet_update`.
 *
 *   gradient, parameter, first, second, sum   [elements]
 *   factor                                    [1]
 *   pace                                      [2 + moments], see pace.h
 *
 * first and second are the optimizer's state; NULL where it keeps less. sum is that of the gradients of
 * micro-batches, NULL where each batch is applied by itself; pace is NULL where besides the learning rate is
 * constant and no moment has to be corrected.
 */
#ifndef POET_UPDATE_H
#define POET_UPDATE_H

#include <stddef.h>
#include <stdint.h>

#include "poet_math.h"

struct poet_gradient_sink;

/* Applies `count` elements of the gradient to those from `index` on of all that the sink names. */
typedef void poet_step_f32(const struct poet_gradient_sink *sink, int32_t index, int32_t count,
                           const float *gradient);

struct poet_update {
    poet_step_f32 *step;
    float learning_rate; /* not read where there is a pace */
    float weight_decay;
    float clip_value; /* largest magnitude of an element; 0 for any */
    float share;      /* of a micro-batch in the batch */
};

/* Where the elements of a gradient go, each as soon as it is complete: to memory, or at once into the
 * parameter, so that the gradient never exists as a whole. */
struct poet_gradient_sink {
    float *gradient; /* NULL where elements are applied; then the others hold what to */
    const struct poet_update *update;
    const float *pace;
    float *parameter;
    float *first;
    float *second;
    float *sum;
};

/* A sink that applies. */
static inline struct poet_gradient_sink poet_applying_sink(const struct poet_update *update,
                                                           const float *pace, float *parameter,
                                                           float *first, float *second, float *sum)
{
    return (struct poet_gradient_sink){
        .update = update, .pace = pace, .parameter = parameter, .first = first, .second = second,
        .sum = sum};
}

/* Whether a setting is not 0, without arithmetic: it is asked for every element. */
static inline int poet_is_set(float setting)
{
    return poet_float_bits(setting) != 0u;
}

/* The learning rate of this training step. */
static inline float poet_learning_rate_f32(const struct poet_gradient_sink *sink)
{
    return sink->pace != NULL ? sink->pace[0] : sink->update->learning_rate;
}

/* The gradient of the loss and of half the weight decay times the parameter's square. */
static inline float poet_decayed_f32(float gradient, float decay, float parameter)
{
    return poet_is_set(decay) ? gradient + decay * parameter : gradient;
}

/* The first of a run of elements, where there are any. */
static inline float *poet_from(float *elements, int32_t index)
{
    return elements != NULL ? elements + index : NULL;
}

/* Applies one element: adds it up, clips it, steps. One that is no number stays one. */
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

/* Puts `count` adjacent elements. */
void poet_gradient_sink_put_run_f32(const struct poet_gradient_sink *sink, int32_t index,
                                    int32_t count, const float *elements);

/* The same, of so few that memory is written without a call. */
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

/* Applies factor * gradient, all its elements; the factor is 1 where it is NULL. */
void poet_update_f32(int32_t elements, const float *gradient, const float *factor,
                     const struct poet_update *update, const float *pace, float *parameter,
                     float *first, float *second, float *sum);

#endif
