/* SPDX-License-Identifier: Apache-2.0 */
#include "linear_lanes.h"

#include "assembly.h"
#include "product.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, for a register to point at each lane and be moved by what loads. A sum begins with its first product, and not
 * with 0: where it is -0 what is added makes 0 of it, to which 0 was added before.
 *   r1  lanes left    r2  others    r3  results    r4-r11  factors; behind a block r11 points at the next    r12  factors left
 *   lr  shifts, or where results are apart other_next    s0-s3  factors, products    s4  other    s5  0, or the shift
 *   s8-s15  sums    [sp]  the first of the others */
__asm__(POET_ASSEMBLY
        "   .macro poet_point to, from\n"
        "   add     r\\to, r\\from, r12, lsl #2\n"
        "   .endm\n"
        "   .macro poet_load to, from\n"
        "   vldmia  r\\from!, {s\\to}\n"
        "   .endm\n"
        "   .macro poet_load_four pointer\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_load \\at, %\\pointer+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_first_four pointer, sum\n"
        "   poet_load_four \\pointer\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %\\sum+\\at, \\at, 4\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_four pointer, sum\n"
        "   poet_load_four \\pointer\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one \\at, \\at, 4\n"
        "   .endr\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\sum+\\at, \\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_other apart\n"
        "   .ifnb   \\apart\n"
        "   vldr    s4, [r2]\n"
        "   add     r2, r2, lr, lsl #2\n"
        "   .else\n"
        "   vldmia  r2!, {s4}\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_put sum, apart\n"
        "   .ifnb   \\apart\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\sum+\\at, 5\n"
        "   .endr\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   poet_store %\\sum+\\at\n"
        "   .endr\n"
        "   .else\n"
        "   vldmia  lr!, {s0-s3}\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one \\at, 5\n"
        "   .endr\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\sum+\\at, \\at\n"
        "   .endr\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_store from\n"
        "   vstr    s\\from, [r3]\n"
        "   add     r3, r3, r4, lsl #2\n"
        "   .endm\n"
        /* Eight lanes, or four, from where r11 points. */
        "   .macro poet_lanes eight, apart\n"
        "   ldr     r12, [r0, #4]\n"
        "   mov     r4, r11\n"
        "   .irp    at, 4, 5, 6\n"
        "   poet_point %\\at+1, \\at\n"
        "   .endr\n"
        "   .ifnb   \\eight\n"
        "   .irp    at, 7, 8, 9, 10\n"
        "   poet_point %\\at+1, \\at\n"
        "   .endr\n"
        "   .endif\n"
        "   poet_other \\apart\n"
        "   poet_first_four 4, 8\n"
        "   .ifnb   \\eight\n"
        "   poet_first_four 8, 12\n"
        "   .endif\n"
        "   subs    r12, r12, #1\n"
        "   beq.w   3f\n"
        "2: poet_other \\apart\n"
        "   poet_four 4, 8\n"
        "   .ifnb   \\eight\n"
        "   poet_four 8, 12\n"
        "   .endif\n"
        "   subs    r12, r12, #1\n"
        "   bne.w   2b\n"
        "3: ldr     r2, [sp]\n"
        "   .ifnb   \\apart\n"
        "   ldr     r4, [r0, #12]\n"
        "   .endif\n"
        "   poet_put 8, \\apart\n"
        "   .ifnb   \\eight\n"
        "   poet_put 12, \\apart\n"
        "   .ifb    \\apart\n"
        "   vstmia  r3!, {s8-s15}\n"
        "   .endif\n"
        "   .else\n"
        "   mov     r11, r7\n"
        "   .ifb    \\apart\n"
        "   vstmia  r3!, {s8-s11}\n"
        "   .endif\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_all_lanes name, apart\n"
        "   poet_function \\name\n"
        "   push    {r2, r4-r11, lr}\n"
        "   movs    r4, #0\n"
        "   vmov    s5, r4\n"
        "   mov     r11, r1\n"
        "   ldr     r1, [r0]\n"
        "   .ifnb   \\apart\n"
        "   ldr     r4, [r0, #16]\n"
        "   ldr     lr, [r0, #8]\n"
        "   vldr    s4, [r4]\n"
        "   add_one 5, 4\n"
        "   .else\n"
        "   ldr     lr, [r0, #16]\n"
        "   .endif\n"
        "   subs    r1, r1, #8\n"
        "   blt.w   6f\n"
        "1: poet_lanes eight, \\apart\n"
        "   subs    r1, r1, #8\n"
        "   bge.w   1b\n"
        "6: adds    r1, r1, #8\n"
        "   beq.w   9f\n"
        "7: subs    r1, r1, #4\n"
        "   bge.w   8f\n"
        /* the last four are made again */
        "   ldr     r12, [r0, #4]\n"
        "   lsls    r1, r1, #2\n"
        "   mla     r11, r1, r12, r11\n"
        "   .ifnb   \\apart\n"
        "   ldr     r4, [r0, #12]\n"
        "   mla     r3, r1, r4, r3\n"
        "   .else\n"
        "   add     r3, r3, r1\n"
        "   add     lr, lr, r1\n"
        "   .endif\n"
        "   movs    r1, #0\n"
        "8: poet_lanes , \\apart\n"
        "   cmp     r1, #0\n"
        "   bgt.w   7b\n"
        "9: pop     {r2, r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        "   poet_all_lanes poet_linear_lanes_f32\n"
        "   poet_all_lanes poet_linear_lanes_apart_f32, apart\n"
        "   .noaltmacro\n");

#else

static inline __attribute__((always_inline)) void
sum_lanes(const struct poet_linear_lanes *op, const float *factors, const float *others, int32_t other_next,
          int32_t shift_next, int32_t result_next, float *result)
{
    for (int32_t lane = 0; lane < op->lanes; lane++) {
        float sum = 0.0f;
        for (int32_t k = 0; k < op->count; k++) {
            sum = poet_add_product(sum, *factors++, others[k * other_next]);
        }
        result[lane * result_next] = sum + op->shift[lane * shift_next];
    }
}

void poet_linear_lanes_f32(const struct poet_linear_lanes *op, const float *factors, const float *others,
                           float *result)
{
    sum_lanes(op, factors, others, 1, 1, 1, result);
}

void poet_linear_lanes_apart_f32(const struct poet_linear_lanes *op, const float *factors,
                                 const float *others, float *result)
{
    sum_lanes(op, factors, others, op->other_next, 0, op->result_next, result);
}

#endif
