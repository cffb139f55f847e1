"""For language models: the manual's pages as Markdown beside their HTML, and `llms.txt`, which lists them.

A hook of `mkdocs build`. The form is that of https://llmstxt.org.
"""

import inspect
import pydoc
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

_NAV: dict[str, Any] = {}


def on_nav(nav: Any, config: Any, files: Any) -> Any:
    """Keep the order of the pages for the end of the build."""
    _NAV["items"] = nav.items
    return nav


def on_post_build(config: Any) -> None:
    """Write the pages and their list into the built site."""
    site = Path(config["site_dir"])
    lines = [f"# {config['site_name']}", "", f"> {config['site_description']}"]
    for item in _NAV["items"]:
        lines += ["", f"## {item.title}", ""]
        for page in item.children or [item]:
            text = page.markdown if "\n:::" not in page.markdown else "\n".join(_with_docstrings(page.markdown))
            (site / page.file.src_uri).write_text(text, encoding="utf-8")
            lines.append(f"- [{page.title}]({page.file.src_uri}): {_first_sentence(page.markdown)}")
    (site / "llms.txt").write_text("\n".join(lines) + "\n", encoding="utf-8")


def _first_sentence(markdown: str) -> str:
    """The first sentence of a page's first paragraph, without links."""
    paragraphs = [part for part in markdown.split("\n\n") if re.match(r"[A-Za-z]|`[^`]", part)]
    plain = re.sub(r"\[([^]]+)\]\([^)]*\)", r"\1", " ".join(paragraphs[0].split())) if paragraphs else ""
    return re.split(r"(?<=[.?!:])\s", plain)[0].replace(":", ".")


def _with_docstrings(markdown: str) -> Iterator[str]:
    """The lines of a page; where the site shows an object of Python, its signature and docstring."""
    shown = False
    for line in markdown.splitlines():
        if line.startswith("::: "):
            name = line.removeprefix("::: ")
            value = pydoc.locate(name)
            call = inspect.signature(value) if inspect.isfunction(value) else ""
            yield f"### `{name}{call}`\n\n{inspect.getdoc(value) or ''}\n"
            shown = True
        elif not (shown and line.startswith("    ")):  # the site's options of the object above
            yield line
            shown = False
