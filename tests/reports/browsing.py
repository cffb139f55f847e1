"""How tests look at a page in a real browser."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

CHROMIUM = Path("/usr/bin/chromium")
ARGUMENTS = [
    "--no-sandbox", "--disable-background-networking", "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip

UNREADABLE = """() => {
  const parse = text => {
    const [r, g, b, a = 1] = text.match(/[\\d.]+/g).map(Number);
    return text.startsWith("color(srgb") ? [r * 255, g * 255, b * 255, a] : [r, g, b, a];
  };
  const over = (top, below) => [0, 1, 2].map(i => top[i] * top[3] + below[i] * (1 - top[3])).concat(1);
  const light = ([r, g, b]) => [r, g, b].map(c => c / 255)
    .map(c => c <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4)
    .reduce((sum, c, i) => sum + c * [0.2126, 0.7152, 0.0722][i], 0);
  const behind = element => {
    const layers = [];
    for (let at = element; at; at = at.parentElement) layers.push(parse(getComputedStyle(at).backgroundColor));
    return layers.reverse().reduce((below, layer) => over(layer, below), [255, 255, 255, 1]);
  };
  const found = [];
  let looked = 0;
  const walker = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
  while (walker.nextNode()) {
    const element = walker.currentNode.parentElement;
    if (!walker.currentNode.data.trim() || ["SCRIPT", "STYLE", "title"].includes(element.nodeName)) continue;
    if (!element.checkVisibility({ opacityProperty: true, visibilityProperty: true })) continue;
    const style = getComputedStyle(element), size = parseFloat(style.fontSize);
    const below = behind(element), color = over(parse(element.ownerSVGElement ? style.fill : style.color), below);
    const [low, high] = [light(color), light(below)].sort((a, b) => a - b);
    const ratio = (high + 0.05) / (low + 0.05);
    const large = size >= 24 || (size >= 18.66 && Number(style.fontWeight) >= 700);
    looked += 1;
    const said = `${walker.currentNode.data.trim().slice(0, 40)} (${element.className.baseVal ?? element.className})`;
    if (ratio < (large ? 3 : 4.5)) found.push(`${ratio.toFixed(2)}: ${said}`);
  }
  return { looked, found };
}"""
"""Texts whose contrast with what is behind them, as computed, is below that of WCAG 2 AA."""

NAMELESS = """() => [...document.querySelectorAll("svg, button, input, a, summary, [role=region]")].filter(one => {
  if (one.closest("[aria-hidden=true]")) return false;
  if (one.nodeName === "svg") return one.getAttribute("role") !== "img" || !one.getAttribute("aria-label")?.trim();
  if (one.nodeName === "INPUT") return !one.labels.length;
  return !(one.getAttribute("aria-label") ?? one.textContent).trim();
}).map(one => one.outerHTML.slice(0, 120))"""
"""What a screen reader could not announce."""

CUT = """place => [...document.querySelectorAll(place)].filter(one => one.scrollWidth > one.clientWidth)
  .map(one => `${one.ariaLabel}: ${one.scrollWidth} in ${one.clientWidth}`)"""
"""Tables that are wider than their place."""

OPEN = "document.querySelectorAll('details').forEach(one => { one.open = true; })"


@dataclass
class Visit:
    """An open page, what its console said, and what it asked for."""

    page: Any
    told: list[str] = field(default_factory=list)
    asked: list[str] = field(default_factory=list)


@contextmanager
def visiting(browser: Any, path: Path, width: int = 1440, **how: Any) -> Iterator[Visit]:
    """The page at a width; `how` is for the browser's context, such as ``java_script_enabled=False``."""
    page = browser.new_page(viewport={"width": width, "height": 900}, **how)
    visit = Visit(page)
    page.on("console", lambda message: visit.told.append(message.text))
    page.on("pageerror", lambda error: visit.told.append(str(error)))
    page.on("dialog", lambda dialog: visit.told.append(dialog.message))
    page.on("request", lambda request: visit.asked.append(request.url))
    page.goto(path.as_uri())
    try:
        yield visit
    finally:
        page.close()


def check_page(browser: Any, path: Path, width: int, fit: str = "#nothing", **how: Any) -> str:
    """Its text. The page is quiet and fetches nothing, nothing sticks out of it, and everybody can read all of it;
    `fit`: places whose tables have no need to be scrolled."""
    with visiting(browser, path, width, **how) as visit:
        visit.page.evaluate(OPEN)
        assert visit.told == []
        assert visit.asked == [path.as_uri()]
        assert visit.page.evaluate("document.documentElement.scrollWidth") <= width
        assert visit.page.evaluate(CUT, fit) == []
        assert visit.page.evaluate(UNREADABLE)["found"] == []
        assert visit.page.evaluate(NAMELESS) == []
        return str(visit.page.locator("main").text_content())
