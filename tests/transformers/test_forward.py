"""The parts of a forward pass that must treat every row alike, whatever the number of rows."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import torch
from torch.nn.functional import gelu, linear, silu

from whale_transformers.forward import TALLEST, _pieces, product_height, tiled_linear
from whale_transformers.kv import CHUNK


@pytest.fixture
def three_threads() -> Iterator[None]:
    """An odd share per thread: where stock pointwise kernels give other bits at its ends."""
    threads = torch.get_num_threads()
    torch.set_num_threads(3)
    yield
    torch.set_num_threads(threads)


@pytest.mark.parametrize("function", [silu, gelu])
@pytest.mark.parametrize("width", [96, 1000, 1408])
def test_pointwise_functions_treat_rows_alike(three_threads, function, width):
    x = torch.linspace(-6, 6, TALLEST * width).view(TALLEST, width)
    whole = _pieces(function, x)
    assert torch.allclose(whole, function(x))
    for rows in range(CHUNK, TALLEST, CHUNK):
        assert torch.equal(_pieces(function, x[:rows]), whole[:rows])


@pytest.mark.parametrize("bias", [None, torch.linspace(-1, 1, 48)])
def test_products_by_tiles_are_the_product(bias):
    x = torch.linspace(-1, 1, 3 * CHUNK * 32).view(1, 3 * CHUNK, 32)
    weight = torch.linspace(2, -2, 48 * 32).view(48, 32)
    by_tiles = tiled_linear(x, weight, bias, CHUNK)
    assert by_tiles.shape == (1, 3 * CHUNK, 48)
    assert torch.allclose(by_tiles, linear(x, weight, bias), atol=1e-4)
    for tile in range(3):
        rows = x[:, tile * CHUNK : (tile + 1) * CHUNK]
        alone = tiled_linear(rows, weight, bias, CHUNK)
        assert torch.equal(by_tiles[:, tile * CHUNK : (tile + 1) * CHUNK], alone)


def test_tall_products_are_used_only_where_every_height_gives_the_same_bits(monkeypatch):
    model = torch.nn.Sequential(torch.nn.Linear(32, 48), torch.nn.Linear(48, 32, bias=False))
    assert product_height(model) in (CHUNK, TALLEST)

    def uneven(x, weight, bias):
        return linear(x, weight, bias) + (1e-3 if len(x) == 5 * CHUNK else 0.0)

    monkeypatch.setattr("whale_transformers.forward.functional.linear", uneven)
    assert product_height(model) == CHUNK
