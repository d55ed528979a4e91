/* SPDX-License-Identifier: Apache-2.0 */
/* Marks where each statement of a training step begins, numbered from 1, and where the step ends, one number further.
 * Nothing happens there, but in the copies of a project that record or time its training step: they have another file
 * of this name. */
#ifndef POET_STATEMENT_H
#define POET_STATEMENT_H

#define POET_STATEMENT(number) ((void)0)

#endif
