"""Sealing: the last thing that is done to a bundle, after which every byte of it is accounted for."""

from pathlib import Path

from evaluate.gate.policy import Policy
from understudy.bundle.documents import LIMIT_BYTES, canonical, remove_document, write_document
from understudy.bundle.errors import BundleError
from understudy.bundle.folder import contents, digest
from understudy.bundle.keys import Signer
from understudy.bundle.manifest import LATER, MANIFEST, About, File, Manifest, Rules, check_alike, check_path


def seal(folder: Path, about: About, signer: Signer | None) -> Manifest:
    """Write the manifest of everything in a folder, and sign it.

    Empty folders are removed, since no manifest can name them; a manifest that is there already is replaced.

    Args:
        folder: complete but for its manifest.
        about: what it is the evidence of.
        signer: signs it; none: nobody does.

    Raises:
        BundleError: something in it cannot be part of a bundle; it has no manifest then.
        OutputError: the folder cannot be written.
    """
    for name in (MANIFEST, *LATER):
        remove_document(folder, name)
    _remove_empty(folder)
    found = contents(folder)
    for path, what in sorted(found.odd.items()):
        raise BundleError(f"a bundle holds plain files only: {path!r} is {what}; take it out")
    check_alike(found.files)
    files = {}
    for path, place in sorted(found.files.items()):
        check_path(path)
        sha256, size = digest(place)
        files[path] = File(sha256=sha256, size=size)
    manifest = Manifest(about=about, files=files, signer=None if signer is None else signer.fingerprint)
    if len(canonical(manifest)) > LIMIT_BYTES:
        raise BundleError(f"a bundle of so many files cannot be verified: files={len(files)}; put fewer into it")
    write_document(folder, MANIFEST, manifest, signer)
    return manifest


def rules_of(policy: Policy) -> Rules:
    """Which policy it is, in brief."""
    return Rules(name=policy.name, version=policy.version, audience=policy.audience)


def _remove_empty(folder: Path) -> None:
    while empty := contents(folder).empty_folders:
        for path in empty:
            (folder / path).rmdir()
