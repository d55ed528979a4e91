/* SPDX-License-Identifier: Apache-2.0 */
#include "strided.h"

enum { OUTER = 5 };

/* Where a walk stands: the position along all axes but the last, and the element that a row begins
 * with in the tensor that is seen by steps. */
struct walk {
    int32_t extent[OUTER];
    int32_t step[OUTER];
    int32_t position[OUTER];
    int32_t rows;
    int32_t at;
};

static struct walk start(const struct poet_strided *op)
{
    const struct walk walk = {
        .extent = {op->extent0, op->extent1, op->extent2, op->extent3, op->extent4},
        .step = {op->step0, op->step1, op->step2, op->step3, op->step4},
        .position = {0},
        .rows = op->extent0 * op->extent1 * op->extent2 * op->extent3 * op->extent4,
        .at = op->offset,
    };
    return walk;
}

static void next_row(struct walk *walk)
{
    for (int32_t axis = OUTER - 1; axis >= 0; axis--) {
        walk->position[axis]++;
        walk->at += walk->step[axis];
        if (walk->position[axis] < walk->extent[axis]) {
            return;
        }
        walk->at -= walk->extent[axis] * walk->step[axis];
        walk->position[axis] = 0;
    }
}

void poet_strided_take_f32(const struct poet_strided *op, const float *x, float *y)
{
    struct walk walk = start(op);
    for (int32_t row = 0; row < walk.rows; row++) {
        const float *from = x + walk.at;
        for (int32_t i = 0; i < op->extent5; i++) {
            y[i] = from[i * op->step5];
        }
        y += op->extent5;
        next_row(&walk);
    }
}

/* A row that goes to one element is added up first, which keeps rounding errors small. */
void poet_strided_put_f32(const struct poet_strided *op, const float *x, float *y)
{
    struct walk walk = start(op);
    for (int32_t i = 0; i < op->elements; i++) {
        y[i] = 0.0f;
    }
    for (int32_t row = 0; row < walk.rows; row++) {
        float *to = y + walk.at;
        if (op->step5 == 0) {
            float sum = 0.0f;
            for (int32_t i = 0; i < op->extent5; i++) {
                sum += x[i];
            }
            *to += sum;
        } else {
            for (int32_t i = 0; i < op->extent5; i++) {
                to[i * op->step5] += x[i];
            }
        }
        x += op->extent5;
        next_row(&walk);
    }
}

void poet_strided_add_f32(const struct poet_strided *op, const float *a, const float *b, float *y)
{
    struct walk walk = start(op);
    for (int32_t row = 0; row < walk.rows; row++) {
        const float *other = b + walk.at;
        for (int32_t i = 0; i < op->extent5; i++) {
            y[i] = a[i] + other[i * op->step5];
        }
        a += op->extent5;
        y += op->extent5;
        next_row(&walk);
    }
}

void poet_strided_multiply_f32(const struct poet_strided *op, const float *a, const float *b, float *y)
{
    struct walk walk = start(op);
    for (int32_t row = 0; row < walk.rows; row++) {
        const float *other = b + walk.at;
        for (int32_t i = 0; i < op->extent5; i++) {
            y[i] = a[i] * other[i * op->step5];
        }
        a += op->extent5;
        y += op->extent5;
        next_row(&walk);
    }
}
