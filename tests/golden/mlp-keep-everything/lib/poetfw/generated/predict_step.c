/* SPDX-License-Identifier: Apache-2.0 */
/* predict_step.c: the prediction of one sample, mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 *
 *   6 steps: 6 compute, 0 of them again; 0 page-outs, 0 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     53,088        256  T0023      hidden1                                2-3
 *     53,088        256  T0024      relu1                                  3-4
 *     53,088         40  T0027      logits                                 6-6
 *     53,344        256  T0022      x                                      1-2
 *     53,344        128  T0025      hidden2                                4-5
 *     53,344        128  T0026      relu2                                  5-6
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"
#include "poet_memory.h"

#define T0022 ((float *)(void *)(poet_arena + 53344u)) /* x [1,64] */
#define T0023 ((float *)(void *)(poet_arena + 53088u)) /* hidden1 [1,64] */
#define T0024 ((float *)(void *)(poet_arena + 53088u)) /* relu1 [1,64] */
#define T0025 ((float *)(void *)(poet_arena + 53344u)) /* hidden2 [1,32] */
#define T0026 ((float *)(void *)(poet_arena + 53344u)) /* relu2 [1,32] */
#define T0027 ((float *)(void *)(poet_arena + 53088u)) /* logits [1,10] */

int poet_predict_step(const void *x, void *output)
{
    /*   1  load x: load_x T0022[1,64] */
    memcpy(T0022, x, POET_X_BYTES);
    poet_between_ops();
    /*   2  hidden1: linear T0022[1,64], P0000[64,64], P0001[64] -> T0023[1,64] */
    poet_matmul_biased_f32(&poet_op0016, T0022, P0000, P0001, T0023);
    poet_between_ops();
    /*   3  relu1: relu T0023[1,64] -> T0024[1,64] */
    poet_relu_forward_f32(&poet_op0017, T0023, T0024);
    poet_between_ops();
    /*   4  hidden2: linear T0024[1,64], P0002[32,64], P0003[32] -> T0025[1,32] */
    poet_matmul_biased_f32(&poet_op0018, T0024, P0002, P0003, T0025);
    poet_between_ops();
    /*   5  relu2: relu T0025[1,32] -> T0026[1,32] */
    poet_relu_forward_f32(&poet_op0019, T0025, T0026);
    poet_between_ops();
    /*   6  logits: linear T0026[1,32], P0004[10,32], P0005[10] -> T0027[1,10] */
    poet_matmul_biased_f32(&poet_op0020, T0026, P0004, P0005, T0027);
    memcpy(output, T0027, POET_OUTPUT_BYTES);
    poet_between_ops();
    return POET_OK;
}
