"""A small sealed bundle, made by hand, and the keys that sign it."""

import shutil
from pathlib import Path

import pytest

from tests.understudy.bundle.small_bundle import fill, seal_both
from understudy.bundle.keys import Signer, load_signer, make_keys


@pytest.fixture(scope="session")
def key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "release.key"
    make_keys(path, {})
    return path


@pytest.fixture(scope="session")
def other_key(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "other.key"
    make_keys(path, {})
    return path


@pytest.fixture(scope="session")
def signer(key: Path) -> Signer:
    return load_signer(key, {})


@pytest.fixture(scope="session")
def _sealed(tmp_path_factory: pytest.TempPathFactory, signer: Signer) -> dict[bool, Path]:
    places = {True: tmp_path_factory.mktemp("signed"), False: tmp_path_factory.mktemp("unsigned")}
    return {by: seal_both(fill(place / "b"), signer if by else None) for by, place in places.items()}


@pytest.fixture
def signed_bundle(_sealed: dict[bool, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(_sealed[True], tmp_path / "signed"))


@pytest.fixture
def unsigned_bundle(_sealed: dict[bool, Path], tmp_path: Path) -> Path:
    return Path(shutil.copytree(_sealed[False], tmp_path / "unsigned"))
