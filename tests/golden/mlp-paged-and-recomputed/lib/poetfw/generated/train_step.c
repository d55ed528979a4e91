/* SPDX-License-Identifier: Apache-2.0 */
/* train_step.c: one training step, mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan bdcd6b14). Do not edit: change the plan and build again.
 *
 *   28 steps: 23 compute, 1 of them again; 2 page-outs, 3 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     53,088      1,024  T0001      hidden1                                3-4
 *     53,088      1,024  T0002_1    relu1                                  4-16, 24-27
 *     53,088      1,024  T0012      hidden2.backward_input                 17-19
 *     53,088      1,024  T0013      relu1.backward                         19-23
 *     54,112      1,024  T0000      x                                      2-3, 20-21
 *     54,112      1,024  T0002_2    relu1                                  18-19
 *     54,112        512  T0003      hidden2                                6-7
 *     54,112        512  T0004      relu2                                  7-16
 *     54,112        512  T0010_2    relu2.backward                         22-27
 *     54,624        160  T0005      logits                                 8-10
 *     54,624        160  T0007      loss.backward                          10-14
 *     54,624        256  T0014      hidden1.backward_bias                  23-28
 *     54,784         40  T0008      logits.backward_bias                   11-12
 *     54,784        512  T0009      logits.backward_input                  13-15
 *     54,784        512  T0010_1    relu2.backward                         15-17
 *     54,880        128  T0011      hidden2.backward_bias                  25-26
 *     55,136         16  T0006      load y                                 1-10
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"
#include "statement.h"

#define T0000 ((float *)(void *)(poet_arena + 54112u)) /* x [4,64] */
#define T0001 ((float *)(void *)(poet_arena + 53088u)) /* hidden1 [4,64] */
#define T0002_1 ((float *)(void *)(poet_arena + 53088u)) /* relu1 [4,64] */
#define T0002_2 ((float *)(void *)(poet_arena + 54112u)) /* relu1 [4,64] */
#define T0003 ((float *)(void *)(poet_arena + 54112u)) /* hidden2 [4,32] */
#define T0004 ((float *)(void *)(poet_arena + 54112u)) /* relu2 [4,32] */
#define T0005 ((float *)(void *)(poet_arena + 54624u)) /* logits [4,10] */
#define T0006 ((int32_t *)(void *)(poet_arena + 55136u)) /* load y [4] */
#define T0007 ((float *)(void *)(poet_arena + 54624u)) /* loss.backward [4,10] */
#define T0008 ((float *)(void *)(poet_arena + 54784u)) /* logits.backward_bias [10] */
#define T0009 ((float *)(void *)(poet_arena + 54784u)) /* logits.backward_input [4,32] */
#define T0010_1 ((float *)(void *)(poet_arena + 54784u)) /* relu2.backward [4,32] */
#define T0010_2 ((float *)(void *)(poet_arena + 54112u)) /* relu2.backward [4,32] */
#define T0011 ((float *)(void *)(poet_arena + 54880u)) /* hidden2.backward_bias [32] */
#define T0012 ((float *)(void *)(poet_arena + 53088u)) /* hidden2.backward_input [4,64] */
#define T0013 ((float *)(void *)(poet_arena + 53088u)) /* relu1.backward [4,64] */
#define T0014 ((float *)(void *)(poet_arena + 54624u)) /* hidden1.backward_bias [64] */

int poet_train_step(void)
{
    POET_STATEMENT(1u); /* load y: load_y T0006[4] */
    POET_TRY(poet_data_load_y(T0006));
    poet_between_ops();
    POET_STATEMENT(2u); /* load x: load_x T0000[4,64] */
    POET_TRY(poet_data_load_x(T0000));
    poet_between_ops();
    POET_STATEMENT(3u); /* hidden1: linear T0000[4,64], P0000[64,64], P0001[64] -> T0001[4,64] */
    poet_matmul_biased_f32(&poet_op0000, T0000, P0000, P0001, T0001);
    poet_between_ops();
    POET_STATEMENT(4u); /* relu1: relu T0001[4,64] -> T0002_1[4,64] */
    poet_relu_forward_f32(&poet_op0001, T0001, T0002_1);
    poet_between_ops();
    POET_STATEMENT(5u); /* page out relu1, wanted again at step 18, 24 */
    POET_TRY(poet_page_out_begin(SLOT_T0002, T0002_1, 1024u));
    poet_between_ops();
    POET_STATEMENT(6u); /* hidden2: linear T0002_1[4,64], P0002[32,64], P0003[32] -> T0003[4,32] */
    poet_matmul_biased_f32(&poet_op0002, T0002_1, P0002, P0003, T0003);
    poet_between_ops();
    POET_STATEMENT(7u); /* relu2: relu T0003[4,32] -> T0004[4,32] */
    poet_relu_forward_f32(&poet_op0003, T0003, T0004);
    poet_between_ops();
    POET_STATEMENT(8u); /* logits: linear T0004[4,32], P0004[10,32], P0005[10] -> T0005[4,10] */
    poet_matmul_biased_f32(&poet_op0004, T0004, P0004, P0005, T0005);
    poet_between_ops();
    POET_STATEMENT(9u); /* loss: softmax_cross_entropy T0005[4,10], T0006[4] -> P0006[1] */
    poet_softmax_cross_entropy_forward_f32(&poet_op0005, T0005, T0006, P0006);
    poet_between_ops();
    POET_STATEMENT(10u); /* loss.backward: softmax_cross_entropy_backward T0005[4,10], T0006[4] -> T0007[4,10] */
    poet_softmax_cross_entropy_backward_f32(&poet_op0005, T0005, T0006, T0007);
    poet_between_ops();
    POET_STATEMENT(11u); /* logits.backward_bias: linear_backward_bias T0007[4,10] -> T0008[10] */
    poet_linear_backward_bias_f32(&poet_op0006, T0007, T0008);
    poet_between_ops();
    POET_STATEMENT(12u); /* logits.bias.update: sgd T0008[10] -> P0005[10], P0008[10] */
    POET_TRY(poet_capture(CAPTURE_P0005, T0008, 40u));
    poet_update_f32(10, T0008, NULL, &poet_op0007.update, NULL, P0005, P0008, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(13u); /* logits.backward_input: linear_backward_input P0004[10,32], T0007[4,10] -> T0009[4,32] */
    poet_matmul_f32(&poet_op0008, T0007, P0004, T0009);
    poet_between_ops();
    POET_STATEMENT(14u); /* logits.weight.update: linear_backward_weight_sgd T0004[4,32], T0007[4,10] -> P0004[10,32], P0007[10,32] */
    poet_matmul_update_f32(&poet_op0009, T0007, T0004, &poet_op0007.update, NULL, P0004, P0007,
                           NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(15u); /* relu2.backward: relu_backward T0004[4,32], T0009[4,32] -> T0010_1[4,32] */
    poet_relu_backward_f32(&poet_op0003, T0004, T0009, T0010_1);
    poet_between_ops();
    POET_STATEMENT(16u); /* page out relu2.backward, wanted again at step 22 */
    POET_TRY(poet_page_out_begin(SLOT_T0010, T0010_1, 512u));
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0002));
    POET_STATEMENT(17u); /* hidden2.backward_input: linear_backward_input P0002[32,64], T0010_1[4,32] -> T0012[4,64] */
    poet_matmul_f32(&poet_op0010, T0010_1, P0002, T0012);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0010));
    POET_STATEMENT(18u); /* page in relu1 */
    POET_TRY(poet_page_in_begin(SLOT_T0002, T0002_2, 1024u));
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0002));
    POET_STATEMENT(19u); /* relu1.backward: relu_backward T0002_2[4,64], T0012[4,64] -> T0013[4,64] */
    poet_relu_backward_f32(&poet_op0001, T0002_2, T0012, T0013);
    poet_between_ops();
    POET_STATEMENT(20u); /* load x: load_x T0000[4,64] (again) */
    POET_TRY(poet_data_load_x(T0000));
    poet_between_ops();
    POET_STATEMENT(21u); /* hidden1.weight.update: linear_backward_weight_sgd T0000[4,64], T0013[4,64] -> P0000[64,64], P0011[64,64] */
    poet_matmul_update_f32(&poet_op0011, T0013, T0000, &poet_op0007.update, NULL, P0000, P0011,
                           NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(22u); /* page in relu2.backward */
    POET_TRY(poet_page_in_begin(SLOT_T0010, T0010_2, 512u));
    poet_between_ops();
    POET_STATEMENT(23u); /* hidden1.backward_bias: linear_backward_bias T0013[4,64] -> T0014[64] */
    poet_linear_backward_bias_f32(&poet_op0012, T0013, T0014);
    poet_between_ops();
    POET_STATEMENT(24u); /* page in relu1 */
    POET_TRY(poet_page_in_begin(SLOT_T0002, T0002_1, 1024u));
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0010));
    POET_STATEMENT(25u); /* hidden2.backward_bias: linear_backward_bias T0010_2[4,32] -> T0011[32] */
    poet_linear_backward_bias_f32(&poet_op0013, T0010_2, T0011);
    poet_between_ops();
    POET_STATEMENT(26u); /* hidden2.bias.update: sgd T0011[32] -> P0003[32], P0010[32] */
    POET_TRY(poet_capture(CAPTURE_P0003, T0011, 128u));
    poet_update_f32(32, T0011, NULL, &poet_op0007.update, NULL, P0003, P0010, NULL, NULL);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0002));
    POET_STATEMENT(27u); /* hidden2.weight.update: linear_backward_weight_sgd T0002_1[4,64], T0010_2[4,32] -> P0002[32,64], P0009[32,64] */
    poet_matmul_update_f32(&poet_op0014, T0010_2, T0002_1, &poet_op0007.update, NULL, P0002,
                           P0009, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(28u); /* hidden1.bias.update: sgd T0014[64] -> P0001[64], P0012[64] */
    POET_TRY(poet_capture(CAPTURE_P0001, T0014, 256u));
    poet_update_f32(64, T0014, NULL, &poet_op0007.update, NULL, P0001, P0012, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(29u); /* the end */
    return POET_OK;
}
