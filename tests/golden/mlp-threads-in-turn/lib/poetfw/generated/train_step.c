/* SPDX-License-Identifier: Apache-2.0 */
/* train_step.c: one training step on several devices, mlp on linux, batch 4.
 * Written by poetfw 0.1.0 (plan 6e50fac9). Do not edit: change the plan and build again.
 *
 *   35 steps: 24 compute, 2 of them again; 11 copies
 *
 *     offset      bytes  tensor     holds                                  steps
 *     53,088      1,024  A0_T0000   x                                      1-2
 *     53,088      1,024  A0_T0001   hidden1                                4-5
 *     53,088      1,024  A0_T0002   relu1                                  5-26
 *     53,088        512  A0_W0008   workspace of hidden2.backward_input    27-27
 *     53,088        512  A0_W0009   workspace of hidden1.backward_bias     31-31
 *     53,088        512  A0_W0010   workspace of logits.backward_input     33-33
 *     53,600        256  A0_T0014   hidden1.backward_bias                  31-32
 *     54,112         16  A0_T0006   load y                                 13-14
 *     54,112        512  A0_T0009   logits.backward_input                  18-33
 *     54,112        512  A0_W0000   workspace of load x                    2-2
 *     54,112        512  A0_W0001   workspace of hidden1                   4-4
 *     54,112        512  A0_W0002   workspace of relu2                     8-8
 *     54,112        512  A0_W0003   workspace of logits                    12-12
 *     54,112        512  A0_W0004   workspace of logits.backward_bias      16-16
 *     54,624        512  A0_T0003   hidden2                                6-7
 *     54,624        512  A0_T0004   relu2                                  7-19
 *     54,624      1,024  A0_T0012   hidden2.backward_input                 25-27
 *     54,624        512  A0_W0005   workspace of loss.backward             20-20
 *     54,624        512  A0_W0006   workspace of hidden2.backward_bias     23-23
 *     55,136        160  A0_T0005   logits                                 12-14
 *     55,136        160  A0_T0007   loss.backward                          14-20
 *     55,136        128  A0_T0011   hidden2.backward_bias                  22-23
 *     55,296         40  A0_T0008   logits.backward_bias                   15-16
 *     55,648        512  A0_T0010   relu2.backward                         19-25
 *     55,648        512  A0_W0007   workspace of relu1                     26-26
 *     56,160        512  A1_T0004   relu2                                  8-34
 *     56,160        512  A1_W0000   workspace of load x                    2-2
 *     56,160        512  A1_W0001   workspace of hidden1                   4-4
 *     56,672      1,024  A1_T0000   x                                      2-29
 *     56,672        256  A1_T0014   hidden1.backward_bias                  30-31
 *     56,672        512  A1_W0010   workspace of logits.backward_input     33-33
 *     56,928        512  A1_W0009   workspace of hidden1.backward_bias     31-31
 *     57,184        512  A1_T0009   logits.backward_input                  33-34
 *     57,184        512  A1_T0010   relu2.backward                         34-35
 *     57,696      1,024  A1_T0001   hidden1                                3-4
 *     57,696      1,024  A1_T0002   relu1                                  26-35
 *     57,696        160  A1_T0005   logits                                 9-12
 *     57,696        512  A1_W0002   workspace of relu2                     8-8
 *     57,696        512  A1_W0004   workspace of logits.backward_bias      16-16
 *     57,696        512  A1_W0005   workspace of loss.backward             20-20
 *     57,696        512  A1_W0006   workspace of hidden2.backward_bias     23-23
 *     57,856         16  A1_T0006   load y                                 10-11
 *     57,856        512  A1_W0003   workspace of logits                    12-12
 *     58,208        160  A1_T0007   loss.backward                          20-21
 *     58,208         40  A1_T0008   logits.backward_bias                   16-17
 *     58,208        128  A1_T0011   hidden2.backward_bias                  23-24
 *     58,720      1,024  A1_T0012   hidden2.backward_input                 27-28
 *     58,720      1,024  A1_T0013   relu1.backward                         28-30
 *     58,720        512  A1_W0007   workspace of relu1                     26-26
 *     59,744        512  A1_W0008   workspace of hidden2.backward_input    27-27
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"
#include "poet_memory.h"
#include "statement.h"
#include "workers.h"

#define A0_T0000 ((float *)(void *)(poet_arena + 53088u)) /* x [4,64] */
#define A0_T0001 ((float *)(void *)(poet_arena + 53088u)) /* hidden1 [4,64] */
#define A0_T0002 ((float *)(void *)(poet_arena + 53088u)) /* relu1 [4,64] */
#define A0_T0003 ((float *)(void *)(poet_arena + 54624u)) /* hidden2 [4,32] */
#define A0_T0004 ((float *)(void *)(poet_arena + 54624u)) /* relu2 [4,32] */
#define A0_T0005 ((float *)(void *)(poet_arena + 55136u)) /* logits [4,10] */
#define A0_T0006 ((int32_t *)(void *)(poet_arena + 54112u)) /* load y [4] */
#define A0_T0007 ((float *)(void *)(poet_arena + 55136u)) /* loss.backward [4,10] */
#define A0_T0008 ((float *)(void *)(poet_arena + 55296u)) /* logits.backward_bias [10] */
#define A0_T0009 ((float *)(void *)(poet_arena + 54112u)) /* logits.backward_input [4,32] */
#define A0_T0010 ((float *)(void *)(poet_arena + 55648u)) /* relu2.backward [4,32] */
#define A0_T0011 ((float *)(void *)(poet_arena + 55136u)) /* hidden2.backward_bias [32] */
#define A0_T0012 ((float *)(void *)(poet_arena + 54624u)) /* hidden2.backward_input [4,64] */
#define A0_T0014 ((float *)(void *)(poet_arena + 53600u)) /* hidden1.backward_bias [64] */
#define A0_W0000 ((void *)(poet_arena + 54112u)) /* workspace of load x */
#define A0_W0001 ((void *)(poet_arena + 54112u)) /* workspace of hidden1 */
#define A0_W0002 ((void *)(poet_arena + 54112u)) /* workspace of relu2 */
#define A0_W0003 ((void *)(poet_arena + 54112u)) /* workspace of logits */
#define A0_W0004 ((void *)(poet_arena + 54112u)) /* workspace of logits.backward_bias */
#define A0_W0005 ((void *)(poet_arena + 54624u)) /* workspace of loss.backward */
#define A0_W0006 ((void *)(poet_arena + 54624u)) /* workspace of hidden2.backward_bias */
#define A0_W0007 ((void *)(poet_arena + 55648u)) /* workspace of relu1 */
#define A0_W0008 ((void *)(poet_arena + 53088u)) /* workspace of hidden2.backward_input */
#define A0_W0009 ((void *)(poet_arena + 53088u)) /* workspace of hidden1.backward_bias */
#define A0_W0010 ((void *)(poet_arena + 53088u)) /* workspace of logits.backward_input */
#define A1_T0000 ((float *)(void *)(poet_arena + 56672u)) /* x [4,64] */
#define A1_T0001 ((float *)(void *)(poet_arena + 57696u)) /* hidden1 [4,64] */
#define A1_T0002 ((float *)(void *)(poet_arena + 57696u)) /* relu1 [4,64] */
#define A1_T0004 ((float *)(void *)(poet_arena + 56160u)) /* relu2 [4,32] */
#define A1_T0005 ((float *)(void *)(poet_arena + 57696u)) /* logits [4,10] */
#define A1_T0006 ((int32_t *)(void *)(poet_arena + 57856u)) /* load y [4] */
#define A1_T0007 ((float *)(void *)(poet_arena + 58208u)) /* loss.backward [4,10] */
#define A1_T0008 ((float *)(void *)(poet_arena + 58208u)) /* logits.backward_bias [10] */
#define A1_T0009 ((float *)(void *)(poet_arena + 57184u)) /* logits.backward_input [4,32] */
#define A1_T0010 ((float *)(void *)(poet_arena + 57184u)) /* relu2.backward [4,32] */
#define A1_T0011 ((float *)(void *)(poet_arena + 58208u)) /* hidden2.backward_bias [32] */
#define A1_T0012 ((float *)(void *)(poet_arena + 58720u)) /* hidden2.backward_input [4,64] */
#define A1_T0013 ((float *)(void *)(poet_arena + 58720u)) /* relu1.backward [4,64] */
#define A1_T0014 ((float *)(void *)(poet_arena + 56672u)) /* hidden1.backward_bias [64] */
#define A1_W0000 ((void *)(poet_arena + 56160u)) /* workspace of load x */
#define A1_W0001 ((void *)(poet_arena + 56160u)) /* workspace of hidden1 */
#define A1_W0002 ((void *)(poet_arena + 57696u)) /* workspace of relu2 */
#define A1_W0003 ((void *)(poet_arena + 57856u)) /* workspace of logits */
#define A1_W0004 ((void *)(poet_arena + 57696u)) /* workspace of logits.backward_bias */
#define A1_W0005 ((void *)(poet_arena + 57696u)) /* workspace of loss.backward */
#define A1_W0006 ((void *)(poet_arena + 57696u)) /* workspace of hidden2.backward_bias */
#define A1_W0007 ((void *)(poet_arena + 58720u)) /* workspace of relu1 */
#define A1_W0008 ((void *)(poet_arena + 59744u)) /* workspace of hidden2.backward_input */
#define A1_W0009 ((void *)(poet_arena + 56928u)) /* workspace of hidden1.backward_bias */
#define A1_W0010 ((void *)(poet_arena + 56672u)) /* workspace of logits.backward_input */

static int take_turns(uint32_t worker)
{
    POET_STATEMENT(1u); /* load x: load_x A0_T0000[4,64], on linux-big */
    if (POET_TAKES(0u)) {
        POET_ALONE(poet_data_load_x(A0_T0000));
        poet_end_statement(worker, 1u);
    }
    POET_STATEMENT(2u); /* copy x, A0_T0000 -> A1_T0000, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(0u, 1u));
        poet_copy(A1_T0000, A0_T0000, 1024u, A0_W0000, A1_W0000, 512u);
        poet_end_statement(worker, 2u);
    }
    POET_STATEMENT(3u); /* hidden1: linear A1_T0000[4,64], P0000[64,64], P0001[64] -> A1_T0001[4,64], on linux-small */
    if (POET_TAKES(1u)) {
        POET_TRY(poet_wait_for(2u, 2u));
        poet_matmul_biased_f32(&poet_op0000, A1_T0000, P0000, P0001, A1_T0001);
        poet_end_statement(worker, 3u);
    }
    POET_STATEMENT(4u); /* copy hidden1, A1_T0001 -> A0_T0001, from linux-small to linux-big */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(1u, 3u));
        poet_copy(A0_T0001, A1_T0001, 1024u, A1_W0001, A0_W0001, 512u);
        poet_end_statement(worker, 4u);
    }
    POET_STATEMENT(5u); /* relu1: relu A0_T0001[4,64] -> A0_T0002[4,64], on linux-big */
    if (POET_TAKES(0u)) {
        POET_TRY(poet_wait_for(2u, 4u));
        poet_relu_forward_f32(&poet_op0001, A0_T0001, A0_T0002);
        poet_end_statement(worker, 5u);
    }
    POET_STATEMENT(6u); /* hidden2: linear A0_T0002[4,64], P0002[32,64], P0003[32] -> A0_T0003[4,32], on linux-big */
    if (POET_TAKES(0u)) {
        poet_matmul_biased_f32(&poet_op0002, A0_T0002, P0002, P0003, A0_T0003);
        poet_end_statement(worker, 6u);
    }
    POET_STATEMENT(7u); /* relu2: relu A0_T0003[4,32] -> A0_T0004[4,32], on linux-big */
    if (POET_TAKES(0u)) {
        poet_relu_forward_f32(&poet_op0003, A0_T0003, A0_T0004);
        poet_end_statement(worker, 7u);
    }
    POET_STATEMENT(8u); /* copy relu2, A0_T0004 -> A1_T0004, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(0u, 7u));
        poet_copy(A1_T0004, A0_T0004, 512u, A0_W0002, A1_W0002, 512u);
        poet_end_statement(worker, 8u);
    }
    POET_STATEMENT(9u); /* logits: linear A1_T0004[4,32], P0004[10,32], P0005[10] -> A1_T0005[4,10], on linux-small */
    if (POET_TAKES(1u)) {
        POET_TRY(poet_wait_for(2u, 8u));
        poet_matmul_biased_f32(&poet_op0004, A1_T0004, P0004, P0005, A1_T0005);
        poet_end_statement(worker, 9u);
    }
    POET_STATEMENT(10u); /* load y: load_y A1_T0006[4], on linux-small */
    if (POET_TAKES(1u)) {
        POET_ALONE(poet_data_load_y(A1_T0006));
        poet_end_statement(worker, 10u);
    }
    POET_STATEMENT(11u); /* loss: softmax_cross_entropy A1_T0005[4,10], A1_T0006[4] -> P0006[1], on linux-small */
    if (POET_TAKES(1u)) {
        poet_softmax_cross_entropy_forward_f32(&poet_op0005, A1_T0005, A1_T0006, P0006);
        poet_end_statement(worker, 11u);
    }
    POET_STATEMENT(12u); /* copy logits, A1_T0005 -> A0_T0005, from linux-small to linux-big */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(1u, 11u));
        poet_copy(A0_T0005, A1_T0005, 160u, A1_W0003, A0_W0003, 512u);
        poet_end_statement(worker, 12u);
    }
    POET_STATEMENT(13u); /* load y: load_y A0_T0006[4] (again), on linux-big */
    if (POET_TAKES(0u)) {
        POET_TRY(poet_wait_for(2u, 12u));
        POET_ALONE(poet_data_load_y(A0_T0006));
        poet_end_statement(worker, 13u);
    }
    POET_STATEMENT(14u); /* loss.backward: softmax_cross_entropy_backward A0_T0005[4,10], A0_T0006[4] -> A0_T0007[4,10], on linux-big */
    if (POET_TAKES(0u)) {
        poet_softmax_cross_entropy_backward_f32(&poet_op0005, A0_T0005, A0_T0006, A0_T0007);
        poet_end_statement(worker, 14u);
    }
    POET_STATEMENT(15u); /* logits.backward_bias: linear_backward_bias A0_T0007[4,10] -> A0_T0008[10], on linux-big */
    if (POET_TAKES(0u)) {
        poet_linear_backward_bias_f32(&poet_op0006, A0_T0007, A0_T0008);
        poet_end_statement(worker, 15u);
    }
    POET_STATEMENT(16u); /* copy logits.backward_bias, A0_T0008 -> A1_T0008, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(0u, 15u));
        poet_copy(A1_T0008, A0_T0008, 40u, A0_W0004, A1_W0004, 512u);
        poet_end_statement(worker, 16u);
    }
    POET_STATEMENT(17u); /* logits.bias.update: sgd A1_T0008[10] -> P0005[10], P0008[10], on linux-small */
    if (POET_TAKES(1u)) {
        POET_TRY(poet_wait_for(2u, 16u));
        POET_ALONE(poet_capture(CAPTURE_P0005, A1_T0008, 40u));
        poet_update_f32(10, A1_T0008, NULL, &poet_op0007.update, NULL, P0005, P0008, NULL, NULL);
        poet_end_statement(worker, 17u);
    }
    POET_STATEMENT(18u); /* logits.backward_input: linear_backward_input P0004[10,32], A0_T0007[4,10] -> A0_T0009[4,32], on linux-big */
    if (POET_TAKES(0u)) {
        POET_TRY(poet_wait_for(1u, 17u));
        poet_matmul_f32(&poet_op0008, A0_T0007, P0004, A0_T0009);
        poet_end_statement(worker, 18u);
    }
    POET_STATEMENT(19u); /* relu2.backward: relu_backward A0_T0004[4,32], A0_T0009[4,32] -> A0_T0010[4,32], on linux-big */
    if (POET_TAKES(0u)) {
        poet_relu_backward_f32(&poet_op0003, A0_T0004, A0_T0009, A0_T0010);
        poet_end_statement(worker, 19u);
    }
    POET_STATEMENT(20u); /* copy loss.backward, A0_T0007 -> A1_T0007, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(0u, 19u));
        poet_copy(A1_T0007, A0_T0007, 160u, A0_W0005, A1_W0005, 512u);
        poet_end_statement(worker, 20u);
    }
    POET_STATEMENT(21u); /* logits.weight.update: linear_backward_weight_sgd A1_T0004[4,32], A1_T0007[4,10] -> P0004[10,32], P0007[10,32], on linux-small */
    if (POET_TAKES(1u)) {
        POET_TRY(poet_wait_for(2u, 20u));
        poet_matmul_update_f32(&poet_op0009, A1_T0007, A1_T0004, &poet_op0007.update, NULL, P0004,
                               P0007, NULL, NULL);
        poet_end_statement(worker, 21u);
    }
    POET_STATEMENT(22u); /* hidden2.backward_bias: linear_backward_bias A0_T0010[4,32] -> A0_T0011[32], on linux-big */
    if (POET_TAKES(0u)) {
        POET_TRY(poet_wait_for(1u, 21u));
        poet_linear_backward_bias_f32(&poet_op0010, A0_T0010, A0_T0011);
        poet_end_statement(worker, 22u);
    }
    POET_STATEMENT(23u); /* copy hidden2.backward_bias, A0_T0011 -> A1_T0011, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(0u, 22u));
        poet_copy(A1_T0011, A0_T0011, 128u, A0_W0006, A1_W0006, 512u);
        poet_end_statement(worker, 23u);
    }
    POET_STATEMENT(24u); /* hidden2.bias.update: sgd A1_T0011[32] -> P0003[32], P0010[32], on linux-small */
    if (POET_TAKES(1u)) {
        POET_TRY(poet_wait_for(2u, 23u));
        POET_ALONE(poet_capture(CAPTURE_P0003, A1_T0011, 128u));
        poet_update_f32(32, A1_T0011, NULL, &poet_op0007.update, NULL, P0003, P0010, NULL, NULL);
        poet_end_statement(worker, 24u);
    }
    POET_STATEMENT(25u); /* hidden2.backward_input: linear_backward_input P0002[32,64], A0_T0010[4,32] -> A0_T0012[4,64], on linux-big */
    if (POET_TAKES(0u)) {
        POET_TRY(poet_wait_for(1u, 24u));
        poet_matmul_f32(&poet_op0011, A0_T0010, P0002, A0_T0012);
        poet_end_statement(worker, 25u);
    }
    POET_STATEMENT(26u); /* copy relu1, A0_T0002 -> A1_T0002, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(0u, 25u));
        poet_copy(A1_T0002, A0_T0002, 1024u, A0_W0007, A1_W0007, 512u);
        poet_end_statement(worker, 26u);
    }
    POET_STATEMENT(27u); /* copy hidden2.backward_input, A0_T0012 -> A1_T0012, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        poet_copy(A1_T0012, A0_T0012, 1024u, A0_W0008, A1_W0008, 512u);
        poet_end_statement(worker, 27u);
    }
    POET_STATEMENT(28u); /* relu1.backward: relu_backward A1_T0002[4,64], A1_T0012[4,64] -> A1_T0013[4,64], on linux-small */
    if (POET_TAKES(1u)) {
        POET_TRY(poet_wait_for(2u, 27u));
        poet_relu_backward_f32(&poet_op0001, A1_T0002, A1_T0012, A1_T0013);
        poet_end_statement(worker, 28u);
    }
    POET_STATEMENT(29u); /* hidden1.weight.update: linear_backward_weight_sgd A1_T0000[4,64], A1_T0013[4,64] -> P0000[64,64], P0011[64,64], on linux-small */
    if (POET_TAKES(1u)) {
        poet_matmul_update_f32(&poet_op0012, A1_T0013, A1_T0000, &poet_op0007.update, NULL, P0000,
                               P0011, NULL, NULL);
        poet_end_statement(worker, 29u);
    }
    POET_STATEMENT(30u); /* hidden1.backward_bias: linear_backward_bias A1_T0013[4,64] -> A1_T0014[64], on linux-small */
    if (POET_TAKES(1u)) {
        poet_linear_backward_bias_f32(&poet_op0013, A1_T0013, A1_T0014);
        poet_end_statement(worker, 30u);
    }
    POET_STATEMENT(31u); /* copy hidden1.backward_bias, A1_T0014 -> A0_T0014, from linux-small to linux-big */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(1u, 30u));
        poet_copy(A0_T0014, A1_T0014, 256u, A1_W0009, A0_W0009, 512u);
        poet_end_statement(worker, 31u);
    }
    POET_STATEMENT(32u); /* hidden1.bias.update: sgd A0_T0014[64] -> P0001[64], P0012[64], on linux-big */
    if (POET_TAKES(0u)) {
        POET_TRY(poet_wait_for(2u, 31u));
        POET_ALONE(poet_capture(CAPTURE_P0001, A0_T0014, 256u));
        poet_update_f32(64, A0_T0014, NULL, &poet_op0007.update, NULL, P0001, P0012, NULL, NULL);
        poet_end_statement(worker, 32u);
    }
    POET_STATEMENT(33u); /* copy logits.backward_input, A0_T0009 -> A1_T0009, from linux-big to linux-small */
    if (POET_TAKES(2u)) {
        POET_TRY(poet_wait_for(0u, 32u));
        poet_copy(A1_T0009, A0_T0009, 512u, A0_W0010, A1_W0010, 512u);
        poet_end_statement(worker, 33u);
    }
    POET_STATEMENT(34u); /* relu2.backward: relu_backward A1_T0004[4,32], A1_T0009[4,32] -> A1_T0010[4,32] (again), on linux-small */
    if (POET_TAKES(1u)) {
        POET_TRY(poet_wait_for(2u, 33u));
        poet_relu_backward_f32(&poet_op0003, A1_T0004, A1_T0009, A1_T0010);
        poet_end_statement(worker, 34u);
    }
    POET_STATEMENT(35u); /* hidden2.weight.update: linear_backward_weight_sgd A1_T0002[4,64], A1_T0010[4,32] -> P0002[32,64], P0009[32,64], on linux-small */
    if (POET_TAKES(1u)) {
        poet_matmul_update_f32(&poet_op0014, A1_T0010, A1_T0002, &poet_op0007.update, NULL, P0002,
                               P0009, NULL, NULL);
        poet_end_statement(worker, 35u);
    }
    POET_STATEMENT(36u); /* the end */
    return POET_OK;
}

int poet_train_step(void)
{
    return poet_run_workers(take_turns);
}
