/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that include this first are compiled for size: they wait for a storage, a line or a person, and not for
 * the core. It stands here, and not among a build's flags, because each build system that compiles the library has
 * another way to say those of one file, or none. Freestanding, a loop may become a call of memcpy or memset alone. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os", "no-strict-aliasing", "no-tree-loop-distribute-patterns", "no-jump-tables")
#endif
