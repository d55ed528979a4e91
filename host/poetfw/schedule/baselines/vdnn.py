# SPDX-License-Identifier: Apache-2.0
"""vDNN: page what convolutions read.

M. Rhu et al., "vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural Network
Design", MICRO 2016, section 3: vDNN_conv pages out the input of every convolution, whose long time
hides the transfer; vDNN_all pages out the input of every layer. As their dynamic variant does, this
takes the first that fits: no paging, vDNN_conv, vDNN_all. Convolutions are known by their names.
"""

from __future__ import annotations

from poetfw.common.errors import UnsuitableError
from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def vdnn(problem: ScheduleProblem) -> ExecutionPlan:
    """The first plan that fits: page nothing, the inputs of convolutions, or those of all layers.

    Raises:
        UnsuitableError: there is no storage, there are no two passes or no convolutions, or paging
            all is not enough.
    """
    offloading = Offloading.of(problem, "vdnn")
    graph, forward = offloading.graph, offloading.forward
    convolutions = [i for i in range(forward) if "conv" in problem.nodes[i].name.lower()]
    if not convolutions:
        raise UnsuitableError("vdnn", "no forward node has 'conv' in its name")
    pageable = {gap.tensor for gap in offloading.gaps}
    read_by_conv = pageable & {u for i in convolutions for u in graph.inputs[i]}
    choices = (frozenset[int](), frozenset(read_by_conv), frozenset(pageable))
    fitting = next((paged for paged in choices if offloading.fits(paged)), None)
    return offloading.plan(fitting, "vdnn")
