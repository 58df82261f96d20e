// "Why": the path of codes that led to an item, level by level.

import * as api from "./api.js";
import { tile } from "./cards.js";
import { $, ghosts, items, make, MODALITIES } from "./dom.js";
import { facts } from "./facts.js";

const percent = (share) => (share >= 0.0995 ? `${Math.round(share * 100)} %` : `${(share * 100).toPrecision(2)} %`);

export async function openWhy(found, explain) {
  const path = make("ol", { class: "path", "aria-busy": "true" }, ...ghosts(3, "flat"));
  frame(found, path);
  let hit;
  try {
    hit = await explain(found.item.id);
    if (!hit) throw new Error("The collection has changed meanwhile: search again.");
  } catch (error) {
    path.replaceChildren(make("li", { class: "status wrong", text: error.message }));
    return;
  } finally {
    path.removeAttribute("aria-busy");
  }
  const levels = hit.code.map((_, level) => row(hit, level));
  path.replaceChildren(...levels.map(({ element }) => element));
  for (const level of levels) {
    if (!$("why").open || !path.isConnected) return;
    await level.fill();
  }
}

/** What there is to say before the path is known. */
function frame(hit, path) {
  const close = make("button", { type: "button", class: "away", "aria-label": "Close", text: "×", onclick: () => $("why").close() });
  const title = make("h2", { id: "why-title", text: "How this was found" });
  const says = make("p", {
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
  $("why-body").replaceChildren(close, title, subject, says, path);
  $("why").showModal();
  $("why").scrollTop = 0;
}

function row(hit, level) {
  const share = Math.exp(hit.log_probabilities[level]);
  const prefix = hit.code.slice(0, level + 1).join("-");
  const label = make("span", { class: "label" });
  const samples = make("div", { class: "samples" });
  const first = level === 0 && facts.modality_first;
  if (first) label.textContent = MODALITIES[hit.code[0]] ?? "";
  const bar = make("div", { class: "bar", "aria-hidden": "true" }, make("i"));
  bar.style.setProperty("--share", share);
  const told = first && hit.log_probabilities[0] === 0;
  const element = make(
    "li",
    {},
    make("span", { class: "number", text: hit.code[level] }),
    make(
      "div",
      { class: "what" },
      make("p", { class: "line" }, label, make("a", {
        href: `#/explore/${prefix}`,
        text: items(hit.below[level]),
        onclick: () => $("why").close(),
      })),
      make("p", { class: "line" }, bar, make("span", { class: "percent", text: told ? "as asked" : percent(share) })),
      samples,
    ),
  );
  const same = level > 0 && hit.below[level] === hit.below[level - 1];
  if (same) {
    label.classList.add("same");
    label.textContent = hit.below[level] === 1 ? "this item" : "the same items";
  }
  async function fill() {
    if (same) return; // it leads to the same items as the number before
    try {
      const found = await api.cell(prefix, { samples: 8 });
      if (found.label) label.textContent = found.label;
      samples.replaceChildren(...found.items.map((item) => tile(item, 96)));
    } catch {
      samples.replaceChildren();  // the numbers stand without pictures
    }
  }
  return { element, fill };
}
