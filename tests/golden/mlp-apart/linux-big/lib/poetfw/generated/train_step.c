/* SPDX-License-Identifier: Apache-2.0 */
/* train_step.c: the part of linux-big in a training step on several devices, mlp on linux, batch 4.
 * Written by poetfw 0.1.0 (plan b081199a). Do not edit: change the plan and build again.
 *
 *   12 of 35 steps, 0 of them again; 15 messages
 *
 *     offset      bytes  tensor     holds                                  steps
 *     27,064      1,024  T0000      x                                      1-2
 *     27,064      1,024  T0001      hidden1                                4-5
 *     27,064      1,024  T0002      relu1                                  5-26
 *     27,064        256  T0014      hidden1.backward_bias                  31-32
 *     28,088        512  T0003      hidden2                                6-7
 *     28,088        512  T0004      relu2                                  7-19
 *     28,088        128  T0011      hidden2.backward_bias                  22-23
 *     28,088      1,024  T0012      hidden2.backward_input                 25-27
 *     28,600        160  T0005      logits                                 12-14
 *     28,600        160  T0007      loss.backward                          14-20
 *     28,760         16  T0006      load y                                 13-14
 *     28,760         40  T0008      logits.backward_bias                   15-16
 *     29,112        512  T0009      logits.backward_input                  18-33
 *     29,624        512  T0010      relu2.backward                         19-25
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"
#include "statement.h"

#define T0000 ((float *)(void *)(poet_arena + 27064u)) /* x [4,64] */
#define T0001 ((float *)(void *)(poet_arena + 27064u)) /* hidden1 [4,64] */
#define T0002 ((float *)(void *)(poet_arena + 27064u)) /* relu1 [4,64] */
#define T0003 ((float *)(void *)(poet_arena + 28088u)) /* hidden2 [4,32] */
#define T0004 ((float *)(void *)(poet_arena + 28088u)) /* relu2 [4,32] */
#define T0005 ((float *)(void *)(poet_arena + 28600u)) /* logits [4,10] */
#define T0006 ((int32_t *)(void *)(poet_arena + 28760u)) /* load y [4] */
#define T0007 ((float *)(void *)(poet_arena + 28600u)) /* loss.backward [4,10] */
#define T0008 ((float *)(void *)(poet_arena + 28760u)) /* logits.backward_bias [10] */
#define T0009 ((float *)(void *)(poet_arena + 29112u)) /* logits.backward_input [4,32] */
#define T0010 ((float *)(void *)(poet_arena + 29624u)) /* relu2.backward [4,32] */
#define T0011 ((float *)(void *)(poet_arena + 28088u)) /* hidden2.backward_bias [32] */
#define T0012 ((float *)(void *)(poet_arena + 28088u)) /* hidden2.backward_input [4,64] */
#define T0014 ((float *)(void *)(poet_arena + 27064u)) /* hidden1.backward_bias [64] */

int poet_train_step(void)
{
    switch (poet_stopped_for) {
    case 0u:
    POET_STATEMENT(1u); /* load x: load_x T0000[4,64] */
    POET_TRY(poet_data_load_x(T0000));
    poet_between_ops();
    POET_STATEMENT(2u); /* message 1: x to linux-small */
    POET_STOP_FOR(1u);
    POET_STATEMENT(4u); /* message 2: hidden1 from linux-small */
    POET_STOP_FOR(2u);
    POET_STATEMENT(5u); /* relu1: relu T0001[4,64] -> T0002[4,64] */
    poet_relu_forward_f32(&poet_op0000, T0001, T0002);
    poet_between_ops();
    POET_STATEMENT(6u); /* hidden2: linear T0002[4,64], P0002[32,64], P0003[32] -> T0003[4,32] */
    poet_matmul_biased_f32(&poet_op0001, T0002, P0002, P0003, T0003);
    poet_between_ops();
    POET_STATEMENT(7u); /* relu2: relu T0003[4,32] -> T0004[4,32] */
    poet_relu_forward_f32(&poet_op0002, T0003, T0004);
    poet_between_ops();
    POET_STATEMENT(8u); /* message 3: relu2 to linux-small */
    POET_STOP_FOR(3u);
    POET_STATEMENT(12u); /* message 4: logits from linux-small */
    POET_STOP_FOR(4u);
    POET_STATEMENT(13u); /* load y: load_y T0006[4] */
    POET_TRY(poet_data_load_y(T0006));
    poet_between_ops();
    POET_STATEMENT(14u); /* loss.backward: softmax_cross_entropy_backward T0005[4,10], T0006[4] -> T0007[4,10] */
    poet_softmax_cross_entropy_backward_f32(&poet_op0003, T0005, T0006, T0007);
    poet_between_ops();
    POET_STATEMENT(15u); /* logits.backward_bias: linear_backward_bias T0007[4,10] -> T0008[10] */
    poet_linear_backward_bias_f32(&poet_op0004, T0007, T0008);
    poet_between_ops();
    POET_STATEMENT(16u); /* message 5: logits.backward_bias to linux-small */
    POET_STOP_FOR(5u);
    POET_STATEMENT(18u); /* logits.backward_input: linear_backward_input P0004[10,32], T0007[4,10] -> T0009[4,32] */
    poet_matmul_f32(&poet_op0005, T0007, P0004, T0009);
    poet_between_ops();
    POET_STATEMENT(19u); /* relu2.backward: relu_backward T0004[4,32], T0009[4,32] -> T0010[4,32] */
    poet_relu_backward_f32(&poet_op0002, T0004, T0009, T0010);
    poet_between_ops();
    POET_STATEMENT(20u); /* message 6: loss.backward to linux-small */
    POET_STOP_FOR(6u);
    POET_STATEMENT(21u); /* message 7: logits.weight from linux-small */
    POET_STOP_FOR(7u);
    POET_STATEMENT(22u); /* hidden2.backward_bias: linear_backward_bias T0010[4,32] -> T0011[32] */
    poet_linear_backward_bias_f32(&poet_op0006, T0010, T0011);
    poet_between_ops();
    POET_STATEMENT(23u); /* message 8: hidden2.backward_bias to linux-small */
    POET_STOP_FOR(8u);
    POET_STATEMENT(24u); /* message 9: hidden2.bias from linux-small */
    POET_STOP_FOR(9u);
    POET_STATEMENT(25u); /* hidden2.backward_input: linear_backward_input P0002[32,64], T0010[4,32] -> T0012[4,64] */
    poet_matmul_f32(&poet_op0007, T0010, P0002, T0012);
    poet_between_ops();
    POET_STATEMENT(26u); /* message 10: relu1 to linux-small */
    POET_STOP_FOR(10u);
    POET_STATEMENT(27u); /* message 11: hidden2.backward_input to linux-small */
    POET_STOP_FOR(11u);
    POET_STATEMENT(31u); /* message 12: hidden1.backward_bias from linux-small */
    POET_STOP_FOR(12u);
    POET_STATEMENT(32u); /* hidden1.bias.update: sgd T0014[64] -> P0001[64], P0012[64] */
    POET_TRY(poet_capture(CAPTURE_P0001, T0014, 256u));
    poet_update_f32(64, T0014, NULL, &poet_op0008.update, NULL, P0001, P0012, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(32u); /* message 13: hidden1.bias to linux-small */
    POET_STOP_FOR(13u);
    POET_STATEMENT(33u); /* message 14: logits.backward_input to linux-small */
    POET_STOP_FOR(14u);
    POET_STATEMENT(35u); /* message 15: hidden2.weight from linux-small */
    POET_STOP_FOR(15u);
        break;
    default:
        return POET_ERROR_ORDER;
    }
    poet_stopped_for = 0u;
    POET_STATEMENT(36u); /* the end */
    return POET_OK;
}
