/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the kernels' constants of mlp on nrf52840, batch 4. Ops with the same ones share them.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#ifndef POET_OPS_H
#define POET_OPS_H

#include "accuracy.h"
#include "linear.h"
#include "matmul.h"
#include "relu.h"
#include "sgd.h"
#include "softmax_cross_entropy.h"
#include "update.h"

extern const struct poet_matmul poet_op0000; /* hidden1 */
extern const struct poet_relu poet_op0001; /* relu1 */
extern const struct poet_matmul poet_op0002; /* hidden2 */
extern const struct poet_relu poet_op0003; /* relu2 */
extern const struct poet_matmul poet_op0004; /* logits */
extern const struct poet_softmax_cross_entropy poet_op0005; /* loss */
extern const struct poet_linear_bias poet_op0006; /* logits.backward_bias */
extern const struct poet_sgd poet_op0007; /* logits.bias.update */
extern const struct poet_matmul poet_op0008; /* logits.backward_input */
extern const struct poet_matmul poet_op0009; /* logits.weight.update */
extern const struct poet_linear_bias poet_op0010; /* hidden2.backward_bias */
extern const struct poet_matmul poet_op0011; /* hidden2.backward_input */
extern const struct poet_matmul poet_op0012; /* hidden1.weight.update */
extern const struct poet_linear_bias poet_op0013; /* hidden1.backward_bias */
extern const struct poet_matmul poet_op0014; /* hidden2.weight.update */
extern const struct poet_correct_count poet_op0015; /* metric */
extern const struct poet_matmul poet_op0016; /* hidden1 */
extern const struct poet_relu poet_op0017; /* relu1 */
extern const struct poet_matmul poet_op0018; /* hidden2 */
extern const struct poet_relu poet_op0019; /* relu2 */
extern const struct poet_matmul poet_op0020; /* logits */

#endif
