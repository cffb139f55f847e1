"""A small sealed bundle, made by hand, and the keys that sign it."""

import shutil
from pathlib import Path

import pytest

from tests.understudy.bundle.small_bundle import fill, seal_both
from understudy.bundle.signing import Signer, load_signer, make_keys


@pytest.fixture(scope="session")
def keys(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder of keys, `NAME.key` and `NAME.key.pub`."""
    folder = tmp_path_factory.mktemp("keys")
    for name in ("release", "lind", "ode", "stranger"):
        make_keys(folder / f"{name}.key", {})
    return folder


@pytest.fixture(scope="session")
def key(keys: Path) -> Path:
    return keys / "release.key"


@pytest.fixture(scope="session")
def signers(keys: Path) -> dict[str, Signer]:
    return {path.stem: load_signer(path, {}) for path in keys.glob("*.key")}


@pytest.fixture(scope="session")
def signer(signers: dict[str, Signer]) -> Signer:
    return signers["release"]


@pytest.fixture(scope="session")
def _sealed(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> dict[bool, Path]:
    places = {True: tmp_path_factory.mktemp("signed"), False: tmp_path_factory.mktemp("unsigned")}
    return {by: seal_both(fill(path / "b"), signer if by else None) for by, path in places.items()}


@pytest.fixture
def signed_bundle(_sealed: dict[bool, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(_sealed[True], tmp_path / "signed"))


@pytest.fixture
def unsigned_bundle(_sealed: dict[bool, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(_sealed[False], tmp_path / "unsigned"))
