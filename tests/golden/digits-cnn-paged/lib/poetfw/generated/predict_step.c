/* SPDX-License-Identifier: Apache-2.0 */
/* predict_step.c: the prediction of one sample, digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 *
 *   14 steps: 14 compute, 0 of them again; 0 page-outs, 0 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     20,896      2,048  T0052      conv1                                  2-3
 *     20,896      2,048  T0053      bn1                                    3-4
 *     20,896      2,048  T0054      relu1                                  4-5
 *     20,896      1,024  T0059      conv3                                  9-10
 *     20,896      1,024  T0060      bn3                                    10-11
 *     20,896      1,024  T0061      relu3                                  11-12
 *     20,896         40  T0064      logits                                 14-14
 *     21,920        512  T0058      pool2                                  8-9
 *     21,920        256  T0062      pool3                                  12-13
 *     21,920        256  T0063      flatten                                13-14
 *     22,944        256  T0051      x                                      1-2
 *     22,944      2,048  T0055      conv2                                  5-6
 *     22,944      2,048  T0056      bn2                                    6-7
 *     22,944      2,048  T0057      relu2                                  7-8
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"
#include "poet_memory.h"

#define T0051 ((float *)(void *)(poet_arena + 22944u)) /* x [1,1,8,8] */
#define T0052 ((float *)(void *)(poet_arena + 20896u)) /* conv1 [1,8,8,8] */
#define T0053 ((float *)(void *)(poet_arena + 20896u)) /* bn1 [1,8,8,8] */
#define T0054 ((float *)(void *)(poet_arena + 20896u)) /* relu1 [1,8,8,8] */
#define T0055 ((float *)(void *)(poet_arena + 22944u)) /* conv2 [1,8,8,8] */
#define T0056 ((float *)(void *)(poet_arena + 22944u)) /* bn2 [1,8,8,8] */
#define T0057 ((float *)(void *)(poet_arena + 22944u)) /* relu2 [1,8,8,8] */
#define T0058 ((float *)(void *)(poet_arena + 21920u)) /* pool2 [1,8,4,4] */
#define T0059 ((float *)(void *)(poet_arena + 20896u)) /* conv3 [1,16,4,4] */
#define T0060 ((float *)(void *)(poet_arena + 20896u)) /* bn3 [1,16,4,4] */
#define T0061 ((float *)(void *)(poet_arena + 20896u)) /* relu3 [1,16,4,4] */
#define T0062 ((float *)(void *)(poet_arena + 21920u)) /* pool3 [1,16,2,2] */
#define T0063 ((float *)(void *)(poet_arena + 21920u)) /* flatten [1,64] */
#define T0064 ((float *)(void *)(poet_arena + 20896u)) /* logits [1,10] */

int poet_predict_step(const void *x, void *output)
{
    /*   1  load x: load_x T0051[1,1,8,8] */
    memcpy(T0051, x, POET_X_BYTES);
    poet_between_ops();
    /*   2  conv1: conv2d T0051[1,1,8,8], P0000[8,1,3,3] -> T0052[1,8,8,8] */
    poet_conv2d_forward_f32(&poet_op0025, T0051, P0000, NULL, T0052);
    poet_between_ops();
    /*   3  bn1: batch_norm T0052[1,8,8,8], P0001[2,8], P0002[2,8] -> T0053[1,8,8,8] */
    poet_batch_norm_inference_f32(&poet_op0026, T0052, P0001, P0002, T0053);
    poet_between_ops();
    /*   4  relu1: relu T0053[1,8,8,8] -> T0054[1,8,8,8] */
    poet_relu_forward_f32(&poet_op0027, T0053, T0054);
    poet_between_ops();
    /*   5  conv2: conv2d T0054[1,8,8,8], P0003[8,8,3,3] -> T0055[1,8,8,8] */
    poet_conv2d_forward_f32(&poet_op0028, T0054, P0003, NULL, T0055);
    poet_between_ops();
    /*   6  bn2: batch_norm T0055[1,8,8,8], P0004[2,8], P0005[2,8] -> T0056[1,8,8,8] */
    poet_batch_norm_inference_f32(&poet_op0026, T0055, P0004, P0005, T0056);
    poet_between_ops();
    /*   7  relu2: relu T0056[1,8,8,8] -> T0057[1,8,8,8] */
    poet_relu_forward_f32(&poet_op0027, T0056, T0057);
    poet_between_ops();
    /*   8  pool2: max_pool2d T0057[1,8,8,8] -> T0058[1,8,4,4] */
    poet_max_pool2d_2x2_forward_f32(&poet_op0029, T0057, T0058);
    poet_between_ops();
    /*   9  conv3: conv2d T0058[1,8,4,4], P0006[16,8,3,3] -> T0059[1,16,4,4] */
    poet_conv2d_forward_f32(&poet_op0030, T0058, P0006, NULL, T0059);
    poet_between_ops();
    /*  10  bn3: batch_norm T0059[1,16,4,4], P0007[2,16], P0008[2,16] -> T0060[1,16,4,4] */
    poet_batch_norm_inference_f32(&poet_op0031, T0059, P0007, P0008, T0060);
    poet_between_ops();
    /*  11  relu3: relu T0060[1,16,4,4] -> T0061[1,16,4,4] */
    poet_relu_forward_f32(&poet_op0032, T0060, T0061);
    poet_between_ops();
    /*  12  pool3: max_pool2d T0061[1,16,4,4] -> T0062[1,16,2,2] */
    poet_max_pool2d_2x2_forward_f32(&poet_op0033, T0061, T0062);
    poet_between_ops();
    /*  13  flatten: reshape T0062[1,16,2,2] -> T0063[1,64] (a view: nothing moves) */
    /*  14  logits: linear T0063[1,64], P0009[10,64], P0010[10] -> T0064[1,10] */
    poet_matmul_biased_f32(&poet_op0034, T0063, P0009, P0010, T0064);
    memcpy(output, T0064, POET_OUTPUT_BYTES);
    poet_between_ops();
    return POET_OK;
}
