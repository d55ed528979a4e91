/* SPDX-License-Identifier: Apache-2.0 */
#include "dot.h"

#include "product.h"

float poet_dot_f32(const struct poet_dot *dot, int32_t unit, const float *a, const float *b)
{
    float total = 0.0f;
    float sum = 0.0f;
    int32_t left = unit;
    for (int32_t i = 0; i < dot->outer.count; i++) {
        const float *a_row = a;
        const float *b_row = b;
        for (int32_t j = 0; j < dot->middle.count; j++) {
            const float *s = a_row;
            const float *t = b_row;
            for (int32_t k = 0; k < dot->inner.count; k++) {
                sum = poet_add_product(sum, *s, *t);
                s += dot->inner.a_next;
                t += dot->inner.b_next;
                left--;
                if (left == 0) {
                    total += sum;
                    sum = 0.0f;
                    left = unit;
                }
            }
            a_row += dot->middle.a_next;
            b_row += dot->middle.b_next;
        }
        a += dot->outer.a_next;
        b += dot->outer.b_next;
    }
    return total + sum;
}
