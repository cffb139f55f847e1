"""Plain data as YAML that every parser reads back equal: keys in their order, texts in quotes, one line each."""

import re
from typing import Any

_WORD = re.compile(r"[A-Za-z][A-Za-z0-9_]*[A-Za-z0-9]")
_NO_WORDS = frozenset({"no", "on", "off", "yes", "true", "false", "null", "none", "nan", "inf", "infinity"})
"""That some version of YAML takes for something else than a text."""
_TURNING = re.compile("[\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069\ufeff]")
"""Characters that make a text look like another."""


def to_yaml(content: dict[str, Any]) -> str:
    r"""A mapping as a YAML document of its own; it holds no tag, no anchor and no line that ends a front matter.

    Args:
        content: texts, numbers, booleans, none, and lists and mappings of them.

    >>> to_yaml({"license": "no", "rows": 3, "epsilon": 1e-06})
    'license: "no"\nrows: 3\nepsilon: 1.0e-06\n'
    """
    written = _written(content, as_is=True)
    return _written(content, as_is=False) if _TURNING.search(written) else written


def _written(content: dict[str, Any], *, as_is: bool) -> str:
    import yaml

    class Quoting(yaml.SafeDumper):
        """Texts that are more than a word stand in double quotes; equal parts are written out each time."""

        def ignore_aliases(self, data: Any) -> bool:
            return True

        def increase_indent(self, flow: bool = False, indentless: bool = False) -> None:
            super().increase_indent(flow, False)

    def text(dumper: yaml.SafeDumper, said: str) -> yaml.ScalarNode:
        plain = _WORD.fullmatch(said) is not None and said.lower() not in _NO_WORDS
        return dumper.represent_scalar("tag:yaml.org,2002:str", said, style=None if plain else '"')

    Quoting.add_representer(str, text)
    found: str = yaml.dump(
        content, Dumper=Quoting, sort_keys=False, allow_unicode=as_is, default_flow_style=False, width=float("inf")
    )
    return found
