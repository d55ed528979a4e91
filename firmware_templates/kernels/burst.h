/* SPDX-License-Identifier: Apache-2.0 */
/* Bursts: adjacent floats that are loaded, computed and stored together. */
#ifndef POET_BURST_H
#define POET_BURST_H

#include "fpu.h"
#include "unroll.h"
#include "vfp.h"

/* Floats per burst; one without a floating-point unit, where bursts gain nothing. */
enum { POET_BURST = POET_HAS_FPU ? 8 : 1 };

struct poet_burst {
    float of[POET_BURST];
};

/* Unrolls a loop over a burst, which stays in registers. */
#define POET_EACH_OF_BURST POET_UNROLL(8)
#define POET_BURST_INLINE static inline __attribute__((always_inline))

#if POET_HAS_VFP

/* One instruction of 9 cycles, for eight of 2; GCC does not join loads of floats. A function for each eight registers: what
 * two of them load is used together. */
#define POET_LOAD_BURST(NAME, A, B, C, D, E, F, G, H)                                          \
    POET_BURST_INLINE struct poet_burst NAME(const float **next)                               \
    {                                                                                          \
        register float a __asm__(#A);                                                          \
        register float b __asm__(#B);                                                          \
        register float c __asm__(#C);                                                          \
        register float d __asm__(#D);                                                          \
        register float e __asm__(#E);                                                          \
        register float f __asm__(#F);                                                          \
        register float g __asm__(#G);                                                          \
        register float h __asm__(#H);                                                          \
        __asm__("vldmia %8!, {" #A "-" #H "}"                                                  \
                : "=t"(a), "=t"(b), "=t"(c), "=t"(d), "=t"(e), "=t"(f), "=t"(g), "=t"(h),      \
                  "+r"(*next)                                                                  \
                : "m"(*(const float(*)[POET_BURST])*next));                                    \
        const struct poet_burst burst = {{a, b, c, d, e, f, g, h}};                            \
        return burst;                                                                          \
    }

POET_LOAD_BURST(poet_load_burst, s0, s1, s2, s3, s4, s5, s6, s7)
POET_LOAD_BURST(poet_load_burst_too, s16, s17, s18, s19, s20, s21, s22, s23)
POET_LOAD_BURST(poet_load_third_burst, s24, s25, s26, s27, s28, s29, s30, s31)

/* Stores registers in which a loop may keep sums. */
#define POET_STORE_BURST(NAME, A, B, C, D, E, F, G, H)                                         \
    POET_BURST_INLINE void NAME(float **next, const struct poet_burst *burst)                  \
    {                                                                                          \
        register float a __asm__(#A) = burst->of[0];                                           \
        register float b __asm__(#B) = burst->of[1];                                           \
        register float c __asm__(#C) = burst->of[2];                                           \
        register float d __asm__(#D) = burst->of[3];                                           \
        register float e __asm__(#E) = burst->of[4];                                           \
        register float f __asm__(#F) = burst->of[5];                                           \
        register float g __asm__(#G) = burst->of[6];                                           \
        register float h __asm__(#H) = burst->of[7];                                           \
        __asm__("vstmia %1!, {" #A "-" #H "}"                                                  \
                : "=m"(*(float(*)[POET_BURST])*next), "+r"(*next)                              \
                : "t"(a), "t"(b), "t"(c), "t"(d), "t"(e), "t"(f), "t"(g), "t"(h));             \
    }

POET_STORE_BURST(poet_store_burst, s0, s1, s2, s3, s4, s5, s6, s7)
POET_STORE_BURST(poet_store_second_burst, s8, s9, s10, s11, s12, s13, s14, s15)
POET_STORE_BURST(poet_store_third_burst, s24, s25, s26, s27, s28, s29, s30, s31)

#else

/* Loads the floats at *next, and advances it. */
POET_BURST_INLINE struct poet_burst poet_load_burst(const float **next)
{
    struct poet_burst burst;
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        burst.of[i] = *(*next)++;
    }
    return burst;
}

#define poet_load_burst_too poet_load_burst
#define poet_load_third_burst poet_load_burst

POET_BURST_INLINE void poet_store_burst(float **next, const struct poet_burst *burst)
{
    POET_EACH_OF_BURST
    for (int i = 0; i < POET_BURST; i++) {
        *(*next)++ = burst->of[i];
    }
}

#define poet_store_second_burst poet_store_burst
#define poet_store_third_burst poet_store_burst

#endif

#endif
