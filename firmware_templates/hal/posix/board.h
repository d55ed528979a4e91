/* SPDX-License-Identifier: Apache-2.0 */
#ifndef POET_BOARD_H
#define POET_BOARD_H

/* Whether commands are taken on standard input, for as long as somebody may give them. */
void poet_listen_to_input(int does);

#endif
