from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")
import torch

from genius.encode.heads import Heads, HeadSettings, Member
from genius.errors import InputError

IMAGE = {"mean": 10, "max": 6}
TEXT = {"mean": 8}
SETTINGS = HeadSettings(width=24, raw=4, hidden=16, image_parts=("mean:5", "max:4"), text_parts=("mean:6",))


def heads(**changes: object) -> Heads:
    torch.manual_seed(0)
    made = Heads(HeadSettings(**{**SETTINGS.__dict__, **changes}), IMAGE, TEXT)
    random = np.random.default_rng(0)
    made.image_projection.fit(random.normal(size=(50, 16)).astype(np.float32), 0.25)
    made.text_projection.fit(random.normal(size=(50, 8)).astype(np.float32), 0.25)
    return made.eval()


def only_member(network: Heads) -> Member:
    (member,) = network.members
    assert isinstance(member, Member)
    return member


def parts(rows: int = 6) -> tuple[torch.Tensor, torch.Tensor]:
    generator = torch.Generator().manual_seed(1)
    return torch.randn(rows, 9 + 4, generator=generator), torch.randn(rows, 6 + 4, generator=generator)


HAS_IMAGE = torch.tensor([True, True, False, True, False, True])
HAS_TEXT = torch.tensor([False, True, True, False, True, True])


def test_score_fusion_is_the_sum_of_image_and_text() -> None:
    """Against the direct computation: normalise(head(image) + head(text)), then the raw blocks."""
    network = heads()
    image, text = parts()
    with torch.no_grad():
        embedded = network.item_blocks((image, HAS_IMAGE), (text, HAS_TEXT)).together()
        member = only_member(network)
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
            torch.testing.assert_close(embedded[row], expected / expected.norm())


def test_feature_fusion_depends_on_both() -> None:
    network = heads(fusion_kind="feature")
    image, text = parts()
    with torch.no_grad():
        embedded = network.item_blocks((image, HAS_IMAGE), (text, HAS_TEXT)).together()
        member = only_member(network)
        image_part, image_hidden = member.image_head(image[:, :9])
        text_part, text_hidden = member.text_head(text[:, :6])
        both = 1  # the second row has an image and a text
        context = torch.cat([image_hidden[both], text_hidden[both], torch.ones(2)])
        fusion = member.item_fusion
        assert fusion is not None
        image_gate, text_gate, offset = fusion.gates(fusion.hidden(context[None]))[0].chunk(3)
        content = image_part[both] * (1 + image_gate) + text_part[both] * (1 + text_gate) + offset
        expected = torch.cat([content / content.norm(), image[both, 9:] * 0.5, text[both, 6:] * 0.5])
        torch.testing.assert_close(embedded[both], expected / expected.norm())


@pytest.mark.parametrize("fusion_kind", ["score", "feature"])
@pytest.mark.parametrize("trained", [True, False])
def test_the_features_of_an_absent_modality_do_not_matter(fusion_kind: str, trained: bool) -> None:
    network = heads(fusion_kind=fusion_kind, dropout=0.0, input_dropout=0.0).train(trained)
    image, text = parts()
    garbage = torch.full_like(image, torch.nan), torch.full_like(text, torch.nan)
    spoiled = (
        torch.where(HAS_IMAGE[:, None], image, garbage[0]),
        torch.where(HAS_TEXT[:, None], text, garbage[1]),
    )
    has_instruction = torch.tensor([True, False] * 3)
    instruction = torch.randn(6, 10)
    nothing = torch.where(has_instruction[:, None], instruction, torch.nan)

    def all_of(image: torch.Tensor, text: torch.Tensor, instruction: torch.Tensor) -> list[torch.Tensor]:
        blocks, wants, _ = network.query_blocks(
            (image, HAS_IMAGE), (text, HAS_TEXT), (instruction, has_instruction)
        )
        return [
            network.item_blocks((image, HAS_IMAGE), (text, HAS_TEXT)).together(),
            blocks.together(),
            wants,
        ]

    for clean, garbled in zip(all_of(image, text, instruction), all_of(*spoiled, nothing), strict=True):
        torch.testing.assert_close(clean, garbled)


def test_members_together_are_the_mean_of_their_similarities() -> None:
    network = heads(members=13, raw=4)  # 24 - 3 - 8 = 13 numbers of content
    image, text = parts()
    with torch.no_grad():
        blocks = network.item_blocks((image, HAS_IMAGE), (text, HAS_TEXT))
    together, raw = blocks.together(), blocks.raw
    contents = torch.stack(
        [blocks.contents[:, member] @ blocks.contents[:, member].T for member in range(13)]
    )
    expected = contents.mean(0) + raw @ raw.T
    lengths = expected.diagonal().sqrt()
    torch.testing.assert_close(together @ together.T, expected / lengths[:, None] / lengths)


def test_embeddings_have_unit_length_and_carry_the_modality() -> None:
    network = heads()
    image, text = parts()
    modality = torch.tensor([0, 2, 1, 0, 1, 2])
    with torch.no_grad():
        items = network.embed_items(network.item_blocks((image, HAS_IMAGE), (text, HAS_TEXT)), modality)
        has_instruction = torch.tensor([True, False] * 3)
        queries = network.embed_queries(
            *network.query_blocks((image, HAS_IMAGE), (text, HAS_TEXT), (text, has_instruction))
        )
    assert items.shape == queries.shape == (6, SETTINGS.width)
    torch.testing.assert_close(items.norm(dim=1), torch.ones(6))
    torch.testing.assert_close(queries.norm(dim=1), torch.ones(6))
    assert (items[:, -3:].argmax(dim=1) == modality).all()
    torch.testing.assert_close(queries[1, -3:], torch.full((3,), (0.5 / 3) ** 0.5))  # no instruction: any


def test_hubness_lessens_similarities_by_one_number_more() -> None:
    network, plain = heads(width=25, hubness=7), heads()
    plain.load_state_dict({n: t for n, t in network.state_dict().items() if not n.startswith("hubness.")})
    generator = torch.Generator().manual_seed(2)
    network.hubness.bank.copy_(torch.randn(network.hubness.bank.shape, generator=generator) / 10)
    network.hubness.strengths.copy_(torch.tensor([0.2, 0.5, 0.9]))
    image, text = parts()
    modality = torch.tensor([0, 2, 1, 0, 1, 2])
    similarities = []
    for each in (network, plain):
        with torch.no_grad():
            blocks = each.item_blocks((image, HAS_IMAGE), (text, HAS_TEXT))
            queries = each.query_blocks((image, HAS_IMAGE), (text, HAS_TEXT), (text, ~HAS_IMAGE))
            similarities.append(each.embed_queries(*queries) @ each.embed_items(blocks, modality).T)
    hubness = network.hubness.measure(blocks.together())[torch.arange(6), modality]
    # images alone, texts alone, both: as HAS_IMAGE and HAS_TEXT say
    strengths = torch.tensor([0.2, 0.9, 0.5, 0.2, 0.5, 0.9])
    share = 1 - SETTINGS.modality
    torch.testing.assert_close(similarities[0], similarities[1] - share * strengths[:, None] * hubness)


def test_bad_settings() -> None:
    with pytest.raises(InputError, match="width leaves -31 numbers for content, which 1 members can't share"):
        HeadSettings(width=100, raw=64)
    with pytest.raises(InputError, match="which 2 members can't share"):
        HeadSettings(members=2)
    with pytest.raises(InputError, match="modality should be a share below 1"):
        HeadSettings(modality=1.0)
