"""`understudy verify`, `sign-off`, `withdraw`, `key`: an evidence bundle in people's hands, and the keys that sign."""

import re
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import Key, arg, console_of, opt, signer_of
from understudy.console import DONE, FAILED, Console

if TYPE_CHECKING:
    from understudy.bundle.manifest import Person, SignOff
    from understudy.bundle.verification import Demand, Verification

VERIFY = "Example: understudy verify out/fair --public-key release.key.pub"
SIGN_OFF = 'Example: understudy sign-off out/fair --name "A. Lind" --role "data release officer" --key lind.key'
WITHDRAW = (
    'Example: understudy withdraw out/fair --name "A. Lind" --role "data release officer" '
    '--reason "a column was misdeclared" --register withdrawn.jsonl'
)
KEY = "Example: understudy key release.key"
N_SHOWN, LONGEST = 50, 4000
"""Problems, and characters of a line, that a terminal is shown of what may be hostile."""

Bundle = Annotated[Path, arg("The folder that holds manifest.json.")]
Register = Annotated[Path | None, opt("Register of withdrawals.", envvar="UNDERSTUDY_REGISTER")]
PublicKeys = Annotated[
    list[Path] | None, opt("One of these must have signed the manifest; may be repeated.", "--public-key")
]
Signers = Annotated[list[str] | None, opt("Fingerprint of a key that may have signed; may be repeated.", "--signer")]
SignOffKeys = Annotated[
    list[Path] | None,
    opt(
        "Two of these must have signed a sign-off, and each may withdraw; left out: those of the manifest.",
        "--sign-off-key",
    ),
]
Name = Annotated[str, opt("Who you are.")]
Role = Annotated[str, opt("In which role.")]


def add_to(app: typer.Typer) -> None:
    app.command("verify", epilog=VERIFY)(verify)
    app.command("sign-off", epilog=SIGN_OFF)(sign_off)
    app.command("withdraw", epilog=WITHDRAW)(withdraw)
    app.command("key", epilog=KEY)(key)


def verify(
    ctx: typer.Context,
    bundle: Bundle,
    public_key: PublicKeys = None,
    signer: Signers = None,
    sign_off_key: SignOffKeys = None,
    register: Register = None,
    signed_off: Annotated[bool, opt("Two keys that are named must have signed it off.", "--require-sign-off")] = False,
) -> int:
    """Check that a bundle is as it was sealed, who signed it, and that it may still be relied on.

    Exit code: 0 nothing speaks against it, 1 something does, 2 this is no bundle.
    """
    from understudy.bundle.verification import verify as check

    console, demand = console_of(ctx), demand_of(public_key, signer, register)
    result = check(bundle, replace(demand, signed_off=signed_off, sign_off_keys=_fingerprints(sign_off_key)))
    _show(result, console)
    code = DONE if result.is_sound else FAILED
    console.result({"bundle": str(bundle), **result.to_dict(), "exit_code": code})
    return code


def sign_off(
    ctx: typer.Context,
    bundle: Bundle,
    name: Name,
    role: Role,
    expires: Annotated[
        datetime | None, opt("Last day; none: as long as what it rests on.", formats=["%Y-%m-%d"])
    ] = None,
    key: Key = None,
    public_key: PublicKeys = None,
    signers: Signers = None,
    sign_off_key: SignOffKeys = None,
    register: Register = None,
) -> int:
    """Sign off the release of a table whose verdict is PASS, as one of two people. The bundle must verify.

    Each of the two gives this command, with a key of their own.
    """
    from understudy.bundle.verification import sign_off as sign

    console = console_of(ctx)
    signer, until = signer_of(key, console), None if expires is None else expires.date()
    demand = replace(demand_of(public_key, signers, register), sign_off_keys=_fingerprints(sign_off_key))
    document, before = sign(bundle, _person(name, role), demand, signer, until)
    console.note(*(f"Note: {sentence}." for sentence in before.notes))
    _show_sign_off(document, console)
    if not before.sign_offs:
        console.say("A second person has to sign it off, too, with a key of their own: the same command")
    console.result(
        {"bundle": str(bundle), "sign_off": document.plain(), "notes": list(before.notes), "exit_code": DONE}
    )
    return DONE


def withdraw(
    ctx: typer.Context,
    bundle: Bundle,
    name: Name,
    role: Role,
    reason: Annotated[str, opt("Why; it is published with the register.")],
    key: Key = None,
    register: Register = None,
) -> int:
    """Withdraw a bundle, and the bundle to hand on in it, for good. A register tells those who hold a copy."""
    from understudy.bundle.verification import withdraw as take_back

    console = console_of(ctx)
    person, why, signer = _person(name, role), _text("reason", reason, 2000), signer_of(key, console)
    withdrawals, doubt = take_back(bundle, person, why, signer, register=register)
    console.say(f"{bundle}: {withdrawals[0].sentence}")
    if register is None:
        console.warn("copies of it do not know: publish a register, and add it there with --register")
    if doubt is not None:
        console.warn(doubt)
    console.result(
        {"bundle": str(bundle), "withdrawals": [withdrawal.plain() for withdrawal in withdrawals], "exit_code": DONE}
    )
    return DONE


def key(ctx: typer.Context, file: Annotated[Path, arg("The private key; FILE.pub is the public one.")]) -> int:
    """Make an Ed25519 key pair that signs evidence, or show the fingerprint of the key that is there.

    A passphrase in UNDERSTUDY_SIGN_KEY_PASSPHRASE locks it.
    """
    from understudy.bundle.signing import PUBLIC_SUFFIX, is_there, load_public, load_signer, make_keys, public_pem

    console = console_of(ctx)
    if not is_there(file) and file.suffix != PUBLIC_SUFFIX:
        make_keys(file)
        console.say(f"Private key, for you only: {file}")
        console.say(f"Public key, to give away: {file}{PUBLIC_SUFFIX}")
    named = load_public(file) if file.suffix == PUBLIC_SUFFIX else load_signer(file).public_key
    console.say(f"Fingerprint: {named.keyid}")
    console.result({"key": str(file), "fingerprint": named.keyid, "public_key": public_pem(named)})
    return DONE


def demand_of(public_keys: list[Path] | None, signers: list[str] | None, register: Path | None) -> "Demand":
    from understudy.bundle.manifest import read_register
    from understudy.bundle.signing import BundleError
    from understudy.bundle.verification import Demand

    for signer in signers or ():
        if re.fullmatch("[0-9a-fA-F]{64}", signer) is None:
            raise BundleError(f"a fingerprint is 64 hexadecimal digits: signer={signer!r}; see `understudy key FILE`")
    keys = _fingerprints(public_keys) | {signer.lower() for signer in signers or ()}
    return Demand(keys, register=None if register is None else read_register(register))


def _fingerprints(public_keys: list[Path] | None) -> frozenset[str]:
    from understudy.bundle.signing import load_public

    return frozenset(load_public(path).keyid for path in public_keys or ())


def _person(name: str, role: str) -> "Person":
    from understudy.bundle.manifest import Person

    return Person(name=_text("name", name, 200), role=_text("role", role, 200))


def _text(what: str, text: str, longest: int) -> str:
    from understudy.bundle.signing import BundleError

    stripped = text.strip()
    if not stripped or len(stripped) > longest or not stripped.isprintable():
        raise BundleError(f"{what} is empty, holds what does not print, or is longer than {longest}; write it in words")
    return stripped


def _show(result: "Verification", console: Console) -> None:
    manifest = result.manifest
    if manifest is not None:
        about = manifest.about
        console.say(f"Evidence bundle, {about.kind}, of {about.title!r}, made at {about.made_at}"[:LONGEST])
        if about.verdict is not None:
            verdict = f"{about.verdict} under policy {about.policy.name}, for {about.policy.audience}"
            console.say(f"{about.release}: {verdict}"[:LONGEST])
        console.say(f"Signed by: {result.signer or 'nobody'}")
    for sign_off in result.sign_offs:
        _show_sign_off(sign_off, console)
    console.note(*(f"Note: {sentence}." for sentence in result.notes))
    console.say(*(f"{each.kind.upper()}: {each.sentence}"[:LONGEST] for each in result.problems[:N_SHOWN]))
    if len(result.problems) > N_SHOWN:
        console.say(f"... and {len(result.problems) - N_SHOWN} more; --json names all")
    n_files = 0 if manifest is None else len(manifest.subject)
    console.say(
        f"VERIFIED: all {n_files} files are as they were sealed, and nothing else is there"
        if result.is_sound
        else "NOT VERIFIED: do not rely on this bundle"
    )


def _show_sign_off(document: "SignOff", console: Console) -> None:
    content = document.predicate
    until = "" if content.expires is None else f", until {content.expires}"
    by = f"{content.by.name!r} ({content.by.role!r}) at {content.signed_at}{until}"
    waived = [f"Waived until {w.until} by {w.owner!r}: {w.measure}: {w.reason!r}" for w in content.waivers]
    lines = (
        f"Signed off: {content.release}, by {by}; {document.signed_by}",
        f"Signed off for: {content.policy.audience_line}",
        *waived,
    )
    console.say(*(line[:LONGEST] for line in lines))
