"""`understudy batch`: many jobs, each for itself."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import ExecutorOption, SignKey, arg, console_of, opt, signer_of

if TYPE_CHECKING:
    from understudy.batch.run import BatchResult
    from understudy.bundle.documents import Signer
    from understudy.console import Console


def add_to(app: typer.Typer) -> None:
    app.command("batch", epilog="Example: understudy batch jobs/*.toml --workers 4 --out out/nightly")(batch)


def batch(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    jobs: Annotated[list[Path], arg("Job files (docs/reference/job.md).")],
    out: Annotated[Path, opt("A folder for all outputs, new or not.", "--out")],
    workers: Annotated[
        int | None,
        opt("Jobs at once, each in a process of its own.", min=1, show_default="1; with --executor its threads"),
    ] = None,
    timeout_s: Annotated[
        float | None, opt("Seconds that each job may take; none: any.", "--timeout-s", min=0.001)
    ] = None,
    fail_fast: Annotated[
        bool, opt("Begin no job after the first that does not end with exit code 0.", "--fail-fast")
    ] = False,
    restart: Annotated[
        bool, opt("Remove unfinished work of these outputs; what was drawn stays spent.", "--restart")
    ] = False,
    executor: ExecutorOption = None,
    sign_key: SignKey = None,
) -> int:
    """Run many jobs, each in a process of its own, and sum up what they came to.

    Job NAME.toml leaves the folder OUT/NAME, and what it said in OUT/NAME.log. The same command goes on with what was
    cut short and tries again what failed. Exit code: 4 if a job gave no answer, else 2 if one was bad input, 1 if one
    FAILs, 3 if one is INCONCLUSIVE, else 0 (docs/how-to/batch.md).
    """
    from datetime import UTC, datetime

    from understudy.batch.jobs import HEADINGS, content_of, listed, rows_of, uncounted, write_summary
    from understudy.batch.run import Settings, check_elsewhere, conduct
    from understudy.cli import main

    console, began = console_of(ctx), datetime.now(UTC)
    listing = listed(jobs, out)
    signer = signer_of(sign_key, console)
    if executor is not None:
        check_elsewhere(listing, out, executor)
    for sentence in uncounted(listing):
        console.warn(sentence)
    options = [
        *(["--restart"] if restart else []),
        *(["--debug"] if console.debug else []),
        *([] if sign_key is None else [f"--sign-key={sign_key.absolute()}"]),
    ]
    settings = Settings(out.absolute(), workers, timeout_s, fail_fast, options, executor, command=main)
    result = conduct(listing, settings, console)
    content = content_of(result.outcomes, result.exit_code, began)
    console.table(HEADINGS, rows_of(result.outcomes))
    counts = ", ".join(f"{state} {n}" for state, n in result.states.items())
    console.say(f"Jobs: {counts}; exit code {result.exit_code}")
    _warn_of_unsigned(result, signer, console)
    write_summary(content, out)
    if result.cut is not None:
        result.cut.add_note("the jobs under way were ended, and the same command goes on from there")
        raise result.cut
    console.result(content)
    return result.exit_code


def _warn_of_unsigned(result: "BatchResult", signer: "Signer | None", console: "Console") -> None:
    """Name the outputs that are there and that the given key does not sign; a seal is not made anew."""
    if signer is None:
        return
    others = [o.name for o in result.outcomes if o.out is not None and o.signed_by != signer.fingerprint]
    if others:
        console.warn(f"finished earlier, and not signed by the key of --sign-key: {', '.join(others)}")
