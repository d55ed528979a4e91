/* SPDX-License-Identifier: Apache-2.0 */
/* evaluate_step.c: one evaluation step, digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 *
 *   16 steps: 16 compute, 0 of them again; 0 page-outs, 0 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     20,896      8,192  T0037      conv1                                  2-3
 *     20,896      8,192  T0038      bn1                                    3-4
 *     20,896      8,192  T0039      relu1                                  4-5
 *     20,896      4,096  T0044      conv3                                  9-10
 *     20,896      4,096  T0045      bn3                                    10-11
 *     20,896      4,096  T0046      relu3                                  11-12
 *     20,896        160  T0049      logits                                 14-16
 *     21,056         16  T0050      load y                                 15-16
 *     24,992      2,048  T0043      pool2                                  8-9
 *     24,992      1,024  T0047      pool3                                  12-13
 *     24,992      1,024  T0048      flatten                                13-14
 *     29,088      1,024  T0036      x                                      1-2
 *     29,088      8,192  T0040      conv2                                  5-6
 *     29,088      8,192  T0041      bn2                                    6-7
 *     29,088      8,192  T0042      relu2                                  7-8
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"

#define T0036 ((float *)(void *)(poet_arena + 29088u)) /* x [4,1,8,8] */
#define T0037 ((float *)(void *)(poet_arena + 20896u)) /* conv1 [4,8,8,8] */
#define T0038 ((float *)(void *)(poet_arena + 20896u)) /* bn1 [4,8,8,8] */
#define T0039 ((float *)(void *)(poet_arena + 20896u)) /* relu1 [4,8,8,8] */
#define T0040 ((float *)(void *)(poet_arena + 29088u)) /* conv2 [4,8,8,8] */
#define T0041 ((float *)(void *)(poet_arena + 29088u)) /* bn2 [4,8,8,8] */
#define T0042 ((float *)(void *)(poet_arena + 29088u)) /* relu2 [4,8,8,8] */
#define T0043 ((float *)(void *)(poet_arena + 24992u)) /* pool2 [4,8,4,4] */
#define T0044 ((float *)(void *)(poet_arena + 20896u)) /* conv3 [4,16,4,4] */
#define T0045 ((float *)(void *)(poet_arena + 20896u)) /* bn3 [4,16,4,4] */
#define T0046 ((float *)(void *)(poet_arena + 20896u)) /* relu3 [4,16,4,4] */
#define T0047 ((float *)(void *)(poet_arena + 24992u)) /* pool3 [4,16,2,2] */
#define T0048 ((float *)(void *)(poet_arena + 24992u)) /* flatten [4,64] */
#define T0049 ((float *)(void *)(poet_arena + 20896u)) /* logits [4,10] */
#define T0050 ((int32_t *)(void *)(poet_arena + 21056u)) /* load y [4] */

int poet_evaluate_step(void)
{
    /*   1  load x: load_x T0036[4,1,8,8] */
    POET_TRY(poet_data_load_x(T0036));
    poet_between_ops();
    /*   2  conv1: conv2d T0036[4,1,8,8], P0000[8,1,3,3] -> T0037[4,8,8,8] */
    poet_conv2d_forward_f32(&poet_op0000, T0036, P0000, NULL, T0037);
    poet_between_ops();
    /*   3  bn1: batch_norm T0037[4,8,8,8], P0001[2,8], P0002[2,8] -> T0038[4,8,8,8] */
    poet_batch_norm_inference_f32(&poet_op0003, T0037, P0001, P0002, T0038);
    poet_between_ops();
    /*   4  relu1: relu T0038[4,8,8,8] -> T0039[4,8,8,8] */
    poet_relu_forward_f32(&poet_op0004, T0038, T0039);
    poet_between_ops();
    /*   5  conv2: conv2d T0039[4,8,8,8], P0003[8,8,3,3] -> T0040[4,8,8,8] */
    poet_conv2d_forward_f32(&poet_op0005, T0039, P0003, NULL, T0040);
    poet_between_ops();
    /*   6  bn2: batch_norm T0040[4,8,8,8], P0004[2,8], P0005[2,8] -> T0041[4,8,8,8] */
    poet_batch_norm_inference_f32(&poet_op0003, T0040, P0004, P0005, T0041);
    poet_between_ops();
    /*   7  relu2: relu T0041[4,8,8,8] -> T0042[4,8,8,8] */
    poet_relu_forward_f32(&poet_op0004, T0041, T0042);
    poet_between_ops();
    /*   8  pool2: max_pool2d T0042[4,8,8,8] -> T0043[4,8,4,4] */
    poet_max_pool2d_2x2_forward_f32(&poet_op0006, T0042, T0043);
    poet_between_ops();
    /*   9  conv3: conv2d T0043[4,8,4,4], P0006[16,8,3,3] -> T0044[4,16,4,4] */
    poet_conv2d_forward_f32(&poet_op0007, T0043, P0006, NULL, T0044);
    poet_between_ops();
    /*  10  bn3: batch_norm T0044[4,16,4,4], P0007[2,16], P0008[2,16] -> T0045[4,16,4,4] */
    poet_batch_norm_inference_f32(&poet_op0010, T0044, P0007, P0008, T0045);
    poet_between_ops();
    /*  11  relu3: relu T0045[4,16,4,4] -> T0046[4,16,4,4] */
    poet_relu_forward_f32(&poet_op0011, T0045, T0046);
    poet_between_ops();
    /*  12  pool3: max_pool2d T0046[4,16,4,4] -> T0047[4,16,2,2] */
    poet_max_pool2d_2x2_forward_f32(&poet_op0012, T0046, T0047);
    poet_between_ops();
    /*  13  flatten: reshape T0047[4,16,2,2] -> T0048[4,64] (a view: nothing moves) */
    /*  14  logits: linear T0048[4,64], P0009[10,64], P0010[10] -> T0049[4,10] */
    poet_matmul_biased_f32(&poet_op0013, T0048, P0009, P0010, T0049);
    poet_between_ops();
    /*  15  load y: load_y T0050[4] */
    POET_TRY(poet_data_load_y(T0050));
    poet_between_ops();
    /*  16  metric: correct_count T0049[4,10], T0050[4] -> P0020[1] */
    poet_correct_count_f32(&poet_op0024, T0049, T0050, P0020);
    poet_between_ops();
    return POET_OK;
}
