"""Hostile images: mutations of all formats, bombs, wrong names; each is read within time and memory."""

from __future__ import annotations

import io
import random
import struct
import time
import zipfile
import zlib
from collections.abc import Callable
from functools import cache, lru_cache
from pathlib import Path

from PIL import Image

from genius.data import images
from genius.data.records import ImageBytes
from genius.errors import InputError
from torture.scenario import Outcome, Scenario, Trial, seeded

IN_A_TRIAL = 20
SECONDS = 2.0
"""Of the processor, for one image."""
NAMES = [
    "a.jpg",
    "a.png",
    "a.webp",
    "a.gif",
    "a.bmp",
    "a.tiff",
    "a.heic",
    "a.svg",
    "a",
    "../../a.jpg",
    "a.jpg\0.png",
]


@cache
def originals() -> dict[str, bytes]:
    """A small image of each format and kind, by name."""
    dice = random.Random(0)
    picture = Image.frombytes("RGB", (48, 40), dice.randbytes(48 * 40 * 3)).resize((96, 80))
    saved: dict[str, bytes] = {}

    def save(name: str, image: Image.Image, format: str, **options: object) -> None:
        buffer = io.BytesIO()
        image.save(buffer, format, **options)
        saved[name] = buffer.getvalue()

    exif = Image.Exif()
    exif[0x0112], exif[0x010F] = 6, "maker"
    save("jpeg", picture, "JPEG", exif=exif)
    save("progressive jpeg", picture, "JPEG", progressive=True)
    save("cmyk jpeg", picture.convert("CMYK"), "JPEG")
    save("png", picture, "PNG")
    save("palette png", picture.quantize(16), "PNG", transparency=3)
    save("16-bit png", picture.convert("I;16"), "PNG")
    save("interlaced alpha png", picture.convert("RGBA"), "PNG")
    save("webp", picture, "WEBP")
    save("lossless webp", picture.convert("RGBA"), "WEBP", lossless=True)
    frames = [picture.rotate(angle) for angle in (0, 90)]
    save("animated webp", frames[0], "WEBP", save_all=True, append_images=frames[1:])
    save("gif", frames[0].quantize(32), "GIF", save_all=True, append_images=[f.quantize(32) for f in frames])
    save("bmp", picture, "BMP")
    for compression in ("raw", "tiff_lzw", "tiff_deflate", "jpeg", "packbits"):
        save(f"tiff {compression}", picture, "TIFF", compression=compression)
    save("float tiff", picture.convert("F"), "TIFF")
    return saved


# --- what is done to them


def flipped(dice: random.Random, content: bytes) -> bytes:
    """Some bits flipped, often near the beginning, where headers are."""
    changed = bytearray(content)
    for _ in range(dice.choice([1, 2, 8, 64])):
        place = dice.randrange(len(changed) if dice.random() < 0.5 else min(len(changed), 256))
        changed[place] ^= 1 << dice.randrange(8)
    return bytes(changed)


def truncated(dice: random.Random, content: bytes) -> bytes:
    """Cut anywhere."""
    return content[: dice.randrange(len(content))]


def spliced(dice: random.Random, content: bytes) -> bytes:
    """The beginning of one file and the rest of another."""
    other = dice.choice(list(originals().values()))
    return content[: dice.randrange(len(content))] + other[dice.randrange(len(other)) :]


def numbered(dice: random.Random, content: bytes) -> bytes:
    """Some field set to an extreme number."""
    changed = bytearray(content)
    for _ in range(dice.choice([1, 2, 4])):
        place = dice.randrange(min(len(changed) - 4, 400))
        value = dice.choice([0, 1, 0x7FFF, 0xFFFF, 0x7FFFFFFF, 0xFFFFFFFF])
        changed[place : place + 4] = struct.pack(dice.choice(["<I", ">I"]), value)
    return bytes(changed)


def repeated(dice: random.Random, content: bytes) -> bytes:
    """A part of it many times over."""
    start = dice.randrange(len(content))
    part = content[start : start + dice.randint(1, 400)]
    return content[:start] + part * dice.choice([2, 100, 2000]) + content[start:]


def bomb(dice: random.Random, content: bytes) -> bytes:
    """A file of few bytes that claims many pixels, with data for some of them or none."""
    width, height = dice.choice(
        [(13_000, 13_000), (50_000, 50_000), (2**31 - 1, 2**31 - 1), (7_000, 7_100), (1, 10**9)]
    )
    kind = dice.choice(["png", "gif", "bmp", "jpeg", "tiff"])
    if kind == "png":
        size = min(width * height, 30_000_000) if dice.random() < 0.5 else 1000
        return png(width, height, _zeros(size))
    if kind == "gif":
        return b"GIF89a" + struct.pack("<HH", width & 0xFFFF, height & 0xFFFF) + content[10:]
    if kind == "bmp":
        return b"BM" + struct.pack(
            "<IHHIIiiHHIIiiII", 1000, 0, 0, 54, 40, width & 0x7FFFFFFF, height & 0x7FFFFFFF, 1, 24, *[0] * 6
        )
    if kind == "jpeg":
        jpeg = bytearray(originals()[dice.choice(["jpeg", "progressive jpeg"])])
        at = max(jpeg.find(b"\xff\xc0"), jpeg.find(b"\xff\xc2"))
        jpeg[at + 5 : at + 9] = struct.pack(">HH", height & 0xFFFF, width & 0xFFFF)
        return bytes(jpeg)
    fields = [
        (256, width & 0xFFFFFFFF),
        (257, height & 0xFFFFFFFF),
        (258, 8),
        (259, 1),
        (262, 1),
        (273, 8),
        (278, 1),
        (279, 9),
    ]
    entries = b"".join(struct.pack("<HHII", tag, 4, 1, value) for tag, value in fields)
    return b"II*\0" + struct.pack("<IH", 8, len(fields)) + entries + struct.pack("<I", 0)


@lru_cache(maxsize=8)
def _zeros(size: int) -> bytes:
    """So many zeros, compressed."""
    return zlib.compress(bytes(size), 9)


def png(width: int, height: int, data: bytes) -> bytes:
    """A grey PNG of any claimed size."""
    chunks = [
        (b"IHDR", struct.pack(">IIBBBBB", width, height, 8, 0, 0, 0, 0)),
        (b"IDAT", data),
        (b"IEND", b""),
    ]
    parts = [
        struct.pack(">I", len(body)) + name + body + struct.pack(">I", zlib.crc32(name + body))
        for name, body in chunks
    ]
    return b"\x89PNG\r\n\x1a\n" + b"".join(parts)


def something_else(dice: random.Random, content: bytes) -> bytes:
    """No image at all, or one with something behind it."""
    archive = io.BytesIO()
    with zipfile.ZipFile(archive, "w") as file:
        file.writestr("a" * 100, bytes(1000))
    return dice.choice(
        [
            b"",
            b"\0" * dice.randint(1, 9999),
            dice.randbytes(dice.randint(1, 9999)),
            b"<svg xmlns='http://www.w3.org/2000/svg' width='9999999' height='9999999'/>",
            b"%PDF-1.7\n",
            b"<html><script>alert(1)</script></html>",
            content + archive.getvalue(),
            archive.getvalue(),
            b"\xff\xd8\xff" * 2000,
            b"\0\0\0\x18ftypheic" + dice.randbytes(500),
        ]
    )


MUTATIONS: list[Callable[[random.Random, bytes], bytes]] = [
    *(flipped, truncated, spliced, numbered, repeated),
    *(bomb, something_else),
]


def hostile(dice: random.Random) -> tuple[str, bytes]:
    """What was done to what, and the bytes."""
    name, content = dice.choice(list(originals().items()))
    mutation = dice.choice(MUTATIONS)
    return f"{name} {mutation.__name__}", mutation(dice, content)


def prepare(folder: Path) -> Trial:
    """A trial reads some images in every way that genius does."""
    originals()

    @seeded
    def trial(dice: random.Random, outcome: Outcome) -> None:
        for _ in range(IN_A_TRIAL):
            name, content = hostile(dice)
            source = ImageBytes(content, dice.choice(NAMES))
            began = time.process_time()
            _read(outcome, name, source)
            seconds = time.process_time() - began
            outcome.expect(seconds < SECONDS, f"{name}: took {seconds:.1f} seconds")
            outcome.count += 1

    return trial


def _read(outcome: Outcome, name: str, source: ImageBytes) -> None:
    pixels = images.pixel_count(source)
    outcome.expect(pixels <= images.MAX_PIXELS, f"{name}: {pixels:,} pixels are let through")
    try:
        images.check(source)
        image = images.load(source)
    except InputError as error:
        outcome.seen["refused in a sentence"] += 1
        outcome.expect("\n" not in str(error) and len(str(error)) < 500, f"{name}: no sentence: {error}")
        return
    outcome.seen["read"] += 1
    outcome.expect(
        image.mode == "RGB" and image.width * image.height <= images.MAX_PIXELS, f"{name}: {image}"
    )


SCENARIO = Scenario(
    name="hostile-images",
    promise="Mutated, truncated, spliced images, bombs, wrong names: read, or refused in a sentence, within "
    "2 seconds of the processor and 1 GB; never more than 50 megapixels.",
    unit="images",
    goal=40_000,
    field="Pillow alone reads a bomb of 169 megapixels with a warning (measured)",
    prepare=prepare,
    seconds=120,
    share=3,
)
