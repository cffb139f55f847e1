"""`understudy sites`: several sites, one table; nobody hands over rows."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from understudy.cli.options import console_of

if TYPE_CHECKING:
    from understudy.console import Console
    from understudy.sites.server import SitesOutcome

FLOWER = ".flower"
"""Ending of the hidden folder beside an output where Flower has its files."""
JobFile = Annotated[Path, typer.Argument(help="The job of several sites (docs/how-to/sites.md).", show_default=False)]


def add_to(app: typer.Typer) -> None:
    """Register the commands."""
    group = typer.Typer(
        help="Several sites, one synthetic table: none hands over rows.", no_args_is_help=True, rich_markup_mode=None
    )
    group.command("run", epilog="Example: understudy sites run job.toml --out result")(run)
    group.command("server", epilog="Example: understudy sites server job.toml --keys keys --out result")(server)
    group.command("join", epilog="Example: understudy sites join job.toml --site north --table north.csv ...")(join)
    group.command("keys", epilog="Example: understudy sites keys --site north --out keys")(keys)
    app.add_typer(group, name="sites", epilog="Example: understudy sites run job.toml --out result")


def run(
    ctx: typer.Context,
    job: JobFile,
    out: Annotated[Path, typer.Option("--out", help="The folder for all outputs; it must be new.")],
) -> int:
    """Run a server and all sites on this machine, each in a process of its own.

    The job names the table of each site. Messages go through Flower, over TLS on the loopback address. The exit code is
    that of the worst verdict; a site that is not heard makes it INCONCLUSIVE at best.
    """
    from understudy.sites.job import read_sites_job
    from understudy.sites.run import plan_run, run_here

    console = console_of(ctx)
    inputs = read_sites_job(job)
    planned = plan_run(job, inputs, out)
    with console.stage("sites") as progress:
        outcome = run_here(planned, progress)
    return _show(outcome, out, console)


def server(
    ctx: typer.Context,
    job: JobFile,
    keys: Annotated[
        Path, typer.Option("--keys", help="Folder with ca.pem, server.pem, server.key, and SITE.pub of each.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The server's output; it must be new.")],
    host: Annotated[str, typer.Option(help="The address to listen on.")] = "127.0.0.1",
    port: Annotated[int, typer.Option(min=1, max=65535, help="The port to listen on.")] = 9443,
    wait_s: Annotated[
        float, typer.Option("--wait-s", min=1, help="Seconds that sites have to join; then enough of them will do.")
    ] = 3600.0,
) -> int:
    """Serve the sites of a job: fit to their noisy sums, draw the table, hear their verdicts.

    The server reads no row. It sees sums of all sites, and each site's verdict.
    """
    from synth.output import check_new_folder, hidden_beside
    from understudy.sites.channel import ChannelError
    from understudy.sites.flower.credentials import ServerFiles
    from understudy.sites.flower.server import FlowerChannel
    from understudy.sites.job import read_sites_job
    from understudy.sites.server import are_enough, serve

    console = console_of(ctx)
    inputs = read_sites_job(job)
    files = ServerFiles(keys / "ca.pem", keys / "server.pem", keys / "server.key")
    public = {name: keys / f"{name}.pub" for name in inputs.names}
    _check_files(files.ca, files.certificate, files.key, *public.values())
    check_new_folder(out)
    hidden = hidden_beside(out, FLOWER)
    with (
        FlowerChannel(files, public, hidden, host=host, port=port) as channel,
        console.stage("sites") as progress,
    ):
        console.note(f"Listening at {channel.address} for {', '.join(inputs.names)}.")
        try:
            channel.wait_for_sites(wait_s)
        except ChannelError:
            if not are_enough(inputs, channel):
                raise
        outcome = serve(inputs, channel, out, progress)
    shutil.rmtree(hidden, ignore_errors=True)
    return _show(outcome, out, console)


def join(  # noqa: PLR0913 - options of the command line
    ctx: typer.Context,
    job: JobFile,
    site: Annotated[str, typer.Option("--site", help="This site's name in the job.")],
    table: Annotated[
        str, typer.Option("--table", help="The site's table: a file, a folder, or postgresql://host/database#table.")
    ],
    out: Annotated[Path, typer.Option("--out", help="The site's own output; it must be new.")],
    address: Annotated[str, typer.Option("--server", help="Host and port of the server, as host:9443.")],
    ca: Annotated[Path, typer.Option("--ca", help="Certificate of the server's authority.")],
    key: Annotated[Path, typer.Option("--key", help="The site's private key.")],
    ledger: Annotated[
        str | None, typer.Option("--ledger", help="The site's ledger: a file, or the URL of a database.")
    ] = None,
) -> int:
    """Take part in a run with a table that stays here.

    The site plans the budget itself, adds its share of the noise, and refuses what its schedule does not pay for. In
    the end it has the table of all sites, and a report of that table on its own rows.
    """
    from synth.output import hidden_beside
    from understudy.budget.account import ledger_url
    from understudy.data.source import find_table
    from understudy.sites.flower.credentials import SiteFiles
    from understudy.sites.flower.site import serve_site
    from understudy.sites.job import read_sites_job
    from understudy.sites.participant import site_part, taking_part

    console = console_of(ctx)
    inputs = read_sites_job(job)
    _check_files(ca, key)
    part = site_part(site, inputs, find_table(table), out, ledger_url(ledger))
    hidden = hidden_beside(out, FLOWER)
    with console.stage(f"site {site}") as progress, taking_part(part, progress) as participant:
        serve_site(
            participant,
            SiteFiles(ca, key, key.with_suffix(".pub")),
            address,
            hidden,
            on_joined=lambda: console.note(f"Joined as {site}."),
            on_failure=lambda error: console.warn(f"a request was refused: {_reason(error)}"),
        )
        finished = participant.is_finished
    shutil.rmtree(hidden, ignore_errors=True)
    if not finished:
        return console.error(
            "the server ended its run before there was a table; start both again, and they go on from here", 2
        )
    console.say(f"Output: {out}")
    console.result({"out": str(out), "exit_code": 0})
    return 0


def keys(
    ctx: typer.Context,
    out: Annotated[Path, typer.Option("--out", help="The folder for the files.")],
    site: Annotated[str | None, typer.Option("--site", help="A site's name: makes SITE.key and SITE.pub.")] = None,
    host: Annotated[
        list[str] | None, typer.Option("--host", help="A name or address of the server: makes its certificate.")
    ] = None,
) -> int:
    """Make a site's key pair, or a server's certificate.

    A site sends SITE.pub to the server and keeps SITE.key. The server sends ca.pem to every site. Whoever receives one
    of these checks with its sender that it is theirs.
    """
    from understudy.sites.flower.credentials import make_server_files, make_site_files

    console = console_of(ctx)
    if (site is None) == (not host):
        return console.error("name either --site or --host, whose files are to be made", 2)
    made = out / (f"{site}.key" if site is not None else "server.key")
    if made.exists():
        return console.error(f"the key is there: {str(made)!r}; remove it first if it is to be replaced", 2)
    if site is not None:
        found = make_site_files(out, site, out / "ca.pem")
        files = [found.key, found.public_key]
    else:
        served = make_server_files(out, host or [])
        files = [served.ca, served.certificate, served.key]
    for path in files:
        console.say(str(path))
    console.result({"files": [str(path) for path in files], "exit_code": 0})
    return 0


def _check_files(*paths: Path) -> None:
    """Refuse a file that is not there."""
    from synth.errors import JobError

    for path in paths:
        if not path.is_file():
            raise JobError(
                f"a certificate or key is not there: path={str(path)!r}; make it with `understudy sites keys`"
            )


def _reason(error: Exception) -> str:
    """The sentence of an error of ours; of any other its kind, since its text may quote a value of the table."""
    from synth.errors import BadInput

    return str(error) if isinstance(error, BadInput) else type(error).__name__


def _show(outcome: "SitesOutcome", out: Path, console: "Console") -> int:
    """The outcome of a run, and its exit code."""
    from synth.dp.statement import guarantee_words

    console.say(f"Guarantee: {guarantee_words(outcome.statement)}")
    rows = [(site, verdict) for site, verdict in sorted(outcome.verdicts.items())]
    console.table(("site", "verdict"), rows)
    for site in outcome.dropped:
        console.warn(f"site={site!r} was missing from a sum")
    console.say(f"Output: {out}")
    console.result({**outcome.content(), "out": str(out)})
    return outcome.exit_code
