from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from genius.errors import InputError
from genius.quantize.codebooks import Codebook, Codebooks, CodebookSettings
from genius.quantize.quantizer import ModalityCode
from tests.oracles.geometry import ReadableGeometry
from tests.quantize.vectors import MODALITY_CODES, generator, modalities, unit_vectors


def started(rows: torch.Tensor, modality: torch.Tensor, **settings: Any) -> Codebooks:
    books = Codebooks(rows.shape[1], CodebookSettings(**settings))
    books.init(rows, modality, generator())
    return books


def residual_errors(books: Codebooks, rows: torch.Tensor, codes: torch.Tensor) -> list[float]:
    """The mean squared length of residuals before the first level and after each."""
    residuals, errors = rows, [float(rows.square().sum(1).mean())]
    for level, book in enumerate(books.vectors_by_level()):
        residuals = residuals - book[codes[:, level]]
        errors.append(float(residuals.square().sum(1).mean()))
    return errors


@given(st.data())
def test_after_the_start_no_level_leaves_more_than_it_was_given(data: st.DataObject) -> None:
    count, width = data.draw(st.integers(4, 50)), data.draw(st.integers(1, 6))
    rows = unit_vectors(count, width, data.draw(st.integers(0, 2**32 - 1)))
    rows = rows.round(decimals=data.draw(st.sampled_from([0, 1, 6])))
    assume(bool((rows != rows[:1]).any()))
    levels = data.draw(st.integers(1, 4))
    sizes = tuple(data.draw(st.lists(st.integers(2, count), min_size=levels, max_size=levels)))
    kind = data.draw(st.sampled_from(MODALITY_CODES))
    books = started(
        rows,
        modalities(count),
        levels=levels,
        sizes=sizes,
        modality_code=kind,
        iterations=data.draw(st.integers(1, 5)),
    )
    quantized = books.quantize(rows, modalities(count))
    errors = residual_errors(books, rows, quantized.codes)
    assert np.isfinite(errors).all()
    assert (np.diff(errors) <= 1e-5).all()


@pytest.mark.parametrize("kind", MODALITY_CODES)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("gradient", ["straight", "rotation"])
def test_every_kind_of_code(
    kind: ModalityCode, shared: bool, gradient: Literal["straight", "rotation"]
) -> None:
    rows, modality = unit_vectors(200, 8), modalities(200)
    settings = CodebookSettings(levels=3, size=16, modality_code=kind, shared=shared, gradient=gradient)
    books = Codebooks(8, settings)
    books.init(rows, modality, generator())
    modality_sizes = [] if kind == "none" else [3]
    assert settings.all_sizes == (*modality_sizes, 16, 16, 16)
    for _ in range(3):
        quantized = books.quantize(rows.requires_grad_(), modality)
        books.ema_update(
            rows.detach(), quantized.codes, num_queries=100, restart_dead=True, generator=generator()
        )
    quantized = books.quantize(rows, modality)
    codes, vectors = quantized.codes, books.vectors_by_level()
    assert codes.shape == (200, len(settings.all_sizes))
    assert [len(book) for book in vectors] == list(settings.all_sizes)
    assert (codes.amax(0) < torch.tensor(settings.all_sizes)).all()
    total = sum(book[codes[:, level]] for level, book in enumerate(vectors))
    torch.testing.assert_close(quantized.vectors, total, atol=1e-5, rtol=0)
    (quantized.vectors.sum() + quantized.commitment).backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
    if kind == "given":
        assert torch.equal(codes[:, 0], modality)
    if kind == "classifier":
        assert books.classifier is not None
        assert torch.equal(codes[:, 0], books.classifier(rows).argmax(1))
        assert not vectors[0].any(), "a classifier's code is a prefix without a vector"
    if shared:
        assert all(torch.equal(vectors[-1], book) for book in vectors[-3:])


def test_given_modalities_start_from_their_means() -> None:
    rows = unit_vectors(60, 4)
    modality = torch.arange(60) % 2  # no record is a pair
    books = started(rows, modality, levels=1, size=4, modality_code="given")
    means = books.vectors_by_level()[0]
    for number in range(2):
        torch.testing.assert_close(means[number], rows[modality == number].mean(0))
    torch.testing.assert_close(means[2], rows.mean(0))
    codes = books.quantize(rows, torch.full((60,), 2)).codes
    books.ema_update(rows, codes, num_queries=0, restart_dead=False, generator=generator())
    torch.testing.assert_close(books.vectors_by_level()[0][2], rows.mean(0))
    assert all(bool(book.isfinite().all()) for book in books.vectors_by_level())


@pytest.mark.parametrize("shared", [False, True])
def test_codebooks_follow_what_the_codes_stood_for(shared: bool) -> None:
    """Without memory (decay 0) each used vector becomes the mean of the residuals that it coded, these being
    taken with the vectors as they were when the rows were coded."""
    rows = unit_vectors(100, 4)
    books = started(rows, modalities(100), levels=3, size=8, modality_code="none", shared=shared, decay=0.0)
    before = [book.clone() for book in books.vectors_by_level()]
    rows = unit_vectors(40, 4, seed=1)
    codes = books.quantize(rows, modalities(40)).codes
    books.ema_update(rows, codes, num_queries=0, restart_dead=False, generator=generator())
    residuals, coded = rows, []
    for level, book in enumerate(before):
        coded.append((residuals, codes[:, level]))
        residuals = residuals - book[codes[:, level]]
    for level, book in enumerate(books.vectors_by_level()):
        levels = coded if shared else coded[level : level + 1]
        for number, vector in enumerate(book):
            own = torch.cat([left[column == number] for left, column in levels])
            torch.testing.assert_close(vector, own.mean(0) if len(own) else before[level][number])


def test_dead_codes_restart_and_no_others() -> None:
    book = Codebook(6, 2)
    book.init(torch.arange(12.0).reshape(6, 2), torch.tensor([5.0, 0.1, 0.5, 0.49, 7.0, 0.0]))
    before, rows = book.vectors.clone(), 100 + torch.arange(20.0).reshape(10, 2)
    codes = torch.zeros(10, dtype=torch.long)
    assert book.restart_dead_codes(rows, codes, 0.3, 1.0, generator()) == 3, "less than 0.3 · 10 / 6"
    dead = torch.tensor([1, 3, 5])
    alive = torch.tensor([0, 2, 4])
    assert torch.equal(book.vectors[alive], before[alive])
    places = [(rows == vector).all(1).nonzero().item() for vector in book.vectors[dead]]
    assert len(set(places)) == 3, "each restarted code has a row of its own"
    counts = book.get_buffer("counts")
    assert counts.tolist() == pytest.approx([5.0, 10 / 6, 0.5, 10 / 6, 7.0, 10 / 6]), (
        "restarted codes begin evenly used"
    )
    torch.testing.assert_close(book.get_buffer("sums"), book.vectors * counts[:, None])
    assert book.restart_dead_codes(rows, codes, 0.3, 1.0, generator()) == 0


def test_codes_that_only_queries_use_restart() -> None:
    """Items have code 0 only, queries code 1 only: code 1 leads to nothing."""
    rows = unit_vectors(40, 4)
    books = started(
        rows, modalities(40), levels=1, size=2, modality_code="none", dead_code_threshold=0.2, decay=0.0
    )
    codes = torch.cat([torch.ones(20, 1), torch.zeros(20, 1)]).long()
    books.ema_update(rows, codes, num_queries=20, restart_dead=True, generator=generator())
    kept, restarted = books.vectors_by_level()[0]
    torch.testing.assert_close(kept, rows[20:].mean(0))
    assert bool((rows[20:] == restarted).all(1).any()), "from an item, not from a query"


def test_more_dead_codes_than_rows() -> None:
    book = Codebook(6, 2)
    book.init(torch.zeros(6, 2), torch.zeros(6))
    none, two = torch.zeros(0, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    assert book.restart_dead_codes(torch.ones(2, 2), two, 0.9, 1.0, generator()) == 2
    assert int(book.vectors.any(1).sum()) == 2
    assert book.restart_dead_codes(torch.ones(0, 2), none, 0.9, 1.0, generator()) == 0


@pytest.mark.parametrize(
    ("threshold", "restart_dead", "expected"), [(0.2, True, True), (0.2, False, False), (0.0, True, False)]
)
def test_restarts_are_relative_to_an_even_use_and_can_be_off(
    threshold: float, restart_dead: bool, expected: bool
) -> None:
    """40 rows for 8 codes are 5 each: with a threshold of 0.2, codes used less than once a step restart."""
    rows = unit_vectors(40, 4)
    books = started(
        rows, modalities(40), levels=1, size=8, modality_code="none", dead_code_threshold=threshold, decay=0.0
    )
    codes = torch.zeros(40, 1, dtype=torch.long)
    before = books.vectors_by_level()[0].clone()
    books.ema_update(rows, codes, num_queries=0, restart_dead=restart_dead, generator=generator())
    after = books.vectors_by_level()[0]
    assert (after[1:] != before[1:]).any(1).tolist() == [expected] * 7
    torch.testing.assert_close(after[0], rows.mean(0))


def test_few_distinct_vectors_stay_finite() -> None:
    rows = unit_vectors(2, 4).repeat(20, 1)
    books = started(rows, modalities(40), levels=3, size=8, modality_code="learned")
    quantized = books.quantize(rows, modalities(40))
    torch.testing.assert_close(quantized.vectors, rows)
    for _ in range(5):
        books.ema_update(rows, quantized.codes, num_queries=0, restart_dead=True, generator=generator())
        quantized = books.quantize(rows, modalities(40))
    assert quantized.vectors.isfinite().all()
    torch.testing.assert_close(quantized.vectors, rows)


def test_same_seed_same_codebooks() -> None:
    rows, modality = unit_vectors(100, 4), modalities(100)
    pairs = zip(
        *(
            started(rows, modality, levels=2, size=8, modality_code="learned").vectors_by_level()
            for _ in range(2)
        ),
        strict=True,
    )
    assert all(torch.equal(first, second) for first, second in pairs)


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"levels": 0}, "there should be at least one semantic level, not 0"),
        ({"levels": 3, "sizes": (4, 4)}, "there are 3 levels, but 2 sizes"),
        ({"size": 1}, "a level needs 2 to 65536 codes; a single code would say nothing"),
        ({"levels": 2, "sizes": (4, 1)}, "a level needs 2 to 65536 codes"),
        ({"size": 65537}, "a level needs 2 to 65536 codes"),
        ({"levels": 2, "sizes": (4, 5), "shared": True}, "a shared codebook has one size for all levels"),
        ({"decay": 1.0}, "decay should be at least 0 and below 1"),
        ({"dead_code_threshold": -0.1}, "dead_code_threshold is a share of an even use"),
        ({"iterations": 0}, "iterations of k-means should be at least 1"),
    ],
)
def test_bad_settings(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CodebookSettings(**wrong)


@pytest.mark.parametrize("kind", MODALITY_CODES)
def test_vectors_that_cannot_be_quantized(kind: ModalityCode) -> None:
    rows = unit_vectors(40, 4)
    for value in (float("nan"), float("inf")):
        broken = rows.clone()
        broken[7, 2] = value
        with pytest.raises(InputError, match="some vectors are NaN or infinite: encode the collection again"):
            started(broken, modalities(40), levels=2, size=8, modality_code=kind)
    with pytest.raises(InputError, match="all vectors are the same, so there is nothing to tell items apart"):
        started(rows[:1].repeat(40, 1), modalities(40), levels=2, size=8, modality_code=kind)
    with pytest.raises(
        InputError,
        match="40 vectors are too few for 64 codes a level: take more, or a size of at most 40 in the recipe",
    ):
        started(rows, modalities(40), levels=2, sizes=(8, 64), modality_code=kind)
    with pytest.raises(InputError, match="0 vectors are too few"):
        started(rows[:0], modalities(0), levels=2, size=8, modality_code=kind)


def test_the_prefix_loss_is_how_unlikely_geometry_finds_the_codes() -> None:
    books = Codebooks(4, CodebookSettings(levels=3, size=5, iterations=2))
    vectors, modality = torch.randn(60, 4, generator=generator()), torch.arange(60) % 3
    books.init(vectors, modality, generator())
    codes = books.quantize(vectors, modality).codes
    queries = torch.randn(60, 4, generator=generator())
    loss = books.prefix_loss(queries, codes, 2, 0.7)
    geometry = ReadableGeometry([book.numpy() for book in books.vectors_by_level()], 0.7)
    state = geometry.begin(queries.numpy(), codes[:, 0].numpy())
    expected = 0.0
    for level in (1, 2):
        expected -= float(state.scores()[np.arange(60), codes[:, level].numpy()].sum())
        state.advance(np.arange(60), codes[:, level].numpy())
    assert float(loss) == pytest.approx(expected, rel=1e-4)
