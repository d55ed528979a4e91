/* SPDX-License-Identifier: Apache-2.0 */
/* ops.h: the kernels' constants of mlp on nrf52840, batch 4. Ops with the same ones share them.
 * Written by poetfw 0.1.0 (plan 49400d45). Do not edit: change the plan and build again.
 */
#ifndef POET_OPS_H
#define POET_OPS_H

#include "accuracy.h"
#include "linear.h"
#include "relu.h"
#include "sgd.h"
#include "softmax_cross_entropy.h"

extern const struct poet_linear OP0000; /* hidden1 */
extern const struct poet_relu OP0001; /* relu1 */
extern const struct poet_linear OP0002; /* hidden2 */
extern const struct poet_relu OP0003; /* relu2 */
extern const struct poet_linear OP0004; /* logits */
extern const struct poet_softmax_cross_entropy OP0005; /* loss */
extern const struct poet_linear_bias OP0006; /* logits.backward_bias */
extern const struct poet_sgd OP0007; /* logits.bias.update */
extern const struct poet_linear_sgd OP0008; /* logits.weight.update */
extern const struct poet_linear_bias OP0009; /* hidden2.backward_bias */
extern const struct poet_sgd OP0010; /* hidden2.bias.update */
extern const struct poet_linear_sgd OP0011; /* hidden1.weight.update */
extern const struct poet_linear_bias OP0012; /* hidden1.backward_bias */
extern const struct poet_sgd OP0013; /* hidden1.bias.update */
extern const struct poet_linear_sgd OP0014; /* hidden2.weight.update */
extern const struct poet_correct_count OP0015; /* metric */

#endif
