// Helps whoever reads on a screen; the page needs nothing of it. It remembers nothing, asks for nothing, and writes
// names and values as text only.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const created = (tag, css) => Object.assign(document.createElement(tag), { className: css });
  for (const control of all("[data-needs-script]")) control.hidden = false;

  // Folding.
  const folds = all("details");
  const fold = open => folds.forEach(each => { each.open = open; });
  document.getElementById("open-all")?.addEventListener("click", () => fold(true));
  document.getElementById("close-all")?.addEventListener("click", () => fold(false));
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let node = target; node; node = node.parentElement) {
      if (node.nodeName === "DETAILS") node.open = true;
      if (node.matches(".panel")) node.previousElementSibling.previousElementSibling.checked = true;
    }
    target?.scrollIntoView?.();
  };
  addEventListener("hashchange", reveal);
  reveal();

  // One table at a time: a tab that is chosen anywhere is chosen everywhere, and what was under the pointer stays there.
  document.addEventListener("change", event => {
    const chosen = event.target.dataset?.table;
    if (chosen === undefined) return;
    const before = event.target.getBoundingClientRect().top;
    for (const tab of all(`input[data-table="${chosen}"]`)) tab.checked = true;
    scrollBy({ top: event.target.getBoundingClientRect().top - before, behavior: "instant" });
  });

  // Where one is: the first section in sight.
  const links = new Map(all("nav a").map(link => [document.getElementById(link.hash.slice(1))?.closest("section"), link]));
  links.delete(undefined);
  const inSight = new Set();
  const watcher = new IntersectionObserver(entries => {
    for (const { isIntersecting, target } of entries) inSight[isIntersecting ? "add" : "delete"](target);
    const first = [...links.keys()].find(section => inSight.has(section));
    for (const [section, link] of links) section === first ? link.setAttribute("aria-current", "true") : link.removeAttribute("aria-current");
  }, { rootMargin: "-8% 0px -80% 0px" });
  for (const section of links.keys()) watcher.observe(section);

  // Finding a column.
  const field = document.getElementById("find");
  const filter = text => {
    const wanted = text.trim().toLowerCase(), more = document.getElementById("more-columns");
    for (const part of all("[data-column]")) part.hidden = !part.dataset.column.toLowerCase().includes(wanted);
    if (more && wanted) more.open = true;
    const charts = all(".column"), shown = charts.filter(chart => !chart.hidden).length;
    const output = document.getElementById("found");
    if (output) output.textContent = wanted ? `${shown} of ${charts.length} columns` : "";
  };
  field?.addEventListener("input", () => filter(field.value));

  // Sorting: up, down, and as it was; what has no value is last.
  const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const keyOf = (row, index, numeric) => {
    let cell = row.cells[0];
    for (let at = 0; cell && at + cell.colSpan <= index; cell = cell.nextElementSibling) at += cell.colSpan;
    const text = !cell || cell.colSpan > 1 ? "" : cell.textContent.trim();
    if (!numeric) return text || null;
    const amount = text.replaceAll("\u2212", "-").replaceAll(",", "").match(/-?\d+(\.\d+)?(e-?\d+)?/);
    return amount ? parseFloat(amount[0]) - (text.startsWith("<") ? 1e-9 : 0) : null;
  };
  const NEXT = { null: "ascending", ascending: "descending", descending: null };
  const sort = (table, rows, head, index) => {
    const now = NEXT[head.getAttribute("aria-sort")], numeric = head.classList.contains("n");
    all("th[aria-sort]", table).forEach(other => other.removeAttribute("aria-sort"));
    if (now) head.setAttribute("aria-sort", now);
    const keyed = rows.map((row, i) => ({ row, i, key: now ? keyOf(row, index, numeric) : i }));
    const order = (a, b) => (numeric || !now ? a.key - b.key : words.compare(a.key, b.key)) * (now === "descending" ? -1 : 1);
    keyed.sort((a, b) => (a.key === null) - (b.key === null) || (a.key !== null && order(a, b)) || a.i - b.i);
    table.tBodies[0].append(...keyed.map(each => each.row));
  };
  for (const table of all("table:not(.asis)")) {
    const rows = [...table.tBodies[0]?.rows ?? []];
    if (!table.tHead || rows.length < 3) continue;
    [...table.tHead.rows[0].cells].forEach((head, index) => {
      if (!head.textContent.trim() || head.querySelector(".sr") || head.matches(".asis")) return;
      const button = Object.assign(created("button", "sort"), { type: "button" });
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, rows, head, index));
      head.append(button);
    });
  }

  // Values of charts under a pointer, a finger or arrow keys: a mark's <title>, taken over so that it is not told twice.
  const tip = Object.assign(created("div", "tip"), { role: "status", hidden: true });
  document.body.append(tip);
  const titles = new WeakMap();
  const marksOf = chart => {
    for (const title of all("title", chart)) {
      titles.set(title.parentNode, title.textContent);
      title.remove();
    }
    return all("*", chart).filter(mark => titles.has(mark));
  };
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const { offsetWidth: width, offsetHeight: height } = tip;
    tip.style.left = `${Math.max(4, Math.min(x - width / 2, document.documentElement.clientWidth - width - 4))}px`;
    tip.style.top = `${y - height - 12 < 4 ? y + 18 : y - height - 12}px`;
  };
  const hide = () => { tip.hidden = true; };
  const point = event => {
    const chart = event.target.closest?.("svg.chart, svg.strip, svg.small");
    if (chart?.querySelector("title")) marksOf(chart);
    let mark = chart && event.target;
    while (mark && !titles.has(mark)) mark = mark === chart ? null : mark.parentNode;
    if (mark) show(titles.get(mark), event.clientX, event.clientY);
    else if (chart || document.activeElement?.nodeName !== "svg") hide();
  };
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, point);
  const unmark = chart => all(".at", chart).forEach(mark => mark.classList.remove("at"));
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  for (const chart of all("svg.chart:not(.legend)")) {
    if (!chart.querySelector("title")) continue;
    let at = 0;
    const step = by => {
      const marks = marksOf(chart);
      at = Math.max(0, Math.min(at + by, marks.length - 1));
      unmark(chart);
      marks[at].classList.add("at");
      const box = marks[at].getBoundingClientRect();
      show(titles.get(marks[at]), box.left + box.width / 2, Math.max(box.top, chart.getBoundingClientRect().top));
    };
    chart.setAttribute("tabindex", "0");
    chart.setAttribute("aria-roledescription", "chart; arrow keys read its values");
    chart.addEventListener("focus", () => { if (chart.matches(":focus-visible")) step(0); });
    chart.addEventListener("blur", () => { hide(); unmark(chart); });
    chart.addEventListener("keydown", event => {
      if (event.key === "Escape") hide();
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      step(STEPS[event.key]);
    });
  }

  // Printing: all that was folded, and every column, whatever was looked for.
  let opened = [];
  addEventListener("beforeprint", () => {
    hide();
    filter("");
    opened = folds.filter(each => !each.open);
    fold(true);
  });
  addEventListener("afterprint", () => {
    opened.forEach(each => { each.open = false; });
    if (field) filter(field.value);
  });
})();
