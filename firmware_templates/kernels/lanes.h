/* SPDX-License-Identifier: Apache-2.0 */
/* Neighbouring floats that are loaded, computed and stored together. */
#ifndef POET_LANES_H
#define POET_LANES_H

#include "dot.h"

/* How many: without a floating-point unit one, since there is nothing to gain. */
enum { POET_LANES = POET_HAS_FPU ? 8 : 1 };

struct poet_lanes {
    float of[POET_LANES];
};

/* Before a loop over lanes: they stay in registers. */
#define POET_EACH_LANE _Pragma("GCC unroll 8")
#define POET_LANES_INLINE static inline __attribute__((always_inline))

#if defined(__ARM_ARCH_7EM__) && defined(__ARM_FP)

/* One instruction of 9 cycles, for eight of 2; GCC does not join loads of floats. A function for each eight registers: what
 * two of them load is used together. */
#define POET_LOAD_LANES(NAME, A, B, C, D, E, F, G, H)                                          \
    POET_LANES_INLINE struct poet_lanes NAME(const float **next)                               \
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
                : "m"(*(const float(*)[POET_LANES])*next));                                    \
        const struct poet_lanes lanes = {{a, b, c, d, e, f, g, h}};                            \
        return lanes;                                                                          \
    }

POET_LOAD_LANES(poet_load_lanes, s0, s1, s2, s3, s4, s5, s6, s7)
POET_LOAD_LANES(poet_load_lanes_too, s16, s17, s18, s19, s20, s21, s22, s23)

POET_LANES_INLINE void poet_store_lanes(float **next, const struct poet_lanes *lanes)
{
    register float a __asm__("s0") = lanes->of[0];
    register float b __asm__("s1") = lanes->of[1];
    register float c __asm__("s2") = lanes->of[2];
    register float d __asm__("s3") = lanes->of[3];
    register float e __asm__("s4") = lanes->of[4];
    register float f __asm__("s5") = lanes->of[5];
    register float g __asm__("s6") = lanes->of[6];
    register float h __asm__("s7") = lanes->of[7];
    __asm__("vstmia %1!, {s0-s7}"
            : "=m"(*(float(*)[POET_LANES])*next), "+r"(*next)
            : "t"(a), "t"(b), "t"(c), "t"(d), "t"(e), "t"(f), "t"(g), "t"(h));
}

#else

/* Those at *next, which goes on behind them. */
POET_LANES_INLINE struct poet_lanes poet_load_lanes(const float **next)
{
    struct poet_lanes lanes;
    POET_EACH_LANE
    for (int i = 0; i < POET_LANES; i++) {
        lanes.of[i] = *(*next)++;
    }
    return lanes;
}

#define poet_load_lanes_too poet_load_lanes

POET_LANES_INLINE void poet_store_lanes(float **next, const struct poet_lanes *lanes)
{
    POET_EACH_LANE
    for (int i = 0; i < POET_LANES; i++) {
        *(*next)++ = lanes->of[i];
    }
}

#endif

#endif
