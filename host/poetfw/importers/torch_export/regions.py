# SPDX-License-Identifier: Apache-2.0
"""Regions under `torch.no_grad()`, which the file holds as subgraphs."""

from __future__ import annotations

from poetfw.importers.torch_export import schema

_REGION = "torch.ops.higher_order.wrap_with_set_grad_enabled"


def opened(graph: schema.ExportedGraph) -> schema.ExportedGraph:
    """Inline the subgraph of each region.

    The results of a region without gradients are detached. Names within a region get the region's
    name as a prefix. PyTorch does not nest regions.

    Raises:
        ValueError: A region is malformed.
    """
    if not any(node.target == _REGION for node in graph.nodes):
        return graph
    nodes: list[schema.OperatorCall] = []
    values = dict(graph.tensor_values)
    for node in graph.nodes:
        if node.target == _REGION:
            _open(node, nodes, values)
        else:
            nodes.append(node)
    return graph.model_copy(update={"nodes": nodes, "tensor_values": values})


def _open(
    region: schema.OperatorCall,
    nodes: list[schema.OperatorCall],
    values: dict[str, schema.TensorMeta],
) -> None:
    """Append a region's nodes, and the metadata of its tensors."""
    modes = [each.arg["as_bool"] for each in region.inputs if "as_bool" in each.arg]
    graphs = [each.arg["as_graph"] for each in region.inputs if "as_graph" in each.arg]
    if len(modes) != 1 or len(graphs) != 1 or not isinstance(graphs[0], dict):
        raise ValueError("a region without gradients has not one graph")
    inner = schema.ExportedGraph.model_validate(graphs[0].get("graph"))
    inputs, outputs = (
        [name for each in side for name in schema.tensors_in(each)]
        for side in (inner.inputs, inner.outputs)
    )
    if len(inputs) != len(region.reads) or len(outputs) != len(region.gives):
        raise ValueError("a region without gradients takes or gives what its graph does not")
    outer = dict(zip(inputs, region.reads, strict=True))
    prefix = f"{next(iter(region.gives), 'region')}/"

    def renamed(name: str) -> str:
        return outer.get(name, prefix + name)

    for node in inner.nodes:
        named = [
            {"name": each.name, "arg": schema.renamed(each.arg, renamed)} for each in node.inputs
        ]
        nodes.append(
            schema.OperatorCall(
                target=node.target,
                inputs=[schema.Input.model_validate(each) for each in named],
                outputs=[schema.renamed(output, renamed) for output in node.outputs],
                metadata=node.metadata,
            )
        )
    for name, meta in inner.tensor_values.items():
        values.setdefault(renamed(name), meta)
    kind = "alias" if modes[0] else "detach"
    for inner_name, name in zip(outputs, region.gives, strict=True):
        argument = {"as_tensor": {"name": renamed(inner_name)}}
        nodes.append(
            schema.OperatorCall(
                target=f"torch.ops.aten.{kind}.default",
                inputs=[schema.Input(name="self", arg=argument)],
                outputs=[{"as_tensor": {"name": name}}],
                metadata=region.metadata,
            )
        )
