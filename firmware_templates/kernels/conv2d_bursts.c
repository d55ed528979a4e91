/* SPDX-License-Identifier: Apache-2.0 */
#include "conv2d_bursts.h"

#include "assembly.h"

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* In assembly, as compilers join no loads of floats, and here all registers hold some. A sum begins with its first product, and
 * not with 0: where it is -0 what is added makes 0 of it, to which 0 was added before.
 *   s0-s7  a channel of the source    s8-s11  weights    s12-s15  products    s16-s23, s24-s31  sums of two channels of results
 *   r1, r12  source    r2, lr  weights    r3  result    r4  channels left    r5  channels of results left
 *   r6  source_next    r7  what is next of weights    r8  result_next    r9, r10  shifts, shift_next    r11  positions left
 *   [sp], [sp, #4]  the first weights, where the burst's results begin */
__asm__(POET_ASSEMBLY
        "   .macro poet_source\n"
        "   vldmia  r12, {s0-s7}\n"
        "   add     r12, r12, r6, lsl #2\n"
        "   .endm\n"
        "   .macro poet_multiply to, weight\n"
        "   .irp    at, 0, 1, 2, 3, 4, 5, 6, 7\n"
        "   multiply_one %\\to+\\at, \\at, \\weight\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_four source, weight, sum\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   multiply_one %12+\\at, %\\source+\\at, \\weight\n"
        "   .endr\n"
        "   .irp    at, 0, 1, 2, 3\n"
        "   add_one %\\sum+\\at, %12+\\at\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_products to, weight\n"
        "   poet_four 0, \\weight, \\to\n"
        "   poet_four 4, \\weight, %4+\\to\n"
        "   .endm\n"
        "   .macro poet_shift to, shift\n"
        "   .irp    at, 0, 1, 2, 3, 4, 5, 6, 7\n"
        "   add_one %\\to+\\at, \\shift\n"
        "   .endr\n"
        "   .endm\n"
        "   .macro poet_channel weight, other, two\n"
        "   poet_source\n"
        "   poet_products 16, \\weight\n"
        "   .ifnb   \\two\n"
        "   poet_products 24, \\other\n"
        "   .endif\n"
        "   .endm\n"

        /* A burst of one channel of results, or of two, from r3 and its second half from `half` on. */
        "   .macro poet_move what, half, two\n"
        "   ldr     \\half, [r0, #32]\n" /* result_four */
        "   add     \\half, r3, \\half, lsl #2\n"
        "   \\what  r3, {s16-s19}\n"
        "   \\what  \\half, {s20-s23}\n"
        "   .ifnb   \\two\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   add     \\half, \\half, r8, lsl #2\n"
        "   \\what  r3, {s24-s27}\n"
        "   \\what  \\half, {s28-s31}\n"
        "   .endif\n"
        "   .endm\n"

        /* From the first burst to the last. */
        "   .macro poet_begin name\n"
        "   poet_function \\name\n"
        "   push    {r4-r11, lr}\n"
        "   vpush   {s16-s31}\n"
        "   push    {r2, r3}\n"
        "   ldr     r6, [r0, #8]\n"
        "   ldr     r7, [r0, #12]\n"
        "   ldr     r8, [r0, #16]\n"
        "   ldr     r10, [r0, #24]\n"
        "   ldr     r11, [r0, #28]\n"
        "   .endm\n"
        "   .macro poet_begin_burst\n"
        "1: ldr     r2, [sp]\n"
        "   ldr     r3, [sp, #4]\n"
        "   ldr     r5, [r0, #4]\n"
        "   ldr     r9, [r0, #20]\n"
        "   subs    r5, r5, #2\n"
        "   .endm\n"
        "   .macro poet_end name\n"
        "   subs    r11, r11, #8\n"
        "   ble.n   9f\n"
        "   ldr     r3, [sp, #4]\n"
        "   adds    r1, r1, #32\n"
        "   adds    r3, r3, #32\n"
        "   str     r3, [sp, #4]\n"
        "   cmp     r11, #8\n"
        "   bge.w   1b\n"
        "   rsb     r4, r11, #8\n" /* so many are made again */
        "   sub     r1, r1, r4, lsl #2\n"
        "   sub     r3, r3, r4, lsl #2\n"
        "   str     r3, [sp, #4]\n"
        "   mov     r11, #8\n"
        "   b.w     1b\n"
        "9: add     sp, sp, #8\n"
        "   vpop    {s16-s31}\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end \\name\n"
        "   .endm\n"

        /* From the first channel of the source to the last, for one channel of results or two. */
        "   .macro poet_begin_sums\n"
        "   mov     r12, r1\n"
        "   ldr     r4, [r0]\n"
        "   ldr     lr, [r0, #36]\n" /* further */
        "   cmp     lr, #0\n"
        "   .endm\n"
        "   .macro poet_end_sums two\n"
        "   vmov    s2, r4\n" /* 0 */
        "   .ifnb   \\two\n"
        "   vldmia  r9, {s0-s1}\n"
        "   add     r9, r9, r10, lsl #3\n"
        "   add_one 0, 2\n"
        "   add_one 1, 2\n"
        "   poet_shift 16, 0\n"
        "   poet_shift 24, 1\n"
        "   .else\n"
        "   vldmia  r9, {s0}\n"
        "   add_one 0, 2\n"
        "   poet_shift 16, 0\n"
        "   .endif\n"
        "   poet_move vstmia, r12, \\two\n"
        "   .endm\n"
        "   .macro poet_further two\n"
        "   poet_move vldmia, r4, \\two\n"
        "   .ifnb   \\two\n"
        "   sub     r3, r3, r8, lsl #2\n"
        "   .endif\n"
        "   ldr     r4, [r0]\n"
        "   .endm\n"

        /* All sums of a burst, in one channel of results or two; the weights of one channel of the source, or of two, are in s8, s9
         * and from s10 on. */
        "   .macro poet_sum way, two\n"
        "   poet_begin_sums\n"
        "   poet_begin_\\way \\two\n"
        "   bne.w   7f\n"
        "   poet_weights_\\way \\two\n"
        "   poet_source\n"
        "   poet_multiply 16, 8\n"
        "   .ifnb   \\two\n"
        "   poet_multiply 24, 9\n"
        "   .endif\n"
        "   subs    r4, r4, #1\n"
        "3: lsrs    r4, r4, #1\n"
        "   bcc.w   4f\n"
        "   poet_weights_\\way \\two\n"
        "   poet_channel 8, 9, \\two\n"
        "4: cmp     r4, #0\n"
        "   beq.w   6f\n"
        "9: poet_channels_\\way \\two\n"
        "   subs    r4, r4, #1\n"
        "   bne.w   9b\n"
        "6: poet_end_sums \\two\n"
        "   .endm\n"
        "   .macro poet_sums name, way\n"
        "   poet_begin_burst\n"
        "   blt.w   5f\n"
        "2: poet_sum \\way, two\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   poet_next_\\way\n"
        "   subs    r5, r5, #2\n"
        "   bge.w   2b\n"
        "   b.n     5f\n"
        "7: poet_further two\n"
        "   b.w     3b\n"
        "5: adds    r5, r5, #1\n" /* a last channel of results */
        "   bne.w   8f\n"
        "   poet_sum \\way\n"
        "   b.n     8f\n"
        "7: poet_further\n"
        "   b.w     3b\n"
        "8: poet_end \\name\n"
        "   .endm\n"

        /* Forward, the weights of a channel of results are neighbours. */
        "   .macro poet_begin_forward two\n"
        "   .ifnb   \\two\n"
        "   ldr     lr, [r0, #12]\n"
        "   add     lr, r2, lr, lsl #2\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_weights_forward two\n"
        "   vldmia  r2!, {s8}\n"
        "   .ifnb   \\two\n"
        "   vldmia  lr!, {s9}\n"
        "   .endif\n"
        "   .endm\n"
        "   .macro poet_channels_forward two\n"
        "   vldmia  r2!, {s8-s9}\n"
        "   .ifnb   \\two\n"
        "   vldmia  lr!, {s10-s11}\n"
        "   .endif\n"
        "   poet_channel 8, 10, \\two\n"
        "   poet_channel 9, 11, \\two\n"
        "   .endm\n"
        "   .macro poet_next_forward\n"
        "   add     r2, lr, r7, lsl #2\n"
        "   .endm\n"
        "   poet_begin poet_conv2d_bursts_f32\n"
        "   ldr     r4, [r0]\n"
        "   subs    r7, r7, r4\n" /* from behind a channel's last weight to the first of the next */
        "   poet_sums poet_conv2d_bursts_f32, forward\n"

        /* For dX, those of neighbouring channels of results are. */
        "   .macro poet_begin_backwards two\n"
        "   mov     lr, r2\n"
        "   .endm\n"
        "   .macro poet_weights_backwards two\n"
        "   .ifnb   \\two\n"
        "   vldmia  lr, {s8-s9}\n"
        "   .else\n"
        "   vldmia  lr, {s8}\n"
        "   .endif\n"
        "   add     lr, lr, r7, lsl #2\n"
        "   .endm\n"
        "   .macro poet_channels_backwards two\n"
        "   poet_weights_backwards \\two\n"
        "   poet_channel 8, 9, \\two\n"
        "   poet_weights_backwards \\two\n"
        "   poet_channel 8, 9, \\two\n"
        "   .endm\n"
        "   .macro poet_next_backwards\n"
        "   adds    r2, r2, #8\n"
        "   .endm\n"
        "   poet_begin poet_conv2d_bursts_backwards_f32\n"
        "   poet_sums poet_conv2d_bursts_backwards_f32, backwards\n"

        /* Of one channel a burst is loaded once. All weights are neighbours. Where there is one shift for all it is 0. */
        "   poet_begin poet_conv2d_bursts_of_one_f32\n"
        "   movs    r4, #0\n"
        "   vmov    s10, r4\n"
        "   vmov.f32 s12, s10\n"
        "   vmov.f32 s13, s10\n"
        "   poet_begin_burst\n"
        "   mov     r4, r10\n"
        "   vldmia  r1, {s0-s7}\n"
        "   blt.w   5f\n"
        "2: vldmia  r2!, {s8-s9}\n"
        "   cbz     r4, 3f\n"
        "   vldmia  r9!, {s12-s13}\n"
        "   add_one 12, 10\n"
        "   add_one 13, 10\n"
        "3: poet_multiply 16, 8\n"
        "   poet_multiply 24, 9\n"
        "   poet_shift 16, 12\n"
        "   poet_shift 24, 13\n"
        "   vstmia  r3, {s16-s23}\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   vstmia  r3, {s24-s31}\n"
        "   add     r3, r3, r8, lsl #2\n"
        "   subs    r5, r5, #2\n"
        "   bge.n   2b\n"
        "5: adds    r5, r5, #1\n"
        "   bne.n   8f\n"
        "   vldmia  r2, {s8}\n"
        "   cbz     r4, 3f\n"
        "   vldmia  r9, {s12}\n"
        "   add_one 12, 10\n"
        "3: poet_multiply 16, 8\n"
        "   poet_shift 16, 12\n"
        "   vstmia  r3, {s16-s23}\n"
        "8: poet_end poet_conv2d_bursts_of_one_f32\n"

        /* Words are moved in registers of integers, which takes less than in those of floats.
         *   r1  source    r2  what is gathered    r3  channels left    r4-r7  a four    r8-r10  to its other three
         *   r11, r12  to the next channels    lr  column    [sp], [sp, #4]  fours left, to the next one */
        "   .macro poet_next_position\n"
        "   add     lr, lr, #1\n"
        "   cmp     lr, r5\n"
        "   itee    lt\n"
        "   addlt   r4, r4, r8\n"
        "   addge   r4, r4, r6\n"
        "   movge   lr, #0\n"
        "   .endm\n"
        "   poet_function poet_conv2d_gather_f32\n"
        "   push    {r4-r11, lr}\n"
        "   ldr     r3, [r0, #28]\n"
        "   ldr     r11, [r0, #16]\n"
        "   ldr     r12, [r0, #20]\n"
        "   ldr     lr, [r0, #24]\n"
        "   sub     sp, sp, #8\n"
        "1: str     r3, [sp]\n"
        "   ldr     r8, [r0, #4]\n"
        "   ldr     r5, [r0]\n"
        "   ldr     r3, [r0, #12]\n"
        "   add     lr, lr, #4\n"
        "   lsls    r4, r8, #2\n"
        "   add     r9, r8, r8\n"
        "   cmp     lr, r5\n"
        "   add     r10, r9, r8\n"
        "   blt.n   2f\n"
        "   sub     lr, lr, #4\n" /* the row ends here */
        "   ldr     r6, [r0, #8]\n"
        "   movs    r4, #0\n"
        "   poet_next_position\n"
        "   mov     r7, r4\n"
        "   poet_next_position\n"
        "   mov     r9, r4\n"
        "   poet_next_position\n"
        "   mov     r10, r4\n"
        "   poet_next_position\n"
        "   mov     r8, r7\n"
        "2: add     r4, r4, r1\n"
        "   str     r4, [sp, #4]\n"
        "3: ldr     r4, [r1]\n"
        "   ldr     r5, [r1, r8]\n"
        "   ldr     r6, [r1, r9]\n"
        "   ldr     r7, [r1, r10]\n"
        "   str     r4, [r2]\n"
        "   str     r5, [r2, #4]\n"
        "   str     r6, [r2, #8]\n"
        "   str     r7, [r2, #12]\n"
        "   add     r1, r1, r11\n"
        "   add     r2, r2, r12\n"
        "   subs    r3, r3, #1\n"
        "   bne.n   3b\n"
        "   ldr     r1, [sp, #4]\n"
        "   ldr     r4, [r0, #12]\n"
        "   ldr     r3, [sp]\n"
        "   mls     r2, r4, r12, r2\n"
        "   adds    r2, r2, #16\n"
        "   subs    r3, r3, #1\n"
        "   bne.n   1b\n"
        "   add     sp, sp, #8\n"
        "   pop     {r4-r11, pc}\n"
        "   poet_function_end poet_conv2d_gather_f32\n"
        "   .noaltmacro\n");

#else

/* The same sums in C, for one channel of results after the other. */
static inline __attribute__((always_inline)) void
sum_burst(const struct poet_bursts *bursts, const float *source, const float *weight,
          int32_t weight_channel, float shift, float *result)
{
    float *halves[] = {result, result + bursts->result_four};
    struct poet_burst sums = {{0.0f}};
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        sums.of[i] = bursts->further ? halves[i / 4][i % 4] : 0.0f;
    }
    for (int32_t channel = 0; channel < bursts->channels; channel++) {
        POET_EACH_OF_BURST
        for (int i = 0; i < POET_BURST; i++) {
            sums.of[i] += source[i] * *weight;
        }
        source += bursts->source_next;
        weight += weight_channel;
    }
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        halves[i / 4][i % 4] = sums.of[i] + shift;
    }
}

static inline __attribute__((always_inline)) void
sum_bursts(const struct poet_bursts *bursts, const float *source, const float *weight,
           int32_t weight_channel, int32_t weight_result, float *result)
{
    const int32_t last = bursts->positions - POET_BURST;
    for (int32_t burst = 0; burst < last + POET_BURST; burst += POET_BURST) {
        const int32_t at = burst < last ? burst : last;
        for (int32_t channel = 0; channel < bursts->results; channel++) {
            sum_burst(bursts, source + at, weight + channel * weight_result, weight_channel,
                      bursts->shift[channel * bursts->shift_next],
                      result + channel * bursts->result_next + at);
        }
    }
}

void poet_conv2d_bursts_f32(const struct poet_bursts *bursts, const float *source,
                            const float *weight, float *result)
{
    sum_bursts(bursts, source, weight, 1, bursts->weight_next, result);
}

void poet_conv2d_bursts_backwards_f32(const struct poet_bursts *bursts, const float *source,
                                      const float *weight, float *result)
{
    sum_bursts(bursts, source, weight, bursts->weight_next, 1, result);
}

void poet_conv2d_bursts_of_one_f32(const struct poet_bursts *bursts, const float *source,
                                   const float *weight, float *result)
{
    sum_bursts(bursts, source, weight, 0, 1, result);
}

void poet_conv2d_gather_f32(const struct poet_gather *at, const float *source, float *to)
{
    const int32_t size = sizeof *source;
    int32_t column = at->column;
    for (int32_t i = 0; i < POET_FOUR * at->fours; i++) {
        for (int32_t channel = 0; channel < at->channels; channel++) {
            to[channel * at->next / size + i] = source[channel * at->source_next / size];
        }
        column = column + 1 < at->width ? column + 1 : 0;
        source += (column > 0 ? at->step : at->turn) / size;
    }
}

#endif
