/* SPDX-License-Identifier: Apache-2.0 */
#include "epilogues.h"

#define EPILOGUE_OF(family)                                                                        \
    void poet_##family##_epilogue_f32(const struct poet_epilogue *epilogue, const float *x, float *y)    \
    {                                                                                           \
        const struct poet_##family##_epilogue *of_family = (const void *)epilogue;                    \
        of_family->kernel(&of_family->op, x, y);                                                \
    }

EPILOGUE_OF(relu)
EPILOGUE_OF(pointwise)
EPILOGUE_OF(max_pool2d)
EPILOGUE_OF(avg_pool2d)
