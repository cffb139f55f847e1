"""How long a server may stay silent before a connection is given up, so that nothing waits for ever."""

from urllib.parse import parse_qsl, quote, urlencode

_POSTGRES = {
    "connect_timeout": "20",  # seconds
    "keepalives_idle": "30",
    "keepalives_interval": "10",
    "keepalives_count": "3",
    "tcp_user_timeout": "60000",  # milliseconds
}
"""A server may work on a query for as long as it takes, but its machine answers within a minute."""


def patient(url: str) -> str:
    """The URL of a database with limits on what its machine may leave unanswered, unless it sets its own.

    >>> patient("postgresql://db.example/clinic?connect_timeout=5").split("&")[:2]
    ['postgresql://db.example/clinic?connect_timeout=5', 'keepalives_idle=30']
    >>> patient("trino://db.example/clinic")
    'trino://db.example/clinic'
    """
    if not url.startswith(("postgres://", "postgresql://")):
        return url
    place, _, query = url.partition("?")
    return f"{place}?{urlencode(_POSTGRES | dict(parse_qsl(query)), quote_via=quote)}"
