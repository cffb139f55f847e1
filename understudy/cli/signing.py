"""Options about signing, and the bundle of an offered table, that several commands share."""

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

if TYPE_CHECKING:
    from evaluate.result import Evaluation
    from synth.input_file import GivenFile
    from understudy.bundle.keys import Signer
    from understudy.bundle.offered import Offered
    from understudy.console import Console

Key = Annotated[
    Path | None,
    typer.Option(envvar="UNDERSTUDY_SIGN_KEY", help="Private key that signs it.", show_default=False),
]
SignKey = Annotated[
    Path | None,
    typer.Option(
        "--sign-key", envvar="UNDERSTUDY_SIGN_KEY", help="Private key that signs the manifest.", show_default=False
    ),
]


def signer_of(key: Path | None, console: "Console") -> "Signer | None":
    """Who signs, checked before any work; none where no key is named.

    Raises:
        BundleError: the key cannot be used; nothing was done.
    """
    if key is None:
        return None
    from understudy.bundle.keys import exposed, load_signer

    signer = load_signer(key)
    if (warning := exposed(key)) is not None:
        console.warn(warning)
    return signer


def private_ones(keys: Sequence[Path], console: "Console") -> list[str]:
    """Warnings, which are said, about private keys among those that are to be public.

    Raises:
        BundleError: one cannot be read; nothing was done.
    """
    from understudy.bundle.keys import passed_on

    found = [sentence for path in dict.fromkeys(keys) if (sentence := passed_on(path)) is not None]
    for sentence in found:
        console.warn(sentence)
    return found


def bundle_signer(
    bundle: Path | None,
    synthetic: Path | None,
    inputs: Sequence[Path | None],
    key: Path | None,
    console: "Console",
) -> "Signer | None":
    """Who signs the bundle of an offered table, once everything that it takes is named.

    Raises:
        BadInput: something is missing, the folder is taken, or the key cannot be used; nothing was done.
    """
    from synth.errors import JobError
    from synth.output import check_new_folder

    if (bundle is None) != (synthetic is None):
        raise JobError("a bundle is made of the evaluated table; name both --bundle and --synthetic")
    if bundle is None:
        if any(path is not None for path in inputs):
            raise JobError("a schema and a job go into a bundle, and none is to be made; name --bundle and --synthetic")
        return None
    check_new_folder(bundle)
    return signer_of(key, console)


def offer_of(
    evaluation: "Evaluation",
    synthetic: Path,
    candidate: str | None,
    inputs: Mapping[str, Path | None],
    judged_by: "Mapping[str, GivenFile]",
) -> "Offered":
    """An offered table for a bundle, once it is certain that it is the evaluated one.

    Args:
        evaluation: says which.
        synthetic: the table's file.
        candidate: what the evaluation calls it; none: what goes by this content.
        inputs: files of "schema" and "job"; none where none is named.
        judged_by: files of "policy" and "waivers", as they were understood.

    Raises:
        BadInput: it is another table, schema or job; nothing was written.
    """
    from synth.input_file import read_given
    from understudy.bundle.errors import BundleError
    from understudy.bundle.offered import offered

    named = {name: read_given(path, name, BundleError) for name, path in inputs.items() if path is not None}
    return offered(evaluation, synthetic, candidate, named, judged_by)
