/* evaluate_step.c: one evaluation step, mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 71da6fc8). Do not edit: change the plan and build again.
 *
 *   8 steps: 8 compute, 0 of them again; 0 page-outs, 0 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     53,088      1,024  T0019      hidden1                                2-3
 *     53,088      1,024  T0020      relu1                                  3-4
 *     53,088        160  T0023      logits                                 6-8
 *     53,248         16  T0024      load y                                 7-8
 *     54,112      1,024  T0018      x                                      1-2
 *     54,112        512  T0021      hidden2                                4-5
 *     54,112        512  T0022      relu2                                  5-6
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"

#define T0018 ((float *)(void *)(poet_arena + 54112u)) /* x [4,64] */
#define T0019 ((float *)(void *)(poet_arena + 53088u)) /* hidden1 [4,64] */
#define T0020 ((float *)(void *)(poet_arena + 53088u)) /* relu1 [4,64] */
#define T0021 ((float *)(void *)(poet_arena + 54112u)) /* hidden2 [4,32] */
#define T0022 ((float *)(void *)(poet_arena + 54112u)) /* relu2 [4,32] */
#define T0023 ((float *)(void *)(poet_arena + 53088u)) /* logits [4,10] */
#define T0024 ((int32_t *)(void *)(poet_arena + 53248u)) /* load y [4] */

int poet_evaluate_step(void)
{
    /*   1  load x: load_x T0018[4,64] */
    POET_TRY(poet_data_load_x(T0018));
    /*   2  hidden1: linear T0018[4,64], P0000[64,64], P0001[64] -> T0019[4,64] */
    poet_linear_forward_f32(&OP0000, T0018, P0000, P0001, T0019);
    /*   3  relu1: relu T0019[4,64] -> T0020[4,64] */
    poet_relu_forward_f32(&OP0001, T0019, T0020);
    /*   4  hidden2: linear T0020[4,64], P0002[32,64], P0003[32] -> T0021[4,32] */
    poet_linear_forward_f32(&OP0002, T0020, P0002, P0003, T0021);
    /*   5  relu2: relu T0021[4,32] -> T0022[4,32] */
    poet_relu_forward_f32(&OP0003, T0021, T0022);
    /*   6  logits: linear T0022[4,32], P0004[10,32], P0005[10] -> T0023[4,10] */
    poet_linear_forward_f32(&OP0004, T0022, P0004, P0005, T0023);
    /*   7  load y: load_y T0024[4] */
    POET_TRY(poet_data_load_y(T0024));
    /*   8  metric: correct_count T0023[4,10], T0024[4] -> P0013[1] */
    poet_correct_count_f32(&OP0015, T0023, T0024, P0013);
    return POET_OK;
}
