/* SPDX-License-Identifier: Apache-2.0 */
/* ops.c: the kernels' constants of mlp on nrf52840, batch 4.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#include "ops.h"

/* hidden1 */
const struct poet_linear poet_op0000 = {
    .batch = 4,
    .in_features = 64,
    .out_features = 64,
};

/* relu1 */
const struct poet_relu poet_op0001 = {
    .elements = 256,
};

/* hidden2 */
const struct poet_linear poet_op0002 = {
    .batch = 4,
    .in_features = 64,
    .out_features = 32,
};

/* relu2 */
const struct poet_relu poet_op0003 = {
    .elements = 128,
};

/* logits */
const struct poet_linear poet_op0004 = {
    .batch = 4,
    .in_features = 32,
    .out_features = 10,
};

/* loss */
const struct poet_softmax_cross_entropy poet_op0005 = {
    .batch = 4,
    .classes = 10,
};

/* logits.backward_bias */
const struct poet_linear_bias poet_op0006 = {
    .batch = 4,
    .out_features = 10,
};

/* logits.bias.update */
const struct poet_sgd poet_op0007 = {
    .update.step = poet_sgd_step_f32,
    .update.learning_rate = 0x1.99999a0000000p-5f,
    .update.weight_decay = 0x0.0p+0f,
    .update.clip_value = 0x0.0p+0f,
    .update.share = 0x1.0000000000000p+0f,
    .momentum = 0x1.cccccc0000000p-1f,
    .nesterov = 0,
};

/* hidden2.backward_bias */
const struct poet_linear_bias poet_op0008 = {
    .batch = 4,
    .out_features = 32,
};

/* hidden1.backward_bias */
const struct poet_linear_bias poet_op0009 = {
    .batch = 4,
    .out_features = 64,
};

/* metric */
const struct poet_correct_count poet_op0010 = {
    .batch = 4,
    .classes = 10,
};

/* hidden1 */
const struct poet_linear poet_op0011 = {
    .batch = 1,
    .in_features = 64,
    .out_features = 64,
};

/* relu1 */
const struct poet_relu poet_op0012 = {
    .elements = 64,
};

/* hidden2 */
const struct poet_linear poet_op0013 = {
    .batch = 1,
    .in_features = 64,
    .out_features = 32,
};

/* relu2 */
const struct poet_relu poet_op0014 = {
    .elements = 32,
};

/* logits */
const struct poet_linear poet_op0015 = {
    .batch = 1,
    .in_features = 32,
    .out_features = 10,
};
