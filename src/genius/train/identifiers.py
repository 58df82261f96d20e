"""Instead of stage 1: every item that training sees gets the identifier of a rival method.

Nothing is trained by steps: identifiers are counted, read or clustered, over the embeddings of stage 0. All
items of the recipe's pools get one, those that no training query asks for too, as the methods want it: they
memorise a collection.
"""

from __future__ import annotations

import logging

import numpy as np

from genius.corpus.coded import item_contents
from genius.corpus.embedded import EmbeddedCorpus
from genius.corpus.records import RecordSource, record_texts
from genius.encode.features import ABSENT
from genius.encode.lite import Lite
from genius.identifiers.identifiers import Identifiers
from genius.identifiers.scheme import ItemContents, RivalName, TrainingTexts
from genius.model import Model

log = logging.getLogger(__name__)


def fit_identifiers(
    name: RivalName, model: Model, training: EmbeddedCorpus, source: RecordSource, *, seed: int
) -> Identifiers:
    """Identifiers of a method for all items of a corpus, by a model that embeds.

    Raises InputError or MissingError for items or an encoder that the method can't work with.
    """
    encoder = model.encoder if name == "string" else None
    captions, embeddings = training_captions(training, source)
    texts = TrainingTexts(captions, embeddings, encoder.tokenize if isinstance(encoder, Lite) else None)
    items = with_captions(item_contents(training, source), training, source)
    identifiers = Identifiers.fit(name, items, texts, seed=seed)
    log.info(
        "%s identifiers for %d items: levels of %s symbols.",
        name,
        identifiers.num_known,
        ", ".join(map(str, identifiers.sizes)),
    )
    return identifiers


def training_captions(training: EmbeddedCorpus, source: RecordSource) -> tuple[list[str], np.ndarray]:
    """The texts of the training queries that are texts alone, and the embeddings [n, width] of these."""
    captions: list[str] = []
    embeddings = [np.zeros((0, training.items.width), np.float16)]
    for name, task in training.tasks.items():
        alone = np.flatnonzero((task.contents.image == ABSENT) & (task.contents.text != ABSENT))
        captions += record_texts(task.contents[alone], source)
        embeddings.append(training.queries[name].embeddings[alone].astype(np.float16))
    return captions, np.concatenate(embeddings)


def with_captions(items: ItemContents, training: EmbeddedCorpus, source: RecordSource) -> ItemContents:
    """The same items, where those without a text have that of the first training query that they answer."""
    texts = list(items.texts)
    for task in training.tasks.values():
        alone = np.flatnonzero((task.contents.image == ABSENT) & (task.contents.text != ABSENT))
        for row, text in zip(alone.tolist(), record_texts(task.contents[alone], source), strict=True):
            for item in task.positives(row).tolist():
                texts[item] = texts[item] or text
    return ItemContents(items.ids, items.inputs, texts)
