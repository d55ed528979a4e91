/* SPDX-License-Identifier: Apache-2.0 */
#include "assembly.h"

#if defined __thumb__ && !defined __thumb2__

/* r0, r1   the factors' addresses           r8, r9   bytes to the next ones
 * r6, r11  the sum's mantissa and exponent  r12      r0 at the end of the row
 * r7       a mantissa's hidden bit          r10, lr  the product's sign and exponent
 * sp       total, dot, the addresses of the row's factors, rows left */
   .pushsection .text.poet_dot_add_plane, "ax", %progbits
   .p2align 2
   .global poet_dot_add_plane
   .type poet_dot_add_plane, %function
   .thumb_func
poet_dot_add_plane:
   push    {r4-r7, lr}
   mov     r4, r8
   mov     r5, r9
   mov     r6, r10
   mov     r7, r11
   push    {r4-r7}
   ldr     r4, [r1, #12]            /* middle.count */
   sub     sp, #20
   str     r4, [sp, #16]
   str     r3, [sp, #12]
   str     r2, [sp, #8]
   str     r1, [sp, #4]
   str     r0, [sp, #0]
   ldr     r6, [r0, #0]
   ldr     r4, [r0, #4]
   mov     r11, r4
   ldr     r4, [r1, #28]            /* inner.a_next */
   lsls    r4, r4, #2
   mov     r8, r4
   ldr     r4, [r1, #32]            /* inner.b_next */
   lsls    r4, r4, #2
   mov     r9, r4
   movs    r7, #1
   lsls    r7, r7, #23
.Lrow:
   ldr     r0, [sp, #8]
   ldr     r1, [sp, #12]
   ldr     r4, [sp, #4]
   ldr     r4, [r4, #24]            /* inner.count */
   mov     r5, r8
   muls    r4, r5, r4
   adds    r4, r4, r0
   mov     r12, r4
.Lproduct:
   ldr     r2, [r0]
   ldr     r3, [r1]
   add     r0, r8
   add     r1, r9
   lsls    r4, r2, #1               /* both exponents */
   lsrs    r4, r4, #24
   beq     .La_is_zero
   lsls    r5, r3, #1
   lsrs    r5, r5, #24
   beq     .Lb_is_zero
   cmp     r4, #255
   beq     .Lspecial
   cmp     r5, #255
   beq     .Lspecial
   adds    r4, r4, r5
   mov     lr, r4
   movs    r4, r2                   /* the product's sign, in all bits */
   eors    r4, r3
   asrs    r4, r4, #31
   mov     r10, r4
   uxtb    r4, r2                   /* mantissas: 16 bits and 8 bits of each */
   uxtb    r5, r3
   orrs    r2, r7
   orrs    r3, r7
   lsls    r2, r2, #8
   lsrs    r2, r2, #16
   lsls    r3, r3, #8
   lsrs    r3, r3, #16
   muls    r4, r3, r4
   muls    r5, r2, r5
   adds    r4, r4, r5
   lsrs    r4, r4, #8
   muls    r2, r3, r2
   adds    r2, r2, r4
   lsrs    r2, r2, #2
   mov     r4, r10
   eors    r2, r4
   subs    r2, r2, r4
   mov     r3, r11                  /* to the larger exponent */
   mov     r4, lr
   subs    r3, r3, r4
   blt     .Llarger
   cmp     r3, #31
   bgt     .Lnext
   asrs    r2, r3                   /* what is shifted out last is the carry */
   adcs    r6, r2
.Ladded:
   lsls    r3, r6, #1               /* of 31 bits? */
   eors    r3, r6
   bmi     .Lcarry
.Lnext:
   cmp     r0, r12
   bne     .Lproduct
   ldr     r4, [sp, #4]
   ldr     r5, [r4, #16]            /* middle.a_next */
   lsls    r5, r5, #2
   ldr     r0, [sp, #8]
   adds    r0, r0, r5
   str     r0, [sp, #8]
   ldr     r5, [r4, #20]            /* middle.b_next */
   lsls    r5, r5, #2
   ldr     r1, [sp, #12]
   adds    r1, r1, r5
   str     r1, [sp, #12]
   ldr     r4, [sp, #16]
   subs    r4, r4, #1
   str     r4, [sp, #16]
   bne     .Lrow
   ldr     r0, [sp, #0]
   str     r6, [r0, #0]
   mov     r4, r11
   str     r4, [r0, #4]
   add     sp, #20
   pop     {r4-r7}
   mov     r8, r4
   mov     r9, r5
   mov     r10, r6
   mov     r11, r7
   pop     {r4-r7, pc}
.Llarger:
   mov     r11, r4
   negs    r3, r3
   cmp     r3, #31
   ble     .Lshift
   movs    r3, #31
.Lshift:
   asrs    r6, r3
   adcs    r6, r2
   b       .Ladded
.Lcarry:
   movs    r3, #0
   asrs    r6, r6, #1
   adcs    r6, r3
   movs    r3, #1
   add     r11, r3
   b       .Lnext
.La_is_zero:
   lsls    r4, r2, #1
   bne     .Lspecial
   lsls    r5, r3, #1
   lsrs    r5, r5, #24
   cmp     r5, #255
   bne     .Lnext
   b       .Lspecial
.Lb_is_zero:
   lsls    r5, r3, #1
   bne     .Lspecial
   cmp     r4, #255
   bne     .Lnext
.Lspecial:
   push    {r0, r1}
   mov     r4, r9
   subs    r2, r1, r4
   mov     r4, r8
   subs    r1, r0, r4
   ldr     r0, [sp, #8]
   mov     r4, r12
   bl      poet_dot_add_rest
   mov     r12, r4
   pop     {r0, r1}
   b       .Lnext
   .size poet_dot_add_plane, . - poet_dot_add_plane
   .popsection

#endif
