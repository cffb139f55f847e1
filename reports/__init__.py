"""Show an evaluation: the report as data, and as one HTML page that needs neither script nor network."""

from reports.document import Document, compose
from reports.html import render_html, write_html

__all__ = ["Document", "compose", "render_html", "write_html"]
