"""Our codebooks beside vector-quantize-pytorch: the same numbers where the same is meant.

Different on purpose: the library smooths counts before it divides by them (`eps`), so vectors of rare codes
are a little short; ours are plain means. Its dead codes are those below an absolute count. Its residual chain
multiplies the straight gradient by the number of levels (our `gain`) and rotates level by level; we rotate
once, from the vector to the sum.
"""

from __future__ import annotations

import pytest
import torch
from vector_quantize_pytorch import ResidualVQ, VectorQuantize
from vector_quantize_pytorch.vector_quantize_pytorch import rotate_to

from genius.quantize.codebooks import Codebook, Codebooks, CodebookSettings, rotation_trick
from tests.quantize.vectors import generator, modalities, unit_vectors

WIDTH, LEVELS, SIZE = 12, 4, 16
DECAY = 0.9


def pair(gain: float = 1.0) -> tuple[Codebooks, ResidualVQ]:
    """The same codebooks, ours and the library's: level 1 with three codes, then three of 16."""
    settings = CodebookSettings(levels=LEVELS - 1, size=SIZE, modality_code="learned", gain=gain)
    books = Codebooks(WIDTH, settings)
    books.init(unit_vectors(400, WIDTH), modalities(400), generator())
    library = ResidualVQ(dim=WIDTH, codebook_size=settings.all_sizes, rotation_trick=False)
    for layer, book in zip(library.layers, books.vectors_by_level(), strict=True):
        layer.codebook = book
    return books, library


def test_same_codes_and_quantized_vectors() -> None:
    books, library = pair()
    rows = unit_vectors(300, WIDTH, seed=1)
    ours = books.quantize(rows, modalities(300))
    quantized, codes, _ = library.eval()(rows[None])
    assert torch.equal(ours.codes, codes[0])
    torch.testing.assert_close(ours.vectors, quantized[0])


def test_same_commitment_and_its_gradient() -> None:
    books, library = pair()
    rows = unit_vectors(300, WIDTH, seed=1).requires_grad_()
    ours = books.quantize(rows, modalities(300)).commitment
    theirs = library.train()(rows[None], freeze_codebook=True)[2].mean()
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(*(torch.autograd.grad(loss, rows)[0] for loss in (ours, theirs)))


@pytest.mark.parametrize("gain", [1.0, float(LEVELS)])
def test_the_gain_of_the_straight_gradient(gain: float) -> None:
    books, library = pair(gain=gain)
    rows, weights = (
        unit_vectors(50, WIDTH, seed=1).requires_grad_(),
        torch.randn(50, WIDTH, generator=generator()),
    )
    ours = books.quantize(rows, modalities(50)).vectors
    theirs = library.train()(rows[None], freeze_codebook=True)[0][0]
    torch.testing.assert_close(ours, theirs, atol=2e-6, rtol=0)
    (our_gradient,) = torch.autograd.grad((ours * weights).sum(), rows)
    (their_gradient,) = torch.autograd.grad((theirs * weights).sum(), rows)
    torch.testing.assert_close(our_gradient, gain * weights)
    torch.testing.assert_close(their_gradient, LEVELS * weights)


def test_rotation() -> None:
    rows, target = torch.randn(50, WIDTH).requires_grad_(), torch.randn(50, WIDTH)
    weights = torch.randn(50, WIDTH)
    ours, theirs = rotation_trick(rows, target), rotate_to(rows, target)
    torch.testing.assert_close(ours, theirs)
    torch.testing.assert_close(ours, target, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        *(torch.autograd.grad((value * weights).sum(), rows)[0] for value in (ours, theirs)),
        atol=1e-5,
        rtol=1e-4,
    )


def test_rotation_of_one_level_is_the_library_s() -> None:
    books = Codebooks(WIDTH, CodebookSettings(levels=1, size=SIZE, modality_code="none", gradient="rotation"))
    books.init(unit_vectors(400, WIDTH), modalities(400), generator())
    library = VectorQuantize(WIDTH, SIZE).train()
    library.codebook = books.vectors_by_level()[0]
    rows, weights = unit_vectors(50, WIDTH, seed=1).requires_grad_(), torch.randn(50, WIDTH)
    ours = books.quantize(rows, modalities(50)).vectors
    theirs = library(rows[None], freeze_codebook=True)[0][0]
    torch.testing.assert_close(ours, theirs, atol=1e-5, rtol=1e-4)
    torch.testing.assert_close(
        *(torch.autograd.grad((value * weights).sum(), rows)[0] for value in (ours, theirs)),
        atol=1e-5,
        rtol=1e-4,
    )


def updated(eps: float, steps: int) -> tuple[Codebook, VectorQuantize]:
    """Both in the same state, after as many steps; a few codes are never used."""
    start, counts = unit_vectors(SIZE, WIDTH), torch.rand(SIZE, generator=generator()) * 5 + 1
    start[:3] *= 10
    ours, theirs = Codebook(SIZE, WIDTH), VectorQuantize(WIDTH, SIZE, decay=DECAY, eps=eps).train()
    ours.init(start, counts)
    theirs.codebook = start
    theirs._codebook.cluster_size.copy_(counts[None])
    theirs._codebook.embed_avg.copy_((start * counts[:, None])[None])
    for step in range(steps):
        rows = unit_vectors(100, WIDTH, seed=step + 1)
        codes = theirs(rows[None])[1][0]
        assert codes.min() >= 3
        ours.ema_update(rows, codes, DECAY)
    return ours, theirs


@pytest.mark.parametrize("steps", [1, 20])
def test_moving_averages(steps: int) -> None:
    ours, theirs = updated(0.0, steps)
    state = theirs._codebook
    torch.testing.assert_close(ours.get_buffer("counts"), state.cluster_size[0])
    torch.testing.assert_close(ours.get_buffer("sums"), state.embed_avg[0])
    torch.testing.assert_close(ours.vectors, state.embed[0], rtol=1e-4, atol=1e-6)


def test_the_library_s_smoothing_is_what_differs() -> None:
    eps = 0.01  # large enough to be seen
    ours, theirs = updated(eps, 1)
    counts = ours.get_buffer("counts")
    smoothed = (counts + eps) / (counts.sum() + SIZE * eps) * counts.sum()
    torch.testing.assert_close(ours.vectors * (counts / smoothed)[:, None], theirs._codebook.embed[0])
    assert not torch.allclose(ours.vectors, theirs._codebook.embed[0], rtol=1e-4)
