/* SPDX-License-Identifier: Apache-2.0 */
/* Storage in a file or a block device, accessed by a thread while the core computes. */
#ifndef POET_STORAGE_FILE_H
#define POET_STORAGE_FILE_H

/* Sets the file's name; before poet_hal_storage_open. */
void poet_storage_file(const char *name);

#endif
