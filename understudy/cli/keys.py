"""`understudy keys`: the keys that sign evidence."""

from pathlib import Path
from typing import Annotated

import typer

from understudy.cli.options import console_of
from understudy.exit_codes import DONE

NEW = "Example: understudy keys new release.key"
SHOW = "Example: understudy keys show release.key.pub"


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Ed25519 keys that sign evidence.")
    group.command("new", epilog=NEW)(new)
    group.command("show", epilog=SHOW)(show)
    app.add_typer(group, name="keys", epilog=NEW)


def new(
    ctx: typer.Context,
    file: Annotated[Path, typer.Argument(help="The private key; FILE.pub is the public one.", show_default=False)],
) -> int:
    """Make a key pair. A passphrase in UNDERSTUDY_SIGN_KEY_PASSPHRASE locks it."""
    from understudy.bundle.keys import PUBLIC_SUFFIX, make_keys

    console, signer = console_of(ctx), make_keys(file)
    console.say(f"Private key, for you only: {file}")
    console.say(f"Public key, to give away: {file}{PUBLIC_SUFFIX}")
    console.say(f"Fingerprint: {signer.fingerprint}")
    console.result({"key": str(file), "public_key": f"{file}{PUBLIC_SUFFIX}", "fingerprint": signer.fingerprint})
    return DONE


def show(
    ctx: typer.Context,
    file: Annotated[
        Path,
        typer.Argument(envvar="UNDERSTUDY_SIGN_KEY", help="A private or a public key.", show_default=False),
    ],
) -> int:
    """Show a key's fingerprint and its public half."""
    from understudy.bundle.keys import fingerprint, load_public, public_pem

    console, key = console_of(ctx), load_public(file)
    console.say(f"Fingerprint: {fingerprint(key)}")
    for line in public_pem(key).rstrip().splitlines():
        console.say(line)
    console.result({"key": str(file), "fingerprint": fingerprint(key), "public_key": public_pem(key)})
    return DONE
