/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the kernels' constants of mlp on linux, batch 4. Ops with the same ones share them.
 * Written by poetfw 0.1.0 (plan 62f4bbef). Do not edit: change the plan and build again.
 */
#ifndef POET_OPS_H
#define POET_OPS_H

#include "linear.h"
#include "matmul.h"
#include "relu.h"
#include "sgd.h"
#include "softmax_cross_entropy.h"
#include "update.h"

extern const struct poet_matmul poet_op0000; /* hidden1 */
extern const struct poet_matmul poet_op0001; /* logits */
extern const struct poet_softmax_cross_entropy poet_op0002; /* loss */
extern const struct poet_sgd poet_op0003; /* logits.bias.update */
extern const struct poet_matmul poet_op0004; /* logits.weight.update */
extern const struct poet_relu poet_op0005; /* relu1.backward */
extern const struct poet_matmul poet_op0006; /* hidden1.weight.update */
extern const struct poet_linear_bias poet_op0007; /* hidden1.backward_bias */
extern const struct poet_relu poet_op0008; /* relu2.backward */
extern const struct poet_matmul poet_op0009; /* hidden2.weight.update */

#endif
