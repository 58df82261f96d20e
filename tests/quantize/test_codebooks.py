from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given
from hypothesis import strategies as st

from genius.decode.geometry import Geometry
from genius.errors import InputError
from genius.quantize.codebooks import MODALITIES, Codebook, Codebooks, CodebookSettings, FirstCode

FIRST: tuple[FirstCode, ...] = ("given", "learned", "classifier", "none")


def generator(seed: int = 0) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def vectors(count: int, width: int, seed: int = 0) -> torch.Tensor:
    return torch.nn.functional.normalize(torch.randn(count, width, generator=generator(seed)), dim=1)


def modalities(count: int, seed: int = 0) -> torch.Tensor:
    return torch.randint(MODALITIES, (count,), generator=generator(seed))


def started(rows: torch.Tensor, wanted: torch.Tensor, **settings: Any) -> Codebooks:
    books = Codebooks(rows.shape[1], CodebookSettings(**settings))
    books.start(rows, wanted, generator())
    return books


def residual_errors(books: Codebooks, rows: torch.Tensor, codes: torch.Tensor) -> list[float]:
    """The mean squared length of what is left over before the first level and after each."""
    rest, errors = rows, [float(rows.square().sum(1).mean())]
    for level, book in enumerate(books.arrays()):
        rest = rest - book[codes[:, level]]
        errors.append(float(rest.square().sum(1).mean()))
    return errors


@given(st.data())
def test_after_the_start_no_level_leaves_more_than_it_was_given(data: st.DataObject) -> None:
    count, width = data.draw(st.integers(4, 50)), data.draw(st.integers(1, 6))
    rows = vectors(count, width, data.draw(st.integers(0, 2**32 - 1)))
    rows = rows.round(decimals=data.draw(st.sampled_from([0, 1, 6])))
    assume(bool((rows != rows[:1]).any()))
    levels = data.draw(st.integers(1, 4))
    sizes = tuple(data.draw(st.lists(st.integers(2, count), min_size=levels, max_size=levels)))
    kind = data.draw(st.sampled_from(FIRST))
    books = started(
        rows,
        modalities(count),
        levels=levels,
        sizes=sizes,
        first=kind,
        iterations=data.draw(st.integers(1, 5)),
    )
    found = books.quantize(rows, modalities(count))
    errors = residual_errors(books, rows, found.codes)
    assert np.isfinite(errors).all()
    assert (np.diff(errors) <= 1e-5).all()


@pytest.mark.parametrize("first", FIRST)
@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("gradient", ["straight", "rotation"])
def test_every_kind_of_code(first: FirstCode, shared: bool, gradient: str) -> None:
    rows, wanted = vectors(200, 8), modalities(200)
    settings = CodebookSettings(levels=3, size=16, first=first, shared=shared, gradient=gradient)  # type: ignore[arg-type]
    books = Codebooks(8, settings)
    books.start(rows, wanted, generator())
    given_first = [] if first == "none" else [3]
    assert settings.all_sizes == (*given_first, 16, 16, 16)
    for _ in range(3):
        found = books.quantize(rows.requires_grad_(), wanted)
        books.follow(rows.detach(), found.codes, queries=100, revive=True, generator=generator())
    found = books.quantize(rows, wanted)
    arrays = books.arrays()
    assert found.codes.shape == (200, len(settings.all_sizes))
    assert [len(array) for array in arrays] == list(settings.all_sizes)
    assert (found.codes.amax(0) < torch.tensor(settings.all_sizes)).all()
    total = sum(array[found.codes[:, level]] for level, array in enumerate(arrays))
    torch.testing.assert_close(found.vectors, total, atol=1e-5, rtol=0)
    (found.vectors.sum() + found.commitment).backward()
    assert rows.grad is not None
    assert rows.grad.isfinite().all()
    if first == "given":
        assert torch.equal(found.codes[:, 0], wanted)
    if first == "classifier":
        assert books.classifier is not None
        assert torch.equal(found.codes[:, 0], books.classifier(rows).argmax(1))
        assert not arrays[0].any(), "a classifier's code is a mere prefix"
    if shared:
        assert all(torch.equal(arrays[-1], array) for array in arrays[-3:])


def test_given_modalities_start_from_their_means() -> None:
    rows = vectors(60, 4)
    first = torch.arange(60) % 2  # no record is a pair
    books = started(rows, first, levels=1, size=4, first="given")
    found = books.arrays()[0]
    for number in range(2):
        torch.testing.assert_close(found[number], rows[first == number].mean(0))
    torch.testing.assert_close(found[2], rows.mean(0))
    later = torch.full((60,), 2)
    codes = books.quantize(rows, later).codes
    books.follow(rows, codes, queries=0, revive=False, generator=generator())
    torch.testing.assert_close(books.arrays()[0][2], rows.mean(0))
    assert all(bool(array.isfinite().all()) for array in books.arrays())


@pytest.mark.parametrize("shared", [False, True])
def test_codebooks_follow_what_the_codes_stood_for(shared: bool) -> None:
    """Without memory (decay 0) each used vector becomes the mean of the residuals that it coded, these being
    taken with the vectors as they were when the codes were found."""
    rows = vectors(100, 4)
    books = started(rows, modalities(100), levels=3, size=8, first="none", shared=shared, decay=0.0)
    before = [array.clone() for array in books.arrays()]
    rows = vectors(40, 4, seed=1)
    codes = books.quantize(rows, modalities(40)).codes
    books.follow(rows, codes, queries=0, revive=False, generator=generator())
    rest, seen = rows, []
    for level, book in enumerate(before):
        seen += [(rest, codes[:, level], level)]
        rest = rest - book[codes[:, level]]
    for level, array in enumerate(books.arrays()):
        mine = seen if shared else seen[level : level + 1]
        for number, vector in enumerate(array):
            coded = torch.cat([residuals[own == number] for residuals, own, _ in mine])
            expected = coded.mean(0) if len(coded) else before[level][number]
            torch.testing.assert_close(vector, expected)


def test_unused_codes_start_anew_and_no_others() -> None:
    book = Codebook(6, 2)
    book.start(torch.arange(12.0).reshape(6, 2), torch.tensor([5.0, 0.1, 0.5, 0.49, 7.0, 0.0]))
    before, rows = book.vectors.clone(), 100 + torch.arange(20.0).reshape(10, 2)
    codes = torch.zeros(10, dtype=torch.long)
    assert book.revive(rows, codes, 0.3, 1.0, generator()) == 3, "less than 0.3 · 10 / 6"
    dead = torch.tensor([1, 3, 5])
    kept = torch.tensor([0, 2, 4])
    assert torch.equal(book.vectors[kept], before[kept])
    places = [(rows == vector).all(1).nonzero().item() for vector in book.vectors[dead]]
    assert len(set(places)) == 3, "each revived code has a row of its own"
    counts = book.get_buffer("counts")
    assert counts.tolist() == pytest.approx([5.0, 10 / 6, 0.5, 10 / 6, 7.0, 10 / 6]), (
        "revived codes begin evenly used"
    )
    torch.testing.assert_close(book.get_buffer("sums"), book.vectors * counts[:, None])
    assert book.revive(rows, codes, 0.3, 1.0, generator()) == 0


def test_codes_that_only_queries_use_start_anew() -> None:
    """Items have code 0 only, queries code 1 only: code 1 leads to nothing."""
    rows = vectors(40, 4)
    books = started(rows, modalities(40), levels=1, size=2, first="none", revive=0.2, decay=0.0)
    codes = torch.cat([torch.ones(20, 1), torch.zeros(20, 1)]).long()
    books.follow(rows, codes, queries=20, revive=True, generator=generator())
    kept, anew = books.arrays()[0]
    torch.testing.assert_close(kept, rows[20:].mean(0))
    assert bool((rows[20:] == anew).all(1).any()), "from an item, not from a query"


def test_more_dead_codes_than_rows() -> None:
    book = Codebook(6, 2)
    book.start(torch.zeros(6, 2), torch.zeros(6))
    none, two = torch.zeros(0, dtype=torch.long), torch.zeros(2, dtype=torch.long)
    assert book.revive(torch.ones(2, 2), two, 0.9, 1.0, generator()) == 2
    assert int(book.vectors.any(1).sum()) == 2
    assert book.revive(torch.ones(0, 2), none, 0.9, 1.0, generator()) == 0


def test_revival_is_relative_to_an_even_use_and_can_be_off() -> None:
    """40 rows for 8 codes are 5 each: with a share of 0.2, codes used less than once a step start anew."""
    rows = vectors(40, 4)
    for share, revive, expected in ((0.2, True, True), (0.2, False, False), (0.0, True, False)):
        books = started(rows, modalities(40), levels=1, size=8, first="none", revive=share, decay=0.0)
        codes = torch.zeros(40, 1, dtype=torch.long)
        before = books.arrays()[0].clone()
        books.follow(rows, codes, queries=0, revive=revive, generator=generator())
        assert bool((books.arrays()[0][1:] != before[1:]).any(1).all()) is expected
        torch.testing.assert_close(books.arrays()[0][0], rows.mean(0))


def test_few_distinct_vectors_stay_finite() -> None:
    rows = vectors(2, 4).repeat(20, 1)
    books = started(rows, modalities(40), levels=3, size=8, first="learned")
    found = books.quantize(rows, modalities(40))
    torch.testing.assert_close(found.vectors, rows)
    for _ in range(5):
        books.follow(rows, found.codes, queries=0, revive=True, generator=generator())
        found = books.quantize(rows, modalities(40))
    assert found.vectors.isfinite().all()
    torch.testing.assert_close(found.vectors, rows)


def test_same_seed_same_codebooks() -> None:
    rows, first = vectors(100, 4), modalities(100)
    one, other = (started(rows, first, levels=2, size=8, first="learned") for _ in range(2))
    assert all(torch.equal(a, b) for a, b in zip(one.arrays(), other.arrays(), strict=True))


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
        ({"revive": -0.1}, "revive is a share of an even use"),
        ({"iterations": 0}, "iterations of k-means should be at least 1"),
    ],
)
def test_bad_settings(wrong: dict[str, Any], sentence: str) -> None:
    with pytest.raises(InputError, match=sentence):
        CodebookSettings(**wrong)


@pytest.mark.parametrize("first", FIRST)
def test_vectors_that_cannot_be_quantized(first: FirstCode) -> None:
    rows = vectors(40, 4)
    for value in (float("nan"), float("inf")):
        broken = rows.clone()
        broken[7, 2] = value
        with pytest.raises(InputError, match="some vectors are NaN or infinite: encode the collection again"):
            started(broken, modalities(40), levels=2, size=8, first=first)
    with pytest.raises(InputError, match="all vectors are the same, so there is nothing to tell items apart"):
        started(rows[:1].repeat(40, 1), modalities(40), levels=2, size=8, first=first)
    with pytest.raises(
        InputError,
        match="40 vectors are too few for 64 codes a level: take more, or a size of at most 40 in the recipe",
    ):
        started(rows, modalities(40), levels=2, sizes=(8, 64), first=first)
    with pytest.raises(InputError, match="0 vectors are too few"):
        started(rows[:0], modalities(0), levels=2, size=8, first=first)


def test_the_prefix_loss_is_how_unlikely_geometry_finds_the_codes() -> None:
    books = Codebooks(4, CodebookSettings(levels=3, size=5, iterations=2))
    vectors, first = torch.randn(60, 4, generator=generator()), torch.arange(60) % 3
    books.start(vectors, first, generator())
    codes = books.quantize(vectors, first).codes
    queries = torch.randn(60, 4, generator=generator())
    found = books.prefix_loss(queries, codes, 2, 0.7)
    decoding = Geometry([book.numpy() for book in books.arrays()], 0.7).begin(queries.numpy())
    decoding.advance(np.arange(60), codes[:, 0].numpy())
    expected = 0.0
    for level in (1, 2):
        expected -= float(decoding.scores()[np.arange(60), codes[:, level].numpy()].sum())
        decoding.advance(np.arange(60), codes[:, level].numpy())
    assert float(found) == pytest.approx(expected, rel=1e-4)
