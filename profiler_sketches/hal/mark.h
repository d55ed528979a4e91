/* SPDX-License-Identifier: Apache-2.0 */
/* Where what is measured begins and ends, for whoever counts or meters. A family under hal/ may define it. */
#ifndef POET_MARK_H
#define POET_MARK_H

/* It begins (1) or ends (0): raises and lowers a pin, for a meter. Where an emulator counts, a tick begins with
 * it, so that its count does not depend on when it was asked for. */
void poet_mark(int begins);

#endif
