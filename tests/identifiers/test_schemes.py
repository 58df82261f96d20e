"""What each method's identifiers say, beside other ways to find it out."""

from __future__ import annotations

import numpy as np
import pytest

pytest.importorskip("torch")

from genius.errors import InputError, MissingError
from genius.identifiers.cluster_tree import MAX_DEPTH, ClusterTree
from genius.identifiers.dsi import Dsi
from genius.identifiers.identifiers import Identifiers
from genius.identifiers.irgen import IrGen, image_vectors
from genius.identifiers.numeric import Numeric
from genius.identifiers.scheme import ItemContents, TrainingTexts
from genius.identifiers.semantic import END, WORDS, Semantic, choose_vocabulary
from genius.identifiers.string import String, spell
from genius.identifiers.structured import Structured
from genius.identifiers.tiger import Tiger
from genius.quantize.fusion_inputs import FusionInputs
from tests.identifiers.small_items import WIDTH, contents, items, pairs_of_digits, training_texts

# --- numbers


def test_numeric_identifiers_are_the_digits_of_running_numbers() -> None:
    known = items(120)
    codes = Identifiers.fit("numeric", known, training_texts(), seed=0).codes(known)
    assert ["".join(map(str, code)) for code in codes.tolist()] == [f"{n:04d}" for n in range(120)]
    assert Numeric(6).room == 1_000_000


def test_string_identifiers_are_tokens_of_running_numbers() -> None:
    known = items(1200)
    scheme = String.fit(known, training_texts(), 0)
    assert scheme.room == 2400
    tokens = spell([str(number) for number in range(2400)], pairs_of_digits)
    assert tokens[1234] == ["12", "##34"] and tokens[1237] == ["1", "2", "3", "7"]
    assert ["".join(token.removeprefix("##") for token in spelled) for spelled in tokens] == [
        str(number) for number in range(2400)
    ]
    # Strings begin alike where their tokens do, and nowhere else.
    codes = scheme.write_numbers(np.arange(2400))
    for first, second in np.random.default_rng(0).integers(0, 2400, (500, 2)).tolist():
        for depth in (1, 2):
            alike = tokens[first][:depth] == tokens[second][:depth]
            assert (codes[first, :depth] == codes[second, :depth]).all() == alike


def test_strings_need_our_tokenizer() -> None:
    unreadable = TrainingTexts([], np.zeros((0, WIDTH)))
    with pytest.raises(MissingError, match="another encoder"):
        String.fit(items(5), unreadable, 0)


# --- words


def test_keywords_are_the_first_words_of_a_text_that_say_something() -> None:
    texts = [f"a photo of a {colour} thing" for colour in ["red", "green", "blue", "pink", "grey", "tan"]] * 5
    vocabulary = choose_vocabulary([*texts, "Two rare words: zebra, Zebra!"])
    assert {"a", "photo", "of", "thing", "red"}.isdisjoint(vocabulary), "they are in more than a tenth"
    assert vocabulary == ("rare", "two", "words", "zebra")
    scheme = Semantic(10, ("blue", "cat", "dog"), np.zeros((0, WORDS), np.uint16), np.zeros((0, WIDTH)))
    stems = scheme.keywords(["The dog, the CAT and the dog", "", "a blue-cat"])
    assert stems[:, :3].tolist() == [[3, 2, END], [END, END, END], [1, 2, END]]
    assert (stems[:, 3:] == END).all()


def test_an_image_without_a_text_has_the_words_of_the_nearest_caption() -> None:
    texts, known = training_texts(), items(60)
    scheme = Semantic.fit(known, texts, 0)
    images = items(90, seed=4)
    stems = scheme.stems(images)
    similarity = images.inputs.embeddings @ np.asarray(texts.embeddings, np.float16).astype(np.float32).T
    for row, text in enumerate(images.texts):
        caption = text or texts.captions[int(similarity[row].argmax())]
        assert stems[row].tolist() == scheme.keywords([caption])[0].tolist()
    assert (scheme.keywords([texts.captions[0]]) != END).sum() == 2, "a colour and a thing"


def test_without_captions_images_have_a_number_alone() -> None:
    images = contents(["a", "b"], np.eye(2, WIDTH, dtype=np.float32), ["", ""])
    identifiers = Identifiers.fit("semantic", images, TrainingTexts([], np.zeros((0, WIDTH))), seed=0)
    assert identifiers.codes(images).tolist() == [[END] * WORDS + [0], [END] * WORDS + [1]]


# --- trees


def brute_force_path(tree: ClusterTree, vector: np.ndarray) -> list[int]:
    """Down the tree by distances, one vector at a time."""
    node, path = 0, []
    while tree.num_children[node]:
        children = range(tree.first_child[node], tree.first_child[node] + tree.num_children[node])
        distances = [float(np.square(tree.centres[child] - vector).sum()) for child in children]
        path.append(int(np.argmin(distances)))
        node = children[path[-1]]
    return path


@pytest.mark.parametrize(("branching", "leaf"), [(3, 5), (10, 40), (30, 1)])
def test_a_tree_divides_every_cluster_that_is_too_large(branching: int, leaf: int) -> None:
    vectors = np.random.default_rng(branching).normal(size=(300, WIDTH)).astype(np.float32)
    tree = ClusterTree.build(vectors, branching=branching, leaf=leaf, seed=0)
    paths = tree.paths(vectors)
    assert paths.shape == (300, tree.depth)
    for vector, path in zip(vectors, paths.tolist(), strict=True):
        expected = brute_force_path(tree, vector)
        assert path == expected + [tree.end] * (tree.depth - len(expected))
    assert np.unique(paths, axis=0, return_counts=True)[1].max() <= leaf
    assert tree.num_children.max() <= branching and tree.num_children[tree.num_children > 0].min() >= 2
    # Each node but the root is the child of exactly one.
    children = np.concatenate(
        [
            np.arange(first, first + count)
            for first, count in zip(tree.first_child, tree.num_children, strict=True)
        ]
    )
    assert sorted(children.tolist()) == list(range(1, len(tree.centres)))


def test_k_means_leaves_members_nearer_to_their_centre_than_to_others() -> None:
    """And a centre is the mean of its members, where k-means has settled."""
    vectors = np.random.default_rng(2).normal(size=(60, WIDTH)).astype(np.float32)
    vectors[:30] += 20
    tree = ClusterTree.build(vectors, branching=2, leaf=30, seed=1)
    paths = tree.paths(vectors)
    assert tree.depth == 1 and len(np.unique(paths[:30])) == len(np.unique(paths[30:])) == 1
    for cluster in (0, 1):
        members = vectors[paths[:, 0] == cluster]
        np.testing.assert_allclose(tree.centres[1 + cluster], members.mean(0), atol=1e-4)


def test_equal_vectors_end_in_one_leaf() -> None:
    tree = ClusterTree.build(np.ones((50, WIDTH), np.float32), branching=4, leaf=3, seed=0)
    assert tree.depth <= MAX_DEPTH
    same = contents([str(n) for n in range(50)], np.ones((50, WIDTH), np.float32), [""] * 50)
    for name in ("structured", "dsi"):
        codes = Identifiers.fit(name, same, training_texts(), seed=0).codes(same)
        assert len(np.unique(codes, axis=0)) == 50


def test_structured_and_dsi_are_one_tree_with_other_numbers() -> None:
    assert (Structured.branching, Structured.leaf) == (30, 30)
    assert (Dsi.branching, Dsi.leaf) == (10, 100)
    known = items(500)
    assert Dsi.fit(known, training_texts(), 0).stem_sizes[0] == 11
    assert Structured.fit(known, training_texts(), 0).stem_sizes[0] == 31


# --- residual codes


def test_residual_codes_are_the_nearest_of_each_level() -> None:
    known = items(700)
    scheme = Tiger.fit(known, training_texts(), 0)
    assert scheme.stem_sizes == (256, 256, 256)
    residuals = known.inputs.embeddings.astype(np.float64)
    codes = scheme.stems(known)
    errors = [float(np.square(residuals).sum())]
    for level, codebook in enumerate(scheme.residual.codebooks):
        distances = np.square(residuals[:, None] - codebook[None].astype(np.float64)).sum(2)
        chosen = distances[np.arange(700), codes[:, level]]
        np.testing.assert_allclose(chosen, distances.min(1), atol=1e-6)
        residuals = residuals - codebook[codes[:, level]]
        errors.append(float(np.square(residuals).sum()))
    assert errors == sorted(errors, reverse=True)


def test_irgen_is_fitted_to_images_alone() -> None:
    known = items(600)
    is_image = known.inputs.has_image
    alone = contents(
        [id for id, kept in zip(known.ids, is_image, strict=True) if kept],
        known.inputs.embeddings[is_image],
        [""] * int(is_image.sum()),
    )
    scheme, from_images = IrGen.fit(known, training_texts(), 0), IrGen.fit(alone, training_texts(), 0)
    assert scheme.stem_sizes == (min(256, int(is_image.sum())),) * 4
    for first, second in zip(scheme.residual.codebooks, from_images.residual.codebooks, strict=True):
        np.testing.assert_array_equal(first, second)
    with pytest.raises(InputError, match="codes of images, and no item has one"):
        IrGen.fit(contents(["a"], np.ones((1, WIDTH), np.float32), ["a text"]), training_texts(), 0)


def test_irgen_codes_the_image_of_a_pair() -> None:
    random = np.random.default_rng(0)
    whole, image, text = (random.normal(size=(4, WIDTH)).astype(np.float32) for _ in range(3))
    has_image, has_text = np.array([True, True, False, True]), np.array([True, False, True, True])
    inputs = FusionInputs.from_parts(whole, (image, has_image), (text, has_text))
    vectors = image_vectors(ItemContents(list("abcd"), inputs, ["a", "", "b", "c"]))
    np.testing.assert_array_equal(vectors, [image[0], whole[1], whole[2], image[3]])
