/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* Zeros, 32 at a time. */
   function poet_conv2d_clear_f32
   movs    r2, #0
   vmov    s0, r2
   .irp    zero, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15
   vmov.f32 s\zero, s0
   .endr
   subs    r1, r1, #32
   blt.n   2f
1: vstmia  r0!, {s0-s15}
   vstmia  r0!, {s0-s15}
   subs    r1, r1, #32
   bge.n   1b
2: lsls    r1, r1, #28
   it      cs
   vstmiacs r0!, {s0-s15}
   it      mi
   vstmiami r0!, {s0-s7}
   lsls    r1, r1, #2
   it      cs
   vstmiacs r0!, {s0-s3}
   it      mi
   vstmiami r0!, {s0-s1}
   lsls    r1, r1, #2
   it      cs
   vstmiacs r0!, {s0}
   bx      lr
   end_function poet_conv2d_clear_f32

#endif
