/* SPDX-License-Identifier: Apache-2.0 */
/* Where a step is between two of its ops, and what an application has called there. */
#include "for_size.h"

#include "poetfw.h"

#include "poet.h"

static struct {
    void (*call)(void *argument);
    void *argument;
} hook;

#ifdef POET_SLICES
struct poet_progress poet_progress;
#endif

#ifdef POET_MESSAGES
uint32_t poet_stopped_for;
#endif

void poetfw_between_ops(void (*call)(void *argument), void *argument)
{
    hook.call = call;
    hook.argument = argument;
}

void poet_between_ops(void)
{
    if (hook.call != NULL) {
        hook.call(hook.argument);
    }
}
