"""`understudy sites`: several sites, one table; nobody hands over rows."""

from dataclasses import asdict
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import arg, console_of, opt

if TYPE_CHECKING:
    from understudy.console import Console
    from understudy.extras.sites.server import SitesOutcome

EXAMPLE, WAIT_S = "Example: understudy sites", 3600.0
JobFile = Annotated[Path, arg("The job of several sites (docs/how-to/sites.md).")]


def add_to(app: typer.Typer) -> None:
    group = typer.Typer(
        help="Several sites, one synthetic table: none hands over rows.", no_args_is_help=True, rich_markup_mode=None
    )
    group.command("run", epilog=f"{EXAMPLE} run job.toml --out result")(run)
    group.command("server", epilog=f"{EXAMPLE} server job.toml --keys keys --out result")(server)
    group.command("join", epilog=f"{EXAMPLE} join job.toml --site north --table north.csv ...")(join)
    app.add_typer(group, name="sites", epilog=f"{EXAMPLE} run job.toml --out result")


def run(
    ctx: typer.Context, job: JobFile, out: Annotated[Path, opt("The folder for all outputs; it must be new.")]
) -> int:
    """Run a server and all sites on this machine, to try a job out.

    The job names the table of each site. The exit code is that of the worst verdict; a site that is not heard makes it
    INCONCLUSIVE at best.
    """
    from understudy.extras.sites.job import read_sites_job
    from understudy.extras.sites.server import run_here

    console = console_of(ctx)
    with console.stage("sites") as progress:
        outcome = run_here(read_sites_job(job), out, progress)
    return _show(outcome, out, console)


def server(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    job: JobFile,
    keys: Annotated[Path, opt("Folder with server.pem, server.key, and SITE.pub of each.")],
    out: Annotated[Path, opt("The server's output; it must be new.")],
    host: Annotated[str, opt("The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, opt("The port to listen on.", min=1, max=65535)] = 9443,
    wait_s: Annotated[float, opt("Seconds for sites to join, or to join again.", min=1)] = WAIT_S,
    new_certificate: Annotated[
        list[str] | None, opt("What sites call the server: makes its certificate first; may be repeated.")
    ] = None,
) -> int:
    """Serve the sites of a job: fit to their noisy sums, draw the table, hear their verdicts.

    The server reads no row. It sees sums of all sites, and each site's verdict.
    """
    from synth.output import check_new_folder
    from understudy.extras.sites.channel import ChannelError, make_server_files
    from understudy.extras.sites.job import read_sites_job
    from understudy.extras.sites.server import serve

    console = console_of(ctx)
    inputs = read_sites_job(job)
    if new_certificate:
        _check_new(keys / "server.key")
        make_server_files(keys, new_certificate)
        console.say(f"Certificate, to send to every site: {keys / 'ca.pem'}")
    _check_files(*(keys / name for name in ("server.pem", "server.key", *(f"{site}.pub" for site in inputs.names))))
    check_new_folder(out)
    from understudy.extras.sites.flower import FlowerChannel

    with FlowerChannel(keys, inputs.names, host=host, port=port) as channel, console.stage("sites") as progress:
        console.note(f"Listening at {channel.address} for {', '.join(inputs.names)}.")
        if not channel.wait(len(inputs.names), wait_s) and len(channel.present) < inputs.job.threshold:
            missing = ", ".join(sorted(set(inputs.names) - set(channel.present)))
            raise ChannelError(f"sites={missing} did not join within wait_s={wait_s:g}; start them, or wait longer")
        outcome = serve(inputs, channel, out, progress, wait_s, console.note)
    return _show(outcome, out, console)


def join(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    job: JobFile,
    site: Annotated[str, opt("This site's name in the job.")],
    table: Annotated[str, opt("The site's table: a file, a folder, or postgresql://host/database#table.")],
    out: Annotated[Path, opt("The site's own output; it must be new.")],
    address: Annotated[str, opt("Host and port of the server, as host:9443.", "--server")],
    ca: Annotated[Path, opt("The server's certificate, as it sent it.")],
    key: Annotated[Path, opt("The site's private key.")],
    ledger: Annotated[str | None, opt("The site's ledger; the schema names the dataset.")] = None,
    wait_s: Annotated[float, opt("Seconds to wait for a server, once it is gone, too.", min=1)] = WAIT_S,
    new_key: Annotated[bool, opt("Make the key pair first: KEY and, for the server, its .pub.", "--new-key")] = False,
) -> int:
    """Take part in a run with a table that stays here.

    The site plans the budget itself, adds its share of the noise, and refuses what its schedule does not pay for. In
    the end it has the table of all sites, and a report of that table on its own rows.
    """
    from synth.errors import BadInput
    from understudy.budget import ledger_url
    from understudy.data import find_table
    from understudy.extras.sites.channel import ChannelError, make_site_files
    from understudy.extras.sites.job import read_sites_job
    from understudy.extras.sites.server import Participant

    console = console_of(ctx)
    if new_key:
        _check_new(key)
        make_site_files(key.parent, key.stem)
        console.say(f"Public key, to send to the server: {key.with_suffix('.pub')}")
    _check_files(ca, key)
    from understudy.extras.sites.flower import serve_site

    part = Participant(site, read_sites_job(job), find_table(table), out, ledger_url(ledger))

    def warn(error: Exception) -> None:
        # Of an error that is not ours its kind, since its text may quote a value of the table.
        console.warn(f"a request was refused: {str(error) if isinstance(error, BadInput) else type(error).__name__}")

    with console.stage(f"site {site}") as progress, part.at_work(progress):
        try:
            serve_site(part, ca, key, address, wait_s=wait_s, say=console.note, on_failure=warn)
        except ChannelError:
            if not part.is_finished:  # else the server was done before this site had judged the table
                raise
    if not part.is_finished:
        return console.error("the server ended its run before there was a table; start both again to go on", 2)
    console.say(f"Output: {out}")
    console.result({"out": str(out), "exit_code": 0})
    return 0


def _check_new(key: Path) -> None:
    from synth.errors import JobError

    if key.exists() or key.suffix != ".key":
        raise JobError(f"a new key is a new file that ends in .key: {str(key)!r} is there, or does not; name another")


def _check_files(*paths: Path) -> None:
    from synth.errors import JobError
    from synth.extras import missing_extra

    if find_spec("flwr") is None:
        raise missing_extra("a channel to sites in processes of their own", "sites")
    for path in paths:
        if not path.is_file():
            raise JobError(
                f"a certificate or key is not there: {str(path)!r}; name another, or make it (--new-certificate of the "
                "server, --new-key of a site)"
            )


def _show(outcome: "SitesOutcome", out: Path, console: "Console") -> int:
    from synth.dp.statement import guarantee_words

    console.say(f"Guarantee: {guarantee_words(outcome.statement)}")
    console.table(("site", "verdict"), sorted(outcome.verdicts.items()))
    for site in outcome.dropped:
        console.warn(f"site={site!r} was missing from a sum")
    console.say(f"Output: {out}")
    console.result({**asdict(outcome), "out": str(out)})
    return outcome.exit_code
