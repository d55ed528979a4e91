/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_UNROLL_H
#define POET_UNROLL_H

/* Unrolls the loop behind it so many times, where the compiler can: GCC before 8 warns of a pragma that it does not know.
 * POET_NO_UNROLL does without, for tests of what such compilers compile. */
#if (defined __clang__ || __GNUC__ >= 8) && !defined POET_NO_UNROLL
#define POET_UNROLL(times) POET_PRAGMA(GCC unroll times)
#define POET_PRAGMA(pragma) _Pragma(#pragma)
#else
#define POET_UNROLL(times)
#endif

#endif
