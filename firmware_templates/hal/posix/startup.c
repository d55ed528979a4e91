/* SPDX-License-Identifier: Apache-2.0 */
/* The storage is the file named by the first argument, else by POETFW_STORAGE, else storage.img in the working directory.
 * With a second argument, "listen", the program takes commands on standard input. */
#define _POSIX_C_SOURCE 200809L

#include "board.h"
#include "hal.h"
#include "plan.h"
#include "storage_file.h"

#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Ends the program if this computer lacks instructions that it is compiled for. */
static void require_processor(void)
{
#if defined POET_FMA && defined __x86_64__
    if (!__builtin_cpu_supports("avx2") || !__builtin_cpu_supports("fma")) {
        static const char text[] = "this program is for processors with AVX2 and FMA: build it with "
                                   "arithmetic = \"separate\" in the board file\n";
        (void)!write(STDERR_FILENO, text, sizeof text - 1u);
        _exit(1);
    }
#endif
}

int main(int argc, char **argv)
{
    require_processor();
    const char *const name = argc > 1 ? argv[1] : getenv("POETFW_STORAGE");
    poet_listen_to_input(argc > 2 && strcmp(argv[2], "listen") == 0);
    poet_storage_file(name != NULL ? name : "storage.img");
    poet_run();
}
