// Filters of an index. Sorting is the report's. With scripts off every row is there.
(() => {
  "use strict";
  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const rows = all(".outputs tbody tr"), choices = all("select[data-of]");
  const text = document.getElementById("text"), left = document.getElementById("left"), nothing = document.getElementById("nothing");
  const filter = wanted => {
    let shown = 0;
    for (const row of rows) {
      const fits = choices.every(one => !wanted || !one.value || row.dataset[one.dataset.of] === one.value);
      row.hidden = !(fits && (!wanted || row.textContent.toLowerCase().includes(text.value.trim().toLowerCase())));
      shown += !row.hidden;
    }
    left.textContent = shown === rows.length ? "" : `${shown} of ${rows.length} rows`;
    nothing.hidden = shown > 0;
  };
  for (const one of [...choices, text]) one.addEventListener("input", () => filter(true));
  text.form.addEventListener("submit", event => event.preventDefault());

  // On a narrow screen the heads of columns are not seen: a list of them sorts.
  const order = document.getElementById("order"), heads = all(".outputs .sort");
  order.append(new Option("folder", ""));
  heads.forEach((head, place) => order.append(new Option(head.textContent, place)));
  order.parentNode.hidden = !heads.length;
  order.addEventListener("change", () => {
    const head = order.value === "" ? null : heads[order.value];
    const now = () => document.querySelector(".outputs [aria-sort]");
    for (let tries = 0; tries < 3 && (head ? head.parentNode.getAttribute("aria-sort") !== "ascending" : now()); tries += 1) (head ?? now().querySelector(".sort")).click();
  });

  // Every row is printed, whatever was looked for.
  addEventListener("beforeprint", () => filter(false));
  addEventListener("afterprint", () => filter(true));
})();
