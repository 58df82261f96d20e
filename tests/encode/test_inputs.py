from __future__ import annotations

from genius.data.records import ImageBytes, Item, Query
from genius.encode.inputs import EncoderInputs, InputRows
from tests.pictures import square


def test_instructions_apart_or_before_the_text() -> None:
    query = Query(text="a dog", instruction="find a photo")
    apart, together = EncoderInputs(apart=True), EncoderInputs(apart=False)
    apart.add_queries([query])
    together.add_queries([query])
    assert list(apart.texts) == ["A dog.", "Find a photo."]
    assert list(together.texts) == ["Find a photo. A dog."]


def test_rows_of_inputs_and_their_keys() -> None:
    """Equal bytes under two names have one key; an unreadable image has a key of its own."""

    class Gone(ImageBytes):
        def read(self) -> bytes:
            from genius.errors import InputError

            raise InputError("is gone")

    inputs = EncoderInputs()
    images = [ImageBytes(square("red"), "a"), ImageBytes(square("red"), "b"), Gone(b"", "c"), Gone(b"", "d")]
    inputs.add_items(Item(image.name, "a dog", image) for image in images)
    rows = InputRows(inputs)
    assert rows.image_rows(["d", "a", None, "unknown"]).tolist() == [3, 0, -1, -1]
    assert rows.text_rows(["A dog.", "a cat"]).tolist() == [0, -1]
    assert rows.image_key(0) == rows.image_key(1)
    assert len({rows.image_key(row) for row in range(4)}) == 3
    assert rows.text_key(0) == b"A dog."
