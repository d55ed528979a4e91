/* SPDX-License-Identifier: Apache-2.0 */
/* One block of sums, for panel.c, which includes this once for each width of vectors: POET_BLOCK is the function's
 * name, POET_BYTES the vectors' size, and POET_TARGET what the compiler may use. Four rows of POET_LANES sums stay in
 * registers for a unit; the panel's numbers are loaded once for four rows, and a factor once for all lanes. */

#define JOIN(name, bytes) name##bytes
#define NAMED(name, bytes) JOIN(name, bytes)
#define vector NAMED(vector, POET_BYTES)
#define add NAMED(add, POET_BYTES)
#define add_products NAMED(poet_add_products_, POET_BYTES)
#define VECTORS (4 * POET_LANES / POET_BYTES)

typedef float vector __attribute__((vector_size(POET_BYTES)));

POET_TARGET static inline __attribute__((always_inline)) void
add(vector sums[VECTORS], float factor, const vector lanes[VECTORS])
{
    sums[0] = add_products(sums[0], factor, lanes[0]);
    sums[1] = add_products(sums[1], factor, lanes[1]);
    if (VECTORS > 2) {
        sums[VECTORS - 2] = add_products(sums[VECTORS - 2], factor, lanes[VECTORS - 2]);
        sums[VECTORS - 1] = add_products(sums[VECTORS - 1], factor, lanes[VECTORS - 1]);
    }
}

POET_TARGET static __attribute__((noinline)) void POET_BLOCK(const struct depth *depth, const float *const rows[4],
                                   const float (*panel)[POET_LANES], float *totals, int32_t next)
{
    const vector zeros = {0.0f};
    const vector *lanes = (const vector *)(const void *)panel;
    const float *const row0 = rows[0];
    const float *const row1 = rows[1];
    const float *const row2 = rows[2];
    const float *const row3 = rows[3];
    vector *const total0 = (vector *)(void *)totals;
    vector *const total1 = (vector *)(void *)(totals + next);
    vector *const total2 = (vector *)(void *)(totals + 2 * next);
    vector *const total3 = (vector *)(void *)(totals + 3 * next);
    const int32_t *place = depth->places;
    for (int32_t unit = 0; unit < depth->units; unit++) {
        vector sum0[VECTORS], sum1[VECTORS], sum2[VECTORS], sum3[VECTORS];
#define START(i)                                        \
    sum0[i] = depth->one_sum ? total0[i] : zeros;       \
    sum1[i] = depth->one_sum ? total1[i] : zeros;       \
    sum2[i] = depth->one_sum ? total2[i] : zeros;       \
    sum3[i] = depth->one_sum ? total3[i] : zeros;
#define END(i)                                                      \
    total0[i] = depth->one_sum ? sum0[i] : total0[i] + sum0[i];     \
    total1[i] = depth->one_sum ? sum1[i] : total1[i] + sum1[i];     \
    total2[i] = depth->one_sum ? sum2[i] : total2[i] + sum2[i];     \
    total3[i] = depth->one_sum ? sum3[i] : total3[i] + sum3[i];
        START(0)
        START(1)
        if (VECTORS > 2) {
            START(VECTORS - 2)
            START(VECTORS - 1)
        }
        for (const int32_t *end = place + depth->taps; place != end; place++) {
            add(sum0, row0[*place], lanes);
            add(sum1, row1[*place], lanes);
            add(sum2, row2[*place], lanes);
            add(sum3, row3[*place], lanes);
            lanes += VECTORS;
        }
        END(0)
        END(1)
        if (VECTORS > 2) {
            END(VECTORS - 2)
            END(VECTORS - 1)
        }
    }
}

#undef END
#undef START
#undef VECTORS
#undef add_products
#undef add
#undef vector
#undef NAMED
#undef JOIN
