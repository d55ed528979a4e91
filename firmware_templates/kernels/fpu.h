/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_FPU_H
#define POET_FPU_H

#include <stdbool.h>

/* Whether floats are a library's. It takes nearly all of the time, and sums stay in no registers: then kernels
 * sum one result after the other, which takes a small stack. */
#if defined __SOFTFP__ || (defined __riscv && !defined __riscv_flen) || defined POET_SOFT_FLOAT
#define POET_HAS_FPU false
#else
#define POET_HAS_FPU true
#endif

#endif
