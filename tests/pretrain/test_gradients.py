"""Sparse and dense gradients are clipped together; only sampled rows change."""

import pytest
import torch
from torch import nn

from elmo.pretrain.distributed import Processes
from elmo.pretrain.loop import build_optimizer, clip_gradients
from elmo.pretrain.settings import OptimizerSettings


def make_pair():
    """One parameter with a sparse gradient, with a row given twice, and one with a dense gradient."""
    table, plain = nn.Parameter(torch.ones(5, 2)), nn.Parameter(torch.ones(3))
    rows, values = torch.tensor([[3, 1, 3]]), torch.tensor([[1.0, 0.0], [0.0, 2.0], [2.0, 0.0]])
    table.grad = torch.sparse_coo_tensor(rows, values, (5, 2), check_invariants=True)
    plain.grad = torch.tensor([0.0, 6.0, 0.0])
    return table, plain


@pytest.mark.parametrize("max_norm", [100.0, 3.5])
def test_the_norm_is_that_of_all_gradients_and_they_are_scaled_only_above_it(max_norm):
    table, plain = make_pair()
    Processes().combine_gradients([table, plain])
    assert clip_gradients([table, plain], max_norm) == pytest.approx(7.0)  # 3, 2 and 6
    scale = min(1.0, max_norm / 7)
    torch.testing.assert_close(plain.grad, torch.tensor([0.0, 6.0, 0.0]) * scale)
    expected = torch.zeros(5, 2)
    expected[3, 0], expected[1, 1] = 3 * scale, 2 * scale
    torch.testing.assert_close(table.grad.to_dense(), expected)


def test_a_sparse_update_is_the_dense_one():
    tables = []
    for sparse in (True, False):
        table, _ = make_pair()
        optimizer = build_optimizer([table], OptimizerSettings())
        for _ in range(3):
            table.grad = make_pair()[0].grad.coalesce()
            if not sparse:
                table.grad = table.grad.to_dense()
            optimizer.step()
        tables.append(table.detach())
    torch.testing.assert_close(*tables)
    assert torch.equal(tables[0][[0, 2, 4]], torch.ones(3, 2))
