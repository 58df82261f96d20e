from __future__ import annotations

import numpy as np
import pytest

torch = pytest.importorskip("torch")

from genius.encode.heads import Heads, HeadSettings  # noqa: E402
from genius.encode.projection import Projection, kept_parts  # noqa: E402
from genius.errors import InputError  # noqa: E402

IMAGE = {"mean": 10, "max": 6}
TEXT = {"mean": 8}
SETTINGS = HeadSettings(width=24, raw=4, hidden=16, image_parts=("mean:5", "max:4"), text_parts=("mean:6",))


def heads(**changes: object) -> Heads:
    torch.manual_seed(0)
    made = Heads(HeadSettings(**{**SETTINGS.__dict__, **changes}), IMAGE, TEXT)  # type: ignore[arg-type]
    random = np.random.default_rng(0)
    made.image_projection.fit(random.normal(size=(50, 16)).astype(np.float32), 0.25)
    made.text_projection.fit(random.normal(size=(50, 8)).astype(np.float32), 0.25)
    return made.eval()


def parts(rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, 9 + 4, generator=generator), torch.randn(rows, 6 + 4, generator=generator)


HAS_IMAGE = torch.tensor([True, True, False, True, False, True])
HAS_TEXT = torch.tensor([False, True, True, False, True, True])


def test_score_fusion_is_the_sum_of_the_parts() -> None:
    """Against the direct computation: normalise(head(image) + head(text)), then the raw blocks."""
    network = heads()
    image, text = parts()
    with torch.no_grad():
        found = network.items((image, HAS_IMAGE), (text, HAS_TEXT)).together()
        member = network.members[0]
        for row in range(6):
            content = torch.zeros(SETTINGS.content)
            raw = [torch.zeros(4), torch.zeros(4)]
            if HAS_IMAGE[row]:
                content = content + member.image_head(image[row : row + 1, :9])[0][0]
                raw[0] = image[row, 9:] * SETTINGS.raw_item
            if HAS_TEXT[row]:
                content = content + member.text_head(text[row : row + 1, :6])[0][0]
                raw[1] = text[row, 6:] * SETTINGS.raw_item
            expected = torch.cat([content / content.norm(), *raw])
            torch.testing.assert_close(found[row], expected / expected.norm())


def test_feature_fusion_looks_at_both() -> None:
    network = heads(joining="feature")
    image, text = parts()
    with torch.no_grad():
        found = network.items((image, HAS_IMAGE), (text, HAS_TEXT)).together()
        member = network.members[0]
        image_part, image_seen = member.image_head(image[:, :9])
        text_part, text_seen = member.text_head(text[:, :6])
        both = 1  # the second row has both parts
        seen = torch.cat([image_seen[both], text_seen[both], torch.ones(2)])
        image_gain, text_gain, more = member.item_joiner.say(member.item_joiner.look(seen[None]))[0].chunk(3)
        content = image_part[both] * (1 + image_gain) + text_part[both] * (1 + text_gain) + more
        expected = torch.cat([content / content.norm(), image[both, 9:] * 0.5, text[both, 6:] * 0.5])
        torch.testing.assert_close(found[both], expected / expected.norm())


@pytest.mark.parametrize("joining", ["score", "feature"])
@pytest.mark.parametrize("trained", [True, False])
def test_what_stands_in_the_place_of_an_absent_part_does_not_matter(joining: str, trained: bool) -> None:
    network = heads(joining=joining, dropout=0.0, input_dropout=0.0).train(trained)
    image, text = parts()
    garbage = torch.full_like(image, torch.nan), torch.full_like(text, torch.nan)
    spoiled = (
        torch.where(HAS_IMAGE[:, None], image, garbage[0]),
        torch.where(HAS_TEXT[:, None], text, garbage[1]),
    )
    asked = torch.tensor([True, False] * 3)
    instruction = torch.randn(6, 10)
    nothing = torch.where(asked[:, None], instruction, torch.nan)

    def all_of(image: torch.Tensor, text: torch.Tensor, instruction: torch.Tensor) -> list[torch.Tensor]:
        blocks, wants = network.queries((image, HAS_IMAGE), (text, HAS_TEXT), (instruction, asked))
        return [network.items((image, HAS_IMAGE), (text, HAS_TEXT)).together(), blocks.together(), wants]

    for one, other in zip(all_of(image, text, instruction), all_of(*spoiled, nothing), strict=True):
        torch.testing.assert_close(one, other)


def test_members_together_are_the_mean_of_their_similarities() -> None:
    network = heads(members=13, raw=4)  # 24 - 3 - 8 = 13 numbers of content
    image, text = parts()
    with torch.no_grad():
        blocks = network.items((image, HAS_IMAGE), (text, HAS_TEXT))
    together, raw = blocks.together(), blocks.raw
    contents = torch.stack(
        [blocks.contents[:, member] @ blocks.contents[:, member].T for member in range(13)]
    )
    expected = contents.mean(0) + raw @ raw.T
    lengths = expected.diagonal().sqrt()
    torch.testing.assert_close(together @ together.T, expected / lengths[:, None] / lengths)


def test_joined_embeddings_have_unit_length_and_carry_the_modality() -> None:
    network = heads()
    image, text = parts()
    modality = torch.tensor([0, 2, 1, 0, 1, 2])
    with torch.no_grad():
        items = network.joined_items(network.items((image, HAS_IMAGE), (text, HAS_TEXT)), modality)
        asked = torch.tensor([True, False] * 3)
        queries = network.joined_queries(
            *network.queries((image, HAS_IMAGE), (text, HAS_TEXT), (text, asked))
        )
    assert items.shape == queries.shape == (6, SETTINGS.width)
    torch.testing.assert_close(items.norm(dim=1), torch.ones(6))
    torch.testing.assert_close(queries.norm(dim=1), torch.ones(6))
    assert (items[:, -3:].argmax(dim=1) == modality).all()
    torch.testing.assert_close(queries[1, -3:], torch.full((3,), (0.5 / 3) ** 0.5))  # no instruction: any


def test_projection_equals_principal_components() -> None:
    random = np.random.default_rng(0)
    rows = random.normal(size=(400, 8)) @ random.normal(size=(8, 8)) + 3
    projection = Projection({"mean": 8}, {"mean": 3}, raw=2)
    projection.fit(rows.astype(np.float32), whitening=1.0)
    with torch.no_grad():
        found = projection(torch.from_numpy(rows.astype(np.float32))).numpy()
    _, _, directions = np.linalg.svd(rows - rows.mean(0), full_matrices=False)
    expected = (rows - rows.mean(0)) @ directions[:3].T
    expected /= expected.std(0)
    for place in range(3):
        assert abs(np.corrcoef(found[:, place], expected[:, place])[0, 1]) == pytest.approx(1, abs=1e-3)
    np.testing.assert_allclose(found[:, :3].std(0), 1, rtol=0.01)  # whitened: all directions equally strong
    np.testing.assert_allclose(np.linalg.norm(found[:, 3:], axis=1), 1, rtol=1e-4)


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="width leaves -31 numbers for content, which 1 members can't share"):
        HeadSettings(width=100, raw=64)
    with pytest.raises(InputError, match="which 2 members can't share"):
        HeadSettings(members=2)
    with pytest.raises(InputError, match="modality should be a share below 1"):
        HeadSettings(modality=1.0)
    with pytest.raises(InputError, match="have no part 'last'; they have mean, max"):
        Projection(IMAGE, {"last": 3}, 2)
    with pytest.raises(InputError, match="part 'max' has 6 numbers, so 7 can't be kept"):
        Projection(IMAGE, {"max": 7}, 2)
    with pytest.raises(InputError, match="'mean' should be a part's name and how many numbers to keep"):
        kept_parts(["mean"])
    with pytest.raises(InputError, match="NaN or infinite"):
        Projection({"mean": 8}, {"mean": 3}, 2).fit(np.full((4, 8), np.nan), 0.0)
