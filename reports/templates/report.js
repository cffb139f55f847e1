// Helps whoever reads on a screen; the page needs nothing of it. It remembers nothing, asks for nothing, and writes
// names and values as text only.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const made = (tag, css) => Object.assign(document.createElement(tag), { className: css });
  for (const control of all("[data-needs-script]")) control.hidden = false;

  // Folding.
  const folds = all("details");
  const fold = open => folds.forEach(one => { one.open = open; });
  document.getElementById("open-all")?.addEventListener("click", () => fold(true));
  document.getElementById("close-all")?.addEventListener("click", () => fold(false));
  const reveal = () => {
    const target = location.hash.length > 1 && document.getElementById(location.hash.slice(1));
    for (let place = target; place; place = place.parentElement) {
      if (place.nodeName === "DETAILS") place.open = true;
      if (place.matches(".panel")) place.previousElementSibling.previousElementSibling.checked = true;
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

  // Where one is.
  const links = new Map(all("nav a").map(link => [link.hash.slice(1), link]));
  const places = [...links.keys()].map(id => document.getElementById(id)).filter(place => place);
  const here = new Set();
  const seen = new IntersectionObserver(entries => {
    for (const entry of entries) if (entry.isIntersecting) here.add(entry.target); else here.delete(entry.target);
    const first = places.find(place => here.has(place.closest("section")));
    links.forEach(link => link.removeAttribute("aria-current"));
    if (first) links.get(first.id).setAttribute("aria-current", "true");
  }, { rootMargin: "-8% 0px -80% 0px" });
  places.forEach(place => seen.observe(place.closest("section")));

  // Finding a column.
  const field = document.getElementById("find");
  const columns = all("[data-column]");
  const more = document.getElementById("more-columns");
  const filter = text => {
    const wanted = text.trim().toLowerCase();
    let shown = 0, charts = 0;
    for (const place of columns) {
      place.hidden = wanted !== "" && !place.dataset.column.toLowerCase().includes(wanted);
      if (place.matches(".column")) { charts += 1; shown += !place.hidden; }
    }
    if (more && wanted) more.open = true;
    const said = document.getElementById("found");
    if (said) said.textContent = wanted ? `${shown} of ${charts} columns` : "";
  };
  field?.addEventListener("input", () => filter(field.value));

  // Sorting.
  const cellAt = (row, index) => {
    let at = 0;
    for (const cell of row.cells) { if (index < at + cell.colSpan) return cell.colSpan > 1 ? null : cell; at += cell.colSpan; }
    return null;
  };
  const amount = text => {
    const found = text.replaceAll("\u2212", "-").replaceAll(",", "").match(/-?\d+(\.\d+)?(e-?\d+)?/);
    return found ? parseFloat(found[0]) - (text.trim().startsWith("<") ? 1e-9 : 0) : null;
  };
  const words = new Intl.Collator("en", { numeric: true, sensitivity: "base" });
  const keyOf = (row, index, numeric) => {
    const text = cellAt(row, index)?.textContent.trim() ?? "";
    return numeric ? amount(text) : text || null;
  };
  const sort = (table, head, index) => {
    const was = head.getAttribute("aria-sort"), now = was === "ascending" ? "descending" : was === "descending" ? null : "ascending";
    const numeric = head.classList.contains("n"), sign = now === "descending" ? -1 : 1;
    all("th[aria-sort]", table).forEach(other => other.removeAttribute("aria-sort"));
    if (now) head.setAttribute("aria-sort", now);
    const rows = table.sorted.map((row, place) => [now ? keyOf(row, index, numeric) : place, place, row]);
    rows.sort(([a, i], [b, j]) => {
      if (a === null || b === null || a === b) return (a === null) - (b === null) || i - j;
      return sign * (numeric || !now ? a - b : words.compare(a, b)) || i - j;
    });
    table.tBodies[0].append(...rows.map(([, , row]) => row));
  };
  for (const table of all("table:not(.asis)")) {
    const heads = table.tHead ? [...table.tHead.rows[0].cells] : [];
    if (!table.tBodies[0] || table.tBodies[0].rows.length < 3) continue;
    table.sorted = [...table.tBodies[0].rows];
    heads.forEach((head, index) => {
      if (!head.textContent.trim() || head.querySelector(".sr") || head.matches(".asis")) return;
      const button = made("button", "sort");
      button.type = "button";
      button.append(...head.childNodes);
      button.addEventListener("click", () => sort(table, head, index));
      head.append(button);
    });
  }

  // Values of charts, under the pointer or by arrow keys. A mark's <title> is taken over, so that it is not told twice.
  const tip = made("div", "tip");
  tip.setAttribute("role", "status");
  tip.hidden = true;
  document.body.append(tip);
  const titles = new WeakMap();
  const titleOf = mark => {
    if (!titles.has(mark)) {
      const own = [...mark.children].find(child => child.nodeName === "title");
      titles.set(mark, own ? own.textContent : "");
      own?.remove();
    }
    return titles.get(mark);
  };
  const marked = new WeakMap();
  const marksOf = chart => {
    if (!marked.has(chart)) marked.set(chart, all("title", chart).map(title => title.parentNode));
    return marked.get(chart);
  };
  const cellsOf = chart => {
    const values = chart.dataset.cells.split(","), names = marksOf(chart).map(titleOf);
    const cells = [];
    for (let i = 1, k = 0; i < names.length; i += 1) for (let j = 0; j < i; j += 1, k += 1) {
      cells.push({ i, j, text: `${names[j]} \u00d7 ${names[i]}: ${values[k] === "" ? "none" : (values[k] / 100).toFixed(2).replace("-", "\u2212")}` });
    }
    return cells;
  };
  const show = (text, x, y) => {
    tip.textContent = text;
    tip.hidden = false;
    const width = tip.offsetWidth, height = tip.offsetHeight;
    tip.style.left = `${Math.max(4, Math.min(x - width / 2, document.documentElement.clientWidth - width - 4))}px`;
    tip.style.top = `${y - height - 12 < 4 ? y + 18 : y - height - 12}px`;
  };
  const hide = () => { tip.hidden = true; };
  const scale = chart => chart.getBoundingClientRect().width / chart.viewBox.baseVal.width;
  const besideCell = (chart, event) => {
    const box = chart.getBoundingClientRect(), side = chart.dataset.side * scale(chart);
    const j = Math.floor((event.clientX - box.left) / side), i = Math.floor((event.clientY - box.top) / side);
    return j >= 0 && j < i ? cellsOf(chart).find(cell => cell.i === i && cell.j === j)?.text : undefined;
  };
  const point = event => {
    const chart = event.target.closest?.("svg.chart, svg.strip, svg.small");
    if (!chart) { if (!tip.hidden && document.activeElement?.nodeName !== "svg") hide(); return; }
    marksOf(chart);
    let text = chart.dataset.cells === undefined ? "" : besideCell(chart, event);
    for (let node = event.target; !text && node && node !== chart.parentNode; node = node.parentNode) text = titleOf(node);
    if (text) show(text, event.clientX, event.clientY); else hide();
  };
  for (const kind of ["pointermove", "pointerdown"]) document.addEventListener(kind, point);
  const step = (chart, to) => {
    const cells = chart.dataset.cells === undefined ? null : cellsOf(chart);
    const marks = cells ?? marksOf(chart);
    if (!marks.length) return;
    const at = Math.max(0, Math.min(to, marks.length - 1));
    chart.dataset.at = at;
    all(".at", chart).forEach(other => other.classList.remove("at"));
    const box = chart.getBoundingClientRect();
    if (cells) {
      const side = chart.dataset.side * scale(chart);
      show(cells[at].text, box.left + (cells[at].j + 0.5) * side, box.top + (cells[at].i + 0.5) * side);
    } else {
      marks[at].classList.add("at");
      const place = marks[at].getBoundingClientRect();
      show(titleOf(marks[at]), place.left + place.width / 2, Math.max(place.top, box.top));
    }
  };
  const STEPS = { ArrowRight: 1, ArrowDown: 1, ArrowLeft: -1, ArrowUp: -1, Home: -Infinity, End: Infinity };
  for (const chart of all("svg.chart:not(.legend)")) {
    if (!chart.dataset.cells && !chart.querySelector("title")) continue;
    chart.setAttribute("tabindex", "0");
    chart.setAttribute("aria-roledescription", "chart; arrow keys read its values");
    chart.addEventListener("focus", () => { if (chart.matches(":focus-visible")) step(chart, Number(chart.dataset.at ?? 0)); });
    chart.addEventListener("blur", () => { hide(); all(".at", chart).forEach(other => other.classList.remove("at")); });
    chart.addEventListener("keydown", event => {
      if (event.key === "Escape") hide();
      if (!(event.key in STEPS)) return;
      event.preventDefault();
      step(chart, Number(chart.dataset.at ?? 0) + STEPS[event.key]);
    });
  }

  // Printing: all that was folded, and every column, whatever was looked for.
  let opened = [];
  addEventListener("beforeprint", () => {
    hide();
    filter("");
    opened = folds.filter(one => !one.open);
    opened.forEach(one => { one.open = true; });
  });
  addEventListener("afterprint", () => {
    opened.forEach(one => { one.open = false; });
    if (field) filter(field.value);
  });
})();
