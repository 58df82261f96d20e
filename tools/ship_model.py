"""Make the model that ships with genius: a trained model in few bits, without its towers.

    python -m tools.ship_model MODEL [--out src/genius/shipped/photo] [--towers int8]

The towers are the built-in encoder's, which every user has in the cache: with that of texts in 8 bits, which
finds as much (`benchmarks/photo.py`), or in single precision as the model was trained. What is printed is the
size in a wheel, where files are compressed: 6 bits weigh about 6 there.
"""

from __future__ import annotations

import argparse
import shutil
import tempfile
import zlib
from pathlib import Path

from genius import storage
from genius.encode import lite
from genius.model import DEFAULT, FORMAT, KIND, SHIPPED
from genius.tensors import read_tensors, write_tensors

BITS = {"heads.safetensors": 6, "codebooks.safetensors": 4}
"""By file; others have 8. Codes are made by the rounded codebooks, so that what they lose is little."""


def ship(model: Path, out: Path) -> None:
    """Write the small copy of a model to `out`."""
    trained = storage.open(model, kind=KIND, format=FORMAT)
    manifest = trained.manifest
    with storage.create(
        out, kind=KIND, format=FORMAT, settings=manifest.settings, made_from=manifest.made_from
    ) as draft:
        for name in manifest.files:
            source, target = trained.file(name), draft.folder / name
            if name.startswith("towers/"):
                continue
            if source.suffix == ".safetensors":
                write_tensors(target, read_tensors(source), bits=BITS.get(name, 8))
            else:
                shutil.copyfile(source, target)
        draft.counts |= manifest.counts


def with_int8_towers(small: Path, out: Path) -> None:
    """Write the small copy of a model over the built-in towers with texts in 8 bits.

    It remembers both fingerprints, so that it is known as the same model where that is over the others.
    """
    single = storage.open(small, kind=KIND, format=FORMAT)
    described = single.manifest.settings["encoder"]
    encoder = {
        "kind": "lite",
        "source": "",
        "precision": "int8",
        "fingerprint": lite.loader(lite.build(precision="int8")).fingerprint,
        "single_precision": {"model": single.fingerprint, "encoder": described["fingerprint"]},
    }
    settings, made_from = single.manifest.settings | {"encoder": encoder}, single.manifest.made_from
    with storage.create(out, kind=KIND, format=FORMAT, settings=settings, made_from=made_from) as draft:
        for name in single.manifest.files:
            shutil.copyfile(single.file(name), draft.folder / name)
        draft.counts |= single.manifest.counts


def main() -> None:
    """Ship the model that the command line names."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("model", type=Path)
    parser.add_argument("--out", type=Path, default=SHIPPED / DEFAULT)
    parser.add_argument("--towers", choices=["int8", "fp32"], default="int8", help="default: int8")
    options = parser.parse_args()
    if options.towers == "fp32":
        ship(options.model, options.out)
    else:
        with tempfile.TemporaryDirectory() as folder:
            ship(options.model, Path(folder, "photo"))
            with_int8_towers(Path(folder, "photo"), options.out)
    size = sum(len(zlib.compress(path.read_bytes())) for path in options.out.iterdir())
    print(f"{options.out}: {size / 1e6:.1f} MB in a wheel")


if __name__ == "__main__":
    main()
