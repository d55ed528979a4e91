/* SPDX-License-Identifier: Apache-2.0 */
/* Marks the begin of each statement of a training step, numbered from 1, and the step's end, numbered one more. Does
 * nothing, except in copies of a project that record or time the step: they replace this file. */
#ifndef POET_STATEMENT_H
#define POET_STATEMENT_H

#define POET_STATEMENT(number) ((void)0)

/* Whether features are kept, by the call that loads them: never in those copies, where every statement runs. */
#define POET_ARE_KEPT(load) (load)

#endif
