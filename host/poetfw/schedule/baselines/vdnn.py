# SPDX-License-Identifier: Apache-2.0
"""vDNN: page the inputs of convolutions.

M. Rhu et al., "vDNN: Virtualized Deep Neural Networks for Scalable, Memory-Efficient Neural Network
Design", MICRO 2016, section 3: vDNN_conv pages out the input of every convolution, whose long time
hides the transfer; vDNN_all pages out the input of every layer. As their dynamic variant does, this
takes the first that fits: no paging, vDNN_conv, vDNN_all. Convolutions are found by their names.
"""

from __future__ import annotations

from poetfw.common.errors import UnsuitableError
from poetfw.schedule.baselines.offloading import Offloading
from poetfw.schedule.problem import ExecutionPlan, ScheduleProblem


def vdnn(problem: ScheduleProblem) -> ExecutionPlan:
    """First plan that fits: page nothing, the inputs of convolutions, or the inputs of all layers.

    Raises:
        UnsuitableError: no storage, no two passes, no convolutions, or paging every tensor is not
            enough.
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
