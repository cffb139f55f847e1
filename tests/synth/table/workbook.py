"""A workbook of one sheet, written by hand: no dependency writes one."""

import datetime as dt
import zipfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape

_SPACE = "http://schemas.openxmlformats.org"
_RELATIONS = f"{_SPACE}/officeDocument/2006/relationships"
PARTS = {
    "[Content_Types].xml": (
        f'<Types xmlns="{_SPACE}/package/2006/content-types">'
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>'
        '<Default Extension="xml" ContentType="application/xml"/></Types>'
    ),
    "_rels/.rels": (
        f'<Relationships xmlns="{_SPACE}/package/2006/relationships"><Relationship Id="r1" '
        f'Type="{_RELATIONS}/officeDocument" Target="xl/workbook.xml"/></Relationships>'
    ),
    "xl/workbook.xml": (
        f'<workbook xmlns="{_SPACE}/spreadsheetml/2006/main" xmlns:r="{_RELATIONS}">'
        '<sheets><sheet name="t" sheetId="1" r:id="r1"/></sheets></workbook>'
    ),
    "xl/_rels/workbook.xml.rels": (
        f'<Relationships xmlns="{_SPACE}/package/2006/relationships"><Relationship Id="r1" '
        f'Type="{_RELATIONS}/worksheet" Target="worksheets/sheet1.xml"/><Relationship Id="r2" '
        f'Type="{_RELATIONS}/styles" Target="styles.xml"/><Relationship Id="r3" '
        f'Type="{_RELATIONS}/sharedStrings" Target="sharedStrings.xml"/></Relationships>'
    ),
    "xl/styles.xml": (
        f'<styleSheet xmlns="{_SPACE}/spreadsheetml/2006/main"><cellXfs><xf numFmtId="0"/><xf numFmtId="22"/>'
        "</cellXfs></styleSheet>"
    ),
}
SHEET = f'<worksheet xmlns="{_SPACE}/spreadsheetml/2006/main"><sheetData>{{}}</sheetData></worksheet>'
TEXTS = f'<sst xmlns="{_SPACE}/spreadsheetml/2006/main">{{}}</sst>'


def write_workbook(path: Path, rows: Sequence[Sequence[Any]]) -> Path:
    """The rows, the header first, in the first sheet."""
    lines = "".join(f"<row>{''.join(map(_cell, row))}</row>" for row in rows)
    return write_parts(path, SHEET.format(lines), TEXTS.format(""), {})


def write_parts(path: Path, sheet: str, texts: str, parts: Mapping[str, str | None]) -> Path:
    """The parts of a workbook, those of `None` left out."""
    parts = {**PARTS, "xl/worksheets/sheet1.xml": sheet, "xl/sharedStrings.xml": texts, **parts}
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in parts.items():
            if content is not None:
                archive.writestr(name, content)
    return path


def _cell(value: Any) -> str:
    if value is None:
        return "<c/>"
    if isinstance(value, dt.datetime):
        return f'<c s="1"><v>{(value - dt.datetime(1899, 12, 30)) / dt.timedelta(days=1)!r}</v></c>'
    if isinstance(value, str):
        return f'<c t="inlineStr"><is><t>{escape(value)}</t></is></c>'
    return f"<c><v>{value!r}</v></c>"
