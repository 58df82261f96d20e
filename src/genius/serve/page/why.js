// "Why": the path of codes that led to a hit, level by level.

import * as api from "./api.js";
import { $, ghosts, items, make, MODALITIES } from "./dom.js";
import { facts } from "./facts.js";
import { tile } from "./tiles.js";

const percent = (share) => (share >= 0.0995 ? `${Math.round(share * 100)} %` : `${(share * 100).toPrecision(2)} %`);

/** Open the dialog for a hit; `explain` finds the same hit with its path. */
export async function openWhy(hit, explain) {
  const path = make("ol", { class: "path", "aria-busy": "true" }, ...ghosts(3, "flat"));
  showDialog(hit, path);
  let explained;
  try {
    explained = await explain(hit.item.id);
    if (!explained) throw new Error("The collection has changed meanwhile: search again.");
  } catch (error) {
    path.replaceChildren(make("li", { class: "status wrong", text: error.message }));
    return;
  } finally {
    path.removeAttribute("aria-busy");
  }
  const levels = explained.code.map((_, level) => levelRow(explained, level));
  path.replaceChildren(...levels.map(({ element }) => element));
  for (const level of levels) {
    if (!$("why").open || !path.isConnected) return;
    await level.loadCell();
  }
}

/** Show what is known of a hit before its path is. */
function showDialog(hit, path) {
  const close = make("button", { type: "button", class: "away", "aria-label": "Close", text: "×", onclick: () => $("why").close() });
  const title = make("h2", { id: "why-title", text: "How this was found" });
  const lead = make("p", {
    class: "lead",
    text: "Each number of the item's code narrows the collection; the bar is its probability after those "
      + "before. A search may stop early and compare what is left: the rest is then worked out afterwards.",
  });
  const subject = make("div", { class: "subject" }, tile(hit.item, 192), make(
    "div",
    {},
    make("p", { class: "says", text: hit.item.text || hit.item.id }),
    make("p", { class: "code", text: hit.code.join(" – ") }),
    make("p", { class: "small", text: `score ${hit.score.toFixed(3)} · cosine ${hit.cosine.toFixed(3)} · rank ${hit.rank}` }),
  ));
  $("why-body").replaceChildren(close, title, subject, lead, path);
  $("why").showModal();
  $("why").scrollTop = 0;
}

/** The row of one level, and a function that loads the label and samples of its cell. */
function levelRow(hit, level) {
  const counts = hit.prefix_counts;
  const probability = Math.exp(hit.log_probabilities[level]);
  const prefix = hit.code.slice(0, level + 1).join("-");
  const label = make("span", { class: "label" });
  const samples = make("div", { class: "samples" });
  const isModality = level === 0 && facts.modality_first;
  if (isModality) label.textContent = MODALITIES[hit.code[0]] ?? "";
  const bar = make("div", { class: "bar", "aria-hidden": "true" }, make("i"));
  bar.style.setProperty("--share", probability);
  const wasGiven = isModality && hit.log_probabilities[0] === 0;
  const element = make(
    "li",
    {},
    make("span", { class: "number", text: hit.code[level] }),
    make(
      "div",
      { class: "what" },
      make("p", { class: "line" }, label, make("a", {
        href: `#/explore/${prefix}`,
        text: items(counts[level]),
        onclick: () => $("why").close(),
      })),
      make("p", { class: "line" }, bar, make("span", { class: "percent", text: wasGiven ? "as asked" : percent(probability) })),
      samples,
    ),
  );
  const same = level > 0 && counts[level] === counts[level - 1]; // the same items as at the level before
  if (same) {
    label.classList.add("same");
    label.textContent = counts[level] === 1 ? "this item" : "the same items";
  }
  async function loadCell() {
    if (same) return;
    try {
      const cell = await api.cell(prefix, { samples: 8 });
      if (cell.label) label.textContent = cell.label;
      samples.replaceChildren(...cell.items.map((item) => tile(item, 96)));
    } catch {
      samples.replaceChildren(); // the numbers are worth showing without samples
    }
  }
  return { element, loadCell };
}
