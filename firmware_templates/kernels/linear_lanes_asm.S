/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, for a register to point at each lane and be moved by what loads. A sum begins with its first product, and not
 * with 0: where it is -0 what is added makes 0 of it, to which 0 was added before.
 *   r1  lanes left    r2  others    r3  results    r4-r11  factors; behind a block r11 points at the next    r12  factors left
 *   lr  shifts, or where results are apart other_next    s0-s3  factors, products    s4  other    s5  0, or the shift
 *   s8-s15  sums    [sp]  the first of the others */
   .macro _point to, from
   add     r\to, r\from, r12, lsl #2
   .endm
   .macro _load to, from
   vldmia  r\from!, {s\to}
   .endm
   .macro _load_four pointer
   .irp    at, 0, 1, 2, 3
   _load \at, %\pointer+\at
   .endr
   .endm
   .macro _first_four pointer, sum
   _load_four \pointer
   .irp    at, 0, 1, 2, 3
   multiply_one %\sum+\at, \at, 4
   .endr
   .endm
   .macro _four pointer, sum
   _load_four \pointer
   .irp    at, 0, 1, 2, 3
   multiply_one \at, \at, 4
   .endr
   .irp    at, 0, 1, 2, 3
   add_one %\sum+\at, \at
   .endr
   .endm
   .macro _other apart
   .ifnb   \apart
   vldr    s4, [r2]
   add     r2, r2, lr, lsl #2
   .else
   vldmia  r2!, {s4}
   .endif
   .endm
   .macro _put sum, apart
   .ifnb   \apart
   .irp    at, 0, 1, 2, 3
   add_one %\sum+\at, 5
   .endr
   .irp    at, 0, 1, 2, 3
   _store %\sum+\at
   .endr
   .else
   vldmia  lr!, {s0-s3}
   .irp    at, 0, 1, 2, 3
   add_one \at, 5
   .endr
   .irp    at, 0, 1, 2, 3
   add_one %\sum+\at, \at
   .endr
   .endif
   .endm
   .macro _store from
   vstr    s\from, [r3]
   add     r3, r3, r4, lsl #2
   .endm
/* Eight lanes, or four, from where r11 points. */
   .macro _lanes eight, apart
   ldr     r12, [r0, #4]
   mov     r4, r11
   .irp    at, 4, 5, 6
   _point %\at+1, \at
   .endr
   .ifnb   \eight
   .irp    at, 7, 8, 9, 10
   _point %\at+1, \at
   .endr
   .endif
   _other \apart
   _first_four 4, 8
   .ifnb   \eight
   _first_four 8, 12
   .endif
   subs    r12, r12, #1
   beq.w   3f
2: _other \apart
   _four 4, 8
   .ifnb   \eight
   _four 8, 12
   .endif
   subs    r12, r12, #1
   bne.w   2b
3: ldr     r2, [sp]
   .ifnb   \apart
   ldr     r4, [r0, #12]
   .endif
   _put 8, \apart
   .ifnb   \eight
   _put 12, \apart
   .ifb    \apart
   vstmia  r3!, {s8-s15}
   .endif
   .else
   mov     r11, r7
   .ifb    \apart
   vstmia  r3!, {s8-s11}
   .endif
   .endif
   .endm
   .macro _all_lanes name, apart
   function \name
   push    {r2, r4-r11, lr}
   movs    r4, #0
   vmov    s5, r4
   mov     r11, r1
   ldr     r1, [r0]
   .ifnb   \apart
   ldr     r4, [r0, #16]
   ldr     lr, [r0, #8]
   vldr    s4, [r4]
   add_one 5, 4
   .else
   ldr     lr, [r0, #16]
   .endif
   subs    r1, r1, #8
   blt.w   6f
1: _lanes eight, \apart
   subs    r1, r1, #8
   bge.w   1b
6: adds    r1, r1, #8
   beq.w   9f
7: subs    r1, r1, #4
   bge.w   8f
/* the last four are made again */
   ldr     r12, [r0, #4]
   lsls    r1, r1, #2
   mla     r11, r1, r12, r11
   .ifnb   \apart
   ldr     r4, [r0, #12]
   mla     r3, r1, r4, r3
   .else
   add     r3, r3, r1
   add     lr, lr, r1
   .endif
   movs    r1, #0
8: _lanes , \apart
   cmp     r1, #0
   bgt.w   7b
9: pop     {r2, r4-r11, pc}
   end_function \name
   .endm

   _all_lanes poet_linear_lanes_f32
   _all_lanes poet_linear_lanes_apart_f32, apart

#endif
