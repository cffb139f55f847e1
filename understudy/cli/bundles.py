"""`understudy verify`, `sign-off`, `withdraw`, `keys`: an evidence bundle in people's hands, and the keys that sign."""

from collections.abc import Iterator
from dataclasses import replace
from datetime import date, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import Key, console_of, private_ones, signer_of
from understudy.console import DONE, FAILED, Console

if TYPE_CHECKING:
    from understudy.bundle.records import Person
    from understudy.bundle.verification import Demand, Verification

VERIFY = "Example: understudy verify out/fair --public-key release.key.pub"
SIGN_OFF = (
    'Example: understudy sign-off out/fair --name "A. Lind" --role "data release officer" '
    '--second-name "B. Ode" --second-role "data protection officer" --key lind.key'
)
WITHDRAW = (
    'Example: understudy withdraw out/fair --name "A. Lind" --role "data release officer" '
    '--reason "a column was misdeclared" --register withdrawn.jsonl'
)
SIGNED_OFF_FOR = "Signed off for"
N_SHOWN, LONGEST = 50, 4000
"""Problems, and characters of a line, that a terminal is shown of what may be hostile."""

Bundle = Annotated[Path, typer.Argument(help="The folder that holds manifest.json.", show_default=False)]
Register = Annotated[
    Path | None, typer.Option(envvar="UNDERSTUDY_REGISTER", help="Register of withdrawals.", show_default=False)
]
PublicKeys = Annotated[
    list[Path] | None,
    typer.Option(
        "--public-key", help="One of these must have signed the manifest; may be repeated.", show_default=False
    ),
]
Signers = Annotated[
    list[str] | None,
    typer.Option("--signer", help="Fingerprint of a key that may have signed; may be repeated.", show_default=False),
]
SignOffKeys = Annotated[
    list[Path] | None,
    typer.Option(
        "--sign-off-key",
        help="One of these must have signed the sign-off, where there is one, and may withdraw the bundle; left out: "
        "one that may sign the manifest.",
        show_default=False,
    ),
]
Name = Annotated[str, typer.Option(help="Who you are.", show_default=False)]
Role = Annotated[str, typer.Option(help="In which role.", show_default=False)]


def add_to(app: typer.Typer) -> None:
    app.command("verify", epilog=VERIFY)(verify)
    app.command("sign-off", epilog=SIGN_OFF)(sign_off)
    app.command("withdraw", epilog=WITHDRAW)(withdraw)


def verify(
    ctx: typer.Context,
    bundle: Bundle,
    public_key: PublicKeys = None,
    signer: Signers = None,
    sign_off_key: SignOffKeys = None,
    register: Register = None,
    signed_off: Annotated[
        bool, typer.Option("--require-sign-off", help="A bundle that nobody has signed off does not verify.")
    ] = False,
) -> int:
    """Check that a bundle is as it was sealed, who signed it, and that it may still be relied on.

    Exit code: 0 nothing speaks against it, 1 something does, 2 this is no bundle.
    """
    from understudy.bundle.verification import verify as check

    console = console_of(ctx)
    warned = private_ones((*(public_key or ()), *(sign_off_key or ())), console)
    demand = demand_of(public_key, signer, register)
    found = check(bundle, replace(demand, signed_off=signed_off, sign_off_keys=_fingerprints(sign_off_key)))
    _show(found, console)
    code = DONE if found.is_sound else FAILED
    console.result({"bundle": str(bundle), **found.to_dict(), "warnings": warned, "exit_code": code})
    return code


def sign_off(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    bundle: Bundle,
    name: Name,
    role: Role,
    second_name: Annotated[str, typer.Option(help="Another person who has looked at it.", show_default=False)],
    second_role: Annotated[str, typer.Option(help="In which role.", show_default=False)],
    expires: Annotated[
        str | None, typer.Option(metavar="YYYY-MM-DD", help="Last day; none: as long as what it rests on.")
    ] = None,
    key: Key = None,
    public_key: PublicKeys = None,
    signers: Signers = None,
    register: Register = None,
) -> int:
    """Sign off the release of a table whose verdict is PASS. The bundle must verify."""
    from understudy.bundle.sign_off import ReleaseDecision
    from understudy.bundle.sign_off import sign_off as sign

    console = console_of(ctx)
    private_ones(public_key or (), console)
    signer = signer_of(key, console)
    release = ReleaseDecision(_person(name, role), _person(second_name, second_role), _day(expires))
    document, notes = sign(bundle, release, demand_of(public_key, signers, register), signer)
    approval = document.predicate
    for sentence in notes:
        console.warn(sentence)
    until = "" if approval.expires is None else f", until {approval.expires}"
    console.say(f"{approval.release}: signed off by {name!r} with {second_name!r}{until}")
    console.say(f"{SIGNED_OFF_FOR}: {approval.policy.audience_line}")
    if signer is None:
        console.warn("the sign-off is not signed, so that anybody could have written it; pass --key")
    console.result({"bundle": str(bundle), "sign_off": document.plain(), "notes": list(notes), "exit_code": DONE})
    return DONE


def withdraw(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    bundle: Bundle,
    name: Name,
    role: Role,
    reason: Annotated[str, typer.Option(help="Why; it is published with the register.", show_default=False)],
    key: Key = None,
    register: Register = None,
    manifest_sha256: Annotated[
        str | None,
        typer.Option("--manifest-sha256", help="Digest noted when it was sealed, where digest and signature are lost."),
    ] = None,
) -> int:
    """Withdraw a bundle, and the bundle to hand on in it, for good. A register tells those who hold a copy."""
    from understudy.bundle.revocation import Recall, doubt
    from understudy.bundle.revocation import withdraw as take_back

    console = console_of(ctx)
    signer = signer_of(key, console)
    noted = None if manifest_sha256 is None else _hexadecimal("manifest_sha256", manifest_sha256)
    asked = Recall(_person(name, role), _text("reason", reason, 2000), register, noted)
    made = take_back(bundle, asked, signer)
    console.say(f"Withdrawn for good: {bundle}")
    if register is None:
        console.warn("copies of it do not know: publish a register, and add it there with --register")
    if (unbelieved := doubt(bundle, made[0])) is not None:
        console.warn(unbelieved)
    said = [withdrawal.plain() for withdrawal in made]
    console.result({"bundle": str(bundle), "withdrawals": said, "exit_code": DONE})
    return DONE


def demand_of(public_keys: list[Path] | None, signers: list[str] | None, register: Path | None) -> "Demand":
    from understudy.bundle.records import read_register
    from understudy.bundle.verification import Demand

    keys = _fingerprints(public_keys) | {_hexadecimal("signer", one) for one in signers or ()}
    return Demand(keys, register=None if register is None else read_register(register))


def _fingerprints(public_keys: list[Path] | None) -> frozenset[str]:
    from understudy.bundle.keys import fingerprint, load_public

    return frozenset(fingerprint(load_public(path)) for path in public_keys or ())


def _hexadecimal(what: str, text: str) -> str:
    import re

    from understudy.bundle.files import BundleError

    if re.fullmatch("[0-9a-fA-F]{64}", text) is None:
        see = "keys show" if what == "signer" else "sha256sum manifest.json"
        raise BundleError(f"it is 64 hexadecimal digits, whole: {what}={text!r}; see `{see}`")
    return text.lower()


def _person(name: str, role: str) -> "Person":
    from understudy.bundle.records import Person

    return Person(name=_text("name", name, 200), role=_text("role", role, 200))


def _text(what: str, text: str, longest: int) -> str:
    from understudy.bundle.files import BundleError

    said = text.strip()
    if not said or len(said) > longest or not said.isprintable():
        raise BundleError(f"{what} is empty, holds what does not print, or is longer than {longest}; write it in words")
    return said


def _day(text: str | None) -> date | None:
    from understudy.bundle.files import BundleError

    try:
        return None if text is None else datetime.strptime(text, "%Y-%m-%d").date()
    except ValueError:
        raise BundleError(f"expires={text!r} is not a day; write one such as 2027-01-31") from None


def _show(found: "Verification", console: Console) -> None:
    for line in _description(found):
        console.say(line[:LONGEST])
    for sentence in found.notes:
        console.note(f"Note: {sentence}.")
    for problem in found.problems[:N_SHOWN]:
        console.say(f"{problem.kind.upper()}: {problem.sentence}"[:LONGEST])
    if len(found.problems) > N_SHOWN:
        console.say(f"... and {len(found.problems) - N_SHOWN} more; --json names all")
    n_files = 0 if found.manifest is None else len(found.manifest.subject)
    console.say(
        f"VERIFIED: all {n_files} files are as they were sealed, and nothing else is there"
        if found.is_sound
        else "NOT VERIFIED: do not rely on this bundle"
    )


def _description(found: "Verification") -> Iterator[str]:
    if found.manifest is not None:
        about = found.manifest.about
        yield f"Evidence bundle, {about.kind}, of {about.title!r}, made at {about.made_at}"
        if about.verdict is not None:
            yield f"{about.release}: {about.verdict} under policy {about.policy.name}, for {about.policy.audience}"
        yield f"Signed by: {found.signer or 'nobody'}"
    if found.sign_off is not None:
        signed, signer = found.sign_off.predicate, found.sign_off.signer
        people = " and ".join(f"{one.name!r} ({one.role!r})" for one in (signed.by, signed.second))
        until = "" if signed.expires is None else f", until {signed.expires}"
        by = "not signed" if signer is None else f"signed by {signer}"
        yield f"Signed off by {people} at {signed.signed_at}{until}; the sign-off is {by}"
        yield f"{SIGNED_OFF_FOR}: {signed.policy.audience_line}"
        for waiver in signed.waivers:
            yield f"Waived until {waiver.until} by {waiver.owner!r}: {waiver.measure}: {waiver.reason!r}"


NEW_KEY = "Example: understudy keys new release.key"
SHOW_KEY = "Example: understudy keys show release.key.pub"


def add_keys_to(app: typer.Typer) -> None:
    group = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Ed25519 keys that sign evidence.")
    group.command("new", epilog=NEW_KEY)(new_key)
    group.command("show", epilog=SHOW_KEY)(show_key)
    app.add_typer(group, name="keys", epilog=NEW_KEY)


def new_key(
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


def show_key(
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
