// Makes one report of the answers on this page. By the same random words `Survey.randomize` makes the same report.
"use strict";
const plan = JSON.parse(document.getElementById("plan").textContent);

const words = (Type, n) => {
  const drawn = new Type(n); // of the browser's secure generator, which gives 65,536 bytes at most
  for (let at = 0; at < n; at += 8192) crypto.getRandomValues(drawn.subarray(at, at + 8192));
  return drawn;
};

// A whole number below a limit, all as likely: words that would favor some are drawn again.
const below = limit => {
  const whole = 2n ** 64n - 2n ** 64n % limit;
  let word;
  do [word] = words(BigUint64Array, 1); while (word >= whole);
  return Number(word % limit);
};

const hex = bytes => Array.from(bytes, byte => byte.toString(16).padStart(2, "0")).join("");

const randomized = ({ symbols, truths, bits, chance }, truth) => {
  if (symbols) {
    const other = below(BigInt(symbols - 1)), isOther = words(BigUint64Array, 1)[0] >= BigInt(truths);
    return isOther ? other + (other >= truth) : truth;
  }
  const set = Array.from(words(Uint32Array, bits), word => word < chance), packed = new Uint8Array(Math.ceil(bits / 8));
  set[truth] = (words(Uint8Array, 1)[0] & 1) === 1;
  set.forEach((bit, at) => { packed[at >> 3] |= bit << (7 - at % 8); });
  return hex(packed);
};

const report = codes => {
  const order = words(BigUint64Array, plan.questions.length), answers = {};
  const drawn = [...order.keys()].sort((a, b) => (order[a] < order[b] ? -1 : order[a] > order[b] ? 1 : a - b));
  for (const number of drawn.slice(0, plan.answers)) {
    const { columns, sizes, rule } = plan.questions[number];
    answers[number] = randomized(rule, columns.reduce((cell, column, at) => cell * sizes[at] + codes[column], 0));
  }
  return { survey: plan.survey, respondent: hex(words(Uint8Array, 16)), answers };
};

// The code of what stands in a field: missing is the last one, and beyond the bounds counts as the nearest.
const codeOf = ({ size, edges, span, time }, field) => {
  if (field.value === "") return size - 1;
  if (!edges) return Number(field.value);
  const at = time ? Math.floor(field.valueAsNumber / time.tick) * time.step : field.valueAsNumber;
  const inside = Math.min(Math.max(at, span[0]), span[1]);
  return edges.filter(edge => edge <= inside).length;
};

const form = document.getElementById("form"), done = document.getElementById("done");
const text = document.getElementById("report"), status = document.getElementById("status");
const codes = () => plan.fields.map((field, number) => codeOf(field, document.getElementById(`field-${number}`)));

form.addEventListener("submit", event => {
  event.preventDefault();
  if (text.value) return; // A second report of the same answers would tell more of them.
  const sent = report(codes());
  text.value = JSON.stringify(sent);
  form.reset(); // The answers are not kept.
  form.hidden = true;
  for (const number of Object.keys(sent.answers)) {
    document.getElementById("drawn").append(document.querySelector(`[data-question="${number}"]`).cloneNode(true));
  }
  const save = document.getElementById("save");
  save.href = `data:application/json,${encodeURIComponent(text.value)}`;
  save.download = `report-${sent.respondent}.json`;
  done.hidden = false;
  done.focus();
});

document.getElementById("copy").addEventListener("click", async () => {
  text.select();
  try {
    await navigator.clipboard.writeText(text.value);
    status.textContent = "Copied.";
  } catch {
    status.textContent = "The report is marked: copy it by keyboard or menu.";
  }
});

words(BigUint64Array, 1); // An old browser ends here.
document.getElementById("unable").hidden = true;
form.hidden = false;
