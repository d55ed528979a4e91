/* SPDX-License-Identifier: Apache-2.0 */
/* For C and assembly. */
#ifndef POET_VFP_H
#define POET_VFP_H

/* Whether the core is a microcontroller's with 32 registers of floats, for which kernels have assembly. */
#if defined(__ARM_FP) && __ARM_ARCH_PROFILE == 'M'
#define POET_HAS_VFP 1
#else
#define POET_HAS_VFP 0
#endif

#endif
