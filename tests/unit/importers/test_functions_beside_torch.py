# SPDX-License-Identifier: Apache-2.0
"""Functions of PyTorch that are composed of poetfw's operators, beside PyTorch's own."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from pathlib import Path

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from torch import Tensor, nn  # noqa: E402
from torch.nn import functional as F  # noqa: E402

from poetfw.common.errors import ModelError  # noqa: E402
from poetfw.importers.torch_export import import_torch  # noqa: E402
from poetfw.training import Reference, Sgd, make_program  # noqa: E402

BATCH, STEPS, RATE, PARTS = 4, 3, 0.01, 4
"""Models have at most 1,000 ops, so the functions are shared among several."""
ROWS, TWO = torch.arange(BATCH), torch.tensor([[0, 1], [2, 1]])


def twice(h: Tensor) -> Tensor:
    """Equal elements, through the second of which gradients are twice as large."""
    return torch.cat([h, 2 * h - h.detach()], 1)


def meshed(indexing: str) -> Sequence[Tensor]:
    return torch.meshgrid(torch.linspace(-1, 1, 2), torch.linspace(0, 1, 3), indexing=indexing)


def both(pair: tuple[Tensor, Tensor]) -> Tensor:
    return torch.cat(pair, 1)


FUNCTIONS: dict[str, Callable[[Tensor], Tensor]] = {
    "round": lambda h: torch.round(h * 4) + h,
    "floor": lambda h: torch.floor(h * 3) + h,
    "ceil": lambda h: torch.ceil(h * 3) + h,
    "trunc": lambda h: torch.trunc(h * 3) * h,
    "frac": torch.frac,
    "remainder": lambda h: torch.remainder(h, 0.3),
    "remainder_below": lambda h: torch.remainder(h, -0.3),
    "remainder_of": lambda h: torch.remainder(h, h.detach().abs() + 0.5),
    "fmod": lambda h: torch.fmod(h, 0.3),
    "div_floor": lambda h: h + torch.div(h.detach(), 0.3, rounding_mode="floor"),
    "div_trunc": lambda h: h + torch.div(h.detach(), 0.3, rounding_mode="trunc"),
    "prod": lambda h: h.prod(1, keepdim=True),
    "prod_5": lambda h: h[:, :5].reshape(-1, 5, 1).prod(1),
    "cumprod": lambda h: (h + 1).cumprod(1),
    "logcumsumexp": lambda h: torch.logcumsumexp(h, 1),
    "diff": lambda h: h.diff(n=2, dim=1),
    "any": lambda h: (h > 1).any(1, keepdim=True) * h,
    "all": lambda h: (h > -1).all(1, keepdim=True) * h,
    "count_nonzero": lambda h: (h > 0).float().count_nonzero(1)[:, None] * h,
    "amax": lambda h: twice(h).amax(1, keepdim=True),
    "amin": lambda h: twice(h).amin(1, keepdim=True),
    "max": lambda h: h * twice(h).max(),
    "max_dim": lambda h: twice(h).max(1, keepdim=True)[0],
    "largest_norm": lambda h: twice(h).norm(float("inf"), 1, keepdim=True),
    "median": lambda h: h.median(1, keepdim=True)[0],
    "kthvalue": lambda h: h.kthvalue(2, 1, keepdim=True)[0],
    "var_mean": lambda h: both(torch.var_mean(h, 1, keepdim=True)),
    "std_mean": lambda h: both(torch.std_mean(h, 1, keepdim=True)),
    "power_2": lambda h: h ** torch.tensor(2.0),
    "powers": lambda h: torch.pow(h, torch.tensor([1.0, 2, 3, 2, 1, 4])),
    "scatter_add": lambda h: torch.zeros(BATCH, 3).scatter_add(1, (h > 0).long(), h),
    "index_add": lambda h: torch.zeros(BATCH, 3).index_add(
        1, torch.tensor([0, 1, 2, 0, 0, 1]), h, alpha=2
    ),
    "lists": lambda h: h.reshape(-1, 2, 3)[:, TWO % 2, TWO],
    "from_the_end": lambda h: h[0][h.argmax(1) - 6][:, None] * h,
    "by_rows": lambda h: h.reshape(-1, 2, 3)[ROWS, (h[:, 0] > 0).long(), h[:, :3].argmax(1)][
        :, None
    ],
    "many_by_rows": lambda h: h[ROWS[:, None], h.argsort(1)[:, :2]],
    "repeat_interleave": lambda h: h.repeat_interleave(2, 1),
    "tile": lambda h: h.tile(1, 2),
    "tril": lambda h: torch.tril(h[:, :, None] * h[:, None]).flatten(1),
    "diag_embed": lambda h: torch.diag_embed(h).flatten(1),
    "diagonal": lambda h: torch.diagonal(h[:, :, None] * h[:, None], dim1=1, dim2=2),
    "quarter_turn": lambda h: h.view(-1, 2, 3).rot90(1, (1, 2)),
    "three_turns": lambda h: h.view(-1, 2, 3).rot90(-1, (1, 2)),
    "half_turn": lambda h: h.view(-1, 2, 3).rot90(2, (1, 2)).fliplr(),
    "pixel_unshuffle": lambda h: F.pixel_unshuffle(h.view(-1, 1, 2, 3).repeat(1, 2, 1, 2), 2),
    "tensor_split": lambda h: torch.cat(h.tensor_split(4, 1)[::-1], 1),
    "tensor_split_at": lambda h: torch.cat(h.tensor_split((2, 5), 1)[::-1], 1),
    "columns": lambda h: torch.column_stack([h[:, 0], h]),
    "depth": lambda h: torch.dstack([h, 2 * h]),
    "grid": lambda h: h * meshed("ij")[0].flatten() + h * meshed("ij")[1].flatten(),
    "grid_xy": lambda h: h * meshed("xy")[0].flatten() + h * meshed("xy")[1].flatten(),
    "triangle": lambda h: (h[:, :, None] * h[:, None])[:, *torch.tril_indices(6, 6, -2)],
    "eye": lambda h: h @ torch.eye(6, 2),
    "cross": lambda h: torch.linalg.cross(h[:, :3], h[:, 3:]),
    "inner": lambda h: torch.inner(h, h[0].tanh()),
    "tensordot": lambda h: torch.tensordot(h.view(-1, 2, 3), h.view(-1, 2, 3)[0], 2),
    "multi_dot": lambda h: torch.linalg.multi_dot([h, torch.eye(6, 2), torch.ones(2, 3)]),
    "einsum_to_one": lambda h: h * torch.einsum("bi,bi->", h, h) / 99 + torch.einsum("bi->", h),
    "entropy": lambda h: torch.special.entr(h.softmax(1)) + torch.special.entr(h.relu()),
    "atanh": lambda h: torch.atanh(h.tanh() / 2),
    "acosh": lambda h: torch.acosh(h.square() + 2),
    "dots": lambda h: torch.einsum("...ij,...jk->...ik", h.view(-1, 2, 3), h.view(-1, 3, 2)),
}


class Functions(nn.Module):
    """Loss of all functions, each with weights of its own."""

    def __init__(self, names: Sequence[str]) -> None:
        super().__init__()
        self.functions = {name: FUNCTIONS[name] for name in names}
        self.layer = nn.Linear(6, 6)
        x = torch.randn(BATCH, 6)
        self.weights = nn.ParameterDict(
            {
                name: torch.randn(f(x).reshape(BATCH, -1).shape[1])
                for name, f in self.functions.items()
            }
        )

    def forward(self, x: Tensor) -> tuple[Tensor, Tensor]:
        h = self.layer(x)
        terms = [
            (f(h).reshape(BATCH, -1) @ self.weights[name]).square().mean()
            for name, f in self.functions.items()
        ]
        return torch.stack(terms).mean(), h


@pytest.mark.parametrize("part", range(PARTS))
def test_functions_train_as_in_torch(part: int, tmp_path: Path) -> None:
    torch.manual_seed(2)
    net = Functions([*FUNCTIONS][part::PARTS])
    path = tmp_path / "net.pt2"
    torch.export.save(torch.export.export(copy.deepcopy(net), (torch.randn(BATCH, 6),)), path)
    model = import_torch(path, BATCH)
    sgd = Sgd(learning_rate=RATE, momentum=0.9)
    ours = Reference(make_program(model.graph, model.loss, sgd), model.weights)
    theirs = torch.optim.SGD(net.parameters(), lr=RATE, momentum=0.9)
    for _ in range(STEPS):
        x = torch.randn(BATCH, 6)
        ours.step(x.numpy(), np.zeros(BATCH, np.int32))
        theirs.zero_grad()
        net(x)[0].backward()
        theirs.step()
    wanted = net.state_dict()
    known = {entry.name: entry for entry in model.state_dict}  # constants of functions are in it
    far = {
        name: apart.max()
        for name, value in wanted.items()
        if (
            apart := np.abs(known[name].of(ours.persistent[known[name].tensor]) - value.numpy())
        ).max()
        > 1e-5
    }
    assert not far


class Scaled(nn.Module):
    """Divides by a norm of its weights."""

    def __init__(self, norm: Callable[[Tensor], Tensor]) -> None:
        super().__init__()
        self.norm, self.weight = norm, nn.Parameter(torch.randn(6, 6))

    def forward(self, x: Tensor) -> Tensor:
        return x @ self.weight / self.norm(self.weight)


@pytest.mark.parametrize("norm", [torch.linalg.norm, torch.linalg.matrix_norm])
def test_a_largest_singular_value_is_refused(norm: Callable[..., Tensor], tmp_path: Path) -> None:
    path = tmp_path / "net.pt2"
    example = torch.randn(BATCH, 6)
    torch.export.save(torch.export.export(Scaled(norm), (example,)), path)
    import_torch(path, BATCH, "mse")
    torch.export.save(torch.export.export(Scaled(lambda w: norm(w, 2)), (example,)), path)
    with pytest.raises(ModelError, match="it is not the Frobenius norm, nor of vectors"):
        import_torch(path, BATCH, "mse")
