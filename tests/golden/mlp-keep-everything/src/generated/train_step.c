/* train_step.c: one training step, mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 71da6fc8). Do not edit: change the plan and build again.
 *
 *   25 steps: 25 compute, 0 of them again; 0 page-outs, 0 page-ins
 *
 *     offset      bytes  tensor     holds                                  steps
 *     53,088         16  T0006      load y                                 7-9
 *     53,088      1,280  T0009      logits.backward_weight                 11-13
 *     53,088      8,192  T0013      hidden2.backward_weight                17-19
 *     53,088     16,384  T0017      hidden1.backward_weight                23-24
 *     54,368        512  T0003      hidden2                                4-5
 *     54,368        512  T0004      relu2                                  5-15
 *     54,880        160  T0005      logits                                 6-9
 *     54,880        160  T0007      loss.backward                          9-12
 *     55,040         40  T0008      logits.backward_bias                   10-14
 *     61,280      1,024  T0001      hidden1                                2-3
 *     61,280      1,024  T0002      relu1                                  3-21
 *     62,304        512  T0010      logits.backward_input                  12-15
 *     62,304        512  T0011      relu2.backward                         15-18
 *     62,816        128  T0012      hidden2.backward_bias                  16-20
 *     69,472      1,024  T0000      x                                      1-23
 *     70,496      1,024  T0014      hidden2.backward_input                 18-21
 *     70,496      1,024  T0015      relu1.backward                         21-23
 *     71,520        256  T0016      hidden1.backward_bias                  22-25
 */
#include <stddef.h>

#include "ops.h"
#include "poet.h"

#define T0000 ((float *)(void *)(poet_arena + 69472u)) /* x [4,64] */
#define T0001 ((float *)(void *)(poet_arena + 61280u)) /* hidden1 [4,64] */
#define T0002 ((float *)(void *)(poet_arena + 61280u)) /* relu1 [4,64] */
#define T0003 ((float *)(void *)(poet_arena + 54368u)) /* hidden2 [4,32] */
#define T0004 ((float *)(void *)(poet_arena + 54368u)) /* relu2 [4,32] */
#define T0005 ((float *)(void *)(poet_arena + 54880u)) /* logits [4,10] */
#define T0006 ((int32_t *)(void *)(poet_arena + 53088u)) /* load y [4] */
#define T0007 ((float *)(void *)(poet_arena + 54880u)) /* loss.backward [4,10] */
#define T0008 ((float *)(void *)(poet_arena + 55040u)) /* logits.backward_bias [10] */
#define T0009 ((float *)(void *)(poet_arena + 53088u)) /* logits.backward_weight [10,32] */
#define T0010 ((float *)(void *)(poet_arena + 62304u)) /* logits.backward_input [4,32] */
#define T0011 ((float *)(void *)(poet_arena + 62304u)) /* relu2.backward [4,32] */
#define T0012 ((float *)(void *)(poet_arena + 62816u)) /* hidden2.backward_bias [32] */
#define T0013 ((float *)(void *)(poet_arena + 53088u)) /* hidden2.backward_weight [32,64] */
#define T0014 ((float *)(void *)(poet_arena + 70496u)) /* hidden2.backward_input [4,64] */
#define T0015 ((float *)(void *)(poet_arena + 70496u)) /* relu1.backward [4,64] */
#define T0016 ((float *)(void *)(poet_arena + 71520u)) /* hidden1.backward_bias [64] */
#define T0017 ((float *)(void *)(poet_arena + 53088u)) /* hidden1.backward_weight [64,64] */

int poet_train_step(void)
{
    /*   1  load x: load_x T0000[4,64] */
    POET_TRY(poet_data_load_x(T0000));
    /*   2  hidden1: linear T0000[4,64], P0000[64,64], P0001[64] -> T0001[4,64] */
    poet_linear_forward_f32(&OP0000, T0000, P0000, P0001, T0001);
    /*   3  relu1: relu T0001[4,64] -> T0002[4,64] */
    poet_relu_forward_f32(&OP0001, T0001, T0002);
    /*   4  hidden2: linear T0002[4,64], P0002[32,64], P0003[32] -> T0003[4,32] */
    poet_linear_forward_f32(&OP0002, T0002, P0002, P0003, T0003);
    /*   5  relu2: relu T0003[4,32] -> T0004[4,32] */
    poet_relu_forward_f32(&OP0003, T0003, T0004);
    /*   6  logits: linear T0004[4,32], P0004[10,32], P0005[10] -> T0005[4,10] */
    poet_linear_forward_f32(&OP0004, T0004, P0004, P0005, T0005);
    /*   7  load y: load_y T0006[4] */
    POET_TRY(poet_data_load_y(T0006));
    /*   8  loss: softmax_cross_entropy T0005[4,10], T0006[4] -> P0006[1] */
    poet_softmax_cross_entropy_forward_f32(&OP0005, T0005, T0006, P0006);
    /*   9  loss.backward: softmax_cross_entropy_backward T0005[4,10], T0006[4] -> T0007[4,10] */
    poet_softmax_cross_entropy_backward_f32(&OP0005, T0005, T0006, T0007);
    /*  10  logits.backward_bias: linear_backward_bias T0007[4,10] -> T0008[10] */
    poet_linear_backward_bias_f32(&OP0006, T0007, T0008);
    /*  11  logits.backward_weight: linear_backward_weight T0004[4,32], T0007[4,10] -> T0009[10,32] */
    poet_linear_backward_weight_f32(&OP0004, T0004, T0007, T0009);
    /*  12  logits.backward_input: linear_backward_input P0004[10,32], T0007[4,10] -> T0010[4,32] */
    poet_linear_backward_input_f32(&OP0004, P0004, T0007, T0010);
    /*  13  logits.weight.update: sgd T0009[10,32] -> P0004[10,32], P0007[10,32] */
    POET_TRY(poet_capture(CAPTURE_P0004, T0009, 1280u));
    poet_sgd_update_f32(&OP0007, T0009, NULL, P0004, P0007);
    /*  14  logits.bias.update: sgd T0008[10] -> P0005[10], P0008[10] */
    POET_TRY(poet_capture(CAPTURE_P0005, T0008, 40u));
    poet_sgd_update_f32(&OP0008, T0008, NULL, P0005, P0008);
    /*  15  relu2.backward: relu_backward T0004[4,32], T0010[4,32] -> T0011[4,32] */
    poet_relu_backward_f32(&OP0003, T0004, T0010, T0011);
    /*  16  hidden2.backward_bias: linear_backward_bias T0011[4,32] -> T0012[32] */
    poet_linear_backward_bias_f32(&OP0009, T0011, T0012);
    /*  17  hidden2.backward_weight: linear_backward_weight T0002[4,64], T0011[4,32] -> T0013[32,64] */
    poet_linear_backward_weight_f32(&OP0002, T0002, T0011, T0013);
    /*  18  hidden2.backward_input: linear_backward_input P0002[32,64], T0011[4,32] -> T0014[4,64] */
    poet_linear_backward_input_f32(&OP0002, P0002, T0011, T0014);
    /*  19  hidden2.weight.update: sgd T0013[32,64] -> P0002[32,64], P0009[32,64] */
    POET_TRY(poet_capture(CAPTURE_P0002, T0013, 8192u));
    poet_sgd_update_f32(&OP0010, T0013, NULL, P0002, P0009);
    /*  20  hidden2.bias.update: sgd T0012[32] -> P0003[32], P0010[32] */
    POET_TRY(poet_capture(CAPTURE_P0003, T0012, 128u));
    poet_sgd_update_f32(&OP0011, T0012, NULL, P0003, P0010);
    /*  21  relu1.backward: relu_backward T0002[4,64], T0014[4,64] -> T0015[4,64] */
    poet_relu_backward_f32(&OP0001, T0002, T0014, T0015);
    /*  22  hidden1.backward_bias: linear_backward_bias T0015[4,64] -> T0016[64] */
    poet_linear_backward_bias_f32(&OP0012, T0015, T0016);
    /*  23  hidden1.backward_weight: linear_backward_weight T0000[4,64], T0015[4,64] -> T0017[64,64] */
    poet_linear_backward_weight_f32(&OP0000, T0000, T0015, T0017);
    /*  24  hidden1.weight.update: sgd T0017[64,64] -> P0000[64,64], P0011[64,64] */
    POET_TRY(poet_capture(CAPTURE_P0000, T0017, 16384u));
    poet_sgd_update_f32(&OP0013, T0017, NULL, P0000, P0011);
    /*  25  hidden1.bias.update: sgd T0016[64] -> P0001[64], P0012[64] */
    POET_TRY(poet_capture(CAPTURE_P0001, T0016, 256u));
    poet_sgd_update_f32(&OP0014, T0016, NULL, P0001, P0012);
    return POET_OK;
}
