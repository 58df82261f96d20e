// What a search found: lists of cards that can be continued, and a sentence about them.

import { addressOf } from "./address.js";
import * as api from "./api.js";
import { card } from "./cards.js";
import { $, capital, items, make, say } from "./dom.js";
import { isMixed } from "./facts.js";
import { keyName } from "./metadata.js";
import { refresh as refreshViewer } from "./viewer.js";
import { openWhy } from "./why.js";

const PAGE = 24; // hits that are shown at a time
const LIKELY = 0.8; // the confidence from which on a hit counts as a match
const SORTED = 96; // how many of the best hits are shown in another order

const hasQuery = (fields, file) => Boolean(fields.text || fields.near || file);

/** The searches that answer a request: pictures and texts apart, or texts would come before all pictures. */
function parts(fields, file) {
  if (!fields.want && !fields.instruction && !fields.sort && isMixed()) {
    return [
      { title: "Pictures", fields: { ...fields, k: PAGE, want: "image" } },
      { title: "Texts", fields: { ...fields, k: PAGE, only: "text" } },
    ];
  }
  const ranked = hasQuery(fields, file);
  const all = ranked ? {} : { filter: {} }; // without a query, a filter says that items are browsed
  return [{ title: "", fields: { ...all, ...fields, k: fields.sort && ranked ? SORTED : PAGE } }];
}

/** The hits of one search, as cards, with a button for more of them. */
class HitList {
  constructor({ title, fields }, file) {
    this.fields = fields;
    this.file = file;
    this.ids = new Set(); // a hit that has moved to another page meanwhile is shown once
    this.offset = 0;
    this.total = null; // how many there are in all, where that is known
    this.notes = [];
    this.divided = false; // whether what merely is nearest has begun
    this.onGrown = () => {};
    this.grid = make("ol", { class: `grid${fields.only === "text" ? " texts" : ""}`, "aria-label": title || "What was found" });
    this.button = make("button", { type: "button", class: "quiet", text: "Show more", onclick: () => this.showMore() });
    this.heading = make("h2", { class: "part", text: title, hidden: !title });
    this.element = make("div", { class: "hits" }, this.heading, this.grid, make("p", { class: "centre" }, this.button));
  }

  /** Load the next hits, and append their cards, which are returned. */
  async load(signal) {
    const page = { ...this.fields, offset: this.offset };
    const answer = await api.search(page, this.file, signal);
    const explain = explainer(page, this.file);
    const fresh = answer.hits.filter((hit) => !this.ids.has(hit.item.id));
    for (const hit of fresh) this.ids.add(hit.item.id);
    const cards = fresh.map((hit) => this.card(hit, explain));
    fresh.forEach((hit, place) => this.grid.append(...this.divider(hit), cards[place]));
    this.offset += answer.hits.length;
    this.total = answer.total;
    this.notes = answer.notes;
    this.button.hidden = this.total === null
      ? answer.hits.length < PAGE || this.fields.k !== PAGE
      : this.offset >= this.total;
    return cards;
  }

  /** What stands before a hit: a line, if it is the first that is no match but merely among the nearest. */
  divider({ confidence }) {
    if (this.divided || this.fields.sort || !Number.isFinite(confidence) || confidence >= LIKELY) return [];
    const first = !this.grid.childElementCount;
    this.divided = true;
    const text = first ? "Nothing here matches. This is what comes nearest:" : "From here on merely what comes nearest";
    return [make("li", { class: `divider${first ? " none" : ""}` }, make("span", { text }))];
  }

  card(hit, explain) {
    const keys = [...Object.keys(this.fields.filter ?? {}), (this.fields.sort ?? "").replace(/^-/, "")];
    const onWhy = hasQuery(this.fields, this.file) ? () => openWhy(hit, explain) : null;
    return card(hit.item, { hit, keys, onWhy });
  }

  async showMore() {
    if (this.button.textContent === "Loading…") return; // it is not disabled meanwhile, as it would lose the focus
    this.button.textContent = "Loading…";
    const focused = document.activeElement === this.button;
    try {
      const [first] = await this.load();
      if (focused) (first ?? this.grid.lastElementChild).querySelector(".open").focus();
      this.onGrown();
    } catch (error) {
      say($("search-status"), error.message, "wrong");
    } finally {
      this.button.textContent = "Show more";
    }
  }
}

/** Finds the explained hit of an item, by one more search for all hits of its page when the first is needed. */
function explainer(fields, file) {
  let explained = null;
  return async (id) => {
    explained ??= api.search({ ...fields, explain: true }, file).catch((error) => {
      explained = null;
      throw error;
    });
    return (await explained).hits.find((hit) => hit.item.id === id);
  };
}

/** The lists that answer a request, each with its first hits. */
export async function find(fields, file, signal) {
  const lists = parts(fields, file).map((part) => new HitList(part, file));
  await Promise.all(lists.map((list) => list.load(signal)));
  return lists;
}

/** Show lists, and say what they are; `ways` are what to offer if nothing was found. */
export function present(lists, fields, file, ways) {
  const shown = lists.filter((list) => list.ids.size);
  const notes = [...new Set((shown.length ? shown : lists.slice(0, 1)).flatMap((list) => list.notes))];
  $("results").replaceChildren(...shown.map((list) => list.element));
  if (!shown.length) {
    const way = ways.find(({ applies }) => applies);
    const hint = way ? "" : "Try other words, or a picture.";
    say($("search-status"), ["Nothing was found.", ...notes.map(sentence), hint].join(" "), "empty", way);
    return;
  }
  const describe = () => {
    const number = shown.reduce((sum, list) => sum + list.ids.size, 0);
    const total = shown.reduce((sum, list) => sum + (list.total ?? NaN), 0);
    const many = total > number ? `${number.toLocaleString("en")} of ${items(total)}` : items(number);
    say($("search-status"), [`${many}, ${orderOf(fields, hasQuery(fields, file))}`, ...notes].join(" · "));
    refreshViewer();
  };
  for (const list of shown) list.onGrown = describe;
  describe();
}

const sentence = (note) => `${capital(note)}${/[.?!]$/.test(note) ? "" : "."}`;

function orderOf({ sort }, ranked) {
  if (!sort) return ranked ? "best first" : "in the order in which they were added";
  const order = `by ${keyName(sort.replace(/^-/, ""))}${sort.startsWith("-") ? ", from the highest" : ""}`;
  return ranked ? `the best ones, ${order}` : order;
}

/** Some items of the collection. */
export const loadSamples = (signal) => api.cell("", { samples: PAGE, signal });

/** Before a search: some items of the collection, or how to add the first ones. */
export function welcome({ count, items: samples }) {
  if (!count) {
    const way = "This index is empty. Add a folder of pictures, or a table: genius add INDEX SOURCE. What is added is found at once.";
    $("results").replaceChildren();
    say($("search-status"), way, "empty", { text: "Look again", run: () => location.reload() });
    return;
  }
  const grid = (kind, some) => make("ol", { class: `grid ${kind}` }, ...some.map((item) => card(item)));
  const everything = addressOf("/search", new URLSearchParams({ all: 1 }));
  $("results").replaceChildren(
    grid("", samples.filter((item) => item.has_image)),
    grid("texts", samples.filter((item) => !item.has_image)),
    make("p", { class: "centre" }, make("a", { class: "quiet", href: everything, text: `Show all ${items(count)}` })),
  );
  say($("search-status"), "Some of what is here. Search for it, or explore all of it in albums.");
}
