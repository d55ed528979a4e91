/* SPDX-License-Identifier: Apache-2.0 */
/* train_step.c: the part of linux-small in a training step on several devices, mlp on linux, batch 4.
 * Written by poetfw 0.1.0 (plan 62f4bbef). Do not edit: change the plan and build again.
 *
 *   12 of 35 steps, 0 of them again; 15 messages
 *
 *     offset      bytes  tensor     holds                                  steps
 *     52,832        512  T0004      relu2                                  8-34
 *     53,344      1,024  T0000      x                                      2-29
 *     53,344        512  T0009      logits.backward_input                  33-34
 *     53,344        512  T0010      relu2.backward                         34-35
 *     53,344        256  T0014      hidden1.backward_bias                  30-31
 *     54,368      1,024  T0001      hidden1                                3-4
 *     54,368      1,024  T0002      relu1                                  26-35
 *     54,368        160  T0005      logits                                 9-12
 *     54,368        160  T0007      loss.backward                          20-21
 *     54,368         40  T0008      logits.backward_bias                   16-17
 *     54,368        128  T0011      hidden2.backward_bias                  23-24
 *     54,528         16  T0006      load y                                 10-11
 *     55,392      1,024  T0012      hidden2.backward_input                 27-28
 *     55,392      1,024  T0013      relu1.backward                         28-30
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"
#include "statement.h"

#define T0000 ((float *)(void *)(poet_arena + 53344u)) /* x [4,64] */
#define T0001 ((float *)(void *)(poet_arena + 54368u)) /* hidden1 [4,64] */
#define T0002 ((float *)(void *)(poet_arena + 54368u)) /* relu1 [4,64] */
#define T0004 ((float *)(void *)(poet_arena + 52832u)) /* relu2 [4,32] */
#define T0005 ((float *)(void *)(poet_arena + 54368u)) /* logits [4,10] */
#define T0006 ((int32_t *)(void *)(poet_arena + 54528u)) /* load y [4] */
#define T0007 ((float *)(void *)(poet_arena + 54368u)) /* loss.backward [4,10] */
#define T0008 ((float *)(void *)(poet_arena + 54368u)) /* logits.backward_bias [10] */
#define T0009 ((float *)(void *)(poet_arena + 53344u)) /* logits.backward_input [4,32] */
#define T0010 ((float *)(void *)(poet_arena + 53344u)) /* relu2.backward [4,32] */
#define T0011 ((float *)(void *)(poet_arena + 54368u)) /* hidden2.backward_bias [32] */
#define T0012 ((float *)(void *)(poet_arena + 55392u)) /* hidden2.backward_input [4,64] */
#define T0013 ((float *)(void *)(poet_arena + 55392u)) /* relu1.backward [4,64] */
#define T0014 ((float *)(void *)(poet_arena + 53344u)) /* hidden1.backward_bias [64] */

int poet_train_step(void)
{
    switch (poet_stopped_for) {
    case 0u:
    POET_STATEMENT(2u); /* message 1: x from linux-big */
    POET_STOP_FOR(1u);
    POET_STATEMENT(3u); /* hidden1: linear T0000[4,64], P0000[64,64], P0001[64] -> T0001[4,64] */
    poet_matmul_biased_f32(&poet_op0000, T0000, P0000, P0001, T0001);
    poet_between_ops();
    POET_STATEMENT(4u); /* message 2: hidden1 to linux-big */
    POET_STOP_FOR(2u);
    POET_STATEMENT(8u); /* message 3: relu2 from linux-big */
    POET_STOP_FOR(3u);
    POET_STATEMENT(9u); /* logits: linear T0004[4,32], P0004[10,32], P0005[10] -> T0005[4,10] */
    poet_matmul_biased_f32(&poet_op0001, T0004, P0004, P0005, T0005);
    poet_between_ops();
    POET_STATEMENT(10u); /* load y: load_y T0006[4] */
    POET_TRY(poet_data_load_y(T0006));
    poet_between_ops();
    POET_STATEMENT(11u); /* loss: softmax_cross_entropy T0005[4,10], T0006[4] -> P0006[1] */
    poet_softmax_cross_entropy_forward_f32(&poet_op0002, T0005, T0006, P0006);
    poet_between_ops();
    POET_STATEMENT(12u); /* message 4: logits to linux-big */
    POET_STOP_FOR(4u);
    POET_STATEMENT(16u); /* message 5: logits.backward_bias from linux-big */
    POET_STOP_FOR(5u);
    POET_STATEMENT(17u); /* logits.bias.update: sgd T0008[10] -> P0005[10], P0008[10] */
    POET_TRY(poet_capture(CAPTURE_P0005, T0008, 40u));
    poet_update_f32(10, T0008, NULL, &poet_op0003.update, NULL, P0005, P0008, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(20u); /* message 6: loss.backward from linux-big */
    POET_STOP_FOR(6u);
    POET_STATEMENT(21u); /* logits.weight.update: linear_backward_weight_sgd T0004[4,32], T0007[4,10] -> P0004[10,32], P0007[10,32] */
    poet_matmul_update_f32(&poet_op0004, T0007, T0004, &poet_op0003.update, NULL, P0004, P0007,
                           NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(21u); /* message 7: logits.weight to linux-big */
    POET_STOP_FOR(7u);
    POET_STATEMENT(23u); /* message 8: hidden2.backward_bias from linux-big */
    POET_STOP_FOR(8u);
    POET_STATEMENT(24u); /* hidden2.bias.update: sgd T0011[32] -> P0003[32], P0010[32] */
    POET_TRY(poet_capture(CAPTURE_P0003, T0011, 128u));
    poet_update_f32(32, T0011, NULL, &poet_op0003.update, NULL, P0003, P0010, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(24u); /* message 9: hidden2.bias to linux-big */
    POET_STOP_FOR(9u);
    POET_STATEMENT(26u); /* message 10: relu1 from linux-big */
    POET_STOP_FOR(10u);
    POET_STATEMENT(27u); /* message 11: hidden2.backward_input from linux-big */
    POET_STOP_FOR(11u);
    POET_STATEMENT(28u); /* relu1.backward: relu_backward T0002[4,64], T0012[4,64] -> T0013[4,64] */
    poet_relu_backward_f32(&poet_op0005, T0002, T0012, T0013);
    poet_between_ops();
    POET_STATEMENT(29u); /* hidden1.weight.update: linear_backward_weight_sgd T0000[4,64], T0013[4,64] -> P0000[64,64], P0011[64,64] */
    poet_matmul_update_f32(&poet_op0006, T0013, T0000, &poet_op0003.update, NULL, P0000, P0011,
                           NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(30u); /* hidden1.backward_bias: linear_backward_bias T0013[4,64] -> T0014[64] */
    poet_linear_backward_bias_f32(&poet_op0007, T0013, T0014);
    poet_between_ops();
    POET_STATEMENT(31u); /* message 12: hidden1.backward_bias to linux-big */
    POET_STOP_FOR(12u);
    POET_STATEMENT(32u); /* message 13: hidden1.bias from linux-big */
    POET_STOP_FOR(13u);
    POET_STATEMENT(33u); /* message 14: logits.backward_input from linux-big */
    POET_STOP_FOR(14u);
    POET_STATEMENT(34u); /* relu2.backward: relu_backward T0004[4,32], T0009[4,32] -> T0010[4,32] */
    poet_relu_backward_f32(&poet_op0008, T0004, T0009, T0010);
    poet_between_ops();
    POET_STATEMENT(35u); /* hidden2.weight.update: linear_backward_weight_sgd T0002[4,64], T0010[4,32] -> P0002[32,64], P0009[32,64] */
    poet_matmul_update_f32(&poet_op0009, T0010, T0002, &poet_op0003.update, NULL, P0002, P0009,
                           NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(35u); /* message 15: hidden2.weight to linux-big */
    POET_STOP_FOR(15u);
        break;
    default:
        return POET_ERROR_ORDER;
    }
    poet_stopped_for = 0u;
    POET_STATEMENT(36u); /* the end */
    return POET_OK;
}
