"""The channel between a server and its sites as real processes, over Flower (``flwr``).

::

    server's process ── HTTPS ──> SuperLink <── HTTPS ── SuperNode ── socket pair ── site's process
    FlowerChannel                 its child              its child                   serve_site, Respondent

Flower ships the code of an app from the server to its nodes. A site must run no code near its rows that a server sent,
so neither end runs an app: the run on the SuperLink has an empty bundle, the server's process acts as the ServerApp,
and the SuperNode is ours. It speaks Flower's Fleet protocol with Flower's clients, hands bytes to the site's process
and never fetches the bundle.
"""

from importlib.util import find_spec

from synth.distribution import missing_extra

if find_spec("flwr") is None:
    raise missing_extra("a channel to sites in processes of their own", "sites")
