from __future__ import annotations

import os
import pickle
import sys
import zipfile
from collections import OrderedDict
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np
import pytest

from genius.encode.checkpoints import LEGACY_MAGIC, open_checkpoint, read_checkpoint
from genius.errors import InputError
from tests.golden import published_file

pytest.importorskip("torch")
import torch


def tensors() -> dict[str, Any]:
    torch.manual_seed(0)
    whole = torch.randn(4, 6)
    return OrderedDict(
        plain=torch.randn(3, 5),
        transposed=whole.T,
        part=whole[1:3, ::2],
        half=torch.randn(7).half(),
        brain=torch.randn(7).bfloat16(),
        double=torch.randn(2, 2, 2).double(),
        whole_numbers=torch.arange(9).reshape(3, 3),
        flags=torch.tensor([True, False]),
        scalar=torch.tensor(3.5),
        empty=torch.zeros(0, 4),
        parameter=torch.nn.Parameter(torch.randn(2, 2)),
    )


def check(loaded: dict[str, np.ndarray], expected: dict[str, Any]) -> None:
    assert set(loaded) == set(expected)
    for name, tensor in expected.items():
        values = tensor.detach().float() if tensor.dtype == torch.bfloat16 else tensor.detach()
        np.testing.assert_array_equal(loaded[name], values.numpy(), err_msg=name)


@pytest.mark.parametrize("zipped", [True, False])
def test_equals_torch_in_both_formats(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "a.pth"
    torch.save(tensors(), path, _use_new_zipfile_serialization=zipped)
    check(read_checkpoint(path), tensors())


@pytest.mark.parametrize("zipped", [True, False])
def test_a_part_of_a_training_checkpoint(tmp_path: Path, zipped: bool) -> None:
    """As UniIR saves them: weights beside optimizer state, a number, and a configuration object."""
    network = torch.nn.Linear(3, 2)
    optimizer = torch.optim.AdamW(network.parameters())
    network(torch.randn(4, 3)).sum().backward()
    optimizer.step()
    outer = {
        "model": network.state_dict(),
        "optimizer": optimizer.state_dict(),
        "epoch": 3,
        "config": {"lr": 0.1},
    }
    path = tmp_path / "a.pth"
    torch.save(outer, path, _use_new_zipfile_serialization=zipped)
    check(read_checkpoint(path, part="model"), network.state_dict())
    with pytest.raises(
        InputError, match=r"a.pth: has no part 'weights'; it holds: model, optimizer, epoch, config"
    ):
        read_checkpoint(path, part="weights")


def test_a_configuration_object_is_an_empty_shell(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The classes of omegaconf are not needed to read the weights beside them, and are not imported."""
    module = ModuleType("omegaconf")
    made: type = type(
        "DictConfig", (dict,), {"__module__": "omegaconf", "__reduce__": lambda self: (made, (), {"lr": 1})}
    )
    monkeypatch.setattr(module, "DictConfig", made, raising=False)
    monkeypatch.setitem(sys.modules, "omegaconf", module)
    torch.save({"model": {"w": torch.ones(2)}, "config": made()}, tmp_path / "a.pth")
    monkeypatch.undo()
    np.testing.assert_array_equal(read_checkpoint(tmp_path / "a.pth", part="model")["w"], [1, 1])


def test_safetensors(tmp_path: Path) -> None:
    from safetensors.numpy import save_file

    save_file({"a": np.arange(6.0).reshape(2, 3)}, tmp_path / "a.safetensors")
    np.testing.assert_array_equal(read_checkpoint(tmp_path / "a.safetensors")["a"], [[0, 1, 2], [3, 4, 5]])
    content = (tmp_path / "a.safetensors").read_bytes()
    (tmp_path / "a.safetensors").write_bytes(content[:-8])
    with pytest.raises(InputError, match=r"a.safetensors: is no whole safetensors file"):
        read_checkpoint(tmp_path / "a.safetensors")


class Hostile:
    """Runs a command when it is unpickled by anything that trusts it."""

    def __init__(self, function: Any, *arguments: Any) -> None:
        self.call = (function, arguments)

    def __reduce__(self) -> Any:
        return self.call


ATTACKS = {
    "os.system": (os.system, "touch {}"),
    "eval": (eval, "open('{}', 'w')"),
    "open": (open, "{}", "w"),
    "getattr": (getattr, os, "system"),
    "print": (exec, "open('{}', 'w')"),
}


@pytest.mark.parametrize("form", ["pickle", "zip", "legacy"])
@pytest.mark.parametrize("name", ATTACKS)
def test_a_hostile_pickle_is_refused_and_nothing_is_executed(tmp_path: Path, name: str, form: str) -> None:
    trace = tmp_path / "executed"
    function, *arguments = ATTACKS[name]
    arguments = [part.format(trace) if isinstance(part, str) else "x" for part in arguments]
    hostile = Hostile(function, *arguments)
    path = tmp_path / "model.pth"
    if form == "pickle":
        path.write_bytes(pickle.dumps(hostile))
    else:
        torch.save(
            {"model": {"w": torch.ones(2)}, "x": hostile}, path, _use_new_zipfile_serialization=form == "zip"
        )
    with pytest.raises(
        InputError, match=r"model.pth: was refused: it asks for .* nothing of it was executed"
    ):
        read_checkpoint(path, part="model")
    assert not trace.exists()


def test_a_view_that_reaches_beyond_its_storage_is_refused(tmp_path: Path) -> None:
    torch.save({"w": torch.arange(6.0).reshape(2, 3)}, tmp_path / "a.pth")
    with zipfile.ZipFile(tmp_path / "a.pth") as source, zipfile.ZipFile(tmp_path / "b.pth", "w") as target:
        for name in source.namelist():
            content = source.read(name)
            if name.endswith("data.pkl"):
                changed = content.replace(b"K\x02K\x03", b"K\x02K\x63")  # the shape (2, 3) becomes (2, 99)
                assert changed != content
                content = changed
            target.writestr(name, content)
    with pytest.raises(InputError, match=r"b.pth: holds a tensor that reaches beyond its storage"):
        read_checkpoint(tmp_path / "b.pth")


@pytest.mark.parametrize(
    "content", [b"", b"hello, this is text and no checkpoint", b"\x80\x02K\x07.", b"PK\x03\x04nonsense"]
)
def test_a_file_that_is_no_checkpoint(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(InputError, match=r"a.pth: is no checkpoint"):
        read_checkpoint(tmp_path / "a.pth")


@pytest.mark.parametrize("zipped", [True, False])
def test_a_truncated_checkpoint(tmp_path: Path, zipped: bool) -> None:
    path = tmp_path / "a.pth"
    torch.save({"w": torch.randn(1000)}, path, _use_new_zipfile_serialization=zipped)
    path.write_bytes(path.read_bytes()[:-1500])
    with pytest.raises(InputError, match=r"a.pth: is"):
        read_checkpoint(path)


# --- files as torch really writes them, by protocol 2


@pytest.mark.parametrize(("name", "count"), [("rq.pth", 36), ("t5.pth", 71), ("clip_sf.pth", 62)])
def test_checkpoints_of_the_authors_own_code(name: str, count: int) -> None:
    """They hold a configuration of OmegaConf, which is not installed here; torch must not need it either."""
    path = published_file(name)
    weights = read_checkpoint(path, part="model")
    assert len(weights) == count and "omegaconf" not in sys.modules
    stored = open_checkpoint(path, part="model")
    assert {key: tensor.shape for key, tensor in stored.items()} == {k: v.shape for k, v in weights.items()}
    expected = _by_torch(path)
    assert set(weights) == set(expected)
    for key, tensor in expected.items():
        np.testing.assert_array_equal(weights[key], tensor.numpy(), err_msg=key)


def _by_torch(path: Path) -> dict[str, Any]:
    """What torch itself reads, with shells in the place of the configuration's classes."""

    class Shell:
        def __init__(self, *_: Any) -> None: ...
        def __setstate__(self, state: Any) -> None: ...

    class Unpickler(pickle.Unpickler):
        def find_class(self, module: str, name: str) -> Any:
            if module.startswith(("omegaconf", "typing")):
                return Shell
            return super().find_class(module, name)

    module: Any = ModuleType("shells")
    module.Unpickler, module.load, module.loads = Unpickler, pickle.load, pickle.loads
    loaded: dict[str, Any] = torch.load(path, pickle_module=module, weights_only=False)["model"]
    return loaded


def protocol_2(*opcodes: bytes) -> bytes:
    """A pickle of the shape that torch writes: a dictionary with weights, and a config made by `opcodes`."""
    return b"".join([b"\x80\x02}(X\x05\0\0\0modelccollections\nOrderedDict\n)R", *PREFIX, *opcodes, b"u."])


PREFIX = (b"X\x06\0\0\0config",)
TEXT = b"X\x04\0\0\0evil"
HOSTILE = {
    "eval by its old name": ([b"c__builtin__\neval\n", TEXT, b"\x85R"], "asks for builtins.eval"),
    "apply of Python 2": ([b"c__builtin__\napply\n", TEXT, b"\x85R"], "asks for builtins.apply"),
    "execfile": ([b"c__builtin__\nexecfile\n", TEXT, b"\x85R"], "asks for builtins.execfile"),
    "os by its old name": ([b"cposix\nsystem\n", TEXT, b"\x85R"], "asks for posix.system"),
    "hidden in a config": (
        [
            b"comegaconf.dictconfig\nDictConfig\n)\x81}X\x08\0\0\0_contentc__builtin__\ngetattr\n",
            b"c__builtin__\nlist\n",
            TEXT,
            b"\x86Rsb",
        ],
        "asks for builtins.getattr",
    ),
    "an extension": ([b"ccopy_reg\nadd_extension\n", TEXT, b"\x85R"], "asks for copyreg.add_extension"),
    "a reduction": ([b"ccopy_reg\npickle\n", TEXT, b"\x85R"], "asks for copyreg.pickle"),
    "an object of a dangerous type": (
        [b"ccopy_reg\n_reconstructor\ncsubprocess\nPopen\nc__builtin__\nobject\nN\x87R"],
        "asks for subprocess.Popen",
    ),
    "the reader itself": (
        [b"ctorch._utils\n_rebuild_tensor_v2\n}X\x08\0\0\0__code__Nsb"],
        "tries to change what reads it",
    ),
    "an attribute path": ([b"comegaconf\nbase.os.system\n", TEXT, b"\x85R"], ""),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_pickle_of_protocol_2(tmp_path: Path, name: str) -> None:
    opcodes, message = HOSTILE[name]
    path = tmp_path / "a.pth"
    with zipfile.ZipFile(path, "w") as archive:
        archive.writestr("a/data.pkl", protocol_2(*opcodes))
    if not message:  # an empty shell, whatever is asked of it
        assert read_checkpoint(path, part="model") == {}
        return
    with pytest.raises(InputError, match=rf"a.pth: was refused: it {message}.*nothing of it was executed"):
        read_checkpoint(path, part="model")


def test_what_configurations_are_made_of_is_an_empty_shell(tmp_path: Path) -> None:
    harmless = b"ccopy_reg\n_reconstructor\ncomegaconf.base\nMetadata\nc__builtin__\nobject\nN\x87R"
    with zipfile.ZipFile(tmp_path / "a.pth", "w") as archive:
        archive.writestr("a/data.pkl", protocol_2(harmless, b"}c__builtin__\nlong\nc__builtin__\ndict\nsb"))
    assert read_checkpoint(tmp_path / "a.pth", part="model") == {}


def test_a_state_of_training_without_weights(tmp_path: Path) -> None:
    torch.save({"optimizer": {"state": {}}, "epoch": 3}, tmp_path / "a.pth")
    with pytest.raises(InputError, match=r"has no part 'model'; it holds: optimizer, epoch"):
        open_checkpoint(tmp_path / "a.pth", part="model")


@pytest.mark.parametrize(
    "content",
    [
        b"\x80\x04\x8e" + (2**62).to_bytes(8, "little"),  # bytes that nobody has the memory for
        b"\x80\x02" + b"(" * 100_000 + b"t" * 100_000,
        b"PK\x03\x04" + bytes(100),
    ],
)
def test_what_would_take_all_memory_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "a.pth").write_bytes(content)
    with pytest.raises(InputError, match="is no checkpoint"):
        read_checkpoint(tmp_path / "a.pth")


LITTLE = {
    "a place in the memo beyond all memory": b"K\x01r\xff\xff\xff\xff.",
    "a long text": b"X\xff\xff\xff\x7fabc.",
    "a place to read bytes into": b"\x96" + (2**40).to_bytes(8, "little") + b".",
    "a tuple nested too deep as a key": b"}()" + b"\x85" * 200_000 + b"K\x01u.",
    "a tuple of tuples as a key, whose hash takes ages": b"}()" + b"2\x86" * 60 + b"K\x01u.",
    "the same, as a single key": b"})" + b"2\x86" * 60 + b"K\x01s.",
    "the same, of a dictionary": b"()" + b"2\x86" * 60 + b"K\x01d.",
    "the same, of an ordered one": b"ccollections\nOrderedDict\n]])" + b"2\x86" * 60 + b"aK\x01aa\x85R.",
    "the same, in a set": b"\x8f()" + b"2\x86" * 60 + b"\x90.",
    "the same, in a frozen set": b"()" + b"2\x86" * 60 + b"\x91.",
    "the same, as the name of a storage": b"(X\x07\0\0\0storagectorch\nFloatStorage\n)"
    + b"2\x86" * 60
    + b"X\x03\0\0\0cpuK\x01tQ.",
    "the same, as the kind of a storage": b"(X\x07\0\0\0storage)"
    + b"2\x86" * 60
    + b"X\x01\0\0\x000X\x03\0\0\0cpuK\x01tQ.",
    "a number of very many digits as a key": b"}(\x8b\x64\0\0\0" + b"\x01" * 100 + b"K\x01u.",
    "a list copied again and again": b"(]q\x01("
    + b"]K\x01aK\x01a" * 99
    + b"eccollections\nOrderedDict\nq\x02"
    + b"h\x02h\x01\x85R" * 900
    + b"t.",
    "a shape of a list, again and again": b"(]q\x01(" + b"K\x01" * 99 + b"ectorch\nSize\nh\x01\x85Rt.",
    "a name of very many letters": b"cos\n" + b"a" * 60_000 + b"\n.",
    "a name without an end": b"c" + b"a" * 100_000,
}
"""Little files that make Python's unpickler crash, take gigabytes or never end."""


@pytest.mark.parametrize("form", ["zip", "legacy"])
@pytest.mark.parametrize("name", LITTLE)
def test_a_little_pickle_takes_neither_time_nor_memory(tmp_path: Path, name: str, form: str) -> None:
    pickled = b"\x80\x05" + LITTLE[name]
    if form == "zip":
        with zipfile.ZipFile(tmp_path / "a.pth", "w") as archive:
            archive.writestr("a/data.pkl", pickled)
    else:
        before: tuple[object, ...] = (LEGACY_MAGIC, 1001, {})
        (tmp_path / "a.pth").write_bytes(b"".join(pickle.dumps(part, 2) for part in before) + pickled)
    with pytest.raises(InputError) as caught:
        read_checkpoint(tmp_path / "a.pth")
    assert "()" not in str(caught.value) and len(str(caught.value)) < 600


def test_what_was_checked_of_a_tensor_stays(tmp_path: Path) -> None:
    """A pickle may set what an object consists of; a view could reach beyond its storage by that."""
    rebuilt = (
        b"ctorch._utils\n_rebuild_tensor_v2\n((X\x07\0\0\0storagectorch\nFloatStorage\nX\x01\0\0\x000"
        b"X\x03\0\0\0cpuK\x01tQK\0K\x01\x85K\x01\x85tR"
    )
    with zipfile.ZipFile(tmp_path / "a.pth", "w") as archive:
        archive.writestr("a/data.pkl", b"\x80\x02}X\x01\0\0\0w" + rebuilt + b"s.")
        archive.writestr("a/data/0", np.float32(3).tobytes())
    assert read_checkpoint(tmp_path / "a.pth") == {"w": np.array([3], np.float32)}
    with zipfile.ZipFile(tmp_path / "b.pth", "w") as archive:
        state = b"}X\x05\0\0\0shapeJ\x00\x00\x00\x10\x85sb"
        archive.writestr("a/data.pkl", b"\x80\x02}X\x01\0\0\0w" + rebuilt + state + b"s.")
        archive.writestr("a/data/0", np.float32(3).tobytes())
    with pytest.raises(InputError, match="tries to change what reads it"):
        read_checkpoint(tmp_path / "b.pth")


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"a.pth: there is no such file"):
        open_checkpoint(tmp_path / "a.pth")
