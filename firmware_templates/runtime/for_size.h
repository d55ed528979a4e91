/* SPDX-License-Identifier: Apache-2.0 */
/* Sources that include this first are compiled for size: they wait for storage, a line or a person instead of the
 * core. A pragma, since each build system that compiles the library has its own way, or none, to set flags for single
 * files. In a freestanding build, a loop may become a call only of memcpy or memset. */
#if defined(__GNUC__) && !defined(__clang__)
#pragma GCC optimize("Os", "no-strict-aliasing", "no-tree-loop-distribute-patterns", "no-jump-tables")
#endif
