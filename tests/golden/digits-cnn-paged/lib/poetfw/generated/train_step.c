/* SPDX-License-Identifier: Apache-2.0 */
/* train_step.c: one training step, digits-cnn on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 6313a2e5). Do not edit: change the plan and build again.
 *
 *   58 steps: 48 compute, 0 of them again; 5 page-outs, 5 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     20,896      1,024  T0000_1    x                                      1-4
 *     20,896         64  T0002      bn1.statistics                         5-56
 *     20,960      8,192  T0005      conv2                                  10-47
 *     20,960      8,192  T0032      conv2.backward_input                   50-54
 *     20,960      8,192  T0033      relu1.backward                         54-56
 *     20,960      8,192  T0035      bn1.backward_input                     56-58
 *     29,152      8,192  T0004_2    relu1                                  45-54
 *     29,152      8,192  T0007      bn2                                    13-14
 *     29,152      8,192  T0008      relu2                                  14-44
 *     29,152         64  T0034      bn1.backward_affine                    55-57
 *     37,344      8,192  T0001      conv1                                  3-7, 51-56
 *     37,344      8,192  T0003      bn1                                    7-8
 *     37,344      8,192  T0004_1    relu1                                  8-16
 *     37,344      1,024  T0014      pool3                                  23-24
 *     37,344      1,024  T0015      flatten                                24-31
 *     37,344      4,096  T0022      pool3.backward                         34-35
 *     37,344      4,096  T0023      relu3.backward                         35-39
 *     37,344      4,096  T0025      bn3.backward_input                     39-42
 *     37,344      8,192  T0027      pool2.backward                         43-44
 *     37,344      8,192  T0028      relu2.backward                         44-47
 *     37,344      8,192  T0030      bn2.backward_input                     47-50
 *     38,368        160  T0016      logits                                 25-28
 *     38,368        160  T0018      loss.backward                          28-31
 *     38,528         16  T0017      load y                                 26-28
 *     38,528         40  T0019      logits.backward_bias                   29-32
 *     41,440      2,048  T0009_2    pool2                                  37-42
 *     41,440      4,096  T0010_1    conv3                                  17-21
 *     41,440      4,096  T0012      bn3                                    21-22
 *     41,440      4,096  T0013      relu3                                  22-35
 *     43,488      4,096  T0010_2    conv3                                  36-39
 *     45,536      1,024  T0000_2    x                                      53-58
 *     45,536      2,048  T0009_1    pool2                                  15-18
 *     45,536      1,024  T0020      logits.backward_input                  30-33
 *     45,536      1,024  T0021      flatten.backward                       33-34
 *     45,536      2,048  T0026      conv3.backward_input                   41-43
 *     45,536         64  T0029      bn2.backward_affine                    46-48
 *     45,536      2,304  T0031      conv2.backward_weight                  49-52
 *     47,584         64  T0006      bn2.statistics                         11-47
 *     47,648        128  T0011      bn3.statistics                         19-39
 *     47,776        128  T0024      bn3.backward_affine                    38-40
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"
#include "statement.h"

#define T0000_1 ((float *)(void *)(poet_arena + 20896u)) /* x [4,1,8,8] */
#define T0000_2 ((float *)(void *)(poet_arena + 45536u)) /* x [4,1,8,8] */
#define T0001 ((float *)(void *)(poet_arena + 37344u)) /* conv1 [4,8,8,8] */
#define T0002 ((float *)(void *)(poet_arena + 20896u)) /* bn1.statistics [2,8] */
#define T0003 ((float *)(void *)(poet_arena + 37344u)) /* bn1 [4,8,8,8] */
#define T0004_1 ((float *)(void *)(poet_arena + 37344u)) /* relu1 [4,8,8,8] */
#define T0004_2 ((float *)(void *)(poet_arena + 29152u)) /* relu1 [4,8,8,8] */
#define T0005 ((float *)(void *)(poet_arena + 20960u)) /* conv2 [4,8,8,8] */
#define T0006 ((float *)(void *)(poet_arena + 47584u)) /* bn2.statistics [2,8] */
#define T0007 ((float *)(void *)(poet_arena + 29152u)) /* bn2 [4,8,8,8] */
#define T0008 ((float *)(void *)(poet_arena + 29152u)) /* relu2 [4,8,8,8] */
#define T0009_1 ((float *)(void *)(poet_arena + 45536u)) /* pool2 [4,8,4,4] */
#define T0009_2 ((float *)(void *)(poet_arena + 41440u)) /* pool2 [4,8,4,4] */
#define T0010_1 ((float *)(void *)(poet_arena + 41440u)) /* conv3 [4,16,4,4] */
#define T0010_2 ((float *)(void *)(poet_arena + 43488u)) /* conv3 [4,16,4,4] */
#define T0011 ((float *)(void *)(poet_arena + 47648u)) /* bn3.statistics [2,16] */
#define T0012 ((float *)(void *)(poet_arena + 41440u)) /* bn3 [4,16,4,4] */
#define T0013 ((float *)(void *)(poet_arena + 41440u)) /* relu3 [4,16,4,4] */
#define T0014 ((float *)(void *)(poet_arena + 37344u)) /* pool3 [4,16,2,2] */
#define T0015 ((float *)(void *)(poet_arena + 37344u)) /* flatten [4,64] */
#define T0016 ((float *)(void *)(poet_arena + 38368u)) /* logits [4,10] */
#define T0017 ((int32_t *)(void *)(poet_arena + 38528u)) /* load y [4] */
#define T0018 ((float *)(void *)(poet_arena + 38368u)) /* loss.backward [4,10] */
#define T0019 ((float *)(void *)(poet_arena + 38528u)) /* logits.backward_bias [10] */
#define T0020 ((float *)(void *)(poet_arena + 45536u)) /* logits.backward_input [4,64] */
#define T0021 ((float *)(void *)(poet_arena + 45536u)) /* flatten.backward [4,16,2,2] */
#define T0022 ((float *)(void *)(poet_arena + 37344u)) /* pool3.backward [4,16,4,4] */
#define T0023 ((float *)(void *)(poet_arena + 37344u)) /* relu3.backward [4,16,4,4] */
#define T0024 ((float *)(void *)(poet_arena + 47776u)) /* bn3.backward_affine [2,16] */
#define T0025 ((float *)(void *)(poet_arena + 37344u)) /* bn3.backward_input [4,16,4,4] */
#define T0026 ((float *)(void *)(poet_arena + 45536u)) /* conv3.backward_input [4,8,4,4] */
#define T0027 ((float *)(void *)(poet_arena + 37344u)) /* pool2.backward [4,8,8,8] */
#define T0028 ((float *)(void *)(poet_arena + 37344u)) /* relu2.backward [4,8,8,8] */
#define T0029 ((float *)(void *)(poet_arena + 45536u)) /* bn2.backward_affine [2,8] */
#define T0030 ((float *)(void *)(poet_arena + 37344u)) /* bn2.backward_input [4,8,8,8] */
#define T0031 ((float *)(void *)(poet_arena + 45536u)) /* conv2.backward_weight [8,8,3,3] */
#define T0032 ((float *)(void *)(poet_arena + 20960u)) /* conv2.backward_input [4,8,8,8] */
#define T0033 ((float *)(void *)(poet_arena + 20960u)) /* relu1.backward [4,8,8,8] */
#define T0034 ((float *)(void *)(poet_arena + 29152u)) /* bn1.backward_affine [2,8] */
#define T0035 ((float *)(void *)(poet_arena + 20960u)) /* bn1.backward_input [4,8,8,8] */

int poet_train_step(void)
{
    POET_STATEMENT(1u); /* load x: load_x T0000_1[4,1,8,8] */
    POET_TRY(poet_data_load_x(T0000_1));
    poet_between_ops();
    POET_STATEMENT(2u); /* page out x, wanted again at step 53 */
    POET_TRY(poet_page_out_begin(SLOT_T0000, T0000_1, 1024u));
    poet_between_ops();
    POET_STATEMENT(3u); /* conv1: conv2d T0000_1[4,1,8,8], P0000[8,1,3,3] -> T0001[4,8,8,8] */
    poet_conv2d_forward_f32(&poet_op0000, T0000_1, P0000, NULL, T0001);
    poet_between_ops();
    POET_STATEMENT(4u); /* page out conv1, wanted again at step 51 */
    POET_TRY(poet_page_out_begin(SLOT_T0001, T0001, 8192u));
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0000));
    POET_STATEMENT(5u); /* bn1.statistics: batch_norm_statistics T0001[4,8,8,8] -> T0002[2,8] */
    poet_batch_norm_statistics_f32(&poet_op0001, T0001, T0002);
    poet_between_ops();
    POET_STATEMENT(6u); /* bn1.update_running: batch_norm_update_running T0002[2,8] -> P0002[2,8] */
    poet_batch_norm_update_running_f32(&poet_op0002, T0002, P0002);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0001));
    POET_STATEMENT(7u); /* bn1: batch_norm_normalize T0001[4,8,8,8], T0002[2,8], P0001[2,8] -> T0003[4,8,8,8] */
    poet_batch_norm_normalize_f32(&poet_op0003, T0001, T0002, P0001, T0003);
    poet_between_ops();
    POET_STATEMENT(8u); /* relu1: relu T0003[4,8,8,8] -> T0004_1[4,8,8,8] */
    poet_relu_forward_f32(&poet_op0004, T0003, T0004_1);
    poet_between_ops();
    POET_STATEMENT(9u); /* page out relu1, wanted again at step 45 */
    POET_TRY(poet_page_out_begin(SLOT_T0004, T0004_1, 8192u));
    poet_between_ops();
    POET_STATEMENT(10u); /* conv2: conv2d T0004_1[4,8,8,8], P0003[8,8,3,3] -> T0005[4,8,8,8] */
    poet_conv2d_forward_f32(&poet_op0005, T0004_1, P0003, NULL, T0005);
    poet_between_ops();
    POET_STATEMENT(11u); /* bn2.statistics: batch_norm_statistics T0005[4,8,8,8] -> T0006[2,8] */
    poet_batch_norm_statistics_f32(&poet_op0001, T0005, T0006);
    poet_between_ops();
    POET_STATEMENT(12u); /* bn2.update_running: batch_norm_update_running T0006[2,8] -> P0005[2,8] */
    poet_batch_norm_update_running_f32(&poet_op0002, T0006, P0005);
    poet_between_ops();
    POET_STATEMENT(13u); /* bn2: batch_norm_normalize T0005[4,8,8,8], T0006[2,8], P0004[2,8] -> T0007[4,8,8,8] */
    poet_batch_norm_normalize_f32(&poet_op0003, T0005, T0006, P0004, T0007);
    poet_between_ops();
    POET_STATEMENT(14u); /* relu2: relu T0007[4,8,8,8] -> T0008[4,8,8,8] */
    poet_relu_forward_f32(&poet_op0004, T0007, T0008);
    poet_between_ops();
    POET_STATEMENT(15u); /* pool2: max_pool2d T0008[4,8,8,8] -> T0009_1[4,8,4,4] */
    poet_max_pool2d_2x2_forward_f32(&poet_op0006, T0008, T0009_1);
    poet_between_ops();
    POET_STATEMENT(16u); /* page out pool2, wanted again at step 37 */
    POET_TRY(poet_page_out_begin(SLOT_T0009, T0009_1, 2048u));
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0004));
    POET_STATEMENT(17u); /* conv3: conv2d T0009_1[4,8,4,4], P0006[16,8,3,3] -> T0010_1[4,16,4,4] */
    poet_conv2d_forward_f32(&poet_op0007, T0009_1, P0006, NULL, T0010_1);
    poet_between_ops();
    POET_STATEMENT(18u); /* page out conv3, wanted again at step 36 */
    POET_TRY(poet_page_out_begin(SLOT_T0010, T0010_1, 4096u));
    poet_between_ops();
    POET_STATEMENT(19u); /* bn3.statistics: batch_norm_statistics T0010_1[4,16,4,4] -> T0011[2,16] */
    poet_batch_norm_statistics_f32(&poet_op0008, T0010_1, T0011);
    poet_between_ops();
    POET_STATEMENT(20u); /* bn3.update_running: batch_norm_update_running T0011[2,16] -> P0008[2,16] */
    poet_batch_norm_update_running_f32(&poet_op0009, T0011, P0008);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0010));
    POET_STATEMENT(21u); /* bn3: batch_norm_normalize T0010_1[4,16,4,4], T0011[2,16], P0007[2,16] -> T0012[4,16,4,4] */
    poet_batch_norm_normalize_f32(&poet_op0010, T0010_1, T0011, P0007, T0012);
    poet_between_ops();
    POET_STATEMENT(22u); /* relu3: relu T0012[4,16,4,4] -> T0013[4,16,4,4] */
    poet_relu_forward_f32(&poet_op0011, T0012, T0013);
    poet_between_ops();
    POET_STATEMENT(23u); /* pool3: max_pool2d T0013[4,16,4,4] -> T0014[4,16,2,2] */
    poet_max_pool2d_2x2_forward_f32(&poet_op0012, T0013, T0014);
    poet_between_ops();
    POET_STATEMENT(24u); /* flatten: reshape T0014[4,16,2,2] -> T0015[4,64] (a view: nothing moves) */
    POET_STATEMENT(25u); /* logits: linear T0015[4,64], P0009[10,64], P0010[10] -> T0016[4,10] */
    poet_matmul_biased_f32(&poet_op0013, T0015, P0009, P0010, T0016);
    poet_between_ops();
    POET_STATEMENT(26u); /* load y: load_y T0017[4] */
    POET_TRY(poet_data_load_y(T0017));
    poet_between_ops();
    POET_STATEMENT(27u); /* loss: softmax_cross_entropy T0016[4,10], T0017[4] -> P0011[1] */
    poet_softmax_cross_entropy_forward_f32(&poet_op0014, T0016, T0017, P0011);
    poet_between_ops();
    POET_STATEMENT(28u); /* loss.backward: softmax_cross_entropy_backward T0016[4,10], T0017[4] -> T0018[4,10] */
    poet_softmax_cross_entropy_backward_f32(&poet_op0014, T0016, T0017, T0018);
    poet_between_ops();
    POET_STATEMENT(29u); /* logits.backward_bias: linear_backward_bias T0018[4,10] -> T0019[10] */
    poet_linear_backward_bias_f32(&poet_op0015, T0018, T0019);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0009));
    POET_STATEMENT(30u); /* logits.backward_input: linear_backward_input P0009[10,64], T0018[4,10] -> T0020[4,64] */
    poet_matmul_f32(&poet_op0016, T0018, P0009, T0020);
    poet_between_ops();
    POET_STATEMENT(31u); /* logits.weight.update: linear_backward_weight_sgd T0015[4,64], T0018[4,10] -> P0009[10,64], P0012[10,64] */
    poet_matmul_update_f32(&poet_op0017, T0018, T0015, &poet_op0018.update, NULL, P0009, P0012,
                           NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(32u); /* logits.bias.update: sgd T0019[10] -> P0010[10], P0013[10] */
    POET_TRY(poet_capture(CAPTURE_P0010, T0019, 40u));
    poet_update_f32(10, T0019, NULL, &poet_op0018.update, NULL, P0010, P0013, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(33u); /* flatten.backward: reshape T0020[4,64] -> T0021[4,16,2,2] (a view: nothing moves) */
    POET_STATEMENT(34u); /* pool3.backward: max_pool2d_backward T0013[4,16,4,4], T0021[4,16,2,2] -> T0022[4,16,4,4] */
    poet_max_pool2d_2x2_backward_f32(&poet_op0012, T0013, T0021, T0022);
    poet_between_ops();
    POET_STATEMENT(35u); /* relu3.backward: relu_backward T0013[4,16,4,4], T0022[4,16,4,4] -> T0023[4,16,4,4] */
    poet_relu_backward_f32(&poet_op0011, T0013, T0022, T0023);
    poet_between_ops();
    POET_STATEMENT(36u); /* page in conv3 */
    POET_TRY(poet_page_in_begin(SLOT_T0010, T0010_2, 4096u));
    poet_between_ops();
    POET_STATEMENT(37u); /* page in pool2 */
    POET_TRY(poet_page_in_begin(SLOT_T0009, T0009_2, 2048u));
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0010));
    POET_STATEMENT(38u); /* bn3.backward_affine: batch_norm_backward_affine T0010_2[4,16,4,4], T0011[2,16], T0023[4,16,4,4] -> T0024[2,16] */
    poet_batch_norm_backward_affine_f32(&poet_op0010, T0010_2, T0011, T0023, T0024);
    poet_between_ops();
    POET_STATEMENT(39u); /* bn3.backward_input: batch_norm_backward_input T0010_2[4,16,4,4], T0011[2,16], P0007[2,16], T0024[2,16], T0023[4,16,4,4] -> T0025[4,16,4,4] */
    poet_batch_norm_backward_input_f32(&poet_op0010, T0010_2, T0011, P0007, T0024, T0023, T0025);
    poet_between_ops();
    POET_STATEMENT(40u); /* bn3.affine.update: sgd T0024[2,16] -> P0007[2,16], P0014[2,16] */
    POET_TRY(poet_capture(CAPTURE_P0007, T0024, 128u));
    poet_update_f32(32, T0024, NULL, &poet_op0018.update, NULL, P0007, P0014, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(41u); /* conv3.backward_input: conv2d_backward_input P0006[16,8,3,3], T0025[4,16,4,4] -> T0026[4,8,4,4] */
    poet_conv2d_backward_input_f32(&poet_op0019, P0006, T0025, T0026);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0009));
    POET_STATEMENT(42u); /* conv3.weight.update: conv2d_backward_weight_sgd T0009_2[4,8,4,4], T0025[4,16,4,4] -> P0006[16,8,3,3], P0015[16,8,3,3] */
    poet_conv2d_backward_weight_update_f32(&poet_op0020, T0009_2, T0025, &poet_op0018.update,
                                           NULL, P0006, P0015, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(43u); /* pool2.backward: max_pool2d_backward T0008[4,8,8,8], T0026[4,8,4,4] -> T0027[4,8,8,8] */
    poet_max_pool2d_2x2_backward_f32(&poet_op0006, T0008, T0026, T0027);
    poet_between_ops();
    POET_STATEMENT(44u); /* relu2.backward: relu_backward T0008[4,8,8,8], T0027[4,8,8,8] -> T0028[4,8,8,8] */
    poet_relu_backward_f32(&poet_op0004, T0008, T0027, T0028);
    poet_between_ops();
    POET_STATEMENT(45u); /* page in relu1 */
    POET_TRY(poet_page_in_begin(SLOT_T0004, T0004_2, 8192u));
    poet_between_ops();
    POET_STATEMENT(46u); /* bn2.backward_affine: batch_norm_backward_affine T0005[4,8,8,8], T0006[2,8], T0028[4,8,8,8] -> T0029[2,8] */
    poet_batch_norm_backward_affine_f32(&poet_op0003, T0005, T0006, T0028, T0029);
    poet_between_ops();
    POET_STATEMENT(47u); /* bn2.backward_input: batch_norm_backward_input T0005[4,8,8,8], T0006[2,8], P0004[2,8], T0029[2,8], T0028[4,8,8,8] -> T0030[4,8,8,8] */
    poet_batch_norm_backward_input_f32(&poet_op0003, T0005, T0006, P0004, T0029, T0028, T0030);
    poet_between_ops();
    POET_STATEMENT(48u); /* bn2.affine.update: sgd T0029[2,8] -> P0004[2,8], P0016[2,8] */
    POET_TRY(poet_capture(CAPTURE_P0004, T0029, 64u));
    poet_update_f32(16, T0029, NULL, &poet_op0018.update, NULL, P0004, P0016, NULL, NULL);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0004));
    POET_STATEMENT(49u); /* conv2.backward_weight: conv2d_backward_weight T0004_2[4,8,8,8], T0030[4,8,8,8] -> T0031[8,8,3,3] */
    poet_conv2d_backward_weight_f32(&poet_op0021, T0004_2, T0030, T0031);
    poet_between_ops();
    POET_STATEMENT(50u); /* conv2.backward_input: conv2d_backward_input P0003[8,8,3,3], T0030[4,8,8,8] -> T0032[4,8,8,8] */
    poet_conv2d_backward_input_f32(&poet_op0022, P0003, T0030, T0032);
    poet_between_ops();
    POET_STATEMENT(51u); /* page in conv1 */
    POET_TRY(poet_page_in_begin(SLOT_T0001, T0001, 8192u));
    poet_between_ops();
    POET_STATEMENT(52u); /* conv2.weight.update: sgd T0031[8,8,3,3] -> P0003[8,8,3,3], P0017[8,8,3,3] */
    POET_TRY(poet_capture(CAPTURE_P0003, T0031, 2304u));
    poet_update_f32(576, T0031, NULL, &poet_op0018.update, NULL, P0003, P0017, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(53u); /* page in x */
    POET_TRY(poet_page_in_begin(SLOT_T0000, T0000_2, 1024u));
    poet_between_ops();
    POET_STATEMENT(54u); /* relu1.backward: relu_backward T0004_2[4,8,8,8], T0032[4,8,8,8] -> T0033[4,8,8,8] */
    poet_relu_backward_f32(&poet_op0004, T0004_2, T0032, T0033);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0001));
    POET_STATEMENT(55u); /* bn1.backward_affine: batch_norm_backward_affine T0001[4,8,8,8], T0002[2,8], T0033[4,8,8,8] -> T0034[2,8] */
    poet_batch_norm_backward_affine_f32(&poet_op0003, T0001, T0002, T0033, T0034);
    poet_between_ops();
    POET_STATEMENT(56u); /* bn1.backward_input: batch_norm_backward_input T0001[4,8,8,8], T0002[2,8], P0001[2,8], T0034[2,8], T0033[4,8,8,8] -> T0035[4,8,8,8] */
    poet_batch_norm_backward_input_f32(&poet_op0003, T0001, T0002, P0001, T0034, T0033, T0035);
    poet_between_ops();
    POET_STATEMENT(57u); /* bn1.affine.update: sgd T0034[2,8] -> P0001[2,8], P0018[2,8] */
    POET_TRY(poet_capture(CAPTURE_P0001, T0034, 64u));
    poet_update_f32(16, T0034, NULL, &poet_op0018.update, NULL, P0001, P0018, NULL, NULL);
    poet_between_ops();
    POET_TRY(poet_page_wait(SLOT_T0000));
    POET_STATEMENT(58u); /* conv1.weight.update: conv2d_backward_weight_sgd T0000_2[4,1,8,8], T0035[4,8,8,8] -> P0000[8,1,3,3], P0019[8,1,3,3] */
    poet_conv2d_backward_weight_update_f32(&poet_op0023, T0000_2, T0035, &poet_op0018.update,
                                           NULL, P0000, P0019, NULL, NULL);
    poet_between_ops();
    POET_STATEMENT(59u); /* the end */
    return POET_OK;
}
