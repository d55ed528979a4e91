/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate_step.c: one evaluation step, mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 *
 *   8 steps: 8 compute, 0 of them again; 0 page-outs, 0 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     53,088      1,024  T0016      hidden1                                2-3
 *     53,088      1,024  T0017      relu1                                  3-4
 *     53,088        160  T0020      logits                                 6-8
 *     53,248         16  T0021      load y                                 7-8
 *     54,112      1,024  T0015      x                                      1-2
 *     54,112        512  T0018      hidden2                                4-5
 *     54,112        512  T0019      relu2                                  5-6
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"

#define T0015 ((float *)(void *)(poet_arena + 54112u)) /* x [4,64] */
#define T0016 ((float *)(void *)(poet_arena + 53088u)) /* hidden1 [4,64] */
#define T0017 ((float *)(void *)(poet_arena + 53088u)) /* relu1 [4,64] */
#define T0018 ((float *)(void *)(poet_arena + 54112u)) /* hidden2 [4,32] */
#define T0019 ((float *)(void *)(poet_arena + 54112u)) /* relu2 [4,32] */
#define T0020 ((float *)(void *)(poet_arena + 53088u)) /* logits [4,10] */
#define T0021 ((int32_t *)(void *)(poet_arena + 53248u)) /* load y [4] */

int poet_evaluate_step(void)
{
    /*   1  load x: load_x T0015[4,64] */
    POET_TRY(poet_data_load_x(T0015));
    poet_between_ops();
    /*   2  hidden1: linear T0015[4,64], P0000[64,64], P0001[64] -> T0016[4,64] */
    poet_matmul_biased_f32(&poet_op0000, T0015, P0000, P0001, T0016);
    poet_between_ops();
    /*   3  relu1: relu T0016[4,64] -> T0017[4,64] */
    poet_relu_forward_f32(&poet_op0001, T0016, T0017);
    poet_between_ops();
    /*   4  hidden2: linear T0017[4,64], P0002[32,64], P0003[32] -> T0018[4,32] */
    poet_matmul_biased_f32(&poet_op0002, T0017, P0002, P0003, T0018);
    poet_between_ops();
    /*   5  relu2: relu T0018[4,32] -> T0019[4,32] */
    poet_relu_forward_f32(&poet_op0003, T0018, T0019);
    poet_between_ops();
    /*   6  logits: linear T0019[4,32], P0004[10,32], P0005[10] -> T0020[4,10] */
    poet_matmul_biased_f32(&poet_op0004, T0019, P0004, P0005, T0020);
    poet_between_ops();
    /*   7  load y: load_y T0021[4] */
    POET_TRY(poet_data_load_y(T0021));
    poet_between_ops();
    /*   8  metric: correct_count T0020[4,10], T0021[4] -> P0013[1] */
    poet_correct_count_f32(&poet_op0015, T0020, T0021, P0013);
    poet_between_ops();
    return POET_OK;
}
