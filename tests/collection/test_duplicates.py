"""Duplicates: what is found at each level, changed thresholds, what to keep, and bad input."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from PIL import ImageEnhance

from genius.collection.duplicates import Duplicates, duplicates_to_dict, links_of, links_to_dict
from genius.data.records import ImageBytes, Item
from genius.errors import InputError
from tests.collection.world import WIDTH, WorldIndex, image_item, open_world, scene, unit
from tests.pictures import encoded

TAKEN = {"taken": "2001-01-01T00:00:00"}


def near(random: np.random.Generator, vector: np.ndarray, cosine: float) -> np.ndarray:
    """A vector of this cosine with another."""
    other = random.normal(size=WIDTH)
    other = unit(other - (other @ vector) * vector)
    return np.asarray(cosine * vector + np.sqrt(1 - cosine**2) * other)


@pytest.fixture(scope="module")
def index(tmp_path_factory: pytest.TempPathFactory) -> WorldIndex:
    """Forty scenes; of the first five there are copies or other shots."""
    random = np.random.default_rng(0)
    rows = unit(random.normal(size=(40, WIDTH)))
    world = {f"scene {n}": row for n, row in enumerate(rows)}
    items = [image_item(f"scene {n}", scene(n), metadata={"n": n}) for n in range(40)]
    copies = {
        "bytes": (0, 1.0, Item("bytes", None, items[0].image)),
        "caption": (0, 0.96, Item("caption", "with a caption", items[0].image)),
        "large": (1, 0.97, image_item("large", scene(1).resize((192, 128)))),
        "bright": (2, 0.93, image_item("bright", ImageEnhance.Brightness(scene(2)).enhance(1.2))),
        "burst": (3, 0.97, image_item("burst", scene(3).crop((0, 0, 70, 64)))),
        "burst again": (3, 0.92, image_item("burst again", scene(3).crop((26, 0, 96, 64)))),
        "taken": (4, 0.99, Item("taken", None, ImageBytes(encoded(scene(4), "JPEG"), "taken"), TAKEN)),
    }
    for id, (original, cosine, item) in copies.items():
        world[id] = near(random, rows[original], cosine)
        items.append(item)
    texts = {"text": "A red  square.", "TEXT": "a RED square.", "other text": "A blue square."}
    for id, text in texts.items():
        world[id] = near(random, rows[30], 0.995)
        items.append(Item(id, text))
    return open_world(tmp_path_factory.mktemp("duplicates") / "index", items, world)


def groups(duplicates: Duplicates) -> set[frozenset[str]]:
    return {frozenset(item.id for item in group.items) for group in duplicates.groups}


def test_levels(index: WorldIndex) -> None:
    assert groups(index.duplicates("exact")) == {frozenset({"scene 0", "bytes"})}
    same = index.duplicates()
    assert same.level == "same"
    assert groups(same) == {
        frozenset({"scene 0", "bytes", "caption"}),
        frozenset({"scene 1", "large"}),
        frozenset({"scene 2", "bright"}),
        frozenset({"scene 4", "taken"}),
        frozenset({"text", "TEXT"}),
    }
    assert frozenset({"scene 3", "burst"}) in groups(index.duplicates("near"))
    assert {group.level for group in same.groups} == {"same"}


def test_the_threshold_changes_without_computing_again(
    index: WorldIndex, monkeypatch: pytest.MonkeyPatch
) -> None:
    result = index.duplicates()
    monkeypatch.setattr("genius.collection.duplicates.near_links", lambda *_: pytest.fail("computed again"))
    near_ones = {cosine: groups(result.at(cosine)) for cosine in (0.9, 0.95, 0.98)}
    burst = {cosine: [len(group) for group in near_ones[cosine] if "burst" in group] for cosine in near_ones}
    assert burst == {0.9: [3], 0.95: [2], 0.98: []}
    assert groups(result.at("exact")) == {frozenset({"scene 0", "bytes"})}
    for group in result.at(0.95).groups:
        assert group.similarity >= 0.95 or group.level != "near"


def test_what_was_not_looked_for_is_an_error(index: WorldIndex) -> None:
    with pytest.raises(InputError, match=r"below 0.9 were not looked for: call duplicates\(similarity=0.5\)"):
        index.duplicates().at(0.5)
    with pytest.raises(InputError, match=r"'same' was not looked for: call duplicates\('same'\)"):
        index.duplicates("near").at("same")
    with pytest.raises(InputError, match="'near' was not looked for"):
        index.duplicates("exact").at(0.95)
    assert len(index.duplicates(similarity=0.5).at(0.6)) >= 1


@pytest.mark.parametrize("similarity", [-0.1, 1.5, float("nan"), True, "high"])
def test_a_similarity_is_a_number_from_0_to_1(index: WorldIndex, similarity: float) -> None:
    with pytest.raises(InputError, match=r"from 0 to 1|unknown level"):
        index.duplicates(similarity=similarity)
    with pytest.raises(InputError, match=r"from 0 to 1|unknown level"):
        index.duplicates("exact").at(similarity)


def test_unknown_levels_and_contradictions(index: WorldIndex) -> None:
    with pytest.raises(InputError, match="unknown level 'some'"):
        index.duplicates("some")  # type: ignore[arg-type]
    with pytest.raises(InputError, match="leave it out"):
        index.duplicates("exact", similarity=0.9)


def test_the_largest_is_kept_and_of_equal_ones_the_oldest(index: WorldIndex) -> None:
    proposal = index.duplicates().keep()
    assert {"large", "taken", "caption"} <= set(proposal.keep), "an image with a caption says more"
    assert {"scene 1", "scene 4", "scene 0", "bytes"} <= set(proposal.remove)
    assert not set(proposal.keep) & set(proposal.remove)


def test_json_and_back(index: WorldIndex) -> None:
    result = index.duplicates()
    fields = duplicates_to_dict(result, most=2)
    assert (fields["total"], len(fields["groups"]), fields["level"]) == (5, 2, "same")
    assert all(group["keep"] in {item["id"] for item in group["items"]} for group in fields["groups"])
    again = Duplicates(links_of(links_to_dict(result.links), result.links.items), "same")
    assert groups(again) == groups(result)
    assert groups(again.at(0.95)) == groups(result.at(0.95))


@pytest.mark.parametrize("count", [0, 1])
def test_nothing_is_double_among_none_or_one(tmp_path: Path, count: int) -> None:
    items = [image_item("one", scene(1))][:count]
    with open_world(tmp_path / "index", items, {"one": np.ones(WIDTH)}) as index:
        for level in ("exact", "same", "near"):
            assert not len(index.duplicates(level))


def test_an_index_without_embeddings_compares_codes(tmp_path: Path) -> None:
    random = np.random.default_rng(5)
    rows = unit(random.normal(size=(20, WIDTH)))
    items = [image_item(f"{n}", scene(n)) for n in range(20)]
    items.append(Item("copy", image=ImageBytes(encoded(scene(7), "JPEG"), "copy")))
    world = {str(n): row for n, row in enumerate(rows)} | {"copy": rows[7]}
    with open_world(tmp_path / "index", items, world, embeddings="none") as index:
        assert groups(index.duplicates()) == {frozenset({"7", "copy"})}
