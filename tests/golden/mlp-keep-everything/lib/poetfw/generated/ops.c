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
    .elements = 10,
    .learning_rate = 0x1.99999a0000000p-5f,
    .momentum = 0x1.cccccc0000000p-1f,
    .weight_decay = 0x0.0p+0f,
};

/* logits.weight.update */
const struct poet_linear_sgd poet_op0008 = {
    .linear.batch = 4,
    .linear.in_features = 32,
    .linear.out_features = 10,
    .sgd.elements = 320,
    .sgd.learning_rate = 0x1.99999a0000000p-5f,
    .sgd.momentum = 0x1.cccccc0000000p-1f,
    .sgd.weight_decay = 0x0.0p+0f,
};

/* hidden2.backward_bias */
const struct poet_linear_bias poet_op0009 = {
    .batch = 4,
    .out_features = 32,
};

/* hidden2.bias.update */
const struct poet_sgd poet_op0010 = {
    .elements = 32,
    .learning_rate = 0x1.99999a0000000p-5f,
    .momentum = 0x1.cccccc0000000p-1f,
    .weight_decay = 0x0.0p+0f,
};

/* hidden1.weight.update */
const struct poet_linear_sgd poet_op0011 = {
    .linear.batch = 4,
    .linear.in_features = 64,
    .linear.out_features = 64,
    .sgd.elements = 4096,
    .sgd.learning_rate = 0x1.99999a0000000p-5f,
    .sgd.momentum = 0x1.cccccc0000000p-1f,
    .sgd.weight_decay = 0x0.0p+0f,
};

/* hidden1.backward_bias */
const struct poet_linear_bias poet_op0012 = {
    .batch = 4,
    .out_features = 64,
};

/* hidden1.bias.update */
const struct poet_sgd poet_op0013 = {
    .elements = 64,
    .learning_rate = 0x1.99999a0000000p-5f,
    .momentum = 0x1.cccccc0000000p-1f,
    .weight_decay = 0x0.0p+0f,
};

/* hidden2.weight.update */
const struct poet_linear_sgd poet_op0014 = {
    .linear.batch = 4,
    .linear.in_features = 64,
    .linear.out_features = 32,
    .sgd.elements = 2048,
    .sgd.learning_rate = 0x1.99999a0000000p-5f,
    .sgd.momentum = 0x1.cccccc0000000p-1f,
    .sgd.weight_decay = 0x0.0p+0f,
};

/* metric */
const struct poet_correct_count poet_op0015 = {
    .batch = 4,
    .classes = 10,
};

/* hidden1 */
const struct poet_linear poet_op0016 = {
    .batch = 1,
    .in_features = 64,
    .out_features = 64,
};

/* relu1 */
const struct poet_relu poet_op0017 = {
    .elements = 64,
};

/* hidden2 */
const struct poet_linear poet_op0018 = {
    .batch = 1,
    .in_features = 64,
    .out_features = 32,
};

/* relu2 */
const struct poet_relu poet_op0019 = {
    .elements = 32,
};

/* logits */
const struct poet_linear poet_op0020 = {
    .batch = 1,
    .in_features = 32,
    .out_features = 10,
};
